"""Drawers of elementwise operations, casts and what moves elements about."""

from __future__ import annotations

import numpy as np

from tests.independent import numbers
from tests.independent.builder import Builder, literal
from tests.independent.dims import Dim, Env
from tests.independent.numbers import Num
from tests.independent.program import Op, Value

INTEGERS = (*numbers.SIGNED, *numbers.UNSIGNED)


def elementwise(b: Builder, opcode: str, operands: list[Value], dtype: str, attributes: str = "") -> Value:
    key = "gelu_tanh" if attributes else opcode
    roles = {1: ["operand"], 2: ["lhs", "rhs"], 3: ["a", "b", "c"]}[len(operands)]
    roles = ["a", "b"] if opcode == "less" else roles
    shape = operands[0].shape
    names = [f"d{k}" for k in range(len(shape))]
    return b.op(
        opcode, operands, shape, dtype, lambda env, nums: [numbers.ELEMENTWISE[key](*nums)],
        attributes=attributes, roles=roles, operand_dims=dict.fromkeys(roles, names), family="elementwise",
    )  # fmt: skip


def unary(b: Builder, source: Value | None = None) -> Value:
    v = source or b.pick(lambda v: numbers.is_float(v.dtype))
    opcode = b.rng.choice(["exp", "exp", "round", "gelu", "gelu", "silu", "sigmoid"])
    attributes = 'approximate = "tanh"' if opcode == "gelu" and b.rng.random() < 0.5 else ""
    if opcode == "exp" and b.rng.random() < 0.7:
        # Numbers of a size that does not overflow at once.
        v = elementwise(b, "min", [v, b.fill(v.shape, v.dtype, "2.0")], v.dtype)
    return elementwise(b, opcode, [v], v.dtype, attributes)


def binary(b: Builder, source: Value | None = None) -> Value:
    v = source or b.pick()
    if v.dtype == "i1":
        opcode = b.rng.choice(["add", "mul", "max", "min"])
    elif numbers.is_float(v.dtype):
        opcode = b.rng.choice(["add", "add", "add", "sub", "sub", "mul", "mul", "max", "max", "min", "div"])
    else:
        opcode = b.rng.choice(["add", "sub", "mul", "max", "min"])
    pair = [v, v if b.rng.random() < 0.1 else b.partner(v.shape, v.dtype)]
    if b.rng.random() < 0.3:
        pair.reverse()
    return elementwise(b, opcode, pair, v.dtype)


def ternary(b: Builder, source: Value | None = None) -> Value:
    v = source or b.pick()
    if numbers.is_float(v.dtype) and b.rng.random() < 0.6:
        operands = [v, b.partner(v.shape, v.dtype), b.partner(v.shape, v.dtype)]
        if b.rng.random() < 0.2:
            # Cancellation: one rounding or two.
            product = elementwise(b, "mul", operands[:2], v.dtype)
            operands[2] = elementwise(b, "sub", [b.fill(v.shape, v.dtype, "0.0"), product], v.dtype)
        else:
            b.rng.shuffle(operands)
        return elementwise(b, "fma", operands, v.dtype)
    if v.dtype == "i1":
        condition, kept = v, b.partner(v.shape, b.dtype())
    else:
        condition, kept = elementwise(b, "less", [v, b.partner(v.shape, v.dtype)], "i1"), v
    return elementwise(b, "select", [condition, kept, b.partner(v.shape, kept.dtype)], kept.dtype)


def scaled(b: Builder, source: Value | None = None) -> Value:
    v = source or b.pick(lambda v: numbers.is_float(v.dtype))
    if b.rng.random() < 0.5:
        power = b.fill(v.shape, v.dtype, b.rng.choice(["3.0", "-2.0", "0.0", "20.0", "-130.0"]))
    else:
        power = elementwise(b, "round", [b.partner(v.shape, v.dtype)], v.dtype)
    return elementwise(b, "scale2", [v, power], v.dtype)


def cast(b: Builder, source: Value | None = None, dtype: str | None = None) -> Value:
    v = source or b.pick()
    dtype = dtype or b.dtype()
    names = [f"d{k}" for k in range(len(v.shape))]
    return b.op(
        "cast", [v], v.shape, dtype, lambda env, nums: [numbers.cast(nums[0], dtype)],
        roles=["operand"], operand_dims={"operand": names}, family="elementwise",
    )  # fmt: skip


