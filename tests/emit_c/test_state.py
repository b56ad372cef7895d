"""Arguments that are state: what a kernel puts into their memory, what is copied for that, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import tcpx
from tcpx.api import CompileRequest, lowered
from tcpx.cli import main
from tcpx.payload.diagnostics import Diagnostic
from tcpx.payload.structure import fingerprint
from tcpx.source import emit
from tcpx.target import load_target
from tcpx.transform.language.loader import Program
from tests.guard_pages import run_guarded

PLAIN = tcpx.parse_schedule("language 1\nschedule s(root: func) { optional canonicalize(root) }")
CELL = """\
func @cell(%x: tensor<[B]x4xf32>, %h: inout tensor<[B]x5xf32>, %w: tensor<4x5xf32>, %u: tensor<5x5xf32>)
    -> (tensor<[B]xf32>, %h: tensor<[B]x5xf32>) symbols [B] {
  %a = tcp.matmul(%x, %w) : tensor<[B]x5xf32>
  %b = tcp.matmul(%h, %u, init = %a) : tensor<[B]x5xf32>
  %n = tcp.sigmoid(%b) : tensor<[B]x5xf32>
  %y = tcp.reduce_max(%n) {dims = [1]} : tensor<[B]xf32>
  tcp.return(%y, %n)
}
"""
GIVEN = "%x: tensor<[B]x4xf32>, %h: inout tensor<[B]x5xf32>, %w: tensor<4x5xf32>, %u: tensor<5x5xf32>"
Floats = npt.NDArray[np.float32]


def calls(count: int) -> str:
    """A function that runs the cell so many times."""
    lines = [
        f"  %y{k}, %h{k} = tcp.call @cell(%x, %h{k - 1 if k else ''}, %w, %u) : tensor<[B]xf32>, tensor<[B]x5xf32>"
        for k in range(count)
    ]
    last = count - 1
    head = f"func @main({GIVEN}) -> (%h: tensor<[B]x5xf32>, tensor<[B]xf32>) symbols [B] {{"
    return "\n".join([head, *lines, f"  tcp.return(%h{last}, %y{last})", "}", CELL])


def numbers(*shapes: tuple[int, ...]) -> list[Floats]:
    random = np.random.default_rng(3)
    return [random.standard_normal(shape).astype(np.float32) for shape in shapes]


def given(rows: int) -> list[Floats]:
    return numbers((rows, 4), (rows, 5), (4, 5), (5, 5))


def remarks_of(module: tcpx.Module) -> list[str]:
    """What was said about copies."""
    held = [func.attributes.get("remarks", ()) for func in module.funcs.values()]
    return [str(remark) for remarks in held if isinstance(remarks, tuple) for remark in remarks]


def copied(module: tcpx.Module, schedule: Program | None = PLAIN, threads: int = 1) -> list[str]:
    """What is copied in a kernel: the remarks about copies, and the loops that do it."""
    done = lowered(CompileRequest(module, schedule), load_target("generic"), threads).module
    loops = [op.name for op in done.walk() if any(word in op.name for word in ("/packed", "/copy", "/kept"))]
    return remarks_of(done) + loops


def in_tuple(results: object) -> tuple[object, ...]:
    return results if isinstance(results, tuple) else (results,)


def check(text: str, *arrays: Floats, remarks: int = 0, states: tuple[int, ...] = (1,)) -> None:
    """The kernel gives what the evaluator does, in the arrays that are its state, with so many remarks about copies."""
    module = tcpx.parse(text)
    assert tcpx.parse(module.text()).text() == module.text()
    done = lowered(CompileRequest(module, PLAIN), load_target("generic"), 1).module
    assert tcpx.parse(done.text()).text() == done.text()
    assert len(remarks_of(done)) == remarks
    wanted = tcpx.evaluate(module, *arrays)
    evaluated = tcpx.evaluate(done, *arrays)
    kernel = tcpx.compile(module, PLAIN, target="generic")
    found = kernel(*(mine := [a.copy() for a in arrays]))
    guarded = run_guarded(kernel, *arrays)
    for results in (found, evaluated, guarded):
        for a, b in zip(in_tuple(results), in_tuple(wanted), strict=True):
            np.testing.assert_allclose(np.asarray(a, np.float64), np.asarray(b, np.float64), rtol=1e-4, atol=1e-5)
    for k in states:
        state = kernel.signature.inputs[k].state
        assert state is not None
        assert in_tuple(found)[state] is mine[k]


def test_a_cell() -> None:
    check(CELL, *given(3))
    assert copied(tcpx.parse(CELL)) == []
    source = emit(tcpx.parse(CELL), PLAIN, target="generic")
    assert "const float *x, float *h, const float *w" in source.header
    assert "in and out %h: inout tensor<[B]x5xf32>" in source.c_source
    assert str(source.signature).endswith("-> (%out: tensor<[B]xf32>, %h: inout tensor<[B]x5xf32>)")


LEAKY = CELL.replace(
    """\
  %b = tcp.matmul(%h, %u, init = %a) : tensor<[B]x5xf32>
  %n = tcp.sigmoid(%b) : tensor<[B]x5xf32>
