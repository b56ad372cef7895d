"""fission: a loop as two, one after the other."""

from __future__ import annotations

import pytest

from tcpx.payload.ops.gml_st import Loop
from tcpx.payload.traits.memory import Memory
from tests.transform.payloads import CHAIN, MM, RELU, check, check_kernels, refusal, run

P, Q, R = (f'let {name} = match one "{name}" in root\n' for name in "pqr")
ROWS = f"{R}{Q}{P}let i = tile(r, [d0: 3])\nfuse(q, into: i)\nfuse(p, into: i)\n"
TILES = f"{R}{Q}{P}let i, j = tile(r, [d0: 3, d1: 5])\nfuse(q, into: j)\nfuse(p, into: j)\n"
TWO = """\
func @two(%x: tensor<[M]x[N]xf32>, %b: tensor<[N]xf32>) -> (tensor<[M]x[N]xf32>, tensor<[M]xf32>) symbols [M: 0.., N: 0..] {
  %q = tcp.mul(%x, %x) : tensor<[M]x[N]xf32>
  %s = tcp.broadcast(%b) {dims = [1]} : tensor<[M]x[N]xf32>
  %r = tcp.add(%q, %s) : tensor<[M]x[N]xf32>
  %t = tcp.reduce_sum(%r) {dims = [1]} : tensor<[M]xf32>
  tcp.return(%r, %t)
}
"""  # noqa: E501
KEPT = (
    f'{R}{Q}let t = match one "t" in root\nlet i = tile(t, [d0: 3])\nfuse(r, into: i, keep: true)\nfuse(q, into: i)\n'
)
CASES = {
    "rows": (CHAIN, f"{ROWS}let a, b = fission(i, after: q)"),
    "twice": (CHAIN, f"{ROWS}let a, b = fission(i, after: q)\nlet c, d = fission(a, after: p)"),
    "tiles": (CHAIN, f"{TILES}let a, b = fission(j, after: q)"),
    "the first of three": (CHAIN, f"{ROWS}let a, b = fission(i, after: p)"),
    "then tiled": (CHAIN, f"{ROWS}let a, b = fission(i, after: q)\nlet k = tile(q, [d1: 4])\nlet l = tile(r, [d1: 2])"),
    "then vectors": (CHAIN, f"{TILES}let a, b = fission(j, after: q)\nvectorize(r)\nvectorize(q)"),
    "what is yielded too": (TWO, f"{KEPT}let a, b = fission(i, after: r)"),
    "in front of what is yielded": (TWO, f"{KEPT}let a, b = fission(i, after: q)"),
    "parallel": (CHAIN, ROWS.replace("[d0: 3]", "[d0: 3], parallel: true") + "let a, b = fission(i, after: q)"),
    "a product and its epilogue": (RELU, f'{MM}{R}let s = match one "s" in root\nlet i = tile(mm, [m: 4])\n'
                                   "fuse(r, into: i)\nlet a, b = fission(i, after: mm)\nlet k = tile(mm, [k: 2])"),
}  # fmt: skip
SIZES = [{"M": m, "N": n, "K": k} for m, n, k in ((0, 1, 5), (3, 0, 3), (4, 17, 0), (13, 17, 5))]


@pytest.mark.parametrize("name", CASES)
def test_computes_the_same(name: str) -> None:
    check(*CASES[name])


def test_kernels() -> None:
    check_kernels(CASES, SIZES)


@pytest.mark.parametrize(("name", "count"), [("rows", 2), ("twice", 3), ("what is yielded too", 2)])
def test_there_are_as_many_loops(name: str, count: int) -> None:
    done = run(*CASES[name])
    assert len([op for op in done.module.main.body.ops if isinstance(op, Loop)]) == count


def test_what_is_yielded_is_read_where_it_is() -> None:
    done = run(*CASES["what is yielded too"])
    assert not [op for op in done.module.walk() if Memory(op).leaves_undefined and "r.out.1" in op.name]
    first, second = [op for op in done.module.main.body.ops if isinstance(op, Loop)]
    assert len(first.destinations) == len(second.destinations) == 1


def test_handles_follow() -> None:
    body = f'{ROWS}let a, b = fission(i, after: q)\nrequire i == b and q in a and r in b "both"\n'
    check(CHAIN, body.replace("q in a and r in b", "r.loop(d0) == b") + "parallelize(a)\npeel(b)")