def broadcast(b: Builder) -> Value:
    v = b.pick(lambda v: len(v.shape) < 5 and b.size(v.shape) < 1500)
    rank = min(5, len(v.shape) + b.rng.choice([0, 1, 1, 2]))
    placed = sorted(b.rng.sample(range(rank), len(v.shape)))
    shape = [b.dim() for _ in range(rank)]
    for k, d in zip(placed, v.shape, strict=True):
        shape[k] = d
    while b.size(shape) > 6000:
        free = [k for k in range(rank) if k not in placed and b.size([shape[k]]) > 2]
        shape[free[0]] = Dim.static(2)
    return b.broadcast(v, placed, tuple(shape))


def transpose(b: Builder, source: Value | None = None) -> Value:
    v = source or b.pick(lambda v: len(v.shape) >= 2)
    order = b.rng.sample(range(len(v.shape)), len(v.shape))
    return b.op(
        "transpose", [v], tuple(v.shape[k] for k in order), v.dtype,
        lambda env, nums: [Num(v.dtype, nums[0].value.transpose(order), nums[0].error.transpose(order))],
        attributes=f"permutation = {order}", roles=["operand"], family="transpose",
    )  # fmt: skip


def padded(b: Builder, source: Value | None = None) -> Value:
    v = source or b.pick(lambda v: bool(v.shape) and b.size(v.shape) < 4000)
    shape = list(v.shape)
    for k in b.rng.sample(range(len(shape)), b.rng.randint(1, len(shape))):
        more, d = b.rng.choice([1, 1, 3, 5]), shape[k]
        if d.is_static:
            shape[k] = Dim.static(d.value({}) + more)
        else:
            shape[k] = Dim(f"{d.text} + {more}", lambda env, d=d, more=more: d.value(env) + more)
    text = literal(b.rng, v.dtype)[0]
    if b.rng.random() < 0.5:
        text = {"i1": "false"}.get(v.dtype, "0.0" if numbers.is_float(v.dtype) else "0")
    number: float | int | bool = (
        text == "true" if v.dtype == "i1" else float(text) if numbers.is_float(v.dtype) else int(text)
    )

    def compute(env: Env, nums: list[Num]) -> list[Num]:
        extents = [d.value(env) for d in shape]
        whole = Num.exact(v.dtype, np.full(extents, number, numbers.DTYPES[v.dtype]))
        at = tuple(slice(0, e) for e in nums[0].shape)
        value, error = whole.value.copy(), whole.error.copy()
        value[at], error[at] = nums[0].value, nums[0].error
        return [Num(v.dtype, value, error)]

    names = [f"d{k}" for k in range(len(shape))]
    return b.op("pad", [v], tuple(shape), v.dtype, compute, attributes=f"value = {text}", roles=["operand"],
                operand_dims={"operand": names}, family="pad")  # fmt: skip


def reshape(b: Builder) -> Value:
    v = b.pick(lambda v: all(d.is_static for d in v.shape[1:]))
    tail = [d.value({}) for d in v.shape[1:]]
    lead, shape = v.shape[:1], list[Dim]()
    if lead and not lead[0].is_static:
        rest, d = int(np.prod(tail, dtype=np.int64)), lead[0]
        if b.rng.random() < 0.5 and " " not in d.text and "(" not in d.text and "*" not in d.text and rest > 1:
            shape = [Dim(f"{rest}*{d.text}", lambda env: rest * d.value(env))]
        else:
            shape = [d, *map(Dim.static, _factors(b, rest))]
    else:
        total = int(np.prod([d.value({}) for d in lead] + tail, dtype=np.int64))
        shape = list(map(Dim.static, _factors(b, total)))
    return b.op(
        "reshape", [v], tuple(shape), v.dtype,
        lambda env, nums: [
            Num(v.dtype, *(a.reshape([d.value(env) for d in shape]) for a in (nums[0].value, nums[0].error)))
        ],
        roles=["operand"],
    )  # fmt: skip


def _factors(b: Builder, total: int) -> list[int]:
    if total == 0:
        return b.rng.choice([[0], [0, 3], [2, 0]])
    found = list[int]()
    for p in (2, 3, 4, 5, 7, 8):
        if total % p == 0 and b.rng.random() < 0.4:
            found.append(p)
            total //= p
    found = [*found[:3], *([int(np.prod(found[3:]))] if found[3:] else [])]
    found += [total] if total > 1 or not found else []
    found += [1] if b.rng.random() < 0.2 else []
    b.rng.shuffle(found)
    return found[:1] if total == 1 and len(found) == 1 and b.rng.random() < 0.5 else found


