"""What a payload should give, how far off a right result may be, and arguments to try it on.

The oracle is the reference evaluator. The bound comes from running it again with random rounding errors and, where the
sign of a zero is not specified, either sign (Monte Carlo arithmetic; Parker, 1997): no operation needs a rule of its
own. Whole numbers that fit the significand carry no error, so most results are compared exactly.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from math import prod

import ml_dtypes
import numpy as np
import numpy.typing as npt

from tcpx.payload.evaluator import Evaluation
from tcpx.payload.indexing_maps import dims
from tcpx.payload.interfaces import Elementwise, Structured, Tileable, parallel
from tcpx.payload.ir import Attribute, Block, CloneMap, Module, Operation, Value
from tcpx.payload.ops.composite import Composite
from tcpx.payload.ops.constant import Const
from tcpx.payload.ops.elementwise import Max, Min, Mul
from tcpx.payload.ops.generic import Generic, generalize
from tcpx.payload.ops.views import Pad, Reshape
from tcpx.payload.sizes import evaluate
from tcpx.payload.traits.expansion import Expansion
from tcpx.payload.traits.reduction import Reduction
from tcpx.payload.types import HALF, ScalarType, TensorType, dtype_of, f32, shape_of
from tcpx.transform.vectors.probes import trial
from tests.nets.structures import WHOLE_OPERANDS

Array = npt.NDArray[np.generic]
Sizes = Mapping[str, int]
RUNS = 2
ROUNDINGS = 16
"""Relative errors that one operation may make: sums of up to 20 terms, exponentials."""
LARGEST_SPREAD = 0.02
"""A payload whose rounding errors change a result by more than this part of it has no result to compare with."""
MOST_POINTS = 600
MOST_POINTS_OF_REGIONS = 80
"""Where the evaluator goes from point to point in Python."""


@dataclass(frozen=True, slots=True)
class Expected:
    """A result, the error a right one may have, and where the sign of a zero is specified."""

    value: Array
    error: npt.NDArray[np.float64]
    signed: npt.NDArray[np.bool_]

    def difference(self, found: Array) -> str | None:
        """None if `found` is right; else the first element that is not."""
        if found.shape != self.value.shape or found.dtype != self.value.dtype:
            return f"{found.dtype} of shape {found.shape}, wanted {self.value.dtype} of shape {self.value.shape}"
        if not _is_float(found.dtype):
            wrong = np.asarray(found != self.value)
        else:
            a, b = found.astype(np.float64), self.value.astype(np.float64)
            with np.errstate(invalid="ignore"):
                same = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= self.error)
            wrong = ~same | (self.signed & (a == 0) & (np.signbit(a) != np.signbit(b)))
        if not wrong.any():
            return None
        at = tuple(map(int, np.unravel_index(int(np.argmax(wrong)), wrong.shape)))
        bound = f" +- {self.error[at]:.3g}" if _is_float(found.dtype) else ""
        return f"{int(wrong.sum())} of {wrong.size} elements; at {at} {found[at]!r}, wanted {self.value[at]!r}{bound}"


def _is_float(dtype: np.dtype[np.generic]) -> bool:
    return dtype.kind == "f" or dtype == np.dtype(ml_dtypes.bfloat16)


@dataclass(frozen=True, slots=True)
class _Noise:
    """Errors of rounding are random; zeros of unspecified sign are negative in one run, positive in the next."""

    random: np.random.Generator
    negative_zeros: bool

    @property
    def cancels(self) -> bool:
        """Whether what differs from 0 by no more than its error is 0."""
        return self.negative_zeros


def expectation(module: Module, arrays: Sequence[Array], sizes: Sizes) -> list[Expected] | None:
    """What the payload should give; None where rounding decides it."""
    with np.errstate(all="ignore"):
        exact = _run(module, arrays, sizes, None)
        if exact is None:
            return None
        noisy = [_run(module, arrays, sizes, _Noise(np.random.default_rng(k), k % 2 == 1)) for k in range(RUNS)]
        found = [_expected(value, [run[k] for run in noisy if run is not None]) for k, value in enumerate(exact)]
    return [e for e in found if e is not None] if None not in found else None


def _expected(value: Array, noisy: list[Array]) -> Expected | None:
    nothing = np.zeros(value.shape)
    if not _is_float(value.dtype):
        stable = all(np.array_equal(value, other) for other in noisy)
        return Expected(value, nothing, nothing != 0) if stable else None
    wide = value.astype(np.float64)
    others = [o.astype(np.float64) for o in noisy]
    finite = np.isfinite(wide)
    spread, signed = nothing, wide == 0
    for other in others:
        if not np.array_equal(np.where(finite, 0, wide), np.where(np.isfinite(other), 0, other), equal_nan=True):
            return None
        spread = np.maximum(spread, np.where(finite, np.abs(other - np.where(finite, wide, 0)), 0))
        signed = signed & (np.signbit(other) == np.signbit(wide))
    scale = np.max(np.abs(wide[finite]), initial=0.0)
    if np.max(spread, initial=0.0) > LARGEST_SPREAD * (scale + 1e-30):
        return None
    relative = np.max(spread / np.where(finite & (wide != 0), np.abs(wide), np.inf), initial=0.0)
    tiny = float(ml_dtypes.finfo(value.dtype).smallest_normal) if relative else 0.0
    error = 8 * spread + np.where(finite, min(relative, LARGEST_SPREAD) * np.abs(wide), 0) + tiny
    return Expected(value, error, signed & (spread == 0))


def _run(module: Module, arrays: Sequence[Array], sizes: Sizes, noise: _Noise | None) -> tuple[Array, ...] | None:
    """The results; None if an operation is not defined on what it is given."""
    func = module.main
    evaluation = Evaluation(module.constants, sizes)
    evaluation.values.update(zip(func.args, (a.copy() for a in arrays), strict=True))
    for op in func.body.ops[:-1]:
        whole = WHOLE_OPERANDS.get(op.opcode)
        if noise is None and whole is not None and not _is_whole(evaluation.values[op.operands[whole]]):
            return None
        if noise is None and _may_overflow(op, [evaluation.values[v] for v in op.operands], evaluation):
            return None
        if noise is None:
            evaluation.run(op)
        elif isinstance(op, Composite):
            parts = op.decomposed(lambda part: _run_with(noise, part, evaluation))
            evaluation.values.update(zip(op.results, (evaluation.values[part] for part in parts), strict=True))
        else:
            _run_with(noise, op, evaluation)
    return tuple(evaluation.values[v] for v in func.returned)


def _run_with(noise: _Noise, op: Operation, evaluation: Evaluation) -> Value:
    """Run an operation with random errors; a part of a composite is no operation of the function."""
    evaluation.run(op)
    args = [evaluation.values[v] for v in op.operands]
    for k in range(len(op.results)):
        evaluation.values[op.results[k]] = _perturbed(op, k, args, evaluation, noise)
    if op.parent is None:
        for index, value in enumerate(op.operands):
            value.uses.remove((op, index))
    return op.results[0]


def _may_overflow(op: Operation, args: Sequence[Array], evaluation: Evaluation) -> bool:
    """Whether an order of the factors of a product gives an infinity, which a 0 among them makes NaN in another."""
    if not isinstance(op, Generic) or op.combiner is not Mul or not op.acc_type.is_float:
        return False
    shape = tuple(evaluation.size(d) for d in op.domain())
    names = [it.name for it in op.iterators()]
    attributes: dict[str, Attribute] = {
        **op.attributes,
        "iterators": tuple(it.entry for it in parallel(*names)),
        "maps": (*op.maps(), dims(*names)),
    }
    type_ = TensorType(shape, op.acc_type)
    inputs = Block([*((v.name, v.type) for v in op.inputs), ("ones", type_)]).args
    terms = Generic(inputs, [type_], attributes, [op.regions[0].clone(CloneMap(), str)])
    ones = np.ones(shape, op.acc_type.numpy)
    factors = np.abs(terms.evaluate([*args[: len(op.inputs)], ones], evaluation)[0].astype(np.float64))
    reduced = tuple(k for k, it in enumerate(op.iterators()) if it.is_reduction)
    largest = np.prod(np.fmax(factors, 1.0), axis=reduced)
    return bool(np.any(largest > float(ml_dtypes.finfo(op.acc_type.numpy).max)))


def _is_whole(array: Array) -> bool:
    """Whole numbers and NaN: of infinities, processors make different things."""
    wide = array.astype(np.float64)
    return bool(np.all(np.isnan(wide) | (np.isfinite(wide) & (wide == np.rint(wide)))))


def _perturbed(op: Operation, number: int, args: Sequence[Array], evaluation: Evaluation, noise: _Noise) -> Array:
    """Result `number` of an operation with random errors."""
    result = evaluation.values[op.results[number]]
    if not _is_float(result.dtype) or isinstance(op, Const | Pad | Reshape):
        return result
    if isinstance(op, Structured) and op.is_movement:
        return result
    magnitudes = [np.asarray(np.abs(a)) if _is_float(a.dtype) else a for a in args]
    wide = result.astype(np.float64)
    larger = np.maximum(np.abs(wide), np.abs(op.evaluate(magnitudes, evaluation)[number].astype(np.float64)))
    larger = np.where(np.isfinite(larger), larger, np.abs(wide))
    unit = float(ml_dtypes.finfo(result.dtype).eps) / 2
    exact = ((wide == np.rint(wide)) & (larger < 1 / unit)) | ~np.isfinite(wide)
    error = ROUNDINGS * unit * larger
    made = np.where(exact, wide, wide + error * noise.random.uniform(-1, 1, wide.shape))
    if noise.cancels:
        made = np.where(~exact & (np.abs(wide) <= error), 0.0, made)
    if _frees_sign_of_zero(op):
        made = np.where(wide == 0, -0.0 if noise.negative_zeros else 0.0, made)
    return np.asarray(made).astype(result.dtype)


def _frees_sign_of_zero(op: Operation) -> bool:
    """Sums in any order, maxima and minima may give either zero, and so may what is computed by way of them."""
    if isinstance(op, Composite) or not isinstance(op, Structured):
        return True
    ops = _scalar_ops(op)
    steps = [*ops, *(step for o in ops if isinstance(o, Elementwise) for step in _steps(o))]
    return Reduction(op).neutrals() is not None or any(isinstance(o, Max | Min) for o in steps)


def _steps(op: Elementwise) -> list[Operation]:
    """The operations that stand for one on targets without it; f16 and bf16 are computed in f32."""
    block = Block([("", f32) for _ in op.operands])
    dtype = dtype_of(op.result.type)
    wide = type(op)(block.args, [f32 if dtype in HALF else dtype], op.attributes)
    return trial(lambda build: Expansion(wide).expansion(build, block.args) or block.args[0])


def _scalar_ops(op: Structured) -> list[Operation]:
    """The operations of the scalar body."""
    if op.regions:
        return op.regions[0].ops
    made = generalize(op)
    for index, value in enumerate(made.operands):
        value.uses.remove((made, index))
    return made.regions[0].ops


# -- sizes and arguments ---------------------------------------------------------------------------------------------

EXTENTS = (0, 1, 2, 3, 5, 7, 8, 9, 13, 17)
"""Empty, one, primes, above a tile, two tiles and one."""


def sizes_of(module: Module, seed: int, count: int) -> list[dict[str, int]]:
    """Values of the symbols: small ones, primes, above a tile; each within the facts about its symbol."""
    draw = random.Random(seed)
    choices: list[list[int]] = []
    for s in module.main.symbols:
        upper = 17 if s.upper is None else min(s.upper, 17)
        allowed = [n for n in (*EXTENTS, 12, 4) if s.lower <= n <= upper and n % s.multiple_of == 0]
        choices.append(draw.sample(allowed, len(allowed)))
    names = [s.name for s in module.main.symbols]
    every = [dict(zip(names, extents, strict=True)) for extents in islice(product(*choices), 400)]
    draw.shuffle(every)
    found: list[dict[str, int]] = []
    for sizes in every:
        empty = 0 in sizes.values()
        wanted = len([s for s in found if (0 in s.values()) == empty]) < (1 if empty else count - 1)
        if wanted and _has_arguments(module, sizes) and _is_small(module, sizes):
            found.append(sizes)
        if len(found) == count:
            break
    return found


def _has_arguments(module: Module, sizes: Sizes) -> bool:
    """Whether no argument has an extent below 0, which a call refuses."""
    extents = [dim for value in module.main.inputs for dim in shape_of(value.type)]
    return all(dim >= 0 if isinstance(dim, int) else evaluate(dim, sizes) >= 0 for dim in extents)


def _is_small(module: Module, sizes: Sizes) -> bool:
    """Whether no operation has too many points for the evaluator."""
    evaluation = Evaluation(module.constants, sizes)
    return all(
        prod(evaluation.size(d) for d in op.domain()) <= (MOST_POINTS_OF_REGIONS if op.regions else MOST_POINTS)
        for op in module.main.body.ops
        if isinstance(op, Tileable)
    )


KINDS = ("whole", "real", "special")


def arguments(module: Module, sizes: Sizes, kind: str, seed: int) -> list[Array]:
    """Whole numbers, real numbers, or whole numbers with NaN, infinities and -0.0 among them; integers of any size."""
    random_ = np.random.default_rng([seed, *sizes.values()])
    evaluation = Evaluation(module.constants, sizes)
    return [_argument(evaluation.shape(a.type), dtype_of(a.type), kind, random_) for a in module.main.args]


def _argument(shape: tuple[int, ...], dtype: ScalarType, kind: str, random_: np.random.Generator) -> Array:
    if dtype.bits == 1:
        return np.asarray(random_.integers(0, 2, shape)).astype(np.bool_)
    if not dtype.is_float:
        limits = np.iinfo(dtype.numpy.name) if kind == "special" else None
        low, high = (limits.min, limits.max) if limits else (0 if dtype.minimum == 0 else -4, 4)
        return np.asarray(random_.integers(low, high, shape, dtype=dtype.numpy.name, endpoint=True))
    if kind == "real":
        return np.asarray(random_.standard_normal(shape)).astype(dtype.numpy)
    made = np.asarray(random_.integers(-4, 5, shape)).astype(np.float64)
    if kind == "special":
        chosen = random_.choice([np.nan, np.inf, -np.inf, -0.0], shape)
        made = np.where(random_.uniform(size=shape) < 0.12, chosen, made)
    return np.asarray(made).astype(dtype.numpy)
