"""The memory plan of models: of twelve blocks, in one function or one function called twelve times, hardly more memory
is needed than is live at once, whatever the sizes are."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import numpy as np
import pytest

import tcpx
from tcpx.api import CompileRequest, lowered
from tcpx.payload.evaluator import evaluate_buffers
from tcpx.payload.ir import FuncOp, Module, Operation, Value, is_in
from tcpx.payload.sizes import Size, evaluate, product, upper_expression
from tcpx.payload.sizes.predicates import Predicate
from tcpx.payload.traits.call import Calling
from tcpx.payload.types import shape_of
from tcpx.report.explanation import explain
from tcpx.report.text import ExplanationText
from tcpx.target import load_target
from tcpx.transform.language.loader import Program

PLAIN = tcpx.parse_schedule("language 1\nschedule s(root: func) { optional canonicalize(root) }")
WEIGHTS = {"wq": "64x64", "wk": "64x64", "wv": "64x64", "wo": "64x64", "w1": "64x[F]", "w2": "[F]x64"}
BLOCK = """
  %q = tcp.matmul(%x, %wq) : tensor<[T]x64xf32>
  %qr = tcp.reshape(%q) : tensor<[T]x2x32xf32>
  %qh = tcp.transpose(%qr) {permutation = [1, 0, 2]} : tensor<2x[T]x32xf32>
  %k = tcp.matmul(%m, %wk) : tensor<[S]x64xf32>
  %kr = tcp.reshape(%k) : tensor<[S]x2x32xf32>
  %kh = tcp.transpose(%kr) {permutation = [1, 0, 2]} : tensor<2x[S]x32xf32>
  %v = tcp.matmul(%m, %wv) : tensor<[S]x64xf32>
  %vr = tcp.reshape(%v) : tensor<[S]x2x32xf32>
  %vh = tcp.transpose(%vr) {permutation = [1, 0, 2]} : tensor<2x[S]x32xf32>
  %s = tcp.contract(%qh, %kh) {lhs = ["h", "i", "e"], rhs = ["h", "j", "e"], out = ["h", "i", "j"]} : tensor<2x[T]x[S]xf32>
  %p = tcp.softmax(%s) {dim = 2} : tensor<2x[T]x[S]xf32>
  %c = tcp.contract(%p, %vh) {lhs = ["h", "i", "j"], rhs = ["h", "j", "e"], out = ["h", "i", "e"]} : tensor<2x[T]x32xf32>
  %ct = tcp.transpose(%c) {permutation = [1, 0, 2]} : tensor<[T]x2x32xf32>
  %cr = tcp.reshape(%ct) : tensor<[T]x64xf32>
  %o = tcp.matmul(%cr, %wo) : tensor<[T]x64xf32>
  %a = tcp.add(%x, %o) : tensor<[T]x64xf32>
  %f = tcp.matmul(%a, %w1) : tensor<[T]x[F]xf32>
  %g = tcp.sigmoid(%f) : tensor<[T]x[F]xf32>
  %u = tcp.matmul(%g, %w2) : tensor<[T]x64xf32>
  %y = tcp.add(%a, %u) : tensor<[T]x64xf32>
