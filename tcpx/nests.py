"""The loop nests of a payload that are in no function, each as a function that is tuned by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tcpx.assignment import Assignment, ParamValue
from tcpx.interp import KnobUse, Run
from tcpx.module_copies import copy_module
from tcpx.parts import CameUp, Part, Parts, Sizes, calls_of
from tcpx.payload.diagnostics import TcpxError
from tcpx.payload.ir import FuncOp, Module, Operation
from tcpx.payload.ops.call import Call
from tcpx.payload.ops.gml_st import Loop
from tcpx.payload.rewriter import Rewriter
from tcpx.payload.structure import fingerprint
from tcpx.payload.traits.constant import Constant
from tcpx.records import frozen
from tcpx.transform.arguments import TransformContext
from tcpx.transform.convex import gathered
from tcpx.transform.outlining import outline

SIGN: Final = "%"
"""What the name of a nest begins with, which is that of an operation; that of a function begins with `@`."""


@frozen
class Nest:
    """Nests of one structure: what they are tuned in, for each how the payload names what has another name there, the
    `paths` of their knobs in the payload, where nothing is set, and the names of their operations."""

    part: Part
    renames: tuple[Mapping[str, str], ...]
    paths: frozenset[str]
    ops: frozenset[str]

    def of_payload(self, values: Mapping[str, ParamValue]) -> dict[str, ParamValue]:
        """Params for the payload, from values by their paths in what the nest is tuned in."""
        return {_renamed(path, names): value for path, value in values.items() for names in self.renames}


@frozen
class Nests:
    """Those of a payload, the first one first, and the number of the nest that each operation is in, by its name."""

    nests: tuple[Nest, ...]
    number_of: Mapping[str, int]

    @property
    def paths(self) -> frozenset[str]:
        """The knobs of all of them."""
        return frozenset(path for nest in self.nests for path in nest.paths)

    @staticmethod
    def of(parts: Parts, sizes: Sequence[Mapping[str, int]], values: Assignment) -> Nests:
        """The nests that have knobs, where the payload is called with these sizes, and knobs have these values."""
        uses = {use.path: use for use in parts.run.knobs if not use.function}
        cut = _Cut.of(parts) if uses else None
        found: list[Nest] = []
        number_of: dict[str, int] = {}
        for equal in cut.equal() if cut is not None else ():
            nest = _alone(parts, equal, sizes, uses)
            made = (
                [nest] if nest is not None else [_in_payload(parts, one, sizes, uses, values) for one in equal.each()]
            )
            for held in made:
                if held is not None:
                    number_of.update((name, len(found)) for name in held.ops)
                    found.append(held)
        return Nests(tuple(found), number_of)


@frozen
class _Equal:
    """Functions of one structure, made of nests of a copy of the payload, with their only calls."""

    module: Module
    calls: tuple[Call, ...]

    @property
    def funcs(self) -> list[FuncOp]:
        return [call.called for call in self.calls]

    @property
    def ops(self) -> frozenset[str]:
        """The names of their operations."""
        return frozenset(name for func in self.funcs for name in _names(func) if name)

    def each(self) -> list[_Equal]:
        """One for each of them."""
        return [_Equal(self.module, (call,)) for call in self.calls]

    def sizes(self, sizes: Sequence[Mapping[str, int]]) -> Counter[Sizes]:
        """How often they are called with which sizes, in the names of the first."""
        names, funcs = [symbol.name for symbol in self.funcs[0].symbols], set(self.funcs)
        found: Counter[Sizes] = Counter()
        for values in sizes:
            for (callee, bound), times in calls_of(self.module.main, values).items():
                if callee in funcs:
                    found[tuple(zip(names, (size for _, size in bound), strict=True))] += times
        return found

    def renames(self, first: str) -> tuple[dict[str, str], ...]:
        """How operations of the first are named in each; `first` is the main function that the first is tuned in."""
        names = _names(self.funcs[0])
        main = {first: self.module.main.name}
        return tuple({**dict(zip(names, _names(func), strict=True)), **main} for func in self.funcs)


@frozen
class _Cut:
    """A copy of a payload as it was before there were loops, whose nests are functions."""

    module: Module
    calls: tuple[Call, ...]

    @staticmethod
    def of(parts: Parts) -> _Cut:
        before = parts.before_loops
        module = copy_module(before.module)
        origins = {op: before.origins[known] for op, known in zip(module.walk(), before.module.walk(), strict=True)}
        rewriter = Rewriter(module)
        context = TransformContext(rewriter, parts.target, parts.threads)
        calls: list[Call] = []
        for ops in _nests(module.main, parts.run, origins):
            call = _outlined(context, ops)
            if call is not None:
                calls.append(call)
        return _Cut(module, tuple(calls))

    def equal(self) -> list[_Equal]:
        """The functions by structure, and by which arguments are constants."""
        found: dict[tuple[str, tuple[bool, ...]], list[Call]] = {}
        for call in self.calls:
            fixed = tuple(
                value.defining_op is not None and Constant.of(value.defining_op) is not None for value in call.operands
            )
            found.setdefault((fingerprint(call.called), fixed), []).append(call)
        return [_Equal(self.module, tuple(calls)) for calls in found.values()]


def _outlined(context: TransformContext, ops: list[Operation]) -> Call | None:
    """The call of a function that is made of some operations; None where they cannot be in one without others."""
    mark = context.rewriter.mark()
    try:
        together = gathered(context, ops)
        if not any(isinstance(op, Call) for op in together):
            return outline(context.rewriter, together, known={})
    except TcpxError:
        pass
    context.rewriter.rollback(mark)
    return None


def _nests(main: FuncOp, run: Run, origins: Mapping[Operation, tuple[int, ...]]) -> list[list[Operation]]:
    """The operations of a copy without loops that came to be in the same loop nest of the scheduled payload, or in
    nests that have one of them in common; `origins` are those that they have in the run."""
    ends: list[tuple[Operation, set[Operation]]] = []
    for op in main.body.ops:
        holders = [held for origin in origins[op] for held in run.rewriter.origins.get(origin) or ()]
        tops = {top for held in holders if (top := _top(held, run.module.main)) is not None}
        if op.operands and tops:
            ends.append((op, tops))
    merged: list[tuple[list[Operation], set[Operation]]] = []
    for op, tops in ends:
        touched = [group for group in merged if group[1] & tops]
        merged = [group for group in merged if group not in touched]
        merged.append(([*(held for group in touched for held in group[0]), op], tops.union(*(g[1] for g in touched))))
    return sorted((ops for ops, _ in merged), key=lambda ops: main.body.ops.index(ops[0]))


def _top(op: Operation, main: FuncOp) -> Operation | None:
    """The operation of the body of the payload that one is in; None for one that is in no loop of it."""
    chain = [op, *op.ancestors()]
    if len(chain) < 2 or chain[-1] is not main or not any(isinstance(inner, Loop) for inner in chain[-2].walk()):
        return None
    return chain[-2]


def _alone(parts: Parts, equal: _Equal, sizes: Sequence[Mapping[str, int]], uses: Mapping[str, KnobUse]) -> Nest | None:
    """Equal nests as a function by itself; None where the schedule does something else there than in the payload."""
    func = equal.funcs[0]
    came_up = CameUp(equal.module, {})
    for call in equal.calls:
        came_up.note_call(call)
    called = equal.sizes(sizes)
    try:
        payload, calls = parts.alone_of(came_up, func.name, equal.module, called)
        run = parts.run_over(payload)
    except TcpxError:
        return None
    own = [use for use in run.knobs if use.function]
    renames = equal.renames(payload.main.name)
    pairs = [(use, _renamed(use.path, names)) for use in own for names in renames]
    is_same = all(path in uses and _alike(use, uses[path]) for use, path in pairs)
    keys = {use.function for use in own}
    if not is_same or len(keys) != 1 or not all(use.path.startswith(f"@{func.name}:") for use in own):
        return None
    labels = tuple(f"{SIGN}{held.body.ops[-2].name}" for held in equal.funcs)
    (key,) = keys
    part = Part(key, labels, payload, True, calls, called, {}, {})
    return Nest(part, renames, frozenset(path for _, path in pairs), equal.ops)


def _in_payload(
    parts: Parts, equal: _Equal, sizes: Sequence[Mapping[str, int]], uses: Mapping[str, KnobUse], values: Assignment
) -> Nest | None:
    """A nest where it is, with the rest of the payload as it is; None where it has no knobs."""
    (func,) = equal.funcs
    paths = frozenset(path for path in uses if _leads_through(path, equal.ops))
    if not paths:
        return None
    part = parts.within((f"{SIGN}{func.body.ops[-2].name}",), paths, sizes, values)
    return Nest(part, (), paths, equal.ops)


def _names(func: FuncOp) -> list[str]:
    return [op.name for op in func.walk() if op is not func]


def _renamed(path: str, names: Mapping[str, str]) -> str:
    """The path of a knob in the payload, from that in a function: without the function, operations as the payload names
    them, also those that steps made of them."""
    return "/".join(_renamed_word(word, names) for word in path.partition(":")[2].split("/"))


def _renamed_word(word: str, names: Mapping[str, str]) -> str:
    parts = word.split(".")
    for count in range(len(parts), 0, -1):
        stem = ".".join(parts[:count])
        known = next((names[name] for name in names if name and name.replace("/", ".") == stem), None)
        if known is not None:
            return ".".join([known.replace("/", "."), *parts[count:]])
    return word


def _leads_through(path: str, names: Iterable[str]) -> bool:
    """Whether a path leads through one of some operations."""
    known = {name.replace("/", ".") for name in names}
    return any(word in known for word in path.split("/"))


def _alike(use: KnobUse, other: KnobUse) -> bool:
    return use.value == other.value and use.domain == other.domain
