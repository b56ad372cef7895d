"""outline: what becomes of operations, handles and constants, and what no function can be made of."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx
from tcpx.payload.diagnostics import Kind
from tcpx.payload.text.parser import parse
from tests.nets.symbols import other_symbols
from tests.transform.payloads import RELU, check, refusal, run

NAMES = "".join(f'let {name} = match one "{name}" in root\n' for name in ("mm", "s", "r"))
TWICE = """\
func @twice(%x: tensor<[M]x4xf32>, %y: tensor<[M]x4xf32>, %z: tensor<4x[M]xf32>)
    -> (tensor<[M]x4xf32>, tensor<4x[M]xf32>) symbols [M: 0..] {
  %a = tcp.add(%x, %y) : tensor<[M]x4xf32>
  %b = tcp.mul(%a, %x) : tensor<[M]x4xf32>
  %c = tcp.add(%b, %y) : tensor<[M]x4xf32>
  %d = tcp.mul(%c, %b) : tensor<[M]x4xf32>
  %e = tcp.add(%z, %z) : tensor<4x[M]xf32>
  tcp.return(%d, %e)
}
"""
FOUR = "".join(f'let {name} = match one "{name}" in root\n' for name in "abcde")


def test_operations_become_a_function() -> None:
    done = check(RELU, f"{NAMES}let c = outline([mm, r])\nlet i = tile(mm, [m: 4])\nfuse(r, into: i)")
    main, made = done.module.main, done.module.funcs["relu.r"]
    assert [op.opcode for op in main.body.ops] == ["tcp.call", "tcp.return"]
    assert [value.name for value in made.args] == ["x", "w", "b"]
    assert [symbol.name for symbol in made.symbols] == ["M", "K", "N"]


def test_equal_functions_are_one() -> None:
    done = check(
        TWICE,
        f"{FOUR}let one = outline([a, b])\nlet other = outline([c, d])\nlet i = tile(c, [d0: 3])\nfuse(b, into: i)",
    )
    assert list(done.module.funcs) == ["twice", "twice.b"]
    assert [callee.name for _, callee in done.module.main.calls()] == ["twice.b", "twice.b"]
    body = f"{FOUR}let one = outline([a, b])\nlet other = outline([c, d])\nrequire a == c and b == d and one != other"
    run(TWICE, f"{body}\nlet all = match some op in root\nrequire len(all) == 5")


def test_functions_of_other_shapes_are_others() -> None:
    done = check(TWICE, f"{FOUR}let one = outline([a])\nlet other = outline([e])\nlet third = outline([c])")
    assert list(done.module.funcs) == ["twice", "twice.a", "twice.e"]


def test_stored_constants_are_arguments_and_what_is_cheap_is_computed_again() -> None:
    module = parse(
        """\
func @f(%x: tensor<[M]x4xf32>) -> tensor<[M]x4xf32> symbols [M] {
  %w1 = tcp.const {constant = "w1"} : tensor<4xf32>
  %w2 = tcp.const {constant = "w2"} : tensor<4xf32>
  %zero = tcp.fill {value = 0.0} : tensor<[M]x4xf32>
  %b1 = tcp.broadcast(%w1) {dims = [1]} : tensor<[M]x4xf32>
  %b2 = tcp.broadcast(%w2) {dims = [1]} : tensor<[M]x4xf32>
  %a = tcp.add(%x, %b1) : tensor<[M]x4xf32>
  %b = tcp.max(%a, %zero) : tensor<[M]x4xf32>
  %c = tcp.add(%b, %b2) : tensor<[M]x4xf32>
  %d = tcp.max(%c, %zero) : tensor<[M]x4xf32>
  tcp.return(%d)
}
""",
        constants={name: np.arange(4, dtype=np.float32) for name in ("w1", "w2")},
    )
    text = "".join(f'let {name} = match one "{name}" in root\n' for name in "abcd")
    schedule = tcpx.parse_schedule(f"language 1\nschedule s(root: func) {{\n{text}outline([a, b])\noutline([c, d])\n}}")
    done = tcpx.apply_schedule(module, schedule).module
    assert [op.opcode for op in done.main.body.ops] == ["tcp.const", "tcp.const", "tcp.call", "tcp.call", "tcp.return"]
    assert [value.name for value in done.funcs["f.b"].args] == ["w1", "x"]
    assert len(done.funcs) == 2
    x = np.ones((3, 4), np.float32)
    assert np.array_equal(np.asarray(tcpx.evaluate(done, x)), np.asarray(tcpx.evaluate(module, x)))


def test_a_symbol_that_no_operand_tells_comes_with_an_argument() -> None:
    text = """\