def taken(b: Builder, source: Value | None = None) -> Value:
    """A slice: `gml_st.materialize` with offsets and sizes, dims of size 1 dropped or not."""
    v = source or b.pick(lambda v: bool(v.shape) and all(not d.is_static or d.value({}) > 0 for d in v.shape))
    cuts = [_cut(b, d) for d in v.shape]
    ones = [k for k, (_, size, _) in enumerate(cuts) if size.text == "1"]
    dropped = b.rng.sample(ones, b.rng.randint(0, len(ones)))
    dropped.sort()
    shape = tuple(size for k, (_, size, _) in enumerate(cuts) if k not in dropped)
    result = Value(b.fresh("v"), shape, v.dtype)
    offsets, sizes = ", ".join(c[0] for c in cuts), ", ".join(c[1].text for c in cuts)
    text = f"%{result.name} = gml_st.materialize(%{v.name}) tile [{offsets}] [{sizes}]"
    text += f" drop {dropped}" if dropped else ""

    def compute(env: Env, nums: list[Num]) -> list[Num]:
        at = tuple(slice(start := begin.value(env), start + size.value(env)) for _, size, begin in cuts)
        value, error = nums[0].value[at], nums[0].error[at]
        return [Num(v.dtype, *(a.reshape([d.value(env) for d in shape]) for a in (value, error)))]

    made = Op(result.name, "materialize", [v], [result], f"{text} : {result.type}", compute, [], {}, {}, "slice")
    result.producer = made
    v.users.append(made)
    b.program.ops.append(made)
    b.values.append(result)
    return result


def _cut(b: Builder, d: Dim) -> tuple[str, Dim, Dim]:
    """Offset and size that provably lie within an extent."""
    zero = Dim.static(0)
    if b.rng.random() < 0.4:
        return "0", d, zero
    if d.is_static:
        extent = d.value({})
        begin = b.rng.randrange(extent)
        size = b.rng.randint(1, extent - begin)
        return str(begin), Dim.static(size), Dim.static(begin)
    half = Dim(f"floordiv({d.text}, 2)", lambda env: d.value(env) // 2)
    if b.rng.random() < 0.5:
        return "0", half, zero
    return "0", Dim(f"min({d.text}, 4)", lambda env: min(d.value(env), 4)), zero


def loop(b: Builder) -> Value:
    """A loop over the first dim of a value, with one to three results, in the form that transforms make."""
    v = b.pick(lambda v: bool(v.shape) and numbers.is_float(v.dtype))
    count, step = b.rng.choice([1, 1, 2, 3]), b.rng.choice([1, 2, 4, 5])
    d, base = v.shape[0], b.fresh("l")
    size = f"min({step}, {d.text} - %{base}i)"
    if step == 1 or (d.is_static and d.value({}) % step == 0):
        size = str(step)
    tile = (
        f"tensor<{f'[{size}]' if not size.isdigit() else size}x"
        + "".join(e.in_type + "x" for e in v.shape[1:])
        + v.dtype
        + ">"
    )
    subset = f"tile [%{base}i{', 0' * (len(v.shape) - 1)}] [{', '.join([size, *(e.text for e in v.shape[1:])])}]"
    results = [Value(b.fresh("v"), v.shape, v.dtype) for _ in range(count)]
    opcodes = [b.rng.choice(["add", "mul", "max", "sub", "min"]) for _ in range(count)]
    kind = b.rng.choice(["for", "for", "parallel"])
    lines = [f"%{base}o{k} = tcp.empty : {v.type}" for k in range(count)]
    carried = ", ".join(f"%{base}a{k} = %{base}o{k}" for k in range(count))
    names = ", ".join("%" + r.name for r in results)
    lines.append(f"{names} = gml_st.{kind} %{base}i in 0 to {d.text} step {step} ({carried}) {{")
    lines.append(f"  %{base}t = gml_st.materialize(%{v.name}) {subset} : {tile}")
    last = f"{base}t"
    for k, opcode in enumerate(opcodes):
        lines.append(f"  %{base}e{k} = tcp.{opcode}(%{last}, %{base}t) : {tile}")
        last = f"{base}e{k}"
    lines += [f"  gml_st.yield(%{base}e{k}, %{base}a{k}) {subset}" for k in range(count)]
    lines.append("} : " + ", ".join([v.type] * count))

    def compute(env: Env, nums: list[Num]) -> list[Num]:
        found = [nums[0]]
        for opcode in opcodes:
            found.append(numbers.ELEMENTWISE[opcode](found[-1], nums[0]))
        return found[1:]

    made = Op(f"{base}e0", "loop", [v], results, "\n  ".join(lines), compute, [], {}, {}, "loop")
    for result in results:
        result.producer = made
        b.values.append(result)
    v.users.append(made)
    b.program.ops.append(made)
    return results[-1]