""",
    """\
  %d = tcp.sub(%a, %h) : tensor<[B]x5xf32>
  %s = tcp.sigmoid(%d) : tensor<[B]x5xf32>
  %n = tcp.add(%h, %s) : tensor<[B]x5xf32>
""",
)


@pytest.mark.parametrize("cell", [CELL, LEAKY], ids=["gated", "leaky"])
@pytest.mark.parametrize("schedule", [PLAIN, None], ids=["plain", "default"])
def test_five_hundred_calls_copy_nothing(cell: str, schedule: Program | None) -> None:
    module = tcpx.parse(calls(500).replace(CELL, cell))
    kernel = tcpx.compile(module, schedule, target="generic")
    if schedule is PLAIN:
        assert copied(module) == []
        # What reads the bits of one number as another type has `sizeof` of a variable of its own.
        assert re.findall(r"memcpy\((?!&\w+, &\w+, sizeof \w+\))", kernel.c_source) == []
    elif cell is LEAKY:  # where a product is tiled with what follows it, a tile needs all of the old state
        assert copied(module, schedule) == []
    assert kernel.workspace_bytes({"B": 16}) <= 3 * (4 * 16 * 5 + 128) + 500 * 128
    x, h, w, u = given(2)
    wanted = tcpx.evaluate(module, x, h, w, u)
    state, last = kernel(x, h, w, u)
    assert state is h
    for a, b in zip((state, last), wanted, strict=True):
        np.testing.assert_allclose(np.asarray(a, np.float64), np.asarray(b, np.float64), rtol=1e-4, atol=1e-5)


def test_a_kernel_that_is_called_five_hundred_times() -> None:
    module = tcpx.parse(CELL)
    kernel = tcpx.compile(module, PLAIN)
    x, h, w, u = given(3)
    mine, y = h.copy(), np.empty(3, np.float32)
    bound = kernel.bind(x, mine, w, u, out=y)
    for step in range(500):
        if step < 5:
            _, h = (np.asarray(a) for a in tcpx.evaluate(module, x, h, w, u))
            results = kernel(x, mine, w, u, out=y) if step % 2 else bound()
            assert results[0] is y
            assert results[1] is mine
            np.testing.assert_allclose(np.asarray(mine, np.float64), np.asarray(h, np.float64), rtol=1e-4, atol=1e-5)
        else:
            bound()
    assert np.isfinite(mine).all()


def test_in_a_loop() -> None:
    text = f"""\