func @f(%x: tensor<[M]xf32>, %y: tensor<4xf32>) -> tensor<[2*M]xf32> symbols [M: 0..] {
  %p = tcp.pad(%x) {value = 0.0} : tensor<[2*M]xf32>
  %q = tcp.add(%p, %p) : tensor<[2*M]xf32>
  tcp.return(%q)
}
"""
    done = check(text, 'let q = match one "q" in root\noutline([q])')
    assert [value.name for value in done.module.funcs["f.q"].args] == ["p", "x"]
    text = """\
func @g(%x: tensor<[K]x[N]xf32>) -> (tensor<[K]x[N]xf32>, tensor<2x[N]xf32>) symbols [K: 0.., N: 0..] {
  %a = tcp.exp(%x) : tensor<[K]x[N]xf32>
  %b = tcp.fill {value = 1.0} : tensor<2x[N]xf32>
  tcp.return(%a, %b)
}
"""
    done = check(text, 'let b = match one "b" in root\noutline([b])')
    assert [symbol.name for symbol in done.module.funcs["g.b"].symbols] == ["K", "N"]


def test_in_a_branch() -> None:
    text = f"{NAMES}specialize [mm, r] when size(mm.m) >= 4 and size(mm.m) <= 9 {{ outline([mm, r]) }} else {{ }}"
    done = check(RELU, text)
    (made,) = [func for func in done.module.funcs.values() if func is not done.module.main]
    assert [(s.name, s.lower, s.upper) for s in made.symbols] == [("M", 4, 9), ("K", 0, None), ("N", 0, None)]


@pytest.mark.parametrize(
    ("body", "message", "required"),
    [
        (
            "let i = tile(mm, [m: 4])\noutline([mm])",
            "no function can be made of %mm: they depend on the variable %mm/m1",
            "sizes of the function alone",
        ),
        (
            "tile(mm, [k: 4])\noutline([mm])",
            "no function can be made of %mm: they depend on the variable %mm/k1",
            "sizes of the function alone",
        ),
        (
            "bufferize(root)\noutline([mm, r])",
            "%r/d0 is in a function on buffers: it cannot be grouped",
            "operations on tensors",
        ),
    ],
)
def test_refusals(body: str, message: str, required: str) -> None:
    found = refusal(RELU, NAMES + body)
    assert (found.message, found.required, found.kind) == (message, required, Kind.SILENCEABLE)


def test_what_a_loop_changes_is_no_argument() -> None:
    text = """\
func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = gml_st.for %i in 0 to 3 step 1 (%d = %x) {
    %e = tcp.exp(%d) : tensor<4xf32>
    gml_st.yield(%e, %d) tile [0] [4]
  } : tensor<4xf32>
  tcp.return(%y)
}
"""
    found = refusal(text, 'let e = match one "e" in root\noutline([e])')
    assert found.message == "no function can be made of %e: they read %d"
    assert (found.required, found.found) == ("tensors that are no destinations of loops", "%d: tensor<4xf32>")


def test_steps_on_two_functions_are_refused() -> None:
    found = refusal(RELU, f"{NAMES}outline([mm])\nlet i = tile(s, [d0: 4])\nfuse(mm, into: i)")
    assert found.message == "%s/d01 is an operation of @relu, and %mm one of @relu.mm"
    assert (found.required, found.fix) == ("operations of one function", "`inline` the call of the function")
    found = refusal(RELU, f"{NAMES}outline([mm])\ngroup([mm, s])")
    assert found.message == "these ops have no block in common"


def test_sizes_of_another_function_are_refused() -> None:
    text = """\
