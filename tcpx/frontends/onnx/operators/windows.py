"""Operators over windows: convolutions and pools, of any number of dims."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from tcpx.frontends.onnx.broadcasting import same, shown
from tcpx.frontends.onnx.errors import Unsupported
from tcpx.frontends.onnx.node import Node, product
from tcpx.frontends.onnx.operators.linear import shifted
from tcpx.frontends.onnx.table import Result, rule
from tcpx.payload.ir import Attribute, Value
from tcpx.payload.ops.finite import is_finite
from tcpx.payload.sizes import Dim, ceildiv, floordiv, maximum, minimum
from tcpx.payload.types import ScalarType, accumulator_of, shape_of, si32, si64
from tcpx.plurals import counted

_AUTO: Final = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows over the spatial dims: their sizes, distances, the spacing of their elements, padding, and how many."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    low: tuple[Dim, ...]
    high: tuple[Dim, ...]
    count: tuple[Dim, ...]

    @property
    def rank(self) -> int:
        return len(self.kernel)

    def of(self, dims: Sequence[int]) -> Windows:
        """Those over some of the dims."""
        kernel, strides, dilations = (
            tuple(field[k] for k in dims) for field in (self.kernel, self.strides, self.dilations)
        )
        low, high, count = (tuple(field[k] for k in dims) for field in (self.low, self.high, self.count))
        return Windows(kernel, strides, dilations, low, high, count)

    def padded(self, n: Node, x: Value, value: float) -> Value:
        """A value with the padding along its last dims."""
        lead = (0,) * (len(shape_of(x.type)) - self.rank)
        return n.w.pad(x, (*lead, *self.low), (*lead, *self.high), value)

    def attributes(self) -> dict[str, Attribute]:
        """Those of an operation over windows, but for the usual ones."""
        fields = {"strides": self.strides, "dilations": self.dilations, "low": self.low, "high": self.high}
        usual = {"low": 0, "high": 0}
        return {k: held for k, held in fields.items() if not all(same(number, usual.get(k, 1)) for number in held)}


def windows_of(n: Node, spatial: Sequence[Dim], kernel: Sequence[int]) -> Windows:
    """What the attributes of a node say of windows over dims."""
    rank = len(spatial)
    strides, dilations, pads, auto = _placed(n, kernel, rank)
    extent = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    ceil = bool(n.int("ceil_mode", 0))
    low: list[Dim] = [*pads[:rank]]
    high: list[Dim] = [*pads[rank:]]
    for k, size in enumerate(spatial):
        if auto in ("SAME_UPPER", "SAME_LOWER"):
            missing = maximum(0, (ceildiv(size, strides[k]) - 1) * strides[k] + extent[k] - size)
            half = floordiv(missing, 2)
            low[k], high[k] = (half, missing - half) if auto == "SAME_UPPER" else (missing - half, half)
        elif auto == "VALID":
            low[k] = high[k] = 0
        if ceil:
            high[k] = _reached(size + low[k], high[k], extent[k], strides[k])
    found = [
        floordiv(a + size + b - e, s) + 1 for a, size, b, e, s in zip(low, spatial, high, extent, strides, strict=True)
    ]
    if any(isinstance(c, int) and c < 1 for c in found):
        raise n.error("no window fits", "a window in each dim", shown(spatial))
    return Windows(tuple(kernel), tuple(strides), tuple(dilations), tuple(low), tuple(high), tuple(found))


def _reached(size: Dim, high: Dim, extent: int, stride: int) -> Dim:
    """How far windows reach beyond a dim of `size`, its padding before included, where a last one may be in part beyond
    the padding after it, but does not begin in that."""
    last = ceildiv(size + high - extent, stride)
    if not isinstance(high, int) or high + stride > extent:
        last = minimum(last, ceildiv(size, stride) - 1)
    return maximum(0, last * stride + extent - size)


def _placed(n: Node, kernel: Sequence[int], rank: int) -> tuple[list[int], list[int], list[int], str]:
    """The distances of windows, the spacing of their elements, padding, and how more of that is found."""
    strides, dilations = n.ints("strides", [1] * rank), n.ints("dilations", [1] * rank)
    for name, held in (("kernel_shape", kernel), ("strides", strides), ("dilations", dilations)):
        if len(held) != rank or min(held) < 1:
            raise n.error(f"`{name}` has a number for each spatial dim", f"{rank} of them, 1 or more", shown(held))
    pads, auto = n.ints("pads", [0] * (2 * rank)), n.text("auto_pad", "NOTSET")
    if len(pads) != 2 * rank:
        raise n.error("`pads` has two numbers for each spatial dim", f"{2 * rank} of them", shown(pads))
    if auto not in _AUTO:
        raise n.error("`auto_pad` is none of its words", ", ".join(_AUTO), auto)
    return strides, dilations, pads, auto


def convolved(n: Node, x: Value, weight: Value, dtype: ScalarType, pad: float = 0) -> Value:
    """[b, c, ..] by [f, c / groups, ..]: the sum over channels of a group and over a window."""
    shape, own = shape_of(x.type), shape_of(weight.type)
    groups, rank = n.int("group", 1), len(shape) - 2
    kernel = [k for k in own[2:] if isinstance(k, int)]
    if rank < 1 or len(own) != len(shape) or len(kernel) != rank:
        raise n.error(
            "x and w have batch, channels and dims",
            "the same number of dims, those of w known",
            f"{shown(shape)} and {shown(own)}",
        )
    if n.raw("kernel_shape") is not None and n.ints("kernel_shape") != kernel:
        raise n.error("`kernel_shape` is that of w", str(kernel), str(n.ints("kernel_shape")))
    if groups < 1 or not n.equal(own[1] * groups, shape[1]) or not same(floordiv(own[0], groups) * groups, own[0]):
        both = own[1] * groups, shape[1]
        raise n.error(
            "channels are groups", f"{counted(groups, 'group')} of {shown(own[1:2])}", shown(shape[1:2]), equal=both
        )
    x = n.w.with_dim(x, 1, own[1] * groups)
    held = windows_of(n, shape[2:], kernel)
    count, has_own = held.count, pad == 0 and is_finite(weight)
    if not has_own:
        x, held = held.padded(n, x, pad), replace(held, low=(0,) * rank, high=(0,) * rank)
    padded = [lo + d + hi for lo, d, hi in zip(held.low, shape_of(x.type)[2:], held.high, strict=True)]
    kept = [k for k in range(rank) if kernel[k] != 1 or not same(padded[k], 1)]
    if len(kept) < rank:  # dims of 1 have no window: they come back behind the sums
        x, weight = (
            n.w.reshape(v, [*shape_of(v.type)[:2], *(shape_of(v.type)[2 + k] for k in kept)]) for v in (x, weight)
        )
        held = held.of(kept)
    made = _sums(n, x, weight, held, groups, accumulator_of(dtype))
    return n.w.cast(n.w.reshape(made, [shape[0], own[0], *count]), dtype)


def _sums(n: Node, x: Value, weight: Value, held: Windows, groups: int, dtype: ScalarType) -> Value:
    """The sums of products over windows, or over channels alone where there are none."""
    count, features = shape_of(x.type)[0], shape_of(weight.type)[0]
    if held.rank:
        attributes = {**held.attributes(), **({"groups": groups} if groups != 1 else {})}
        return n.w.op("convolution", x, weight, shape=(count, features, *held.count), dtype=dtype, **attributes)
    inner = shape_of(weight.type)[1]
    x = n.w.reshape(x, [count, groups, inner])
    weight = n.w.reshape(weight, [groups, floordiv(features, groups), inner])
    return n.w.contract(x, weight, ["b", "g", "c"], ["g", "f", "c"], ["b", "g", "f"], dtype)


def with_bias(n: Node, made: Value, bias: Value | None) -> Value:
    """A number added to each channel."""
    if bias is None:
        return made
    shape = shape_of(made.type)
    return n.w.op("add", made, n.w.op("broadcast", bias, shape=shape, dims=(1,)))


@rule("Conv")
def conv(n: Node) -> Result:
    """A convolution, which does not turn its weights."""
    return with_bias(n, convolved(n, n.value(0), n.value(1), n.dtype()), n.optional(2))


@rule("ConvInteger")
def conv_integer(n: Node) -> Result:
    """Of integers less their zero points, in si32."""
    return convolved(n, shifted(n, n.value(0), n.optional(2)), shifted(n, n.value(1), n.optional(3), 0), si32)


@rule("ConvTranspose")
def conv_transpose(n: Node) -> Result:
    """A transposed convolution, with zeros where no tap reaches an element that is asked for."""
    x, shape, own = n.value(0), n.ranked(0, 3).shape, n.shape(1)
    rank, groups = len(shape) - 2, n.int("group", 1)
    kernel = [k for k in own[2:] if isinstance(k, int)]
    if (
        len(own) != len(shape)
        or len(kernel) != rank
        or groups < 1
        or not n.equal(own[0], shape[1])
        or not same(floordiv(own[0], groups) * groups, own[0])
    ):
        raise n.error(
            "x and w have channels and dims",
            f"w of {counted(len(shape), 'dim')}, {counted(groups, 'group')}",
            f"{shown(shape)} and {shown(own)}",
            equal=None if same(own[0], shape[1]) else (own[0], shape[1]),
        )
    x = n.w.with_dim(x, 1, own[0])
    if n.ints("kernel_shape", kernel) != kernel:
        raise n.error("`kernel_shape` is that of w", str(kernel), str(n.ints("kernel_shape")))
    strides, dilations, pads, auto = _placed(n, kernel, rank)
    more, wanted = n.ints("output_padding", [0] * rank), n.ints("output_shape", [])[-rank:]
    if len(more) != rank or len(wanted) not in (0, rank):
        required = f"{counted(rank, 'number')}, one for each spatial dim"
        raise n.error("`output_padding` and `output_shape`", required, f"{shown(more)} and {shown(wanted)}")
    zeros, reach = [[0, 0] for _ in range(rank)], list[Dim]()
    cuts = [[pads[k], pads[rank + k] - more[k]] for k in range(rank)]  # those of less than 0 are zeros instead
    for k, (size, cut) in enumerate(zip(shape[2:], cuts, strict=True)):
        whole = strides[k] * (size - 1) + (kernel[k] - 1) * dilations[k] + 1
        if wanted or auto in ("SAME_UPPER", "SAME_LOWER"):
            missing = whole + more[k] - (wanted[k] if wanted else size * strides[k])
            if not isinstance(missing, int):
                raise Unsupported("padding of a dim that is known when called", [missing])
            cut[0] = missing // 2 if auto == "SAME_UPPER" else missing - missing // 2
            cut[1] = missing - cut[0] - more[k]
        zeros[k] = [max(0, -cut[0]), max(0, -cut[1]) if -cut[1] >= strides[k] else 0]
        reach.append(whole - cut[0] - cut[1] - sum(zeros[k]))
    low, high = ([max(0, cut[side]) for cut in cuts] for side in (0, 1))
    found = {"strides": strides, "dilations": dilations, "low": low, "high": high}
    attributes: dict[str, Attribute] = {
        key: tuple(held) for key, held in found.items() if set(held) != {0 if key in ("low", "high") else 1}
    }
    attributes |= {"groups": groups} if groups != 1 else {}
    made = n.w.op(
        "convolution_transpose", x, n.value(1), shape=(shape[0], own[1] * groups, *reach), dtype=n.dtype(), **attributes
    )
    made = n.w.pad(made, [0, 0, *(z[0] for z in zeros)], [0, 0, *(z[1] for z in zeros)], 0)
    return with_bias(n, made, n.optional(2))


def pooled(n: Node, x: Value, held: Windows, kind: str, dtype: ScalarType, **more: Attribute) -> Value:
    """The elements of each window combined."""
    attributes = {"window": held.kernel, **held.attributes(), **({"kind": kind} if kind != "max" else {}), **more}
    return n.w.op("pooling", x, shape=(*shape_of(x.type)[:2], *held.count), dtype=dtype, **attributes)


@rule("MaxPool")
def max_pool(n: Node) -> Result | Sequence[Result]:
    """The greatest element of each window; with its index in x as one dim, where it is asked for."""
    w, x, shape, dtype = n.w, n.value(0), n.ranked(0, 3).shape, n.dtype()
    held = windows_of(n, shape[2:], n.ints("kernel_shape"))
    if not n.wants(1):
        return pooled(n, x, held, "max", dtype)
    results = [((*shape[:2], *held.count), kind) for kind in (dtype, si64)]
    most, first = w.several("pooling_argmax", [x], results, window=held.kernel, **held.attributes())
    if n.int("storage_order", 0):
        first = _column_major(n, first, shape[2:])
    image = [w.op("iota", shape=shape_of(most.type), dtype=si64, dim=k) for k in (0, 1)]
    number = w.op("add", w.with_number("mul", image[0], shape[1]), image[1])
    return [most, w.op("add", w.with_number("mul", number, product(n, shape[2:])), first)]


def _column_major(n: Node, index: Value, shape: Sequence[Dim]) -> Value:
    """Row-major indices as column-major ones: the first dim is the innermost."""
    w, rest, strides = n.w, index, [product(n, shape[:k]) for k in range(len(shape))]
    made: Value | None = None
    for extent, stride in zip(shape[::-1], strides[::-1], strict=True):
        own = w.with_number("mul", w.with_number("mod", rest, extent), stride)
        made, rest = own if made is None else w.op("add", made, own), w.with_number("floordiv", rest, extent)
    return made if made is not None else index


@rule("AveragePool")
def average_pool(n: Node) -> Result:
    """The mean of each window, of its elements within x, or within the padding too, which is then a part of x."""
    x, spatial = n.value(0), n.ranked(0, 3).shape[2:]
    held = windows_of(n, spatial, n.ints("kernel_shape"))
    if n.int("count_include_pad", 0):
        pads: list[Dim] = list(n.ints("pads", [0] * (2 * held.rank)))
        if n.text("auto_pad", "NOTSET") in ("SAME_UPPER", "SAME_LOWER"):
            pads = [*held.low, *held.high]
        behind = tuple(minimum(h, p) for h, p in zip(held.high, pads[held.rank :], strict=True))
        x = replace(held, high=behind).padded(n, x, 0)
        over = tuple(h - p for h, p in zip(held.high, behind, strict=True))
        held = replace(held, low=(0,) * held.rank, high=over)
    return pooled(n, x, held, "average", n.dtype())


def _power(n: Node) -> int:
    """The power of a norm."""
    p = n.int("p", 2)
    if p < 1:
        raise n.error("the power of a norm", "1 or more", str(p))
    return p


@rule("LpPool")
def lp_pool(n: Node) -> Result:
    """The root of the sum of powers of each window."""
    held = windows_of(n, n.ranked(0, 3).shape[2:], n.ints("kernel_shape"))
    return pooled(n, n.value(0), held, "lp", n.dtype(), power=_power(n))


@rule("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(n: Node) -> Result:
    """All spatial dims as one window."""
    x, rank, w = n.value(0), n.ranked(0, 3).rank, n.w
    axes = list(range(2, rank))
    if n.operator == "GlobalMaxPool":
        return w.reduce("reduce_max", x, axes, keep=True)
    if n.operator == "GlobalAveragePool":
        return w.reduce("reduce_mean", x, axes, keep=True)
    p = _power(n)
    if p == 2:
        return w.reduce("reduce_l2", x, axes, keep=True)
    total = w.reduce("reduce_sum", w.with_number("pow", w.unary("abs", x), p), axes, keep=True)
    return w.with_number("pow", total, 1 / p)