func @main({GIVEN}) -> %h: tensor<[B]x5xf32> symbols [B] {{
  %r = gml_st.for %i in 0 to 500 step 1 (%d = %h) {{
    %y, %n = tcp.call @cell(%x, %d, %w, %u) : tensor<[B]xf32>, tensor<[B]x5xf32>
    gml_st.yield(%n, %d) tile [0, 0] [B, 5]
  }} : tensor<[B]x5xf32>
  tcp.return(%r)
}}
{CELL}"""
    check(text, *given(1))
    assert copied(tcpx.parse(text)) == []


TWO = """\
func @main(%a: inout tensor<[N]xf32>, %b: inout tensor<[N]xf32>, %x: tensor<[N]xf32>)
    -> (RESULTS) symbols [N] {
  %c = tcp.mul(%a, %x) : tensor<[N]xf32>
  tcp.return(VALUES)
}
"""


@pytest.mark.parametrize(
    ("results", "values", "remarks"),
    [
        ("%a: tensor<[N]xf32>, %b: tensor<[N]xf32>", "%a, %b", 0),
        ("%a: tensor<[N]xf32>, %b: tensor<[N]xf32>", "%b, %a", 2),
        ("%b: tensor<[N]xf32>, %a: tensor<[N]xf32>", "%a, %c", 2),
        ("%b: tensor<[N]xf32>, tensor<[N]xf32>, %a: tensor<[N]xf32>", "%c, %b, %b", 3),
        ("%a: tensor<[N]xf32>, %b: tensor<[N]xf32>, tensor<[N]xf32>", "%c, %c, %a", 2),
        ("%a: tensor<[N]xf32>, %b: tensor<[N]xf32>", "%x, %c", 1),
    ],
)
def test_results_that_go_to_other_state(results: str, values: str, remarks: int) -> None:
    text = TWO.replace("RESULTS", results).replace("VALUES", values)
    check(text, *numbers((6,), (6,), (6,)), remarks=remarks, states=(0, 1))


def test_what_is_no_state_is_copied_for_a_call() -> None:
    text = f"""\
func @main({GIVEN.replace("inout ", "")}) -> tensor<[B]x5xf32> symbols [B] {{
  %y, %n = tcp.call @cell(%x, %h, %w, %u) : tensor<[B]xf32>, tensor<[B]x5xf32>
  tcp.return(%n)
}}
{CELL}"""
    module = tcpx.parse(text)
    kernel = tcpx.compile(module, PLAIN)
    arrays = given(3)
    before = [a.copy() for a in arrays]
    np.testing.assert_allclose(
        np.asarray(kernel(*arrays), np.float64), np.asarray(tcpx.evaluate(module, *arrays), np.float64), rtol=1e-4
    )
    assert all(np.array_equal(a, b) for a, b in zip(arrays, before, strict=True))
    assert copied(module)[0] == (
        "copies %h: tensor<[B]x5xf32> for %y (tcp.call), because %h is not given up by who gave it"
    )


def test_strided_state() -> None:
    kernel = tcpx.compile(tcpx.parse(CELL), PLAIN, strided=True)
    x, h, w, u = numbers((3, 9), (3, 9), (4, 7), (5, 8))
    mine, rest = h[:, 2:7], h[:, 7:].copy()
    wanted = tcpx.evaluate(tcpx.parse(CELL), x[:, :4], mine, w[:, :5], u[:, :5])
    _, state = kernel(x[:, :4], mine, w[:, :5], u[:, :5])
    assert state is mine
    np.testing.assert_allclose(np.asarray(mine, np.float64), np.asarray(wanted[1], np.float64), rtol=1e-4)
    assert np.array_equal(h[:, 7:], rest)


def test_sanitized() -> None:
    module = tcpx.parse(CELL)
    x, h, w, u = given(3)
    wanted = tcpx.evaluate(module, x, h, w, u)
    _, state = tcpx.compile(module, PLAIN, sanitize=True)(x, h, w, u)
    assert state is h
    np.testing.assert_allclose(np.asarray(h, np.float64), np.asarray(wanted[1], np.float64), rtol=1e-4)


def test_outlined_and_inlined() -> None:
    schedule = """language 1
