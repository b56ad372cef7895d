"""The causes of slow code that remarks name, and the bounds beyond which they do: one table."""

from typing import Final

from tcpx.records import frozen

LEAST_GAIN: Final = 1.35
"""How many times as fast the kernel would be without; one of several statements only has to be `LEAST_FACTOR` times."""
LEAST_COUNTED: Final = 1.25
"""The same of operations beyond those asked for, which are counted."""


@frozen
class Cause:
    """Why a statement is slow. It is named where the statement would be `least` times as fast without, and the kernel
    would gain by the bounds below. `means` says what the statement does, `required` what it would take not to, and
    `fix` what to write where nothing more is known."""

    name: str
    least: float
    means: str
    required: str
    fix: str
    gain: float = LEAST_GAIN
    unscheduled: str = ""


LEAST_SHARE: Final = 0.1
"""The part of the modelled time of a kernel that a statement loses."""
LEAST_FACTOR: Final = 2.5
LEAST_TIME: Final = 4096.0
"""What it loses, in times of a vector: a call from Python takes longer than less."""
MOST_FACTOR: Final = 100
"""A larger factor is no figure that a model knows."""
MOST: Final = 2
"""Remarks on a statement."""
LEAST_NOTED: Final = 0.05
"""The part of the modelled time of a kernel that is lost by what a step of a schedule or of the lowering noted."""
LEAST_FALLBACK: Final = 1.25
"""How many times as fast a statement would be at the limit of the machine, of which a recipe fell back to another."""
LEAST_COPIED: Final = 4096
"""Bytes that a statement copies element by element."""

ENOUGH: Final = 0.7
"""The part of what a statement loses from which a hint that gives it is not compared with others."""
LEAST_REPAIRED: Final = 0.3
"""The part that a hint must give to be one."""
NEARLY: Final = 0.9
"""The part of what the best hint gives from which a smaller change is said instead."""
MOST_TRIED: Final = 8
"""Changes that are tried for a kernel."""
MOST_SCHEDULED_AGAIN: Final = 400
"""Operations that are scheduled again for all of these changes, those of the payload for each: they take seconds."""

PADDING: Final = Cause(
    "padding",
    1.25,
    "computes on padding",
    "tiles that divide the sizes",
    "tile by divisors of the sizes, or declare `multiple_of` for a symbol",
    LEAST_COUNTED,
)
UNREAD: Final = Cause(
    "unread",
    1.25,
    "computes elements that no result needs",
    "operations on the part that is read",
    "take the part of the operands that results need, in place of a part of the result",
    LEAST_COUNTED,
)
RECOMPUTATION: Final = Cause(
    "recomputation",
    1.25,
    "computes elements more than once",
    "a producer of which each iteration computes another part",
    "leave the `fuse` out, so that it is computed once and stored",
    LEAST_COUNTED,
    unscheduled="no change is known that helps: the default schedule computes it again where it is read",
)
ELEMENT_COPY: Final = Cause(
    "element_copy",
    1.25,
    "copies element by element",
    "elements that lie side by side where they are read and where they are written",
    "read them where they are, or let the same dim be the innermost one on both sides",
)
CONSTANT_WORK: Final = Cause(
    "constant_work",
    1.05,
    "computes in each call what is constant",
    "a constant that is stored as it is read",
    "store what is computed as the constant",
)
SCALAR: Final = Cause(
    "scalar",
    1.25,
    "computes element by element",
    "operations on vectors",
    "vectorize along a dim whose iterations are independent and whose elements lie side by side",
)
DOT_PRODUCT: Final = Cause(
    "dot_product",
    1.25,
    "has the form of a dot product and is computed with multiply-adds",
    "factors that lie in pairs or fours along the summed dim",
    "pack the factor whose summed dim is not its innermost",
    unscheduled="no change is known that helps: the default schedule has no dot products for these sizes",
)
WAITS: Final = Cause(
    "below_limit",
    2.0,
    "waits for the result of the operation before",
    "results that do not depend on each other",
    "compute several rows, or parts of a sum, side by side: a larger tile, or `unroll_and_jam`",
)
FALLBACK: Final = Cause(
    "fallback",
    LEAST_FALLBACK,
    "is not computed as the schedule tries first",
    "the first of the recipes for it",
    "`tcpx explain --why` says what bounds each of its loops",
)
COMBINES: Final = Cause(
    "below_limit",
    1.5,
    "combines the lanes of a vector for each element",
    "lanes along a dim of the result",
    "vectorize along a dim that the result has",
)
DIVISIONS: Final = Cause(
    "below_limit",
    1.35,
    "divides a vector by one number",
    "a product with the reciprocal, of which a division takes ten times the time",
    "where its rounding may differ, multiply by `tcp.reciprocal` of the divisor",
)
SPILLS: Final = Cause(
    "below_limit",
    1.25,
    "stores and loads vectors that no register has room for",
    "a register tile that the registers of the target have room for",
    "a smaller register tile: fewer rows, or fewer vectors of columns",
)
PASSES: Final = Cause(
    "below_limit",
    1.5,
    "reads a temporary from beyond the caches that another statement wrote",
    "one loop nest, that computes a part of the temporary and uses it up",
    "`fuse` the statement that writes it into a loop of the one that reads it",
)
READ_AGAIN: Final = Cause(
    "below_limit",
    1.35,
    "reads parts of rows again that the second cache no longer has",
    "a part of the depth at a time, whose rows the second cache holds until they are used up",
    "tile the summed dim, or `pack` what is read",
)
REREAD: Final = Cause(
    "below_limit",
    1.5,
    "reads in each iteration of a loop of the payload what no iteration changes and the first cache does not hold",
    "several iterations at a time, which read it once",
    "write the iterations as rows of one operation, in place of the loop",
)
CONFLICTS: Final = Cause(
    "below_limit",
    2.0,
    "reads rows at a distance of a power of two, whose lines share few places of the first cache",
    "long parts of rows, or rows at another distance",
    "read more of each row at a time: a wider tile, or loops over columns inside those over rows, or `pack` it",
)
TRAFFIC: Final = Cause(
    "below_limit",
    2.0,
    "reads from beyond a cache what was in it",
    "loops whose data a cache holds until it is used up",
    "tile the loops, or let the innermost one go along rows",
)
BELOW_LIMIT: Final = Cause(
    "below_limit",
    2.0,
    "is far from the limit of the machine",
    "vectors, and few accesses for each operation",
    "`tcpx explain --why` says what bounds each of its loops",
)
