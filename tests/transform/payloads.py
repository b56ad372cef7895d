"""Payloads, as text, that transforms are tested on, and the checks every transform has to pass on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest

import tcpx
from tcpx.interp import Run, StepHook, run_schedule
from tcpx.payload.diagnostics import Diagnostic, ScheduleError
from tcpx.payload.evaluator import Evaluation, evaluate_func
from tcpx.payload.ir import Module
from tcpx.payload.text.parser import parse
from tcpx.payload.types import dtype_of
from tcpx.payload.verifier import verify_module
from tcpx.target import Target, load_target
from tcpx.transform.language import program_of_text
from tests.comparison import structurally_equal

Array = npt.NDArray[np.generic]
Sizes = Mapping[str, int]

RELU = """\
func @relu(%x: tensor<[M]x[K]xf32>, %w: tensor<[K]x[N]xf32>, %b: tensor<[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M: 0.., K: 0.., N: 0..] {
  %mm = tcp.matmul(%x, %w) : tensor<[M]x[N]xf32>
  %bias = tcp.broadcast(%b) {dims = [1]} : tensor<[M]x[N]xf32>
  %s = tcp.add(%mm, %bias) : tensor<[M]x[N]xf32>
  %zero = tcp.fill {value = 0.0} : tensor<[M]x[N]xf32>
  %r = tcp.max(%s, %zero) : tensor<[M]x[N]xf32>
  tcp.return(%r)
}
"""  # noqa: E501
CHAIN = """\
func @chain(%x: tensor<[M]x[N]xf32>, %y: tensor<[M]x[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M: 0.., N: 0..] {
  %p = tcp.mul(%x, %y) : tensor<[M]x[N]xf32>
  %q = tcp.sub(%p, %x) : tensor<[M]x[N]xf32>
  %r = tcp.min(%q, %y) : tensor<[M]x[N]xf32>
  tcp.return(%r)
}
"""
TRANSPOSED = """\
func @transposed(%x: tensor<[M]x[K]xf32>, %w: tensor<[N]x[K]xf32>) -> tensor<[M]x[N]xf32> symbols [M: 0.., K: 0.., N: 0..] {
  %t = tcp.transpose(%w) {permutation = [1, 0]} : tensor<[K]x[N]xf32>
  %mm = tcp.matmul(%x, %t) : tensor<[M]x[N]xf32>
  tcp.return(%mm)
}
"""  # noqa: E501
INTEGERS = """\
func @integers(%x: tensor<[M]x[K]xsi8>, %w: tensor<[K]x[N]xsi8>) -> tensor<[M]x[N]xsi32> symbols [M: 0.., K: 0.., N: 0..] {
  %mm = tcp.contract(%x, %w) {lhs = ["m", "k"], rhs = ["k", "n"], out = ["m", "n"]} : tensor<[M]x[N]xsi32>
  tcp.return(%mm)
}
"""  # noqa: E501
TWO_K = """\
func @two_k(%x: tensor<[M]x[K]x3xf32>, %w: tensor<[K]x3x[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M: 0.., K: 0.., N: 0..] {
  %mm = tcp.contract(%x, %w) {lhs = ["m", "k", "j"], rhs = ["k", "j", "n"], out = ["m", "n"]} : tensor<[M]x[N]xf32>
  tcp.return(%mm)
}
"""  # noqa: E501
MIN_PLUS = """\
func @min_plus(%x: tensor<[M]x[K]xf32>, %w: tensor<[K]x[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M: 0.., K: 0.., N: 0..] {
  %mm = tcp.generic(%x, %w) {iterators = [["m", "parallel"], ["n", "parallel"], ["k", "reduction"]], maps = [[m, k], [k, n], [m, n]], combiner = "tcp.min"} ({ (%a: f32, %b: f32, %acc: f32):
    %sum = tcp.add(%a, %b) : f32
    %least = tcp.min(%acc, %sum) : f32
    tcp.yield(%least)
  }) : tensor<[M]x[N]xf32>
  tcp.return(%mm)
}
"""  # noqa: E501
SOFTMAX = """\
func @softmax(%x: tensor<[M]x[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M: 0.., N: 0..] {
  %y = tcp.softmax(%x) {dim = 1} : tensor<[M]x[N]xf32>
  tcp.return(%y)
}
"""
ROWS = """\
func @rows(%x: tensor<[M]x[N]xf32>) -> tensor<[M]xf32> symbols [M: 0.., N: 0..] {
  %y = tcp.mul(%x, %x) : tensor<[M]x[N]xf32>
  %s = tcp.reduce_sum(%y) {dims = [1]} : tensor<[M]xf32>
  tcp.return(%s)
}
"""
PAYLOADS = {
    "relu": RELU,
    "chain": CHAIN,
    "transposed": TRANSPOSED,
    "integers": INTEGERS,
    "two_k": TWO_K,
    "min_plus": MIN_PLUS,
    "softmax": SOFTMAX,
    "rows": ROWS,
}
PRODUCTS = ("relu", "transposed", "integers", "two_k", "min_plus")
"""Payloads with a product %mm over m, n, k."""
EXTENTS = {"M": (0, 1, 7, 13), "N": (0, 1, 17), "K": (0, 1, 5)}
MM = 'let mm = match one "mm" in root\n'


@lru_cache(maxsize=4)
def target(name: str = "x86_avx512") -> Target:
    """A shipped target."""
    return load_target(name)


def run(
    payload: str | Module, body: str, on_step: StepHook | None = None, threads: int = 2, on: Target | None = None
) -> Run:
    """Run the statements `body` over a payload, for a target."""
    module = parse(payload) if isinstance(payload, str) else payload
    text = f"language 1\nschedule main(root: func) {{\n{body}\n}}"
    return run_schedule(module, program_of_text(text), on or target(), threads=threads, on_step=on_step)


def refusal(payload: str, body: str) -> Diagnostic:
    """Why a schedule fails; the payload must be as it was."""
    module = parse(payload)
    before = module.text()
    with pytest.raises(ScheduleError) as caught:
        run(module, body)
    assert module.text() == before
    verify_module(module)
    return caught.value.diagnostic


def sizes_of(payload: Module) -> Iterator[Sizes]:
    """Assignments of odd, unit and zero sizes to the symbols of a payload. Every size of `EXTENTS` meets every size of
    each other symbol; all are zero, one and at their largest at once, too."""
    names = [s.name for s in payload.main.symbols]
    extents = [EXTENTS[n] for n in names]
    if len(names) <= 2:
        chosen = list(product(*extents))
    else:
        first = product(*(range(len(e)) for e in extents[:2]))
        places = [(i, j, *((i + d * j) % len(e) for d, e in enumerate(extents[2:], 1))) for i, j in first]
        ends = [tuple(k % len(e) for e in extents) for k in (0, 1, -1)]
        chosen = [tuple(e[k] for e, k in zip(extents, at, strict=True)) for at in dict.fromkeys([*places, *ends])]
    for values in chosen:
        yield dict(zip(names, values, strict=True))


def arguments(module: Module, sizes: Sizes, seed: int = 0) -> list[Array]:
    """Random arguments: small whole numbers, so that sums are exact in any order."""
    evaluation = Evaluation(module.constants, sizes)
    random = np.random.default_rng(seed)
    found: list[Array] = []
    for arg in module.main.args:
        found.append(random.integers(-4, 5, evaluation.shape(arg.type)).astype(dtype_of(arg.type).numpy))
    return found


def same_numbers(left: Sequence[Array], right: Sequence[Array], exact: bool = True) -> bool:
    """Whether results agree; sums of whole numbers do in any order, exponentials nearly."""
    return all(
        a.dtype == b.dtype
        and a.shape == b.shape
        and bool(np.array_equal(a, b) if exact else np.allclose(a.astype(np.float64), b.astype(np.float64), 1e-5, 1e-6))
        for a, b in zip(left, right, strict=True)
    )


def check_same(payload: str, module: Module, sizes: Sequence[Sizes] = (), exact: bool = True) -> None:
    """A transformed payload is valid, parses back equal, and computes what the payload did, before and after."""
    verify_module(module)
    again = parse(module.text(), constants=module.constants)
    assert structurally_equal(module, again) is None
    assert again.text() == module.text()
    cases = list(sizes) or list(sizes_of(_original(payload)))
    for k, chosen in enumerate(cases):
        given, wanted = _expected(payload, tuple(chosen.items()))
        # Both are equal, so one of them is evaluated, but for the last time.
        for made in (module, again) if k == len(cases) - 1 else (module,):
            found = evaluate_func(made, made.main, given, seed=sum(chosen.values()))
            assert same_numbers(found, wanted, exact), chosen


@lru_cache(maxsize=100)
def _original(payload: str) -> Module:
    """A payload, parsed; nothing changes it."""
    return parse(payload)


@lru_cache(maxsize=1000)
def _expected(payload: str, sizes: tuple[tuple[str, int], ...]) -> tuple[Sequence[Array], Sequence[Array]]:
    """Arguments of a payload of these sizes, and its results."""
    module = _original(payload)
    given = arguments(module, dict(sizes))
    return given, evaluate_func(module, module.main, given)


def check(payload: str, body: str, sizes: Sequence[Sizes] = (), exact: bool = True) -> Run:
    """Run statements over a payload and check that it computes the same."""
    done = run(payload, body)
    check_same(payload, done.module, sizes, exact)
    return done


def check_kernels(cases: Mapping[str, tuple[str, str]], sizes: Sequence[Sizes]) -> None:
    """Compile payloads with the bodies of their schedules, for two threads, and compare with the evaluator."""
    requests = [
        tcpx.CompileRequest(
            parse(text),
            tcpx.parse_schedule(f"language 1\nschedule main(root: func) {{\n{body}\n}}"),
            name=f"case_{k}",
        )
        for k, (text, body) in enumerate(cases.values())
    ]
    for name, kernel in zip(cases, tcpx.compile_many(requests, target="native", threads=2), strict=True):
        original = parse(cases[name][0])
        for chosen in sizes:
            given = arguments(original, {s.name: chosen[s.name] for s in original.main.symbols})
            found = kernel(*given)
            results = found if isinstance(found, tuple) else (found,)
            assert same_numbers([np.asarray(f) for f in results], evaluate_func(original, original.main, given)), name