schedule s(root: func) {
  let a = match one "y0" in root
  let b = match one "y1" in root
  let c = match one "y2" in root
  let d = match one "y3" in root
  outline([a, b])
  outline([c, d])
}
"""
    done = tcpx.apply_schedule(tcpx.parse(calls(4)), tcpx.parse_schedule(schedule)).module
    assert [dict(func.states) for func in done.funcs.values()] == [{1: 0}, {1: 1}, {1: 0}, {1: 1}]
    assert copied(tcpx.parse(calls(4)), tcpx.parse_schedule(schedule)) == []
    inline = "language 1\nschedule s(root: func) {\n  for c in match some call in root {\n    inline(c)\n  }\n}\n"
    assert copied(tcpx.parse(calls(3)), tcpx.parse_schedule(inline)) == []


def test_two_functions_that_differ_in_state_alone() -> None:
    plain = CELL.replace("inout ", "").replace("%h: tensor<[B]x5xf32>) s", "tensor<[B]x5xf32>) s")
    assert fingerprint(tcpx.parse(CELL).main) != fingerprint(tcpx.parse(plain).main)


# -- what is refused -----------------------------------------------------------------------------------------------


def test_one_dim_is_updated_in_place_behind_a_peeled_loop() -> None:
    """The loop of the tail starts from the result of the other one: the two are put into the state together."""
    text = """\
func @f(%h: inout tensor<[N]xf32>, %x: tensor<[N]xf32>) -> %h: tensor<[N]xf32> symbols [N: 0..] {
  %n = tcp.add(%h, %x) : tensor<[N]xf32>
  tcp.return(%n)
}
"""
    module = tcpx.parse(text)
    for threads in (1, 2):
        assert copied(module, None, threads) == []
        kernel = tcpx.compile(module, threads=threads)
        for size in (0, 1, 7, 64, 65, 203):
            h, x = numbers((size,), (size,))
            wanted = h + x
            assert kernel(x=x, h=h) is h
            np.testing.assert_array_equal(h, wanted)


@pytest.mark.parametrize("function", ["sigmoid", "neg"])
def test_tiles_are_updated_in_place(function: str) -> None:
    text = f"""\
