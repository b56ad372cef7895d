"""coalesce: adjacent dims of an operation as one."""

from __future__ import annotations

import pytest

import tcpx
from tcpx.payload.interfaces import Structured
from tcpx.payload.text.parser import parse
from tcpx.payload.traits.positions import positions_read
from tests.transform.payloads import MM, PAYLOADS, SOFTMAX, check, check_kernels, refusal, run

BIASED = """\
func @biased(%x: tensor<[M]x7x[N]xf32>, %b: tensor<7x[N]xf32>) -> tensor<[M]x7x[N]xf32> symbols [M: 0.., N: 0..] {
  %c = tcp.broadcast(%b) {dims = [1, 2]} : tensor<[M]x7x[N]xf32>
  %s = tcp.mul(%x, %x) : tensor<[M]x7x[N]xf32>
  %r = tcp.sub(%s, %c) : tensor<[M]x7x[N]xf32>
  tcp.return(%r)
}
"""
SUMS = """\
func @sums(%x: tensor<[M]x5x[N]x3xf64>) -> tensor<5x[N]xf64> symbols [M: 0.., N: 0..] {
  %r = tcp.reduce_sum(%x) {dims = [0, 3]} : tensor<5x[N]xf64>
  tcp.return(%r)
}
"""
ALL = """\
func @all(%x: tensor<[M]x[N]xsi64>) -> tensor<si64> symbols [M: 0.., N: 0..] {
  %r = tcp.reduce_sum(%x) {dims = [0, 1]} : tensor<si64>
  tcp.return(%r)
}
"""
STRIDED = """\
func @strided(%x: tensor<[M]x[N]xf32> strided) -> tensor<[M]x[N]xf32> symbols [M: 0.., N: 0..] {
  %r = tcp.mul(%x, %x) : tensor<[M]x[N]xf32>
  tcp.return(%r)
}
"""
APART = STRIDED.replace(" strided", "", 1).replace("-> tensor<[M]x[N]xf32>", "-> tensor<[M]x[N]xf32> strided")
SHOWN = """\
func @shown(%x: tensor<[M]x[N + 1]xf32>) -> tensor<[M]x[N]xf32> symbols [M: 0.., N: 0..] {
  %s = tcp.slice(%x) {offsets = [0, 1]} : tensor<[M]x[N]xf32>
  %r = tcp.mul(%s, %s) : tensor<[M]x[N]xf32>
  tcp.return(%r)
}
"""
PLACES = """\
func @places(%x: tensor<[M]x5x[N]xf32>) -> (tensor<[M]xf32>, tensor<[M]xsi64>) symbols [M: 0.., N: 1..] {
  %r, %at = tcp.reduce_argmax(%x) {dims = [1, 2]} : tensor<[M]xf32>, tensor<[M]xsi64>
  tcp.return(%r, %at)
}
"""
PLACE = """\
func @place(%x: tensor<[M]x[N]xsi8>) -> (tensor<si8>, tensor<si64>) symbols [M: 1.., N: 1..] {
  %r, %at = tcp.reduce_argmin(%x) {dims = [0, 1]} : tensor<si8>, tensor<si64>
  tcp.return(%r, %at)
}
"""
COUNTED = """\
func @counted(%x: tensor<[M]x5x3xf32>) -> tensor<[M]x5x3xf32> symbols [M: 0..] {
  %r = tcp.generic(%x) {iterators = [["i", "parallel"], ["j", "parallel"], ["k", "parallel"]],
      maps = [[i, j, k], [i, j, k]], positions = [POSITION]} ({ (%e: f32, %at: si64):
    %n = tcp.cast(%at) : f32
    %s = tcp.add(%e, %n) : f32
    tcp.yield(%s)
  }) : tensor<[M]x5x3xf32>
  tcp.return(%r)
}
"""
CHAINS = """\
func @chains(%x: tensor<[M]x[N]x5xf32>, %r: tensor<[M]x[N]x3xf32>, %w: tensor<5x3xf32>, %c: tensor<3xf32>)
    -> tensor<[M]x[N]x3xf32> symbols [M: 0.., N: 0..] {
  %e = tcp.abs(%x) : tensor<[M]x[N]x5xf32>
  %mm = tcp.contract(%e, %w) {lhs = ["s", "b", "k"], rhs = ["k", "n"], out = ["s", "b", "n"]} : tensor<[M]x[N]x3xf32>
  %z = tcp.add(%mm, broadcast(%c, [2])) : tensor<[M]x[N]x3xf32>
  %q = tcp.mul(%z, %r) : tensor<[M]x[N]x3xf32>
  %y = tcp.max(%q, 0.0) : tensor<[M]x[N]x3xf32>
  tcp.return(%y)
}
"""
REPEATED = """\
func @repeated(%x: tensor<[M]x[N]xf32>, %y: tensor<[M]x[N]x3xf32>) -> tensor<[M]x[N]x3xf32> symbols [M: 0.., N: 0..] {
  %c = tcp.broadcast(%x) {dims = [0, 1]} : tensor<[M]x[N]x3xf32>
  %r = tcp.sub(%c, %y) : tensor<[M]x[N]x3xf32>
  tcp.return(%r)
}
"""
SIZES = tuple({"M": m, "N": n} for m, n in ((1, 1), (3, 2), (7, 5), (2, 13)))
HEAD = 'let r = match one "r" in root\n'
S, C = 'let s = match one "s" in root\n', 'let c = match one "c" in root\n'
CASES = {
    "all dims": (BIASED, f"{HEAD}coalesce(r)"),
    "two dims": (BIASED, f"{HEAD}coalesce(r, [d1, d2])\nlet i = tile(r, [d1: 4])"),
    "a broadcast": (BIASED, f"{C}coalesce(c, [d1, d2])"),
    "a chain": (BIASED, f"{HEAD}{S}{C}fuse_elementwise([s, r, c])\ncoalesce(r, [d1, d2])\nvectorize(r)"),
    "producer and consumer": (BIASED, f"{HEAD}{S}coalesce(s)\ncoalesce(r)\nlet i = tile(r, [d0: 8])\nfuse(s, into: i)"),
    "consumer first": (BIASED, f"{HEAD}{S}coalesce(r)\ncoalesce(s)\nvectorize(s)"),
    "kept dims of a reduction": (SUMS, f"{HEAD}coalesce(r, [d1, d2])\nvectorize(r)"),
    "reduced dims": (ALL, f"{HEAD}coalesce(r)\nvectorize(r)"),
    "a product": (PAYLOADS["two_k"], f"{MM}coalesce(mm, [k, j])\nlet i = tile(mm, [k: 4])"),
    "with an init": (PAYLOADS["two_k"], f"{MM}let i = tile(mm, [m: 2, k: 2])".replace("let i", "let i, j")
                     + "\ncoalesce(mm, [k, j])"),
    "a row-major position": (COUNTED.replace("POSITION", "30*i + 6*j + 2*k + 1"), f"{HEAD}coalesce(r)\nvectorize(r)"),
    "a position of others": (COUNTED.replace("POSITION", "2*i"), f"{HEAD}coalesce(r, [j, k])"),
    "chains": (CHAINS, f"{MM}coalesce(mm, [s, b], chains: true)\nlet i = tile(mm, [s: 4])"),
    "repeated elements": (REPEATED, f"{C}coalesce(c, [d1, d2], repeats: true)\nlet i = tile(c, [d1: 12])"),
    "repeated rows": (REPEATED, f"{C}{HEAD}let e = fuse_elementwise([c, r])\ncoalesce(e, repeats: true)"
                      "\nlet i = tile(e, [d0: 9])"),
    "repeated and masked": (REPEATED, f"{C}{HEAD}let e = fuse_elementwise([c, r])\ncoalesce(e, [d1, d2], repeats: true)"
                            "\ntile(e, [d0: 1])\nlet i = tile(e, [d1: 48], tail: pad)\nvectorize(i)"),
    "a tile": (BIASED, f"{HEAD}let i = tile(r, [d0: 2])\ncoalesce(r)"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_computes_the_same(name: str) -> None:
    check(*CASES[name])


def test_kernels() -> None:
    check_kernels(CASES, [{"M": m, "N": n, "K": 3} for m, n in ((0, 5), (3, 0), (4, 7), (5, 16))])


def test_nothing_stands_between_two_operations_that_are_coalesced() -> None:
    done = run(BIASED, CASES["consumer first"][1].replace("vectorize(s)", 'require s == producer(r.lhs) "next to it"'))
    assert [op.opcode for op in done.module.main.body.ops if "sub" in op.opcode or "reshape" in op.opcode] == [
        "tcp.reshape", "tcp.reshape", "tcp.sub", "tcp.reshape",
    ]  # fmt: skip


def test_chains_are_coalesced_and_what_is_repeated_is_repeated_along_one_dim() -> None:
    module = run(CHAINS, f"{MM}coalesce(mm, [s, b], chains: true)").module
    assert [op.opcode.removeprefix("tcp.") for op in module.main.body.ops] == [
        "reshape", "abs", "contract", "broadcast", "add", "reshape", "mul", "fill", "max", "reshape", "return",
    ]  # fmt: skip
    assert parse(module.text()).text() == module.text()


def test_a_chain_that_cannot_be_coalesced_is_refused() -> None:
    apart = CHAINS.replace("%c: tensor<3xf32>", "%c: tensor<[N]x3xf32>").replace("(%c, [2])", "(%c, [1, 2])")
    said = refusal(apart, f"{MM}coalesce(mm, [s, b], chains: true)")
    assert said.message.endswith("is repeated along some of the dims only: under another shape it would be a copy")
    assert said.required == "an operand that is repeated along all of d0, d1, or along none of them"
    assert said.found == "tcp.broadcast"


def test_what_is_repeated_along_other_dims_is_read_with_one_dim() -> None:
    scaled = CHAINS.replace("%c: tensor<3xf32>", "%c: tensor<[M]x[N]xf32>").replace("(%c, [2])", "(%c, [0, 1])")
    module = check(scaled, f"{MM}coalesce(mm, [s, b], chains: true)").module
    assert [op.opcode.removeprefix("tcp.") for op in module.main.body.ops] == [
        "reshape", "abs", "contract", "reshape", "broadcast", "add", "reshape", "mul", "fill", "max", "reshape",
        "return",
    ]  # fmt: skip


@pytest.mark.parametrize("target", ["x86_avx2", "x86_avx512"])
def test_an_element_that_counts_several_times_is_read_once_with_others(target: str) -> None:
    body = CASES["repeated and masked"][1]
    done = run(REPEATED, body.split("\ntile")[0])
    assert "maps = [[d0, floordiv(d1, 3)], [d0, d1], [d0, d1]]" in done.module.text()
    assert parse(done.module.text()).text() == done.module.text()
    schedule = tcpx.parse_schedule(f"language 2\nschedule main(root: func) {{\n{body}\n}}")
    code = tcpx.emit(parse(REPEATED), schedule, target=target).c_source
    assert "permute" in code
    assert "set_ps" not in code


@pytest.mark.parametrize("option", ["chains", "copies", "repeats"])
def test_a_loop_has_no_operands(option: str) -> None:
    said = refusal(BIASED, f"{HEAD}let i, j = tile(r, [d0: 2, d1: 2])\ncoalesce(i, {option}: true)")
    assert said.message == f"`{option}` is said of an operation's operands"
    assert (said.found, said.fix) == (f"a loop, and {option}: true", f"leave out `{option}`")


@pytest.mark.parametrize("view", [
    "tcp.slice(%x) {offsets = [0, 1]} : tensor<[M]x[N - 1]xf32>",
    "tcp.transpose(%x) {permutation = [1, 0]} : tensor<[N]x[M]xf32>",
])  # fmt: skip
def test_a_view_becomes_an_array_where_that_is_asked_for(view: str) -> None:
    made = view.rpartition(" : ")[2]
    payload = (
        f"func @shown(%x: tensor<[M]x[N]xf32>) -> {made} symbols [M: 0.., N: 1..] {{\n"
        f"  %s = {view}\n  %r = tcp.mul(%s, %s) : {made}\n  tcp.return(%r)\n}}\n"
    )
    check(payload, f"{HEAD}coalesce(r, copies: true)", SIZES)


def test_an_elementwise_operation_keeps_its_class() -> None:
    done = run(BIASED, f"{HEAD}coalesce(r)")
    (made,) = [op for op in done.module.walk() if op.opcode == "tcp.sub"]
    assert isinstance(made, Structured)
    assert [it.name for it in made.iterators()] == ["d0"]


@pytest.mark.parametrize("names", [None, ["row", "column"]])
def test_a_reduction_of_all_elements_keeps_its_class(names: list[str] | None) -> None:
    named = "" if names is None else ', dim_names = ["row", "column"]'
    done = run(ALL.replace("dims = [0, 1]", f"dims = [0, 1]{named}"), f"{HEAD}coalesce(r)")
    (made,) = [op for op in done.module.walk() if op.opcode == "tcp.reduce_sum"]
    assert isinstance(made, Structured)
    assert [it.name for it in made.iterators()] == ["d0" if names is None else "row"]


@pytest.mark.parametrize(("payload", "dims", "left", "opcode"), [
    (PLACES, "[d1, d2]", ["d0", "d1"], "tcp.reduce_argmax"), (PLACE, "[d0, d1]", ["d0"], "tcp.reduce_argmin"),
])  # fmt: skip
def test_an_argmax_keeps_its_class(payload: str, dims: str, left: list[str], opcode: str) -> None:
    check(payload, f"{HEAD}coalesce(r, {dims})\nlet i = tile(r, [{left[-1]}: 7])", SIZES)
    module = run(payload, f"{HEAD}coalesce(r, {dims})").module
    (made,) = [op for op in module.walk() if op.opcode == opcode]
    assert isinstance(made, Structured)
    assert [it.name for it in made.iterators()] == left
    assert [str(position.expression) for position in positions_read(made)] == [left[-1]]
    assert parse(module.text()).text() == module.text()


def test_what_counts_the_dims_counts_the_one() -> None:
    module = run(COUNTED.replace("POSITION", "30*i + 6*j + 2*k + 1"), f"{HEAD}coalesce(r)").module
    assert "positions = [2*i + 1]" in module.text()
    assert parse(module.text()).text() == module.text()


TURNED = """\
func @f(%x: tensor<[M]x[N]xf32>) -> tensor<[N]x[M]xf32> symbols [M, N] {
  %r = tcp.transpose(%x) {permutation = [1, 0]} : tensor<[N]x[M]xf32>
  tcp.return(%r)
}
"""


@pytest.mark.parametrize(
    ("payload", "body", "said"),
    [
        (TURNED, f"{HEAD}coalesce(r)", ("d0 and d1 do not lie next to each other in %x",
         "[.., d0, d1, ..], or none of them", "[d1, d0]", "transpose_result, or fewer dims")),
        (BIASED, f"{C}coalesce(c)", ("d0 and d1 and d2 do not lie next to each other in %b",
         "[.., d0, d1, d2, ..], or none of them", "[d1, d2]", None)),
        (BIASED, f"{HEAD}coalesce(r, [d0, d2])", ("d0 and d2 do not lie next to each other in %s",
         "[.., d0, d2, ..], or none of them", "[d0, d1, d2]", "transpose_result, or fewer dims")),
        (BIASED, f"{C}coalesce(c, repeats: true)", ("d0 and d1 and d2 do not lie next to each other in %b",
         "[.., d0, d1, d2, ..], or none of them", "[d1, d2]", None)),
        (REPEATED.replace("x3xf32", "x[N]xf32"), f"{C}coalesce(c, [d1, d2], repeats: true)",
         ("d1 and d2 do not lie next to each other in %x", "[.., d1, d2, ..], or none of them", "[d0, d1]", None)),
        (BIASED, f"{HEAD}coalesce(r, [d1])", ("there are not two dims of %r to be one",
         "two dims or more, each once", "d1", None)),
        (SUMS, f"{HEAD}coalesce(r, [d0, d1])", ("d0 and d1 of %r cannot be one dim",
         "parallel dims, or reduction dims", "reduction dim `d0`, parallel dim `d1`", None)),
        (STRIDED, f"{HEAD}coalesce(r)", ("d0 and d1 of %x do not lie one behind the other in memory",
         "an operand or result without gaps", "%x is `strided`", "leave it out, or make it a tensor of its own")),
        (APART, f"{HEAD}coalesce(r)", ("d0 and d1 of %r do not lie one behind the other in memory",
         "an operand or result without gaps", "%r is `strided`", "leave it out, or make it a tensor of its own")),
        (SHOWN, f"{HEAD}coalesce(r)", ("d0 and d1 of %s do not lie one behind the other in memory",
         "an operand or result without gaps", "%s = tcp.slice", "leave it out, or make it a tensor of its own")),
        (BIASED, f"{HEAD}coalesce(r, [])", ("there are not two dims of %r to be one",
         "two dims or more, each once", "none", None)),
        (PLACES, f"{HEAD}tile(r, [d2: 4])\ncoalesce(r, [d1, d2])", ("d1 and d2 of %r cannot be one dim",
         "a body that reads them as one position, `d1*min(4, N - %r/d21) + d2`", "the position `N*d1 + d2`", None)),
        (PLACES.replace("[1, 2]", "[0, 1, 2]").replace("[M]xf32>, t", "f32>, t").replace("[M]xsi", "si")
         .replace("M: 0", "M: 1"), f"{HEAD}coalesce(r, [d1, d2])", ("d1 and d2 of %r cannot be one dim",
         "positions of numbers and dims, no sizes", "the position `5*N*d0 + d1`", None)),
        *((COUNTED.replace("POSITION", position), f"{HEAD}coalesce(r, [j, k])",
           ("j and k of %r cannot be one dim", "a body that reads them as one position, `3*j + k`",
            f"the position `{position}`", None)) for position in ("j", "j + 5*k", "3*j + 2*k", "floordiv(j, 2)")),
        (SOFTMAX, 'coalesce(match one "y" in root)', ("the dims of %y cannot be one",
         "a structured operation", "tcp.softmax", None)),
    ],
)  # fmt: skip
def test_refusals(payload: str, body: str, said: tuple[str, str, str, str | None]) -> None:
    found = refusal(payload, body)
    assert (found.message, found.required, found.found, found.fix) == said


WINDOW = """\
func @window(%x: tensor<13x13xf32>, %y: tensor<13x3xf32>) -> tensor<13x1xf32> {
  %r = tcp.generic(%x, %y) {iterators = [["i", "parallel"], ["j", "parallel"]], maps = [{maps}, [i, j], [i, j]]}
      ({ (%a: f32, %b: f32):
    %m = tcp.min(%a, %b) : f32
    tcp.yield(%m)
  }) : tensor<13x1xf32>
  tcp.return(%r)
}
"""


@pytest.mark.parametrize("maps", ["[12 - i, i + 3*j]", "[i, j + 1]"])
def test_a_window_stays(maps: str) -> None:
    error = refusal(WINDOW.replace("{maps}", maps), f"{HEAD}coalesce(r)")
    assert error.message == "i and j do not lie next to each other in %x"
    assert (error.required, error.found, error.fix) == ("[.., i, j, ..], or none of them", maps, None)