func @main(%x: tensor<[M]x4xf32>, %y: tensor<[N]x4xf32>) -> (tensor<[M]x4xf32>, tensor<[N]x4xf32>)
    symbols [M: 0..8, N: 0..] {
  %a = tcp.exp(%x) : tensor<[M]x4xf32>
  %b = tcp.call @f(%y) : tensor<[N]x4xf32>
  tcp.return(%a, %b)
}
func @f(%z: tensor<[M]x4xf32>) -> tensor<[M]x4xf32> symbols [M: 0..] {
  %c = tcp.exp(%z) : tensor<[M]x4xf32>
  tcp.return(%c)
}
"""
    names = 'let a = match one "a" in root\nlet c = match one "c" in root\n'
    check(text, f"{names}tile(c, [d0: max(1, size(c.d0) / 2)])", [{"M": m, "N": n} for m in (0, 8) for n in (0, 1, 13)])
    for step in ("tile(c, [d0: max(1, size(a.d0))])", "specialize c when size(a.d0) > 3 { } else { }"):
        found = refusal(text, names + step)
        assert found.message == "the size is one of another function than @f, where %c stands"
        assert found.required == "a size over the symbols of @f: M"
        assert found.fix == "take the size of an operation in @f"


CACHE = """\
func @cache(%past: index as [P], %c: tensor<[C]x5xf32>, %q: tensor<[T]x5xf32>) -> tensor<[T]x[P + T]xf32>
    symbols [P: 0.., T: 0.., C: 0..] {
  tcp.assert {any = [P + T <= C], message = "the cache is full"}
  %u = gml_st.materialize(%c) tile [0, 0] [P + T, 5] : tensor<[P + T]x5xf32>
  %t = tcp.transpose(%u) {permutation = [1, 0]} : tensor<5x[P + T]xf32>
  %s = tcp.matmul(%q, %t) : tensor<[T]x[P + T]xf32>
  tcp.return(%s)
}
"""
PACKED = """\
let s = match one contract in root
let t = producer(s.rhs)
let u = match one "u" in root
let c = outline([u, t, s])
tile(s, [n: 4])
pack(s.rhs, [k, n])
"""


def test_a_function_knows_what_its_callers_assert() -> None:
    done = run(CACHE, PACKED)
    made = done.module.funcs["cache.s"]
    assert made.body.ops[0].opcode == "tcp.assert"
    random = np.random.default_rng(0)
    for past, length, capacity in ((0, 0, 0), (0, 1, 1), (7, 2, 9), (3, 5, 17)):
        cache, queries = (random.standard_normal((n, 5), np.float32) for n in (capacity, length))
        found = tcpx.evaluate(done.module, np.array(past), cache, queries)
        np.testing.assert_allclose(
            np.asarray(found, np.float32), queries @ cache[: past + length].T, rtol=1e-5, atol=1e-6
        )
    with pytest.raises(tcpx.VerifyError) as caught:
        parse(CACHE.replace("  tcp.assert", "  // tcp.assert"))
    assert caught.value.diagnostic.message.endswith("nothing says that the subset stays inside of %c in dim 0")


def test_what_a_function_asserts_is_checked_once() -> None:
    kernel = tcpx.compile(parse(CACHE), tcpx.parse_schedule(f"language 1\nschedule main(root: func) {{\n{PACKED}}}"))
    assert [held.message for held in kernel.signature.assertions] == ["the cache is full"]
    cache, queries = np.ones((6, 5), np.float32), np.ones((2, 5), np.float32)
    np.testing.assert_array_equal(kernel(4, cache, queries), np.full((2, 6), 5))
    with pytest.raises(tcpx.ArgumentError, match="the cache is full"):
        kernel(5, cache, queries)


def test_assertions_come_back_once() -> None:
    done = run(CACHE, "let s = match one contract in root\nlet u = match one \"u\" in root\n"
                      "let t = producer(s.rhs)\nlet c = outline([u, t, s])\ninline(c)")  # fmt: skip
    assert [op.opcode for op in done.module.main.body.ops].count("tcp.assert") == 1
    assert list(done.module.funcs) == ["cache"]


def test_an_assertion_about_other_sizes_stays_with_its_function() -> None:
    other = '  tcp.assert {any = [P <= 7, C == 0], message = "a short past"}\n'
    text = CACHE.replace("  tcp.assert", f"{other}  tcp.assert")
    outlined = "let s = match one contract in root\nlet c = outline(s)"
    assert all(op.opcode != "tcp.assert" for op in run(text, outlined).module.funcs["cache.s"].body.ops)


def test_a_loop_does_not_leave_the_size_that_it_starts_at() -> None:
    """Operations between two loops of which one starts at a size that is bound between them."""
    text = """\