func @f(%h: inout tensor<[B]x[N]xf32>, %x: tensor<[B]x[N]xf32>) -> %h: tensor<[B]x[N]xf32> symbols [B, N] {{
  %d = tcp.sub(%x, %h) : tensor<[B]x[N]xf32>
  %s = tcp.{function}(%d) : tensor<[B]x[N]xf32>
  %n = tcp.add(%h, %s) : tensor<[B]x[N]xf32>
  tcp.return(%n)
}}
"""
    module = tcpx.parse(text)
    for threads in (1, 2):
        assert copied(module, None, threads) == []
        kernel = tcpx.compile(module, threads=threads)
        for shape in ((3, 5), (1, 1), (0, 4), (17, 33), (130, 70)):
            h, x = numbers(shape, shape)
            wanted = np.asarray(tcpx.evaluate(module, h, x), np.float64)
            assert kernel(h, x) is h
            np.testing.assert_allclose(np.asarray(h, np.float64), wanted, rtol=1e-4, atol=1e-5)


SHIFT = """\
func @f(%h: inout tensor<64xf32>) -> %h: tensor<64xf32> {{
  %o = tcp.empty : tensor<64xf32>
  %y = {loop} %i in 0 to 60 step {step} (%d = %h) {{
    %t = gml_st.materialize(%h) tile [{read}] [4] : tensor<4xf32>
    %e = tcp.exp(%t) : tensor<4xf32>
    gml_st.yield(%e, %d) tile [{write}] [4]
  }} : tensor<64xf32>
  tcp.return(%y)
}}
"""


@pytest.mark.parametrize("loop", ["gml_st.for", "gml_st.parallel"])
@pytest.mark.parametrize(
    ("step", "read", "write", "copies"),
    [
        (4, "%i", "%i", (0, 0)),
        (4, "%i + 4", "%i", (0, 2)),  # the next tile is read, which only another thread may have written
        (4, "%i", "%i + 4", (2, 2)),
        (4, "%i + 1", "%i", (1, 2)),
        (4, "60 - %i", "%i", (2, 2)),
        (2, "%i", "%i", (2, None)),  # the tiles of two iterations overlap
    ],
)
def test_tiles_that_another_iteration_writes(
    loop: str, step: int, read: str, write: str, copies: tuple[int, int | None]
) -> None:
    wanted = copies[loop == "gml_st.parallel"]
    if wanted is not None:
        text = SHIFT.format(loop=loop, step=step, read=read, write=write)
        check(text, *numbers((64,)), remarks=wanted, states=(0,))


VIEWED = """\
func @f(%h: inout tensor<8x8xf32>) -> %h: tensor<8x8xf32> {{
  %g = tcp.reshape(%h) : tensor<64xf32>
  %o = tcp.empty : tensor<64xf32>
  %y = gml_st.for %i in 0 to 60 step 4 (%d = %g) {{
    %t = gml_st.materialize(%g) tile [{read}] [4] : tensor<4xf32>
    %e = tcp.exp(%t) : tensor<4xf32>
    gml_st.yield(%e, %d) tile [{write}] [4]
  }} : tensor<64xf32>
  %n = tcp.reshape(%y) : tensor<8x8xf32>
  tcp.return(%n)
}}
"""


@pytest.mark.parametrize(
    ("read", "write", "copies"), [("%i", "%i", 0), ("%i + 4", "%i", 0), ("%i", "%i + 4", 2), ("60 - %i", "%i", 2)]
)
def test_state_under_another_shape(read: str, write: str, copies: int) -> None:
    """A view is changed in place as what it shows is: where no tile is read that was written before."""
    check(VIEWED.format(read=read, write=write), *numbers((8, 8)), remarks=copies, states=(0,))


def refused(text: str) -> Diagnostic:
    with pytest.raises(tcpx.TcpxError) as caught:
        tcpx.parse(text)
    assert caught.value.diagnostic.payload is not None
    return caught.value.diagnostic


def body(text: str, results: str = "%h: tensor<[B]x5xf32>") -> str:
    return f"func @main({GIVEN}) -> ({results}) symbols [B] {{\n{text}}}\n{CELL}"


FIRST = "  %y, %n = tcp.call @cell(%x, %h, %w, %u) : tensor<[B]xf32>, tensor<[B]x5xf32>\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"{FIRST}  %s = tcp.add(%n, %h) : tensor<[B]x5xf32>\n  tcp.return(%s)\n", 3),
        (f"{FIRST}{FIRST.replace('%y, %n', '%z, %m')}  tcp.return(%m)\n", 3),
        (
            f"{FIRST}  %i = gml_st.if B >= 4 {{\n    %s = tcp.add(%n, %h) : tensor<[B]x5xf32>\n    tcp.yield(%s)\n"
            "  } else {\n    tcp.yield(%n)\n  } : tensor<[B]x5xf32>\n  tcp.return(%i)\n",
            4,
        ),
    ],
)
def test_a_later_read_is_refused(text: str, line: int) -> None:
    found = refused(body(text))
    assert found.payload is not None
    assert found.payload.line == line
    assert "%h is read after a call was given its memory" in found.message
    assert found.required == "no use of %h behind %y, for which it is `inout`"
    assert found.fix == "read it before, or the result of @cell"


def test_reads_before_and_in_another_branch_are_allowed() -> None:
    text = "  %e = tcp.exp(%h) : tensor<[B]x5xf32>\n  %i = gml_st.if B >= 4 {\n  " + FIRST
    text += "    %s = tcp.add(%n, %e) : tensor<[B]x5xf32>\n    tcp.yield(%s)\n  } else {\n"
    text += "    %t = tcp.add(%h, %e) : tensor<[B]x5xf32>\n    tcp.yield(%t)\n  } : tensor<[B]x5xf32>\n"
    text = body(text + "  tcp.return(%i)\n")
    for rows in (3, 5):
        check(text, *given(rows))


def test_a_value_from_outside_of_a_loop_is_refused() -> None:
    text = "  %e = tcp.exp(%h) : tensor<[B]x5xf32>\n  %r = gml_st.for %i in 0 to 5 step 1 (%d = %h) {\n  "
    text += FIRST.replace("%h", "%e") + "    gml_st.yield(%n, %d) tile [0, 0] [B, 5]\n  } : tensor<[B]x5xf32>\n"
    found = refused(body(text + "  tcp.return(%r)\n"))
    assert "%e is given up in every iteration of %i" in found.message


def test_one_value_twice() -> None:
    text = """\
