"""What NumPy would broadcast by itself, as the operations to write."""

from collections.abc import Iterable, Sequence

from tcpx.payload.diagnostics import statements_to_write
from tcpx.payload.ir import Block, Value
from tcpx.payload.sizes import Dim, is_equal
from tcpx.payload.types import TensorType, VectorType, dtype_of, shape_of


def have_equal_extents(lhs: Sequence[Dim], rhs: Sequence[Dim]) -> bool:
    """Whether two shapes are known to be one."""
    return len(lhs) == len(rhs) and all(is_equal(a, b) is True for a, b in zip(lhs, rhs, strict=True))


def broadcasts_to_write(operands: Iterable[Value], shape: Sequence[Dim]) -> str | None:
    """The statements that give every operand this shape; None where an operand has it otherwise, or all have it."""
    statements: list[str] = []
    replaced: list[str] = []
    for value in dict.fromkeys(operands):
        if isinstance(value.type, TensorType) and have_equal_extents(value.type.shape, shape):
            continue
        written = None if isinstance(value.type, VectorType) else _broadcast(value, tuple(shape))
        if written is None:
            return None
        statements += written
        replaced.append(f"%{_free(value, 'wide')} in place of %{value.name}")
    return statements_to_write([*statements, f"and {' and '.join(replaced)}"]) if statements else None


def broadcast_dims(own: Sequence[Dim], shape: Sequence[Dim]) -> list[int] | None:
    """Which dims of a shape those of an operand become that is broadcast to it; None where they do not fit."""
    placed = _places(own, shape)
    return placed[1] if placed is not None and len(placed[0]) == len(own) else None


def _broadcast(value: Value, shape: tuple[Dim, ...]) -> list[str] | None:
    own, dtype = shape_of(value.type), dtype_of(value.type)
    placed = _places(own, shape)
    if placed is None:
        return None
    kept, places = placed
    source = f"%{value.name}"
    statements: list[str] = []
    if len(kept) != len(own):
        source = f"%{_free(value, 'flat')}"
        statements.append(f"{source} = tcp.reshape(%{value.name}) : {TensorType(tuple(own[k] for k in kept), dtype)}")
    wide = TensorType(shape, dtype)
    return [*statements, f"%{_free(value, 'wide')} = tcp.broadcast({source}) {{dims = {places}}} : {wide}"]


def may_be_one(own: Dim, whole: Dim) -> bool:
    """Whether only a call says that a dim is 1 or as long as another."""
    return is_equal(own, whole) is None and is_equal(own, 1) is None


def _free(value: Value, suffix: str) -> str:
    """A name for what is computed from a value that nothing in its function has."""
    block = value.owner if isinstance(value.owner, Block) else value.owner.parent
    while block is not None and block.parent is not None and block.parent.parent is not None:
        block = block.parent.parent
    inside = [op for outer in block.ops for op in outer.walk()] if block is not None else []
    blocks = [b for b in (block, *(r for op in inside for r in op.regions)) if b is not None]
    taken = {v.name for v in (*(r for op in inside for r in op.results), *(a for b in blocks for a in b.args))}
    names = (f"{value.name}.{suffix}{k}" for k in ("", *range(1, len(taken) + 1)))
    return next(name for name in names if name not in taken)


def _places(own: Sequence[Dim], shape: Sequence[Dim]) -> tuple[list[int], list[int]] | None:
    """The dims of an operand that are not repeated, and the dims of the result they become: aligned at the right, as
    NumPy has it, or else the first that have their extents."""
    aligned = len(shape) - len(own)
    if aligned < 0:
        return None
    kept = [k for k, extent in enumerate(own) if extent != 1 or is_equal(shape[aligned + k], 1) is True]
    right = [aligned + k for k in kept]
    if have_equal_extents([own[k] for k in kept], [shape[place] for place in right]):
        return kept, right
    found: list[int] = []
    for k in kept:
        later = range(found[-1] + 1 if found else 0, len(shape))
        place = next((place for place in later if is_equal(own[k], shape[place]) is True), None)
        if place is None:
            return None
        found.append(place)
    return kept, found