func @f(%x: tensor<[N]xf32>) -> (tensor<[N]xf32>, tensor<[N]xf32>) symbols [N] {
  %a = tcp.neg(%x) : tensor<[N]xf32>
  %b = tcp.exp(%a) : tensor<[N]xf32>
  tcp.return(%a, %b)
}
"""
    names = 'let a = match one "a" in root\nlet b = match one "b" in root\n'
    streamed = "tile(b, [d0: 16])\npeel(b.loop(d0))\nlet i = b.loop(d0)\nstream(i)\n"
    message = "no function can be made of %b/d01~main: they depend on the variable %b/d01/lead"
    assert refusal(text, f'{names}{streamed}outline([b.copy("main").loop(d0)])').message == message


def test_a_function_of_operations_that_no_text_has_is_placed_where_they_stand() -> None:
    module = parse(TWICE)
    module.main.body.ops[0].location = None  # as of what a transform made
    body = f"{FOUR}let call = outline([a, b])\nunswitch(parent(b))"
    schedule = tcpx.parse_schedule(f"language 2\nschedule s(root: func) {{\n{body}\n}}")
    with pytest.raises(tcpx.ScheduleError, match=r"nothing in @twice\.b is computed") as raised:
        tcpx.apply_schedule(module, schedule)
    assert raised.value.diagnostic.payload is not None
    assert raised.value.diagnostic.payload.line == 4


SQUARE = """\
func @square(%x: tensor<[M]x[K]xf32>, %w: tensor<[K]x[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M: 0.., K: 0.., N: 0..] {
  %mm = tcp.matmul(%x, %w) : tensor<[M]x[N]xf32>
  %r = tcp.exp(%mm) : tensor<[M]x[N]xf32>
  tcp.return(%r)
}
"""
BOTH = 'let mm = match one "mm" in root\nlet r = match one "r" in root\n'


def test_a_function_knows_what_the_branch_around_its_call_says() -> None:
    """A parallel loop of one iteration: each element is written once because M is small."""
    text = """\
func @f(%x: tensor<[M]x[K]xf32>, %w: tensor<[K]x[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M: 0.., K: 0.., N: 0..] {
  %v = gml_st.if M < 8 {
    %mm = tcp.matmul(%x, %w) : tensor<[M]x[N]xf32>
    %r = tcp.exp(%mm) : tensor<[M]x[N]xf32>
    tcp.yield(%r)
  } else {
    %o = tcp.matmul(%x, %w) : tensor<[M]x[N]xf32>
    tcp.yield(%o)
  } : tensor<[M]x[N]xf32>
  tcp.return(%v)
}
"""
    outlined = "tile(mm, [m: 16], parallel: true)\nlet c = outline([mm, r])\n"
    for more in ("", "tile(r, [d0: 3])", "tile(r, [d0: 3])\ninline(c)", "inline(c)"):
        done = check(text, f"{BOTH}{outlined}{more}", exact=False)
        assert other_symbols(done.module) == []


def test_conditions_on_several_sizes_are_asserted() -> None:
    text = """\
func @f(%x: tensor<[M]x[K]xf32>, %y: tensor<[M]x[N]xf32>) -> tensor<[M]x[K]xf32> symbols [M: 0.., K: 0.., N: 0..] {
  %r = gml_st.if K == N and M < 8 {
    %a = tcp.add(%x, %y) : tensor<[M]x[K]xf32>
    %b = tcp.mul(%a, %y) : tensor<[M]x[K]xf32>
    tcp.yield(%b)
  } else {
    tcp.yield(%x)
  } : tensor<[M]x[K]xf32>
  tcp.return(%r)
}
"""
    names = 'let a = match one "a" in root\nlet b = match one "b" in root\n'
    done = check(text, f"{names}outline([a, b])\nlet i, j = tile(b, [d0: 4, d1: 4])\nfuse(a, into: j)")
    made = done.module.funcs["f.b"]
    assert [s.declaration for s in made.symbols] == ["M: 0..7", "K", "N"]
    assert [p.to_text() for p in made.demands] == ["K == N"]
    back = check(text, f"{names}let c = outline([a, b])\ninline(c)")
    assert list(back.module.funcs) == ["f"]
    assert all(op.opcode != "tcp.assert" for op in back.module.walk())
    kernel = tcpx.compile(
        parse(text), tcpx.parse_schedule(f"language 2\nschedule s(root: func) {{\n{names}outline([a, b])\n}}")
    )
    assert kernel.signature.assertions == ()
    for m, k, n in ((3, 5, 5), (9, 5, 5), (3, 5, 6), (0, 0, 0)):
        x, y = np.full((m, k), 2, np.float32), np.full((m, n), 3, np.float32)
        np.testing.assert_array_equal(kernel(x, y), (x + y) * y if k == n and m < 8 else x)


def test_versions_of_other_sizes_have_their_own_functions() -> None:
    versions = "specialize mm when size(mm.n) < 8 { outline([mm]) } else { outline([mm]) }"
    done = check(SQUARE, f"{BOTH}{versions}", exact=False)
    made = [func for func in done.module.funcs.values() if func is not done.module.main]
    assert [[s.declaration for s in func.symbols] for func in made] == [["M", "K", "N: 0..7"], ["M", "K", "N: 8.."]]


def test_a_call_of_less_sizes_shares_a_function_of_more() -> None:
    text = """\
func @f(%x: tensor<[M]x[M]xf32>) -> tensor<[M]x[M]xf32> symbols [M: 0..] {
  %a = tcp.exp(%x) : tensor<[M]x[M]xf32>
  %b = tcp.exp(%a) : tensor<[M]x[M]xf32>
  %c = tcp.exp(%b) : tensor<[M]x[M]xf32>
  tcp.return(%c)
}
"""
    names = "".join(f'let {name} = match one "{name}" in root\n' for name in "abc")
    narrow = "specialize b when size(b.d0) < 4 { outline([b]) } else { }"
    sizes = [{"M": m} for m in (0, 1, 3, 4, 9)]
    done = check(text, f"{names}outline([a])\n{narrow}\noutline([c])", sizes, exact=False)
    assert list(done.module.funcs) == ["f", "f.a"]
    done = check(text, f"{names}{narrow}\noutline([a])\noutline([c])", sizes, exact=False)
    assert [[s.declaration for s in func.symbols] for func in done.module.funcs.values()] == [["M"], ["M: 0..3"], ["M"]]


@pytest.mark.parametrize("size", ["size(mm.k) + 1", "before + 1"])
def test_sizes_of_a_function_below_an_assertion(size: str) -> None:
    """The function declares less than its caller, as the assertion says."""
    text = SQUARE.replace("  %mm", '  tcp.assert {any = [M + K <= 64], message = "m and k"}\n  %mm')
    tiled = f"{BOTH}let before = size(mm.k)\noutline([mm])\ntile(mm, [m: {size}])"
    done = check(text, tiled, exact=False)
    made = done.module.funcs["square.mm"]
    assert [s.declaration for s in made.symbols] == ["M: 0..64", "K: 0..64", "N"]
    assert other_symbols(done.module) == []
    versions = f"specialize mm when {size} == 6 {{ tile(mm, [m: 4]) }} else {{ }}"
    check(text, f"{BOTH}let before = size(mm.k)\noutline([mm])\n{versions}", exact=False)


def test_what_a_function_in_a_branch_demands_is_demanded_in_the_branch() -> None:
    text = """\
func @f(%x: tensor<[M]x[K]xf32>) -> tensor<[M]x[K]xf32> symbols [M: 0.., K: 0..] {
  %r = gml_st.if M < 4 {
    %a = tcp.call @g(%x) : tensor<[M]x[K]xf32>
    tcp.yield(%a)
  } else {
    tcp.yield(%x)
  } : tensor<[M]x[K]xf32>
  tcp.return(%r)
}
func @g(%y: tensor<[A]x[B]xf32>) -> tensor<[A]x[B]xf32> symbols [A: 0.., B: 0..] {
  tcp.assert {any = [B <= 5], message = "rows are short"}
  %b = tcp.neg(%y) : tensor<[A]x[B]xf32>
  tcp.return(%b)
}
"""
    for body in ("", 'let b = match one "a" in root\ninline(b)'):
        schedule = tcpx.parse_schedule(f"language 2\nschedule s(root: func) {{\n{body}\n}}")
        module = tcpx.apply_schedule(parse(text), schedule).module
        kernel = tcpx.compile(parse(text), schedule)
        for m, k in ((0, 5), (3, 5), (4, 6), (9, 9)):
            x = np.ones((m, k), np.float32)
            for found in (kernel(x), tcpx.evaluate(module, x)):
                np.testing.assert_array_equal(np.asarray(found), -x if m < 4 else x)
        for run_it in (kernel, lambda x, module=module: tcpx.evaluate(module, x)):
            with pytest.raises(tcpx.ArgumentError, match="rows are short"):
                run_it(np.ones((3, 6), np.float32))


def test_a_size_of_a_function_is_one_of_its_caller_where_as_much_is_known_there() -> None:
    text = SQUARE.replace("  %mm", '  tcp.assert {any = [M + K <= 64], message = "m and k"}\n  %mm')
    versions = "specialize r when size(mm.m) > 6 { tile(r, [d0: 5]) } else { }"
    done = check(text, f"{BOTH}outline([mm])\ntile(r, [d1: max(1, size(mm.m))])\n{versions}", exact=False)
    assert other_symbols(done.module) == []
    outlined = "specialize mm when size(mm.m) < 4 { outline([mm]) } else { }"
    found = refusal(SQUARE, f'{BOTH}{outlined}\ntile(r, [d0: size(mm.copy("when 0").m)])')
    assert found.message == "the size is one of another function than @square, where %r stands"