func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %e = tcp.exp(%a) : tensor<4xf32>
  %s, %t = tcp.call @two(%e, %e) : tensor<4xf32>, tensor<4xf32>
  tcp.return(%s)
}
func @two(%a: inout tensor<4xf32>, %b: tensor<4xf32>) -> (%a: tensor<4xf32>, tensor<4xf32>) {
  tcp.return(%b, %a)
}
"""
    assert "%e is read after a call was given its memory" in refused(text).message


def test_a_step_that_reads_given_up_state_is_undone() -> None:
    text = f"  %e = tcp.exp(%h) : tensor<[B]x5xf32>\n{FIRST}"
    text = body(text + "  %s = tcp.add(%n, %e) : tensor<[B]x5xf32>\n  tcp.return(%s)\n")
    schedule = """language 1
schedule s(root: func) {
  let s = match one "s" in root
  let e = match one "e" in root
  let i = tile(s, [d0: 2])
  fuse(e, into: i)
}
"""
    with pytest.raises(tcpx.TcpxError, match="is read after a call was given its memory"):
        tcpx.apply_schedule(tcpx.parse(text), tcpx.parse_schedule(schedule))


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ("(%h: inout tensor<4xf32>) -> tensor<4xf32>", "no result is put into the memory of %h"),
        ("(%h: tensor<4xf32>) -> %h: tensor<4xf32>", "no argument is `inout` that is called %h"),
        ("(%h: inout tensor<4xf32>) -> (%h: tensor<4xf32>, %h: tensor<4xf32>)", "two results are called %h"),
        ("(%h: inout tensor<2xf32>) -> %h: tensor<4xf32>", "the result %h lies in the memory of the argument %h"),
        ("(%h: inout tensor<4xsi32>) -> %h: tensor<4xf32>", "the result %h lies in the memory of the argument %h"),
        ("(%h: inout f32) -> %h: tensor<4xf32>", "the result %h lies in the memory of the argument %h"),
    ],
)
def test_heads_that_are_refused(head: str, message: str) -> None:
    values = ", ".join(["%z"] * max(1, head.partition("->")[2].count("tensor")))
    text = f"func @f{head} {{\n  %z = tcp.fill {{value = 0.0}} : tensor<4xf32>\n  tcp.return({values})\n}}\n"
    assert message in refused(text).message


def test_a_number_that_is_state_is_a_tensor_without_dims() -> None:
    text = "func @f(%h: inout f32) -> %h: tensor<f32> {\n  tcp.return(%h)\n}\n"
    fix = refused(text).fix
    assert fix == "%h: inout tensor<f32>"
    tcpx.parse(text.replace("%h: inout f32", fix))


def test_an_attribute_says_the_same() -> None:
    text = "func @f(%h: tensor<4xf32>) -> tensor<4xf32> {inout = [[0, POSITION]]} {\n  tcp.return(%h)\n}\n"
    assert "inout tensor" in tcpx.parse(text.replace("POSITION", "0")).text()
    assert "`inout` is the arguments that are state" in refused(text.replace("POSITION", "1")).message
    region = "func @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n  %y = tcp.generic(%x) {maps = []} ({ (%a: inout f32):\n"
    region += "    tcp.yield(%a)\n  }) : tensor<4xf32>\n}\n"
    assert "only what a caller passes is `inout`" in refused(region).message


def misfit(kernel: tcpx.Kernel, *arrays: object, out: object = None) -> Diagnostic:
    with pytest.raises(tcpx.ArgumentError) as caught:
        kernel(*arrays, out=out)
    return caught.value.diagnostic


def test_arrays_that_cannot_be_state() -> None:
    kernel = tcpx.compile(tcpx.parse(CELL), PLAIN)
    x, h, w, u = given(5)
    locked = h.copy()
    locked.flags.writeable = False
    assert misfit(kernel, x, locked, w, u).required == "an array that can be written to"
    assert "cannot be changed as it is" in misfit(kernel, x, h.tolist(), w, u).message
    assert misfit(kernel, x, h.astype(np.float64), w, u).found == "dtype float64"
    assert misfit(kernel, x, np.asfortranarray(h), w, u).required == "a contiguous array in row-major order"
    assert misfit(kernel, x, u, w, u).found == "memory that overlaps `u`"
    both = np.zeros(50, np.float32)
    assert misfit(kernel, x, both[:25].reshape(5, 5), w, u, out=both[:5]).found == "memory that overlaps `h`"
    assert kernel(x, both[:25].reshape(5, 5), w, u, out=both[45:])[0].base is both


NAMED = """\
func @f(%x: tensor<[N]x4xf32>, %h: inout tensor<[N]x4xf32>) -> (%logits: tensor<[N]x4xf32>, %h: tensor<[N]x4xf32>, tensor<[N]xf32>, %past.0.key: tensor<4x[N]xf32>) symbols [N] {
  %logits = tcp.add(%x, %x) : tensor<[N]x4xf32>
  %n = tcp.mul(%h, %logits) : tensor<[N]x4xf32>
  %s = tcp.reduce_sum(%n) {dims = [1]} : tensor<[N]xf32>
  %t = tcp.transpose(%x) {permutation = [1, 0]} : tensor<4x[N]xf32>
  tcp.return(%logits, %n, %s, %t)
}
"""  # noqa: E501 - the head of a function is one line


def test_results_have_names() -> None:
    """In the text, in C and in Python; those that are not named are `out`."""
    module = tcpx.parse(NAMED)
    assert module.text() == NAMED
    source = emit(module)
    assert "int f(const float *x, float *h, float *logits, float *out, float *past_0_key, int64_t N," in source.header
    kernel = tcpx.compile(module)
    assert [held.name for held in kernel.signature.results] == ["logits", "h", "out", "past.0.key"]
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    found = kernel(x, x.copy())
    np.testing.assert_array_equal(found[0], x + x)
    np.testing.assert_array_equal(found[3], x.T)
    schedule = tcpx.parse_schedule("language 1\nschedule s(root: func) { bufferize(root) }")
    bufferized = tcpx.apply_schedule(module, schedule)
    assert tcpx.parse(bufferized.module.text()).text() == bufferized.module.text()


@pytest.mark.parametrize(
    ("results", "message"),
    [
        ("(%y: tensor<4xf32>, %y: tensor<4xf32>)", "two results are called %y"),
        ("(%x: tensor<4xf32>, tensor<4xf32>)", "no argument is `inout` that is called %x"),
        ('(tensor<4xf32>, tensor<4xf32>) {result_names = ["y", "", ""]}', "`result_names` is what results are called"),
        ('(tensor<4xf32>, tensor<4xf32>) {result_names = ["x", ""]}', "`result_names` is what results are called"),
    ],
)
def test_names_that_are_refused(results: str, message: str) -> None:
    assert message in refused(f"func @f(%x: tensor<4xf32>) -> {results} {{\n  tcp.return(%x, %x)\n}}\n").message


def test_a_copy_of_state_is_a_remark_wherever_remarks_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = """\
func @main(%x: tensor<[N]xf32>, %h: inout tensor<[N]xf32>) -> (tensor<[N]xf32>, %h: tensor<[N]xf32>) symbols [N] {
  %r = tcp.reverse(%h) {dims = [0]} : tensor<[N]xf32>
  %n = tcp.add(%r, %x) : tensor<[N]xf32>
  %y = tcp.mul(%h, 2.0) : tensor<[N]xf32>
  tcp.return(%y, %n)
}
"""
    kernel = tcpx.compile(tcpx.parse(text), PLAIN, target="generic")
    (remark,) = kernel.remarks
    assert remark.message.startswith(
        "copies %n: tensor<[N]xf32> for tcp.return, because %n (tcp.add) would overwrite %h"
    )
    assert remark.message in str(kernel.report())
    payload, schedule = tmp_path / "f.tcp", tmp_path / "s.tcps"
    payload.write_text(text)
    for body in ("canonicalize(root)", "bufferize(root)"):
        schedule.write_text(f"language 1\nschedule s(root: func) {{ optional {body} }}\n")
        assert main(["check", str(payload), "-s", str(schedule), "--target", "generic"]) == 0
        assert remark.message in capsys.readouterr().err
