"""Drawers of contractions, reductions, softmax and generics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tests.independent import numbers
from tests.independent.builder import MOST_ITERATIONS, Builder
from tests.independent.dims import Dim, Env
from tests.independent.movement import INTEGERS
from tests.independent.numbers import Num
from tests.independent.program import Index, Value, contraction, gathered, grids, joined, reordered

LETTERS = ["m", "n", "k", "b", "h", "t", "u", "q", "r", "s"]


def result_dtype(b: Builder, lhs: str, rhs: str) -> str:
    """What a product of these factors is summed in."""
    if lhs in numbers.FLOATS and rhs in numbers.FLOATS:
        if {lhs, rhs} <= {"f16", "bf16"} and b.rng.random() < 0.7:
            return "f32"
        return lhs if b.rng.random() < 0.95 else b.float_dtype()
    if lhs in INTEGERS and rhs in INTEGERS:
        narrow = {lhs, rhs} <= {"si8", "ui8", "si16", "ui16"}
        return "si32" if narrow and b.rng.random() < 0.8 else b.rng.choice([lhs, rhs, "si32", "si64"])
    return lhs


def factor_dtype(b: Builder, other: str) -> str:
    if other in {"si8", "ui8"} and b.rng.random() < 0.6:
        return b.rng.choice(["si8", "ui8"])
    return other if b.rng.random() < 0.93 else b.dtype()


def contract(b: Builder, source: Value | None = None) -> Value:
    """A product over dims of any kind, in any order: batches, of one factor alone, diagonals, by digits."""
    v = source or b.pick(lambda v: len(v.shape) <= 4)
    names = b.rng.sample(LETTERS, len(LETTERS))
    extents: dict[str, Dim] = {}
    first = [names.pop() for _ in v.shape]
    extents.update(zip(first, v.shape, strict=True))
    if len(first) == 2 and v.shape[0] == v.shape[1] and b.rng.random() < 0.08:
        first = [first[0], first[0]]
    kinds = {n: b.rng.choices(["batch", "free", "summed", "alone"], [2, 5, 6, 1])[0] for n in dict.fromkeys(first)}
    second = [n for n, kind in kinds.items() if kind in {"batch", "summed"}]
    fresh = list[str]()
    for _ in range(b.rng.choice([0, 1, 1, 1, 1, 2])):
        if len(second) + len(fresh) < 4:
            fresh.append(names.pop())
            extents[fresh[-1]] = b.dim()
    lone = [n for n in fresh if b.rng.random() < 0.08]
    out = [n for n, kind in kinds.items() if kind in {"batch", "free"}] + [n for n in fresh if n not in lone]
    while len(out) > 5:
        out.pop()
    _shrink(b, extents, keep=set(first))
    second += fresh
    if b.rng.random() < 0.6:
        b.rng.shuffle(second)
        b.rng.shuffle(out)
    dtype = factor_dtype(b, v.dtype)
    return product(b, v, (first, second, out), extents, dtype, swap=b.rng.random() < 0.5)


def _shrink(b: Builder, extents: dict[str, Dim], keep: set[str]) -> None:
    while b.size(list(extents.values())) > MOST_ITERATIONS:
        free = [n for n in extents if n not in keep and b.size([extents[n]]) > 2]
        if not free:
            return
        widest = max(free, key=lambda n: b.size([extents[n]]))
        extents[widest] = Dim.static(b.rng.choice([1, 2, 3, 5]))


def product(
    b: Builder,
    v: Value,
    names: tuple[list[str], list[str], list[str]],
    extents: dict[str, Dim],
    dtype: str,
    *,
    swap: bool,
    wide: str = "",
) -> Value:
    first, second, out = names
    shape = tuple(extents[n] for n in second)
    written = [f'"{n}"' for n in second]
    by_digits = ""
    if b.rng.random() < 0.06 and second and extents[second[0]].is_static and first.count(second[0]) == 1:
        by_digits, digits = second[0], 4
        extent = extents[second[0]].value({})
        if extent % digits == 0 and extent:
            written = [f'"{second[0]}/{digits}"', *written[1:], f'"{second[0]}%{digits}"']
            shape = (Dim.static(extent // digits), *shape[1:], Dim.static(digits))
        else:
            by_digits = ""
    w = _other_factor(b, shape, dtype)
    result = wide or result_dtype(b, v.dtype, w.dtype)
    used = [n for n in extents if n in first or n in second]
    dims = [(n, extents[n], "parallel" if n in out else "reduction") for n in used]
    init = b.partner(tuple(extents[n] for n in out), result) if b.rng.random() < 0.15 else None
    lists = [[f'"{n}"' for n in first], written]
    operands, maps = [v, w], [first, second]
    if swap:
        lists, operands, maps = lists[::-1], operands[::-1], maps[::-1]
    plain = [extents[n] for n in second]

    def compute(env: Env, nums: list[Num]) -> list[Num]:
        pair = nums[:2]
        if by_digits:
            at, sizes = (0 if swap else 1), [d.value(env) for d in plain]
            pair[at] = Num(
                pair[at].dtype, *(np.moveaxis(a, -1, 1).reshape(sizes) for a in (pair[at].value, pair[at].error))
            )
        return [contraction(env, pair[0], pair[1], nums[2] if init else None, dims, [*maps, out], result)]

    is_matmul = (
        not by_digits and [len(m) for m in maps] == [2, 2] and len(out) == 2 and not swap
        and maps[0][1] == maps[1][0] and out == [maps[0][0], maps[1][1]] and len(used) == 3
    )  # fmt: skip
    if is_matmul and b.rng.random() < 0.7:
        rename = dict(zip([out[0], out[1], maps[0][1]], ["m", "n", "k"], strict=True))
        shown = [(rename[n], d, kind) for n, d, kind in dims]
        return b.op("matmul", operands, tuple(extents[n] for n in out), result, compute, roles=["lhs", "rhs"],
                    init=init, dims=shown, operand_dims={"lhs": ["m", "k"], "rhs": ["k", "n"]},
                    family="contract")  # fmt: skip
    quoted = ", ".join(f'"{n}"' for n in out)
    attributes = f"lhs = [{', '.join(lists[0])}], rhs = [{', '.join(lists[1])}], out = [{quoted}]"
    return b.op("contract", operands, tuple(extents[n] for n in out), result, compute, attributes=attributes,
                roles=["lhs", "rhs"], init=init, dims=dims, operand_dims={"lhs": maps[0], "rhs": maps[1]},
                family="contract")  # fmt: skip


def _other_factor(b: Builder, shape: tuple[Dim, ...], dtype: str) -> Value:
    same = [v for v in b.values if v.shape == shape and v.dtype == dtype and not v.scalar]
    if same and b.rng.random() < 0.35:
        return b.rng.choice(same)
    if b.rng.random() < 0.12 and all(d.is_static for d in shape) and dtype != "i1":
        return b.stored(shape, dtype)
    return b.fill(shape, dtype) if b.rng.random() < 0.03 else b.argument(shape, dtype)


def matmul(b: Builder, source: Value | None = None, dtype: str = "", wide: str = "") -> Value:
    v = source if source is not None and len(source.shape) == 2 else b.pick(lambda v: len(v.shape) == 2)
    extents = {"m": v.shape[0], "k": v.shape[1], "n": b.dim()}
    _shrink(b, extents, {"m", "k"})
    names = (["m", "k"], ["k", "n"], ["m", "n"])
    return product(b, v, names, extents, dtype or factor_dtype(b, v.dtype), swap=False, wide=wide)


def reduction(b: Builder, source: Value | None = None) -> Value:
    v = source if source is not None and source.shape else b.pick(lambda v: bool(v.shape))
    count = b.rng.randint(1, len(v.shape)) if b.rng.random() < 0.5 else 1
    axes = sorted(b.rng.sample(range(len(v.shape)), count))
    opcode, combiner = b.rng.choice([("reduce_sum", "add"), ("reduce_sum", "add"), ("reduce_max", "max")])
    dtype = v.dtype
    if opcode == "reduce_sum" and dtype in {"si8", "ui8", "si16", "bf16", "f16"} and b.rng.random() < 0.5:
        dtype = "si32" if dtype in INTEGERS else "f32"
    shape = tuple(d for k, d in enumerate(v.shape) if k not in axes)
    init = b.partner(shape, dtype) if b.rng.random() < 0.15 else None
    written = axes if b.rng.random() < 0.8 else b.rng.sample(axes, len(axes))

    def compute(env: Env, nums: list[Num]) -> list[Num]:
        terms = numbers.cast(nums[0], dtype)
        found = numbers.reduce(terms, tuple(axes), combiner)
        count = int(np.prod([terms.shape[k] for k in axes], dtype=np.int64))
        return [joined(found, nums[1], combiner, count, numbers.reach(terms, tuple(axes))) if init else found]

    dims = [(f"d{k}", d, "reduction" if k in axes else "parallel") for k, d in enumerate(v.shape)]
    return b.op(opcode, [v], shape, dtype, compute, attributes=f"dims = {written}", roles=["operand"], init=init,
                dims=dims, operand_dims={"operand": [n for n, _, _ in dims]}, family="reduce")  # fmt: skip


def softmax(b: Builder, source: Value | None = None) -> Value:
    v = source if source is not None and source.shape and numbers.is_float(source.dtype) else None
    v = v or b.pick(lambda v: bool(v.shape) and numbers.is_float(v.dtype))
    axis = b.rng.randrange(len(v.shape)) if b.rng.random() < 0.4 else len(v.shape) - 1
    return b.op("softmax", [v], v.shape, v.dtype, lambda env, nums: [numbers.softmax(nums[0], axis)],
                attributes=f"dim = {axis}", roles=["operand"], family="softmax")  # fmt: skip


# ---------------------------------------------------------------- generics


@dataclass(frozen=True)
class Access:
    """One index expression of a map: its text, how to compute it, the least extent that it reaches into."""

    text: str
    index: Index
    extent: Dim
    bare: str = ""


def _access(b: Builder, dims: dict[str, Dim], names: list[str]) -> Access:
    """An expression in one dim, or the sum of two."""
    name = b.rng.choice(names)
    d = dims[name]
    kind = b.rng.choices(["bare", "offset", "stride", "reversed", "sum", "window", "half", "cycle", "fixed"],
                         [10, 3, 3, 2, 3, 2, 1, 1, 1])[0]  # fmt: skip
    c, s = b.rng.choice([1, 2, 3]), b.rng.choice([2, 3])
    if kind == "offset":
        return Access(f"{name} + {c}", lambda g: g[name] + c, _affine(d, 1, c))
    if kind == "stride":
        c = b.rng.choice([0, 1])
        text = f"{s}*{name}" + (f" + {c}" if c else "")
        return Access(text, lambda g: s * g[name] + c, _affine(d, s, c))
    if kind == "reversed" and d.is_static and d.value({}) > 0:
        last = max(0, d.value({}) - 1)
        return Access(f"{last} - {name}", lambda g: last - g[name], d)
    if kind in {"sum", "window"} and len(names) > 1:
        other = b.rng.choice([n for n in names if n != name])
        e = dims[other]
        stride = s if kind == "window" else 1
        text = f"{stride}*{name} + {other}" if stride > 1 else f"{name} + {other}"
        if d.is_static and e.is_static:
            extent = Dim.static(stride * max(0, d.value({}) - 1) + e.value({}))
        else:
            scaled = f"{stride}*{d.text}" if _simple(d) or stride == 1 else ""
            if not scaled and stride > 1:
                return Access(name, lambda g: g[name], d, name)
            text_of = (d.text if stride == 1 else scaled) + f" + {e.text}"
            extent = Dim(text_of, lambda env: stride * d.value(env) + e.value(env))
        return Access(text, lambda g: stride * g[name] + g[other], extent)
    if kind == "half":
        return Access(f"floordiv({name}, 2)", lambda g: g[name] // 2, d)
    if kind == "cycle" and not (d.is_static and d.value({}) == 0):
        return Access(f"mod({name}, 3)", lambda g: g[name] % 3, Dim.static(3))
    if kind == "fixed":
        return Access("1", lambda g: np.ones((), np.int64), Dim.static(2))
    return Access(name, lambda g: g[name], d, name)


def _simple(d: Dim) -> bool:
    return d.text.isalnum()


def _affine(d: Dim, stride: int, offset: int) -> Dim:
    if d.is_static:
        return Dim.static(max(stride * (d.value({}) - 1) + offset + 1, 0))
    if stride > 1 and not _simple(d):
        text = f"{stride}*({d.text})"
    else:
        text = f"{stride}*{d.text}" if stride > 1 else d.text
    return Dim(f"{text} + {offset}" if offset else text, lambda env: stride * d.value(env) + offset)


Body = Callable[[list[Num]], Num]


def _body(b: Builder, dtypes: list[str], combiner: str, reads_acc: bool) -> tuple[str, str, Body]:
    """The region: arguments and lines, the dtype it works in, and what it makes of the elements alone."""
    dtype = dtypes[0]
    arguments = [f"%e{k}: {d}" for k, d in enumerate(dtypes)]
    lines, steps = list[str](), list[Callable[[list[Num]], Num]]()
    terms = list[str]()
    for k, d in enumerate(dtypes):
        if d == dtype:
            terms.append(f"%e{k}")
            steps.append(lambda nums, k=k: nums[k])
        else:
            lines.append(f"%c{k} = tcp.cast(%e{k}) : {dtype}")
            terms.append(f"%c{k}")
            steps.append(lambda nums, k=k: numbers.cast(nums[k], dtype))
    last, make = terms[0], steps[0]
    if reads_acc and combiner == "add" and len(terms) == 2 and numbers.is_float(dtype) and b.rng.random() < 0.4:
        both = (steps[0], steps[1])
        lines.append(f"%r = tcp.fma({terms[0]}, {terms[1]}, %acc) : {dtype}")
        text = "\n    ".join([f"({', '.join([*arguments, f'%acc: {dtype}'])}):", *lines, "tcp.yield(%r)"])
        return text, dtype, lambda nums: numbers.mul(both[0](nums), both[1](nums))
    opcodes = ["add", "mul", "max"] if dtype == "i1" else ["mul", "mul", "add", "sub", "max", "min"]
    for k in range(1, len(terms)):
        opcode = b.rng.choice(opcodes)
        lines.append(f"%t{k} = tcp.{opcode}({last}, {terms[k]}) : {dtype}")
        last, before, step = f"%t{k}", make, steps[k]
        make = lambda nums, o=opcode, f=before, g=step: numbers.ELEMENTWISE[o](f(nums), g(nums))  # noqa: E731
    if numbers.is_float(dtype) and b.rng.random() < 0.2:
        opcode = b.rng.choice(["sigmoid", "silu", "round"])
        lines.append(f"%u = tcp.{opcode}({last}) : {dtype}")
        last, before = "%u", make
        make = lambda nums, o=opcode, f=before: numbers.ELEMENTWISE[o](f(nums))  # noqa: E731
    if reads_acc:
        arguments.append(f"%acc: {dtype}")
        pair = ["%acc", last]
        if b.rng.random() < 0.3:
            pair.reverse()
        lines.append(f"%r = tcp.{combiner}({', '.join(pair)}) : {dtype}")
        last = "%r"
    return "\n    ".join([f"({', '.join(arguments)}):", *lines, f"tcp.yield({last})"]), dtype, make


def generic(b: Builder, source: Value | None = None) -> Value:
    """A loop nest with index expressions: windows, offsets, strides, reversed, diagonals, constant positions."""
    names = ["i", "j", "p", "q"][: b.rng.choice([1, 2, 2, 3, 3, 4])]
    dims = {n: b.dim() for n in names}
    _shrink(b, dims, set())
    parallel = [n for n in names if b.rng.random() < 0.65]
    if not parallel and b.rng.random() < 0.7:
        parallel = names[:1]
    reductions = [n for n in names if n not in parallel]
    dtype = (source or b.pick()).dtype if b.rng.random() < 0.3 else b.dtype()
    operands, accesses = list[Value](), list[list[Access]]()
    for n in reductions:
        # The extent of a dim that is summed is that of an operand indexed by it alone.
        if not any(a.bare == n for rows in accesses for a in rows):
            more = [_access(b, dims, names) for _ in range(b.rng.choice([0, 0, 1]))]
            rows = [Access(n, lambda g, n=n: g[n], dims[n], n), *more]
            b.rng.shuffle(rows)
            accesses.append(rows)
    for _ in range(b.rng.choice([1, 1, 2]) if len(accesses) < 2 else 0):
        accesses.append([_access(b, dims, names) for _ in range(b.rng.choice([0, 1, 2, 2, 3]))])
    for rows in accesses:
        while b.size([a.extent for a in rows]) > 12000:
            rows.pop()
    accesses = [*accesses[:3]]
    if not set(reductions) <= {a.bare for rows in accesses for a in rows}:
        return generic(b, source)
    for rows in accesses:
        operand_dtype = dtype if b.rng.random() < 0.92 else b.dtype()
        operands.append(_operand(b, rows, operand_dtype))
    dtypes = [v.dtype for v in operands]
    out = b.rng.sample(parallel, len(parallel)) if b.rng.random() < 0.4 else parallel
    shape = tuple(dims[n] for n in out)
    if b.size(shape) > 6000:
        return generic(b, source)
    combiner = b.rng.choices(["add", "max", "min", "mul"], [6, 2, 1, 1])[0]
    has_init = b.rng.random() < 0.12
    region, result, make = _body(b, dtypes, combiner, bool(reductions) or has_init)
    init = b.partner(shape, result) if has_init else None

    def compute(env: Env, nums: list[Num]) -> list[Num]:
        extents = {n: d.value(env) for n, d in dims.items()}
        whole, grid = tuple(extents.values()), grids(extents)
        elements = [gathered(n, [a.index for a in rows], grid, whole) for n, rows in zip(nums, accesses, strict=False)]
        terms = make(elements)
        axes = tuple(k for k, n in enumerate(names) if n in reductions)
        found = reordered(numbers.reduce(terms, axes, combiner), parallel, out)
        count = int(np.prod([whole[k] for k in axes], dtype=np.int64))
        if init is None:
            return [found]
        reach = reordered(numbers.reach(terms, axes), parallel, out)
        return [joined(found, nums[-1], combiner, count, reach)]

    iterators = ", ".join(f'["{n}", "{"parallel" if n in parallel else "reduction"}"]' for n in names)
    maps = ", ".join(f"[{', '.join(a.text for a in rows)}]" for rows in accesses) + f", [{', '.join(out)}]"
    attributes = f"iterators = [{iterators}], maps = [{maps}]"
    attributes += f', combiner = "tcp.{combiner}"' if reductions or init else ""
    roles = [f"in{k}" for k in range(len(operands))]
    bare = {
        role: [a.bare for a in rows] for role, rows in zip(roles, accesses, strict=True) if all(a.bare for a in rows)
    }
    kinds = [(n, dims[n], "parallel" if n in parallel else "reduction") for n in names]
    affine = any(not a.bare for rows in accesses for a in rows)
    return b.op("generic", operands, shape, result, compute, attributes=attributes, roles=roles, init=init, dims=kinds,
                operand_dims=bare, region=region, family="generic affine" if affine else "generic")  # fmt: skip


def _operand(b: Builder, rows: list[Access], dtype: str) -> Value:
    shape = tuple(a.extent for a in rows)
    same = [v for v in b.values if v.shape == shape and v.dtype == dtype and not v.scalar]
    return b.rng.choice(same) if same and b.rng.random() < 0.4 else b.argument(shape, dtype)
