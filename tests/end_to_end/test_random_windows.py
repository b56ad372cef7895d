"""Random convolutions and poolings by the default schedule and by each recipe for them, beside NumPy tap by tap."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from importlib import import_module
from typing import Any, Final

import numpy as np
import pytest

import tcpx
from tcpx.interp import Trace
from tcpx.payload.constants import Constants
from tcpx.transform.language.loader import Program
from tests.optional_tools import TORCH
from tests.window_cases import WindowCase, drawn

PER_CHUNK: Final = 8
PER_RECIPE: Final = 12
PER_LIBRARY: Final = 25
RECIPES: Final = {
    "roles": "case x { convolutions.dense => { convolutions.by_role(x) } convolutions.depthwise => "
    "{ convolutions.by_role(x) } else => { windows.windows(x) } }",
    "windows": "windows.windows(x)",
    "winograd": "try { fewer.filtered(x) } else { }",
    "products": "if len(operands(x)) > 1 { windows.products(x, epilogue(x)) } else { windows.windows(x) }",
}
"""What is done with an operation that reads windows."""
IMPORTS: Final = "".join(
    f'import "lib/{file}.tcps" as {name}\n'
    for file, name in (("convolutions", "convolutions"), ("windows", "windows"), ("winograd", "fewer"))
)
KNOBS: Final = {"nv": (1, 2), "mr": tuple(range(1, 7)), "m": (2, 4, 6), "high": (1, 2, 3)}
"""Tiles that registers hold, whatever the payload is."""
ROLES: Final = {"sums_of_channels", "windows_of_channels", "products", "windows"}
"""The sequences that have these knobs."""
WINOGRAD: Final = "winograd"
MOST_ERROR: Final = 192
"""The error that `winograd` states for the sums of up to 3 taps, in roundings of the largest sum of |x||w|."""


@cache
def schedule_of(recipe: str, in_layout: bool) -> Program:
    """A recipe for what reads windows, in the order of dims in which it is or that `assign_layout` chooses."""
    before = "optional normalize(root)\n  optional assign_layout(root)\n  optional evaluate_constants(root)\n  "
    return tcpx.parse_schedule(
        f"language 2\n{IMPORTS}"
        f"schedule s(root: func) {{\n  {before if in_layout else ''}"
        f"for x in match any generic in root where it.is_a(windows.of_windows) {{ {RECIPES[recipe]} }}\n}}\n"
    )


def module_of(case: WindowCase) -> tcpx.Module:
    return tcpx.parse(case.text, constants=Constants({"w": case.arguments()[1]} if case.is_stored else {}))


def request_of(case: WindowCase, recipe: str, target: str, threads: int, counts: Counter[str]) -> tcpx.CompileRequest:
    """A case by a recipe with some of its knobs drawn; counts the sequences that it takes."""
    module, draw, name = module_of(case), random.Random(case.seed), f"f{case.seed}"
    if recipe == "default":
        return tcpx.CompileRequest(module, name=name)
    if recipe == WINOGRAD and max(case.kernel) > 3:
        recipe = "windows"  # no error is stated for so many taps
    schedule = schedule_of(recipe, draw.random() < 0.5)
    space = tcpx.search_space(module, schedule, target=target, threads=threads)
    params = {v.path: draw.choice(KNOBS[v.name]) for v in space.variables if draw.random() < 0.7}
    counts.update({v.use.rpartition("/")[2] for v in space.variables})
    return tcpx.CompileRequest(module, schedule, params=params, name=name)


def check(seeds: Iterable[int], recipe: str, threads: int, target: str = "x86_avx2") -> Counter[str]:
    """Elements are small whole numbers, so that sums are exact in any order. Returns what was exercised."""
    cases, counts = [drawn(seed) for seed in seeds], Counter[str]()
    requests = [request_of(case, recipe, target, threads, counts) for case in cases]
    kernels = tcpx.compile_many(requests, target=target, threads=threads)
    for case, kernel in zip(cases, kernels, strict=True):
        for call in case.calls():
            check_call(case, call, kernel)
        counts.update(features(case))
        counts["winograd"] += WINOGRAD in transforms(kernel)
    return counts


def transforms(kernel: tcpx.Kernel) -> set[str]:
    """The names of the steps that made a kernel."""
    return {entry.transform for entry in kernel.trace.entries} if isinstance(kernel.trace, Trace) else set()


def check_call(case: WindowCase, call: WindowCase, kernel: tcpx.Kernel) -> None:
    """A kernel at the sizes of a call gives each bit; with fewer multiplications, the error is within the bound."""
    arrays = call.arguments()
    found = kernel(*([arrays[0], *arrays[2:]] if case.is_stored else arrays))
    values, indices = found if isinstance(found, tuple) else (found, None)
    wanted, message = call.expected(arrays), f"{case.seed}: {case.text}"
    if WINOGRAD in transforms(kernel):
        unit = np.finfo(wanted.dtype).eps / 2
        largest = replace(call, epilogue="").expected([abs(a) for a in arrays]).max(initial=0)
        bound = unit * (MOST_ERROR * largest + 2 * abs(wanted))
        assert (abs(values - wanted) <= bound).all(), f"{abs(values - wanted).max()} of {largest}: {message}"
    else:
        np.testing.assert_array_equal(values, wanted, err_msg=message)
    if case.has_indices:
        np.testing.assert_array_equal(indices, call.indices(arrays), err_msg=message)


def features(case: WindowCase) -> list[str]:
    """What a case exercises of what the list of features names."""
    usual = tuple(range(2 + len(case.kernel)))
    found = {
        "groups": case.channels[0] > 1 and not case.is_depthwise,
        "depthwise": case.is_depthwise,
        "strides": max(case.strides) > 1,
        "dilations": any(d > 1 and k > 1 for d, k in zip(case.dilations, case.kernel, strict=True)),
        "two-sided padding": any(lo and hi for lo, hi in zip(case.low, case.high, strict=True)),
        "uneven padding": case.low != case.high,
        "ceil mode": case.ends != case.high,
        "other order": case.order != usual,
        "other order of the result": case.results != case.order,
        "symbolic": case.is_symbolic,
        "symbolic ceil mode": case.is_symbolic and case.is_ceil,
        "init": case.has_init,
        "stored": case.is_stored,
        "indices": case.has_indices,
    }
    names = [name for name, is_there in found.items() if is_there]
    return [*names, case.kind, f"rank {len(case.kernel)}", f"{case.dtypes[0]} to {case.dtypes[1]}", case.epilogue]


@pytest.mark.parametrize("chunk", range(4))
def test_numbers(chunk: int) -> None:
    check(range(1000 + PER_CHUNK * chunk, 1000 + PER_CHUNK * (chunk + 1)), "default", 1 + chunk % 2)


@pytest.mark.parametrize("recipe", RECIPES)
def test_recipes(recipe: str) -> None:
    counts = check(range(1100, 1100 + PER_RECIPE), recipe, 2)
    assert len([role for role in ROLES if counts[role]]) >= (3 if recipe == "roles" else 1)
    assert len([kind for kind in ("conv", "max", "min", "sum", "average", "lp") if counts[kind]]) >= 4


def test_a_transposed_tile_that_registers_do_not_hold() -> None:
    """Lanes lie along the outermost dim of what is read, whose windows have a stride of 3: a tile of one index fits."""
    request = request_of(drawn(3099), "windows", "x86_avx512", 1, Counter())
    assert tcpx.emit(request.module, request.schedule, target="x86_avx512").c_source


SEEDS: Final = range(2000, 4000)
CHUNKS: Final = 20
"""Of each, the draws have to show what they exercise, so that chunks run one beside another."""
LEAST: Final = {
    **dict.fromkeys(("conv", "strides", "symbolic", "other order", "uneven padding", "stored"), 15),
    **dict.fromkeys(("rank 1", "rank 2", "rank 3", "f32 to f32", "groups", "dilations"), 8),
    **dict.fromkeys(("ceil mode", "depthwise", "two-sided padding", "neg", "bias", "residual", "init"), 5),
    **dict.fromkeys(("max", "min", "sum", "average", "lp", "f64 to f64", "si32 to si32", "f16 to f32"), 3),
    **dict.fromkeys(("symbolic ceil mode", "other order of the result"), 2),
    **dict.fromkeys(("indices", "si8 to si32"), 1),
}
"""How many of the 100 cases of a chunk have what the name says."""


def check_chunk(recipe: str, target: str, chunk: int) -> Counter[str]:
    """The cases of a chunk, many in a library, with one thread and with two."""
    counts, seeds = Counter[str](), SEEDS[chunk::CHUNKS]
    for first in range(0, len(seeds), PER_LIBRARY):
        counts += check(seeds[first : first + PER_LIBRARY], recipe, 1 + first // PER_LIBRARY % 2, target)
    return counts


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.parametrize("recipe", ["default", *RECIPES])
def test_two_thousand(recipe: str, chunk: int) -> None:
    """In each chunk by one target: half by vectors of 256 bits, half by those of this machine."""
    counts = check_chunk(recipe, ("x86_avx2", "native")[chunk % 2], chunk)
    few = {name: counts[name] for name, least in LEAST.items() if counts[name] < least}
    assert not few, f"what is hardly ever drawn: {few}"
    assert recipe != "roles" or min(counts[role] for role in ROLES) >= 3, counts
    assert recipe != WINOGRAD or counts[WINOGRAD] >= 3, counts


def by_torch(case: WindowCase) -> Any:
    """The result of PyTorch in f64, [b, f, ..], without what is done besides; None of what it has no function for."""
    functional, torch = import_module("torch.nn.functional"), import_module("torch")
    rank, arrays = len(case.kernel), case.arguments()
    x = torch.from_numpy(np.transpose(arrays[0], np.argsort(case.order)).astype(np.float64))
    sides = [side for pair in zip(reversed(case.low), reversed(case.ends), strict=True) for side in pair]
    if case.kind == "conv":
        w = np.transpose(arrays[1], np.argsort(case.weights)).astype(np.float64)
        w = torch.from_numpy(w[:, None] if case.is_depthwise else w)
        convolve = getattr(functional, f"conv{rank}d")
        padded = functional.pad(x, sides)
        return convolve(padded, w, stride=case.strides, dilation=case.dilations, groups=case.channels[0])
    if case.kind not in ("max", "min"):
        return None
    sign = 1 if case.kind == "max" else -1
    pool = getattr(functional, f"max_pool{rank}d")
    padded = functional.pad(sign * x, sides, value=-np.inf)
    return sign * pool(padded, case.kernel, case.strides, dilation=case.dilations)


@TORCH.needed
def test_what_is_expected_is_what_torch_computes() -> None:
    """Of the cases of `test_two_thousand`, those that PyTorch has one function for."""
    checked = 0
    for seed in SEEDS:
        case = replace(drawn(seed), epilogue="")
        found = None if case.has_init else by_torch(case)
        if found is not None:
            wanted = np.transpose(found.numpy(), case.results)
            limits = np.iinfo(np.int32)
            wanted = wanted if case.dtypes[1] != "si32" else np.clip(wanted, limits.min, limits.max)
            expected = case.expected(case.arguments())
            np.testing.assert_array_equal(expected, wanted, err_msg=str(seed))
            checked += 1
    assert checked > 900