"""  # noqa: E501 - as a payload is written
SYMBOLS = " symbols [T: 1.., S: 1.., F: 1..]"
HEAD = f"(%x: tensor<[T]x64xf32>, %m: tensor<[S]x64xf32>, WEIGHTS) -> tensor<[T]x64xf32>{SYMBOLS} {{"
LOCAL = [line.split()[0][1:] for line in BLOCK.strip().split("\n")]
STATIC = {"T": 37, "S": 50, "F": 192}


def model(blocks: int, outlined: bool, static: bool = False) -> Module:
    """So many blocks one after the other: perceptrons, with products as of attention to a memory."""
    head = HEAD.replace("WEIGHTS", ", ".join(f"%{name}: tensor<{shape}xf32>" for name, shape in WEIGHTS.items()))
    lines, last = list[str](), "x"
    for number in range(blocks):
        if outlined:
            made = f"y{number}"
            weights = ", ".join(f"%{name}" for name in WEIGHTS)
            lines.append(f"  %{made} = tcp.call @block(%{last}, %m, {weights}) : tensor<[T]x64xf32>")
        else:
            made, text = f"y{number}", BLOCK.replace("%x", f"%{last}_given")
            for name in LOCAL:
                text = text.replace(f"%{name} ", f"%{name}{number} ").replace(f"%{name},", f"%{name}{number},")
                text = text.replace(f"%{name})", f"%{name}{number})")
            lines.append(text.replace("_given", ""))
        last = made
    text = f"func @main{head}\n" + "\n".join(lines) + f"\n  tcp.return(%{last})\n}}\n"
    if outlined:
        text += f"func @block{head}{BLOCK}  tcp.return(%y)\n}}\n"
    if static:
        for name, size in STATIC.items():
            text = text.replace(f"[{name}]", str(size))
        text = text.replace(SYMBOLS, "")
    return tcpx.parse(text)


# -- what is live at once, found by walking through the operations with numbers for sizes --------------------------


def peak(func: FuncOp, sizes: dict[str, int], threads: int) -> int:
    """Bytes of the workspace that are live at once, in the branches that are taken for these sizes."""
    ops = list(_run(func, sizes))
    places = {op: number for number, op in enumerate(ops)}
    change = [0] * (len(ops) + 2)
    for op, place in places.items():
        if op.opcode == "buffer.alloc" and "space arena" in str(op.result.type):
            size = evaluate(product(map(upper_expression, shape_of(op.result.type))), sizes) * 4
            end = max((_end(user, op, places) for user in _users(op.result) if user in places), default=place)
            change[place] += size * _copies(op, threads)
            change[end + 1] -= size * _copies(op, threads)
        elif (callee := Calling(op).callee) is not None:
            inner = {
                symbol.name: evaluate(upper_expression(size), sizes) for symbol, size in Calling(op).binding.items()
            }
            needed = peak(callee, inner, threads) * _copies(op, threads)
            change[place] += needed
            change[place + 1] -= needed
    live, most = 0, 0
    for step in change:
        live += step
        most = max(most, live)
    return most


def _run(op: Operation, sizes: dict[str, int]) -> Iterator[Operation]:
    held = op.attributes.get("predicate")
    taken = op.regions
    if isinstance(held, Predicate) and not held.variables():
        taken = [op.regions[0 if held.evaluate(sizes) else 1]]
    for block in taken:
        for inner in block.ops:
            yield inner
            yield from _run(inner, sizes)


def _users(value: Value) -> Iterator[Operation]:
    for user in value.users:
        yield user
        if user.opcode == "buffer.reshape":
            yield from _users(user.result)


def _end(user: Operation, made: Operation, places: dict[Operation, int]) -> int:
    """Where a use is over: that in a loop in which the buffer is not made with the loop."""
    loops = [op for op in user.ancestors() if "var" in op.attributes and not is_in(made, op)]
    return max(places[op] for op in (loops[-1].walk() if loops else [user]) if op in places)


def _copies(op: Operation, threads: int) -> int:
    return threads if any(around.opcode == "gml_st.parallel" for around in op.ancestors()) else 1


# ------------------------------------------------------------------------------------------------------------------


def drawn(count: int) -> list[dict[str, int]]:
    random = Random(11)
    return [{name: int(8 * 500 ** random.random()) for name in STATIC} for _ in range(count)]


@pytest.mark.parametrize("static", [True, False], ids=["static", "symbolic"])
@pytest.mark.parametrize(
    ("outlined", "schedule", "threads"),
    [(True, PLAIN, 1), (False, PLAIN, 1), (True, None, 1), (True, None, 2)],
    ids=["outlined", "one function", "default", "default on two threads"],
)
def test_twelve_blocks(outlined: bool, schedule: Program | None, threads: int, static: bool) -> None:
    request = CompileRequest(model(12, outlined, static), schedule)
    main = lowered(request, load_target("generic"), threads).module.main
    size, live = main.attributes["workspace"], main.attributes["workspace_live"]
    assert isinstance(size, int | Size)
    assert isinstance(live, int | Size)
    for sizes in [STATIC] if static else drawn(5):
        needed, bound, found = evaluate(size, sizes), evaluate(live, sizes), peak(main, sizes, threads)
        assert bound <= needed <= 1.05 * bound
        assert found == bound if schedule is PLAIN else found <= bound  # versions are not all taken


@pytest.mark.parametrize(("outlined", "threads"), [(True, 1), (False, 1), (True, 2)])
def test_kernels_and_reports(outlined: bool, threads: int) -> None:
    module = model(2, outlined)
    kernel = tcpx.compile(module, PLAIN if threads == 1 else None, target="generic", threads=threads)
    for sizes in ({"T": 1, "S": 1, "F": 1}, {"T": 9, "S": 5, "F": 40}, {"T": 5, "S": 17, "F": 3}):
        arrays = tcpx.random_inputs(module, 1, sizes=sizes)
        found, wanted = (np.asarray(a, np.float64) for a in (kernel(*arrays), tcpx.evaluate(module, *arrays)))
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)
        report = kernel.report(sizes)
        assert report.live_bytes is not None
        assert report.workspace_bytes is not None
        assert 0 < report.live_bytes <= report.workspace_bytes
        assert f"live        {report.live_bytes} bytes of it at once" in str(report)
    assert kernel.report().live_bytes is None


def test_the_plan_holds_in_the_evaluator() -> None:
    module = model(2, True)
    arrays = tcpx.random_inputs(module, 1, sizes={"T": 2, "S": 3, "F": 1})
    wanted = tcpx.evaluate(module, *arrays)
    done = lowered(CompileRequest(module, PLAIN), load_target("generic"), 1).module
    (found,) = evaluate_buffers(done, done.main, arrays)
    np.testing.assert_allclose(np.asarray(found, np.float64), np.asarray(wanted, np.float64), rtol=1e-4, atol=1e-5)


def test_explanations_show_the_plan() -> None:
    explained = explain(model(2, True, static=True), PLAIN, target="generic")
    assert {"\nworkspace: 28480 bytes", "live at once: 28416 bytes"} <= set(ExplanationText().end(explained))
