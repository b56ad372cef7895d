"""What importing tcpx loads, and how the engine's work grows with the payload."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable

import pytest

import tcpx
from tcpx.api import CompileRequest, lowered
from tcpx.interp.work import Work
from tcpx.lowering import lower
from tcpx.payload.rewriter import Rewriter
from tcpx.payload.sizes import Symbol
from tcpx.target import load_target

EXTRAS = ("onnx", "torch", "jax", "optuna", "distributed", "safetensors", "rich", "sklearn", "scipy", "pandas")
TILE_EACH = """\
language 1
schedule main(root: func) {
  for x in match some contract in root { let i = tile(x, [m: 8]) }
  for y in match some elementwise in root { let i = tile(y, [d0: 8]) }
}
"""
TILE_SUMS = """\
language 1
schedule main(root: func) {
  for y in match some elementwise in root { let i = tile(y, [d0: 8]) }
}
"""
PRODUCT = """\
func @product(%x: tensor<[M]x[K]xf32>, %w: tensor<[K]x[N]xf32>) -> tensor<[M]x[N]xf32> symbols [K, M, N] {
  %mm = tcp.matmul(%x, %w) : tensor<[M]x[N]xf32>
  tcp.return(%mm)
}
"""
PRIMES = (2, 3, 5, 7, 11, 13, 17, 19)


def test_no_extra_is_imported() -> None:
    code = f"import sys, tcpx; print([m for m in {EXTRAS!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def layers(count: int) -> str:
    """A chain of products and sums, in turn."""
    return payload(count, lambda k, last: f"tcp.matmul(%{last}, %w)" if k % 2 == 0 else f"tcp.add(%{last}, %x)")


def shared_operand(count: int) -> str:
    """A chain of sums that all add one value."""
    return payload(count, lambda _, last: f"tcp.add(%{last}, %x)")


def payload(count: int, operation: Callable[[int, str], str]) -> str:
    """A function of that many operations, each on the result of the one before."""
    lines: list[str] = []
    last = "x"
    for k in range(count):
        lines.append(f"  %layer{k} = {operation(k, last)} : tensor<[M]x64xf32>")
        last = f"layer{k}"
    head = "func @layers(%x: tensor<[M]x64xf32>, %w: tensor<64x64xf32>) -> tensor<[M]x64xf32> symbols [M] {"
    return "\n".join([head, *lines, f"  tcp.return(%{last})", "}"])


def visited(text: str, schedule: str) -> int:
    """Operations and uses visited by a schedule that changes every layer in one step."""
    run = tcpx.apply_schedule(tcpx.parse(text), tcpx.parse_schedule(schedule), target="generic")
    return run.rewriter.visited


@pytest.mark.parametrize(
    ("made", "schedule"),
    [
        pytest.param(layers, TILE_EACH, id="products and sums"),
        pytest.param(shared_operand, TILE_SUMS, id="one operand shared by all"),
    ],
)
def test_work_grows_with_the_payload_not_faster(made: Callable[[int], str], schedule: str) -> None:
    few, many = visited(made(100), schedule), visited(made(1000), schedule)
    assert few > 100
    assert many <= 12 * few


def doubled(times: int) -> str:
    """A schedule that makes two versions of all versions there are, so many times."""
    return copies(f"specialize mm when size(mm.m) % {prime} == 0 {{ }} else {{ }}" for prime in PRIMES[:times])


def peeled(times: int) -> str:
    """A schedule that makes a main and a tail loop in both dims of all copies there are, so many times."""
    return copies(f"let l{k}, r{k} = tile(mm, [m: {256 >> k}, n: {512 >> k}], tail: peel)" for k in range(times))


def copies(steps: Iterable[str]) -> str:
    """A schedule of a product."""
    return "\n".join(
        ["language 1", "schedule main(root: func) {", "  let mm = match one contract in root", *steps, "}"]
    )


@pytest.mark.parametrize(
    ("schedule", "sizes", "most"),
    [
        pytest.param(doubled, (5, 8), 12, id="8 times the versions within versions"),
        pytest.param(peeled, (2, 4), 30, id="21 times the loops"),
    ],
)
def test_work_of_lowering_grows_with_the_copies_not_faster(
    schedule: Callable[[int], str], sizes: tuple[int, int], most: int
) -> None:
    target = load_target("generic")

    def looked_at(size: int) -> int:
        run = tcpx.apply_schedule(tcpx.parse(PRODUCT), tcpx.parse_schedule(schedule(size)), target=target)
        lower(run.rewriter, run.module.main, target, 1)
        return run.rewriter.visited

    few, many = (looked_at(size) for size in sizes)
    assert few > 100
    assert many <= most * few


def test_work_of_a_model_grows_with_its_layers_not_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers with versions: of three sizes in turn, with a bias, for any number of rows."""
    works: list[Work] = []

    class Counted(Work):
        def __init__(self, shares: int = 1) -> None:
            super().__init__(shares)
            works.append(self)

    monkeypatch.setattr("tcpx.interp.engine.Work", Counted)
    target = load_target("generic")

    def counts(layers: int) -> tuple[int, int, int]:
        run = lowered(CompileRequest(tcpx.parse(perceptron(layers))), target, 1)
        return run.rewriter.visited, works[-1].expressions, len(run.trace.entries)

    few, many = counts(3), counts(12)
    assert all(count > 100 for count in few[:2])
    assert all(more <= 4.4 * less for less, more in zip(few, many, strict=True)), (few, many)


