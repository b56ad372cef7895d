"""Every limit on what one text, one run of a schedule or one C file may ask for.

They stand far above what real programs need: each turns a mistake that would run for hours, exhaust memory or overflow
the 64-bit sizes of C into an error at its place.
"""

from typing import Final

INT64_MIN: Final = -(1 << 63)
INT64_MAX: Final = (1 << 63) - 1
UINT64_MAX: Final = (1 << 64) - 1
"""Sizes, offsets and integers are 64 bits wide in C; a memory has at most this many bytes."""

LARGEST_EXTENT: Final = 1 << 47
"""No array has more elements: addresses have fewer bits."""

MOST_BITS: Final = 1 << 33
"""Numbers of a range of which a kernel notes which there are: a gigabyte of bits."""

LARGEST_TEXT: Final = 16 << 20
"""Bytes of a schedule or payload file."""
DEEPEST_NESTING: Final = 64
"""Lists, calls, operators, blocks, regions and signs within one another in a text; parentheses that group are none."""
DEEPEST_BRACKETS: Final = 128
"""Brackets within one another in a text that is formatted, those that only group included."""
DEEPEST_RUN: Final = 96
"""Calls, blocks and operators within one another while a schedule runs."""
MOST_SIZE_TERMS: Final = 256
"""Terms of a size expression once its products are multiplied out."""
MOST_SIZE_FACTORS: Final = 32
"""Factors of one term of a size expression."""
MOST_SIZE_PARTS: Final = 64
"""Symbols, loop variables and calls within one call of a size expression: what is proved of them takes time."""
MOST_WRITTEN_ELEMENTS: Final = 4096
"""Elements of a constant that is written in a payload text; larger ones lie in a file beside it."""
MOST_COUNT_TERMS: Final = 1 << 14
"""Products of terms of the sizes of one shape, when its elements are counted."""
MOST_COMPUTED_PARTS: Final = 512
"""Symbols and calls of a size that a model computes, each as often as its text has it."""
DEEPEST_COMPUTED: Final = 12
"""Calls within one another of such a size."""

MOST_THREADS: Final = 4096
"""Threads of a kernel; each has a stack and a workspace of its own."""
MOST_ALTERNATIVES: Final = 32
"""Conditions of sizes that one condition joins by `or`; each becomes a version of the kernel."""
MOST_VERSIONS: Final = 256
"""Versions of one operation, those of one `specialize` within those of another included: 8 for each alternative."""

MOST_EVALUATED: Final = 1 << 30
"""Iterations of an operation on constants that `evaluate_constants` computes."""

LONGEST_LIST: Final = 1 << 16
"""Items of a list or range of a schedule."""
LONGEST_STRING: Final = 1 << 16
"""Characters of a string that a schedule puts together."""
LARGEST_DIVIDED: Final = 1 << 40
"""The largest number whose divisors are listed, which takes as many trials as its square root."""
MOST_STATEMENTS: Final = 100_000
"""Statements that one run of a schedule executes."""
MOST_EXPRESSIONS: Final = 1_000_000
"""Expressions that one run of a schedule evaluates."""
MOST_STEPS: Final = 10_000
"""Transforms that one run of a schedule applies."""
MOST_OPERATIONS: Final = 50_000
"""Operations of a payload, at any time while a schedule runs and is lowered."""
DEEPEST_NEST: Final = 40
"""Loops and branches of a payload within one another, at any time while a schedule runs and is lowered."""
DEEPEST_CALLS: Final = 64
"""Calls of functions of a payload within one another."""
LONGEST_FUNCTION: Final = 128
"""Operations in the body of a function, those inside them aside, that are compiled as one C function; what is longer is
partitioned: the time of a C compiler grows with the 1.9th power of the length."""
LONGEST_PART: Final = 48
"""Operations in the body of a part of a longer function."""
SHORTEST_PART: Final = 4
"""Operations that repeat, from which on they are worth a function, if it saves as many as `LONGEST_PART`."""
MOST_COPIES: Final = 1024
"""Copies of a loop's body that `unroll` makes."""
MOST_UNROLLED: Final = 64
"""Copies of a loop's body that the C compiler is asked to make."""
MOST_INSTRUCTIONS: Final = 1024
"""Instructions that one operation on vectors becomes."""
MOST_LANES_OF_OPERATION: Final = 12_500
"""Instructions that one operation on vectors becomes, with those for single lanes where the target has none for all."""
MOST_VECTORS: Final = 384
"""Registers of the target that one value takes: compilers take minutes for many times the registers there are."""
MOST_LIST_WORK: Final = 10_000_000
"""Items that the lists of one run of a schedule are made of, and trials to find divisors."""

MOST_C_BYTES: Final = 16 << 20
"""Bytes of one emitted C file."""


OPERATIONS_PER_SHARE: Final = 20
"""The limits on statements, steps, expressions, items of lists, operations and bytes of C are for a payload of so many
operations: one with more has as much for each of its own."""


def shares_of(operations: int) -> int:
    """How many times the limits on one run count for a payload of so many operations before the first step."""
    return max(1, -(-operations // OPERATIONS_PER_SHARE))


def fits_int64(value: int) -> bool:
    """Whether C can hold a number in an int64_t."""
    return INT64_MIN <= value <= INT64_MAX


def shortened(value: int) -> str:
    """A number for a message; of a very large one, how large it is."""
    return str(value) if abs(value) < 1 << 128 else f"a number of {value.bit_length()} bits"
