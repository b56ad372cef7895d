"""`match one | some | any PATTERN in scope where condition`: exact about how many; misses are explained."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

from tcpx.interp.frame import Frame
from tcpx.interp.handles import program_position
from tcpx.interp.methods import attribute_names
from tcpx.interp.navigation import UnknownAttributeError, UnknownNameError
from tcpx.interp.state import State
from tcpx.interp.values import OpHandle, RuntimeValue
from tcpx.payload.diagnostics import ConditionError, Direction, Kind
from tcpx.payload.interfaces import Structured, Tileable
from tcpx.payload.ir import FuncOp, Operation
from tcpx.payload.lookup import is_a, source_name
from tcpx.payload.traits.call import Calling
from tcpx.payload.traits.tree import Tree
from tcpx.records import frozen
from tcpx.suggestions import did_you_mean
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.printed_expressions import print_pattern
from tcpx.transform.language.vocabulary import is_declared, known_names

SHOWN_MISSES = 5
WHERE_RANK = 1 << 16
"""An operation that only fails the `where` is the nearest miss."""


@frozen
class Miss:
    """An operation that did not match; the higher the rank, the nearer it was."""

    op: Operation
    rank: int
    reason: str
    unknown: UnknownNameError | None = None
    """The name in the `where` that the operation does not have."""


Outcome = Miss | tuple[RuntimeValue, ...]
"""Why an operation does not match, or the parts that a matcher returns beside it (none for a class)."""


@frozen
class Candidates:
    """Where to look, and how an operation does by pattern and `where`."""

    roots: tuple[Operation, ...]
    test: Callable[[Operation], Outcome]
    fits: Callable[[Operation], bool]
    """Whether it may match, by name and class: what does not is tested only to say why nothing matched."""
    glob: str
    op_class: str
    """A name and a class that what fits has; empty: any."""
    inside: tuple[OpHandle, ...] = ()
    """What the handles are narrowed to: the call that is looked into, or what the scope itself is narrowed to."""


def match_handles(match: ast.Match, state: State, frame: Frame, candidates: Candidates) -> RuntimeValue:
    """A handle for `one`, a list of handles for `some` and `any`; copies of one computation are one handle.

    Where a matcher returns parts, a list of the handle and the parts stands for each handle.
    """
    found: dict[tuple[int, ...], RuntimeValue] = {}
    misses: list[Miss] = []
    for op in filter(state.handles.in_branch, filter(candidates.fits, _looked_up(candidates, state))):
        if op.origins in found:
            continue
        outcome = candidates.test(op)
        if isinstance(outcome, Miss):
            misses.append(outcome)
        else:
            handle = state.handles.of(op, inside=candidates.inside)
            found[op.origins] = (handle, *outcome) if outcome else handle
    if not found:
        _require_known_names(match, misses, state, frame)
    handles = tuple(found.values())
    if match.cardinality == "any" or (match.cardinality == "some" and handles):
        return handles
    if len(handles) == 1:
        return handles[0]
    misses = [] if found else _all_misses(state, candidates, misses)
    what = pattern_text(match.pattern)
    required = "exactly one" if match.cardinality == "one" else "at least one"
    narrow = Direction("use `match some` and `for`, or narrow it with a name or `where`")
    raise frame.error(
        f"{len(handles)} operations match {what}" if handles else f"nothing matches {what}",
        match,
        required=required,
        found=", ".join(f"%{h.label}" for h in map(root_of, handles)) or "none",
        notes=() if handles else near_misses(misses) or _empty_scope(candidates.roots),
        fix=narrow if handles else _other_name(match, misses),
        kind=Kind.SILENCEABLE,
        of=ConditionError,
    )


def _all_misses(state: State, candidates: Candidates, asked: Sequence[Miss]) -> list[Miss]:
    """Why no operation matches: those that were asked, and those that another name or class kept from it."""
    known = {miss.op: miss for miss in asked}
    misses: list[Miss] = []
    for op in filter(state.handles.in_branch, _walk_all(candidates.roots)):
        outcome = known.get(op) or candidates.test(op)
        if isinstance(outcome, Miss):
            misses.append(outcome)
    return misses


def _empty_scope(roots: Sequence[Operation]) -> tuple[str, ...]:
    """A note where there was nothing to look at: what has nothing in it."""
    inside = "a match looks at what is inside its scope"
    return (f"{inside}; nothing is inside {', '.join(f'%{op.name}' for op in roots) or 'an empty list'}",)


def _other_name(match: ast.Match, misses: Sequence[Miss]) -> str | None:
    """The name of an operation that is much like the one that was asked for; else a match by class alone: a model that
    is exported again has other names."""
    glob, op_class = match.pattern.glob, match.pattern.op_class
    known = [miss.op.name for miss in misses if miss.op.name]
    similar = did_you_mean(glob, known) if glob.isidentifier() and glob not in known else None
    found = [miss.op.name for miss in misses if glob and op_class and miss.op.name and is_a(miss.op, op_class)]
    if similar or not found or match.where is not None:
        return similar
    count = "one" if len(found) == 1 and match.cardinality == "one" else "some"
    shown = ", ".join(f"%{name}" for name in found[:SHOWN_MISSES]) + (" .." if len(found) > SHOWN_MISSES else "")
    return Direction(f"match by class, since names change with each export: `match {count} {op_class}` finds {shown}")


def _require_known_names(match: ast.Match, misses: Sequence[Miss], state: State, frame: Frame) -> None:
    """Raise where every candidate that may match fails by a name that nothing in the payload has, nor any operation by
    its class."""
    unknown = [miss.unknown for miss in misses if miss.rank == WHERE_RANK]
    for error in unknown:
        if isinstance(error, UnknownAttributeError):
            _require_known_attribute(match, error, misses, state, frame)
    first = unknown[0] if unknown else None
    if first is None or isinstance(first, UnknownAttributeError):
        return
    if not all(error is not None and error.name == first.name for error in unknown):
        return
    dims = {it.name for op in state.func.walk() if isinstance(op, Tileable) for it in op.iterators()}
    if first.name in dims or is_declared(first.name):
        return
    what = pattern_text(match.pattern)
    raise frame.error(
        f"no operation has `{first.name}`, so that no {what} satisfies the `where`",
        first.diagnostic.schedule or match,
        required=f"a dim or operand of {what}",
        found=first.name,
        notes=near_misses(misses),
        fix=first.diagnostic.fix or did_you_mean(first.name, (*sorted(dims), *known_names(match.pattern.op_class))),
        kind=Kind.DEFINITE,
    )


def _require_known_attribute(
    match: ast.Match, asked: UnknownAttributeError, misses: Sequence[Miss], state: State, frame: Frame
) -> None:
    """Raise where nothing in the payload has the attribute that a candidate was asked for, but one much like it."""
    known = dict.fromkeys(name for op in state.func.walk() for name in attribute_names(op))
    fix = did_you_mean(asked.name, known)
    if asked.name in known or fix is None:
        return
    raise frame.error(
        f'nothing has an attribute "{asked.name}", so that no {pattern_text(match.pattern)} satisfies the `where`',
        asked.diagnostic.schedule or match,
        required=f"one of {', '.join(known)}",
        found=asked.name,
        notes=near_misses(misses),
        fix=fix,
        kind=Kind.DEFINITE,
    )


def root_of(item: RuntimeValue) -> OpHandle:
    """The operation a pattern was asked about, of what a match gives for it."""
    held = item[0] if isinstance(item, tuple) else item
    if not isinstance(held, OpHandle):
        raise TypeError(f"a match gives handles, not {held!r}")
    return held


def pattern_text(pattern: ast.Pattern) -> str:
    """The pattern as written."""
    return print_pattern(pattern)


def class_miss(op: Operation, op_class: str, rank: int = 0) -> Miss | None:
    """The miss of an operation that is not of a class; None if it is."""
    if is_a(op, op_class):
        return None
    found = f"is {Tree(op).tree_classes()[0] if Tree(op).tree_classes() else op.opcode}, not {op_class}"
    written, why = op.written_as or ("", "")
    if written != op_class:
        return Miss(op, rank, found)
    return Miss(op, rank + 1, f"{found}, which it is written as{f': {why}' if why else ''}")


def name_miss(op: Operation, pattern: ast.Pattern) -> Miss | None:
    """The miss of an operation that another name is asked for; None if there is none, or this one."""
    if _is_called(op, pattern.glob):
        return None
    return Miss(op, 2 if pattern.op_class else 0, f'its name does not match "{pattern.glob}"')


def _is_called(op: Operation, glob: str) -> bool:
    if not glob or glob == op.name:
        return True
    if glob.isidentifier():
        return op.name.startswith(glob) and source_name(op) == glob
    names = (source_name(op), op.name)
    return glob in names or any(fnmatchcase(name, glob) for name in names)


def pattern_miss(pattern: ast.Pattern, op: Operation) -> Miss | None:
    """Why class or name of an operation do not match; None if they do."""
    unnamed = name_miss(op, pattern)
    unlike = class_miss(op, pattern.op_class, 1 if pattern.glob and not unnamed else 0) if pattern.op_class else None
    return unlike or unnamed


def fits(pattern: ast.Pattern, op: Operation) -> bool:
    """Whether name and class of an operation match."""
    return _is_called(op, pattern.glob) and (not pattern.op_class or is_a(op, pattern.op_class))


def near_misses(misses: Sequence[Miss]) -> tuple[str, ...]:
    """The nearest misses with their reasons; those that only have another class come last."""
    nearest = sorted(misses, key=lambda miss: -miss.rank)
    shown = [f"%{m.op.name} ({m.op.opcode}): {m.reason}" for m in nearest[:SHOWN_MISSES] if m.op.name]
    more = len(nearest) - SHOWN_MISSES
    return (*shown, f"and {more} more") if more > 0 else tuple(shown)


def _looked_up(candidates: Candidates, state: State) -> Iterable[Operation]:
    """What may fit: in a whole function, it is looked up by name or class; a part of one is walked through, and so are
    calls, which say in what order the functions are gone through."""
    glob, op_class, lookup = candidates.glob, candidates.op_class, state.rewriter.lookup
    if len(state.rewriter.module.funcs) > 1 or not all(isinstance(root, FuncOp) for root in candidates.roots):
        return _walk_all(candidates.roots)
    if glob and not any(character in glob for character in "*?["):
        found = lookup.of_name(glob.split("~")[0])
    elif op_class and op_class != "op":
        found = lookup.of_class(op_class)
    else:
        return _walk_all(candidates.roots)
    of_root = {root: [op for op in found if op.func is root and _is_walked(op)] for root in candidates.roots}
    return [op for ops in of_root.values() for op in sorted(ops, key=program_position)]


def _is_walked(op: Operation) -> bool:
    """Whether `_walk` comes to an operation from the function round it."""
    inside = (a for a in op.ancestors() if not isinstance(a, FuncOp))
    return not (op.is_terminator or isinstance(op, FuncOp) or any(isinstance(a, Structured) for a in inside))


def _walk_all(roots: Sequence[Operation]) -> Iterator[Operation]:
    seen: set[int] = set()
    for root in roots:
        yield from _walk_calls(Calling(root).callee or root, seen)


def _walk_calls(root: Operation, seen: set[int]) -> Iterator[Operation]:
    """What is inside an operation and what it calls, each once; of a call, first what is inside the function."""
    for op in _walk(root):
        if id(op) not in seen and op is not root:
            seen.add(id(op))
            callee = Calling(op).callee
            if callee is not None and id(callee) not in seen:
                seen.add(id(callee))
                yield from _walk_calls(callee, seen)
            yield op


def _walk(op: Operation) -> Iterator[Operation]:
    """Operations a schedule can name: not terminators, not the scalar body of a structured operation."""
    if not op.is_terminator:
        yield op
    if isinstance(op, Structured) and not isinstance(op, FuncOp):
        return
    for block in op.regions:
        for inner in block.ops:
            if inner.regions:
                yield from _walk(inner)
            elif not inner.is_terminator:
                yield inner