def test_replacing_what_nothing_mentions_changes_nothing() -> None:
    module = tcpx.parse(PRODUCT)
    rewriter, (product, _) = Rewriter(module), module.main.body.ops
    text, rows = module.text(), module.main.symbols[1]
    rewriter.substitute([product], {Symbol("L"): 3})
    assert rewriter.mark() == 0
    rewriter.substitute([product], {rows: 3})
    assert rewriter.mark() == 1
    assert str(product.result.type) == "tensor<3x[N]xf32>"
    rewriter.rollback(0)
    assert module.text() == text


def perceptron(layers: int) -> str:
    """Layers of a product, a bias and a rectifier."""
    columns = [96, *((208, 328, 96)[k % 3] for k in range(layers))]
    arguments = "".join(
        f", %w{k}: tensor<{columns[k]}x{columns[k + 1]}xf32>, %b{k}: tensor<{columns[k + 1]}xf32>"
        for k in range(layers)
    )
    lines: list[str] = []
    last = "x"
    for k in range(layers):
        made = f"tensor<[M]x{columns[k + 1]}xf32>"
        lines += [
            f"  %mm{k} = tcp.matmul(%{last}, %w{k}) : {made}",
            f"  %rows{k} = tcp.broadcast(%b{k}) {{dims = [1]}} : {made}",
            f"  %sum{k} = tcp.add(%mm{k}, %rows{k}) : {made}",
            f"  %zero{k} = tcp.fill {{value = 0.0}} : {made}",
            f"  %y{k} = tcp.max(%sum{k}, %zero{k}) : {made}",
        ]
        last = f"y{k}"
    head = f"func @net(%x: tensor<[M]x96xf32>{arguments}) -> tensor<[M]x{columns[-1]}xf32> symbols [M] {{"
    return "\n".join([head, *lines, f"  tcp.return(%{last})", "}"])


def test_a_longer_payload_may_become_more_c(monkeypatch: pytest.MonkeyPatch) -> None:
    longest = len(tcpx.emit(tcpx.parse(shared_operand(10)), target="generic").c_source)
    monkeypatch.setattr("tcpx.emit_c.printer.file.MOST_C_BYTES", 2 * longest)
    assert len(tcpx.emit(tcpx.parse(shared_operand(300)), target="generic").c_source) > 2 * longest
    monkeypatch.setattr("tcpx.emit_c.printer.file.MOST_C_BYTES", longest // 3)
    with pytest.raises(tcpx.VerifyError, match="the C of the kernels is too long") as raised:
        tcpx.emit(tcpx.parse(shared_operand(10)), target="generic")
    assert raised.value.diagnostic.required == f"at most {longest // 3} bytes"