@pytest.mark.parametrize(
    ("payload", "body", "said"),
    [
        (CHAIN, f"{ROWS}let a, b = fission(i, after: r)",
         ("nothing is left of r/d01 behind %r", "an operation behind which the loop writes something",
          "all that it writes is written before")),
        (CHAIN, f"{R}{Q}let i = tile(r, [d0: 3])\nlet a, b = fission(i, after: q)",
         ("%q is not in r/d01", "an operation in r/d01", "%q")),
        (CHAIN, TILES.replace("d1: 5]", "d1: 5], tail: pad") + "vectorize(j)\nlet a, b = fission(j, after: q)",
         ("%q is not handed from one loop to the other",
          "a tensor, and a loop with a step that is a number now", "vector<3x5xf32>, step 5")),
    ],
)  # fmt: skip
def test_refusals(payload: str, body: str, said: tuple[str, str, str]) -> None:
    found = refusal(payload, body)
    assert (found.message, found.required, found.found) == said


def test_vectors_that_are_written_are_not_read_back() -> None:
    text = """func @f(%x: tensor<[N]xf32>) -> (tensor<[N]xf32>, tensor<[N]xf32>) symbols [N: 1..13] {
  %q = tcp.add(%x, %x) : tensor<[N]xf32>
  %r = tcp.mul(%q, %q) : tensor<[N]xf32>
  tcp.return(%r, %q)
}
"""
    body = 'let q = match one "q" in root\nlet r = match one "r" in root\nlet i = tile(q, [d0: 1])\nfuse(r, into: i)\n'
    found = refusal(text, body + "vectorize(i)\nlet j, k = fission(i, after: q)")
    assert found.message == "%q is not handed from one loop to the other"
    assert found.fix == "do this before `vectorize`"


def sweep(read: str, write: str, other: str = "%d") -> str:
    """A loop that writes one element, and then reads one and writes another."""
    return f"""\
func @f(%x: tensor<[N]xf32>, %y: tensor<[N]xf32>) -> (tensor<[N]xf32>, tensor<[N]xf32>) symbols [N: 4..] {{
  %r, %s = gml_st.for %i in 1 to N - 2 step 1 (%d = %x, %e = %y) {{
    %a = gml_st.materialize(%e) tile [%i + 1] [1] : tensor<1xf32>
    %v = tcp.mul(%a, %a) : tensor<1xf32>
    gml_st.yield(%v, %d) tile [%i] [1]
    %b = gml_st.materialize(%d) tile [{read}] [1] : tensor<1xf32>
    %w = tcp.add(%b, %b) : tensor<1xf32>
    gml_st.yield(%w, {other}) tile [{write}] [1]
  }} : tensor<[N]xf32>, tensor<[N]xf32>
  tcp.return(%r, %s)
}}
"""


SPLIT = 'let v = match one "v" in root\nlet a, b = fission(parent(v), after: v)'
SWEEPS = {
    "what an iteration before wrote": sweep("%i - 1", "%i", "%e"),
    "what the iteration wrote": sweep("%i", "%i", "%e"),
    "both write one, and the second what is done with": sweep("%i - 1", "%i - 1"),
    "a destination that is only read": sweep("%i - 1", "%i - 1"),
}


@pytest.mark.parametrize("name", SWEEPS)
def test_a_destination_of_both(name: str) -> None:
    done = check(SWEEPS[name], SPLIT, [{"N": n} for n in (4, 5, 13)])
    assert len([op for op in done.module.main.body.ops if isinstance(op, Loop)]) == 2


def test_kernels_of_sweeps() -> None:
    check_kernels({name: (text, SPLIT) for name, text in SWEEPS.items()}, [{"N": n} for n in (4, 13)])


@pytest.mark.parametrize(
    ("payload", "name"),
    [
        (sweep("%i + 1", "%i", "%e"), "d"),  # it would read what the first loop writes later
        (sweep("%i - 1", "%i + 2", "%e"), "e"),  # the first part would read before that is written
        (sweep("%i - 1", "%i + 1"), "d"),  # the first part would be the last to write
    ],
)
def test_what_would_be_overtaken(payload: str, name: str) -> None:
    found = refusal(payload, SPLIT)
    assert found.message == f"%{name} is used before and behind %v"
    assert found.required is not None
    assert found.required.endswith("the first part needs nothing that the second wrote in an iteration before")
