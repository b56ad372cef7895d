"""Random convolutions and poolings by the default schedule and by each recipe for them, beside NumPy tap by tap."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from typing import Any, Final

import numpy as np
import pytest

import tcpx
from tcpx.payload.constants import Constants
from tcpx.transform.language.loader import Program
from tests.optional_tools import TORCH
from tests.window_cases import WindowCase, drawn

PER_CHUNK: Final = 8
RECIPES: Final = {
    "roles": "case x { convolutions.dense => { convolutions.by_role(x) } convolutions.depthwise => "
    "{ convolutions.by_role(x) } else => { windows.windows(x) } }",
    "windows": "windows.windows(x)",
    "products": "if len(operands(x)) > 1 { windows.products(x, epilogue(x)) } else { windows.windows(x) }",
}
"""What is done with an operation that reads windows."""
KNOBS: Final = {"nv": (1, 2), "mr": tuple(range(1, 7))}
"""Tiles that registers hold, whatever the payload is."""
ROLES: Final = {"sums_of_channels", "windows_of_channels", "products", "windows"}
"""The sequences that have these knobs."""


@cache
def schedule_of(recipe: str, in_layout: bool) -> Program:
    """A recipe for what reads windows, in the order of dims in which it is or that `assign_layout` chooses."""
    before = "optional normalize(root)\n  optional assign_layout(root)\n  optional evaluate_constants(root)\n  "
    imports = [
        f'import "lib/{name}.tcps" as {name}\n' for name in ("convolutions", "windows") if name in RECIPES[recipe]
    ]
    return tcpx.parse_schedule(
        f"language 2\n{''.join(imports)}"
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
        arrays = case.arguments()
        given = [arrays[0], *arrays[2:]] if case.is_stored else arrays
        found, message = kernel(*given), f"{case.seed}: {case.text}"
        values, indices = found if isinstance(found, tuple) else (found, None)
        np.testing.assert_array_equal(values, case.expected(arrays), err_msg=message)
        if case.has_indices:
            np.testing.assert_array_equal(indices, case.indices(arrays), err_msg=message)
        counts[case.kind] += 1
    return counts


@pytest.mark.parametrize("chunk", range(4))
def test_numbers(chunk: int) -> None:
    check(range(1000 + PER_CHUNK * chunk, 1000 + PER_CHUNK * (chunk + 1)), "default", 1 + chunk % 2)


@pytest.mark.parametrize("recipe", RECIPES)
def test_recipes(recipe: str) -> None:
    counts = check(range(1100, 1100 + 2 * PER_CHUNK), recipe, 2)
    assert len([role for role in ROLES if counts[role]]) >= (3 if recipe == "roles" else 1)
    assert len([kind for kind in ("conv", "max", "min", "sum", "average", "lp") if counts[kind]]) >= 4


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("target", ["x86_avx2", "native"])
@pytest.mark.parametrize("recipe", ["default", *RECIPES])
def test_two_thousand(recipe: str, target: str) -> None:
    counts = Counter[str]()
    for first in range(2000, 4000, PER_CHUNK):
        counts += check(range(first, first + PER_CHUNK), recipe, 1 + first // PER_CHUNK % 2, target)
    assert min(counts[kind] for kind in ("max", "min", "sum", "average", "lp")) > 100
    assert recipe != "roles" or min(counts[role] for role in ROLES) > 100


def by_torch(case: WindowCase) -> Any:
    """The result of PyTorch in f64, [b, f, ..], without what is done besides; None of what it has no function for."""
    functional, torch = import_module("torch.nn.functional"), import_module("torch")
    rank, arrays = len(case.kernel), case.arguments()
    x = torch.from_numpy(np.transpose(arrays[0], np.argsort(case.order)).astype(np.float64))
    sides = [side for pair in zip(reversed(case.low), reversed(case.high), strict=True) for side in pair]
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
    for seed in range(2000, 4000):
        case = drawn(seed)
        found = None if case.has_init else by_torch(case)
        if found is not None:
            wanted = np.transpose(found.numpy(), case.results)
            limits = np.iinfo(np.int32)
            wanted = wanted if case.dtypes[1] != "si32" else np.clip(wanted, limits.min, limits.max)
            expected = case.expected(case.arguments())
            np.testing.assert_array_equal(expected, -wanted if case.has_epilogue else wanted, err_msg=str(seed))
            checked += 1
    assert checked > 900
