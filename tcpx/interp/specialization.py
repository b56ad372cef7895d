"""`specialize x when c { } else { }`: one version of the ops per condition, each scheduled by its block."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from tcpx.interp.chains import with_chains
from tcpx.interp.conditions import alternatives_of, is_covered
from tcpx.interp.expressions import condition, evaluate
from tcpx.interp.frame import Frame
from tcpx.interp.handles import BranchFilter
from tcpx.interp.recording import Recording
from tcpx.interp.recovery import Savepoint
from tcpx.interp.state import State
from tcpx.interp.steps import check_touched, crash
from tcpx.interp.values import OpHandle, RuntimeValue, describe
from tcpx.payload.contexts import context_in
from tcpx.payload.diagnostics import ConditionError, Direction, Kind, ScheduleError, StepError, TcpxError, VerifyError
from tcpx.payload.ir import Operation
from tcpx.payload.sizes.predicates import Predicate
from tcpx.transform.arguments import TransformContext
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.printer import print_expression
from tcpx.transform.specialize_when import Failure, Version, specialize_when

RunBlock = Callable[[ast.Block, Frame], tuple[RuntimeValue, ...] | None]
NO_VERSION: Final = "no version of the kernel is for these sizes"


def run_specialize(statement: ast.Specialize, state: State, frame: Frame, run_block: RunBlock) -> None:
    """Make the versions and run each branch on its copies; a condition that is decided now makes no version.

    `else fail` behind conditions that are not decided becomes an assertion, which every call of the kernel checks.
    """
    branches, last = _open_branches(statement, state, frame)
    if not branches:
        if isinstance(last, ast.Fail):
            raise _nothing_holds(last, statement, frame)
        run_block(last, frame_of_version(statement, last, frame))
        return
    bodies = [*(branch.body for branch, _ in branches), *([last] if isinstance(last, ast.Block) else [])]
    failure = None if isinstance(last, ast.Block) else Failure(last.message or NO_VERSION, last.location)
    saved = Savepoint.take(state)
    try:
        versions = _versions(statement, [p for _, p in branches], failure, state, frame)
        for version, body in zip(versions, bodies, strict=True):
            _run_branch(version, body, state, frame_of_version(statement, body, frame), run_block)
    except TcpxError:
        saved.restore(state)
        raise


def _open_branches(
    statement: ast.Specialize, state: State, frame: Frame
) -> tuple[list[tuple[ast.Branch, Predicate]], ast.Block | ast.Fail]:
    """The branches to choose from at run time, once per condition that `or` joins, and what is left for all other
    sizes. What the branches round the statement rule out is left out; in a sequence, which is for any operation, also
    what the sizes of this one rule out."""
    facts, is_for_any = state.handles.facts, bool(frame.calls)
    branches: list[tuple[ast.Branch, Predicate]] = []
    written: list[Predicate] = []
    last, last_text = statement.orelse, "`else`"
    for branch in statement.branches:
        held = condition(branch.condition, state, frame)
        if held is True:
            last, last_text = branch.body, describe(held)
            break
        alternatives = alternatives_of(held)
        if alternatives and not is_for_any and all(is_covered(predicate, written) for predicate in alternatives):
            raise _never_taken(branch, describe(held), written, frame)
        written += alternatives
        earlier = [p for _, p in branches]
        branches += [(branch, p) for p in alternatives if not is_covered(p, earlier, facts)]
    if branches:
        branches, last = _taken(branches, last, statement, state, frame)
    if not branches or not is_covered(Predicate(), [p for _, p in branches], facts):
        return branches, last
    if isinstance(last, ast.Block) and not is_for_any and is_covered(Predicate(), written):
        raise _never_taken(last, last_text, written, frame)
    body = branches.pop()[0].body
    return branches, body


def _taken(
    branches: list[tuple[ast.Branch, Predicate]],
    last: ast.Block | ast.Fail,
    statement: ast.Specialize,
    state: State,
    frame: Frame,
) -> tuple[list[tuple[ast.Branch, Predicate]], ast.Block | ast.Fail]:
    """Those that a call takes of a function that `share` made, where all of them know their sizes. Where none takes
    what is left, it fails: the function asserts what its calls decide."""
    ops = _targets(statement, state, frame) if state.rewriter.calls else []
    func = ops[0].func if ops else None
    calls = state.handles.sizes_of_calls(func) if func is not None else []
    if not calls or any(p.variables() for _, p in branches):
        return branches, last
    chosen = {next((k for k, (_, p) in enumerate(branches) if p.evaluate(sizes)), None) for sizes in calls}
    taken = [branch for k, branch in enumerate(branches) if k in chosen]
    return taken, last if None in chosen else ast.Fail(NO_VERSION, location=statement.location)


def _never_taken(node: ast.Node, found: str, earlier: list[Predicate], frame: Frame) -> Exception:
    return frame.error(
        "this branch is never taken",
        node,
        required="a condition that the branches before it leave room for",
        found=f"{found} after {', '.join(map(str, earlier))}",
        fix=Direction("remove it, or write `else fail` to say that the branches before it are all there are"),
    )


def _nothing_holds(last: ast.Fail, statement: ast.Specialize, frame: Frame) -> Exception:
    conditions = ", or ".join(print_expression(branch.condition) for branch in statement.branches)
    return frame.error(
        last.message or NO_VERSION,
        last,
        required=conditions,
        found="none of them holds",
        kind=Kind.SILENCEABLE,
        of=ConditionError,
    )


def _targets(statement: ast.Specialize, state: State, frame: Frame) -> list[Operation]:
    value = evaluate(statement.target, state, frame)
    if statement.takes_chains and isinstance(value, OpHandle):
        value = with_chains(value, state, statement.target.location)
    ops: list[Operation] = []
    for item in value if isinstance(value, tuple) else (value,):
        if not isinstance(item, OpHandle):
            raise frame.error("versions are made of ops", statement.target, required="op", found=describe(item))
        ops += state.handles.resolve(item, statement.target.location)
    return list(dict.fromkeys(ops))


def _versions(
    statement: ast.Specialize, predicates: list[Predicate], failure: Failure | None, state: State, frame: Frame
) -> tuple[Version, ...]:
    """The versioning is a step of its own: verified and recorded."""
    recording = Recording.begin(state)
    where = statement.location
    ops = _targets(statement, state, frame)
    context = TransformContext(
        state.rewriter,
        state.target,
        state.threads,
        where,
        handle_name=frame.handle_name,
        language=frame.unit.language,
    )
    try:
        versions = specialize_when(context, ops, predicates, failure)
    except VerifyError as error:
        raise StepError(replace(error.diagnostic, kind=Kind.SILENCEABLE, schedule=where, calls=frame.calls)) from None
    except TcpxError as error:
        raise StepError(error.diagnostic) from None
    except Exception as error:
        raise crash("specialize when", error, where, frame, ops[0].location if ops else None) from error
    try:
        touched = check_touched("specialize", state, where)
    except ScheduleError as error:
        raise frame.located(error.diagnostic, where) from error
    recording.commit(
        f"specialize {print_expression(statement.target)} when {', '.join(map(str, predicates))}",
        "specialize when",
        where,
        frame,
        {"target": ", ".join(f"%{op.name}" for op in ops)},
        (),
        touched,
    )
    return versions


def frame_of_version(statement: ast.Specialize, body: ast.Block, frame: Frame) -> Frame:
    """The frame of a branch: its knobs are its own, `packed_gemm/when1.mc`, for other sizes want other values."""
    number = next((k for k, branch in enumerate(statement.branches, start=1) if branch.body is body), None)
    name = f"when{number}" if number is not None else "else"
    inner = frame.block()
    inner.use, inner.place = f"{frame.use}/{name}", f"{frame.place}/{name}"
    return inner


def _run_branch(version: Version, body: ast.Block, state: State, inner: Frame, run_block: RunBlock) -> None:
    facts = context_in(version.conditional, version.region).invariant()
    origins, since = frozenset(version.conditional.origins), state.module.next_origin
    state.handles.branches.append(BranchFilter(origins, version.region, facts, since))
    run_block(body, inner)
    state.handles.branches.pop()
