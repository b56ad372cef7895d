"""`fma` of f16 and bf16 in f32: a sum that is nudged where rounding it again would be wrong."""

from __future__ import annotations

from typing import Final

from tcpx.payload.interfaces import Build
from tcpx.payload.ir import Value
from tcpx.payload.ops.elementwise import cast_to
from tcpx.payload.ops.terms import Term
from tcpx.payload.types import dtype_of, f16, f32

SMALL: Final = 2.0**-60
LIFT: Final = 2.0**64


def fused_in_single(build: Build, a: Value, b: Value, c: Value) -> Value:
    """a * b + c of vectors of f16 or bf16, rounded once."""
    dtype = dtype_of(a.type)
    x, y, z = (Term(build, cast_to(build, value, f32)) for value in (a, b, c))
    made = _of_f16(x, y, z) if dtype == f16 else _of_bf16(x, y, z)
    return cast_to(build, made.value, dtype)


def _of_f16(x: Term, y: Term, z: Term) -> Term:
    """The product is exact, and the sum is rounded to odd, which rounds right again (Boldo and Melquiond, 2008). Its
    error is that of Knuth's TwoSum."""
    product = x * y
    total = product + z
    taken = total - product
    error = (product - (total - taken)) + (z - taken)
    return _nudged(total, error, (total.bits() & 1).equals(0))


def _of_bf16(x: Term, y: Term, z: Term) -> Term:
    """Rounding again is wrong only where the sum, rounded to f32, is a tie: then the sign of its error decides.

    Such a sum has 9 bits, z 8 and the product 16. So z - total is exact unless z is smaller by 2**8; then the product
    less the total is. What is small is lifted, so that no error is below the least number.
    """
    total = x.fused(y, z)
    is_tie = (total.bits() & 0xFFFF).equals(0x8000)
    lift = abs(total).is_below(SMALL).choose(LIFT, total.constant(1.0))
    is_first = abs(x).is_below(abs(y))
    x, y = is_first.choose(x * lift, x), is_first.choose(y, y * lift)
    z, lifted = z * lift, total * lift
    beside = x.fused(y, -lifted) + z
    error = abs(z).is_below(abs(lifted) * 2.0**-8).choose(beside, x.fused(y, z - lifted))
    return _nudged(total, error, is_tie)


def _nudged(total: Term, error: Term, where: Term) -> Term:
    """The next number in the direction of the error, where there is one."""
    step = (total.bits() ^ error.bits()) >> 31  # 1 for the direction of 0
    is_off = where & error.constant(0.0).is_below(abs(error))
    return (total.bits() + is_off.choose(step.constant(1) - (step + step), step.constant(0))).number()
