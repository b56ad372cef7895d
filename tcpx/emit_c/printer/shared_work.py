"""How much of a loop threads can share: its work, in scalar operations, or the bytes it has to wait for."""

from typing import Final

from tcpx.payload.ops.gml_st import Loop
from tcpx.payload.sizes import Dim, ceildiv, maximum
from tcpx.payload.work import estimated_bytes, estimated_work
from tcpx.target import Target
from tcpx.target.calibration import RATED_VECTORS

LINEAR: Final = 0.8
"""Memory that gives two cores this part of twice what it gives one has enough for each of them."""


def shared_work(loop: Loop, target: Target, threads: int) -> Dim:
    """Twice what two threads save, in scalar operations of one: its work, where each does half of it.

    Where the table knows what memory gives to one core and to all, an array counts as its bytes take: those beyond L2
    as long as L3 takes, and those beyond L3 as long as memory does, which may give several cores little more than one.
    """
    work, (one, every) = estimated_work(loop), target.memory_rates
    if one == 0:
        return work
    touched, operations = estimated_bytes(loop), 2 * target.lanes("f32")
    near = maximum(work, 2 * touched, (touched - target.l2) * ceildiv(operations, target.l3_rate))
    together = min(2 * one, every) if threads > 1 else one
    if together >= LINEAR * 2 * one:
        return near
    beyond = maximum(0, touched - target.l3)
    alone = maximum(near, beyond * ceildiv(RATED_VECTORS * operations, one))
    shared = maximum(near, beyond * ceildiv(2 * RATED_VECTORS * operations, together))
    return 2 * alone - shared
