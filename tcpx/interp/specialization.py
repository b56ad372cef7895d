"""`specialize x when c { } else { }`: one version of the ops per condition, each scheduled by its block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import perf_counter

from tcpx.interp.expressions import condition, evaluate
from tcpx.interp.frame import Frame
from tcpx.interp.handles import BranchFilter
from tcpx.interp.recovery import Savepoint
from tcpx.interp.state import State
from tcpx.interp.steps import crash
from tcpx.interp.trace import TraceEntry
from tcpx.interp.values import OpHandle, RuntimeValue, describe
from tcpx.payload.diagnostics import Kind, ScheduleError, TcpxError, VerifyError
from tcpx.payload.ir import Operation
from tcpx.payload.predicates import Predicate
from tcpx.payload.verifier import verify_ops
from tcpx.transform.arguments import TransformContext
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.printer import print_expression
from tcpx.transform.specialize_when import Version, specialize_when

RunBlock = Callable[[ast.Block, State, Frame], tuple[RuntimeValue, ...] | None]


def run_specialize(statement: ast.Specialize, state: State, frame: Frame, run_block: RunBlock) -> None:
    """Make the versions and run each branch on its copies; a condition that is decided now makes no version."""
    open_branches: list[tuple[ast.Branch, Predicate]] = []
    last: ast.Block | ast.Fail = statement.orelse
    for branch in statement.branches:
        held = condition(branch.condition, state, frame)
        if held is True:
            last = branch.body
            break
        if isinstance(held, Predicate):
            _check_reachable(held, [p for _, p in open_branches], branch, frame)
            open_branches.append((branch, held))
    if not open_branches:
        run_block(_block(last, statement, frame), state, frame.block())
        return
    saved = Savepoint.take(state)
    try:
        versions = _versions(statement, [p for _, p in open_branches], state, frame)
        bodies = [*(branch.body for branch, _ in open_branches), _block(last, statement, frame)]
        for version, body in zip(versions, bodies, strict=True):
            _run_branch(version, body, state, frame, run_block)
    except TcpxError:
        saved.restore(state)
        raise


def _block(last: ast.Block | ast.Fail, statement: ast.Specialize, frame: Frame) -> ast.Block:
    if isinstance(last, ast.Block):
        return last
    rest = f"the rest of {print_expression(statement.target)}"
    raise frame.error(
        last.message or "no version covers the remaining sizes",
        last,
        required="`else { ... }`: a kernel runs for all sizes of its signature",
        found="`else fail` behind a condition that is known only when the kernel runs",
        fix=f"state the range of the symbols in the payload, or schedule {rest} in `else {{ ... }}`",
    )


def _check_reachable(held: Predicate, earlier: list[Predicate], branch: ast.Branch, frame: Frame) -> None:
    """A branch that the ones before it leave nothing is an error."""
    here = held
    for predicate in earlier:
        if predicate == held:
            break
        opposite = predicate.negate()
        if opposite is not None:
            facts = opposite.refine(here.symbols())
            here = here.substitute({symbol: refined.size() for symbol, refined in facts.items()})
    else:
        if here.decide() is not False:
            return
    raise frame.error(
        "this branch is never taken",
        branch,
        required="a condition that the branches before it leave room for",
        found=f"{held} after {', '.join(map(str, earlier))}",
    )


def _targets(statement: ast.Specialize, state: State, frame: Frame) -> list[Operation]:
    value = evaluate(statement.target, state, frame)
    ops: list[Operation] = []
    for item in value if isinstance(value, tuple) else (value,):
        if not isinstance(item, OpHandle):
            raise frame.error("versions are made of ops", statement.target, required="op", found=describe(item))
        ops += state.handles.resolve(item, statement.target.location)
    return list(dict.fromkeys(ops))


def _versions(
    statement: ast.Specialize, predicates: list[Predicate], state: State, frame: Frame
) -> tuple[Version, ...]:
    """The versioning is a step of its own: verified and recorded."""
    started, mark, visited = perf_counter(), state.rewriter.mark(), state.rewriter.visited
    where = statement.location
    ops = _targets(statement, state, frame)
    context = TransformContext(state.rewriter, state.target, state.threads, where)
    try:
        versions = specialize_when(context, ops, predicates)
    except VerifyError as error:
        raise ScheduleError(
            replace(error.diagnostic, kind=Kind.SILENCEABLE, schedule=where, calls=frame.calls)
        ) from error
    except TcpxError:
        raise
    except Exception as error:
        raise crash("specialize when", error, where, frame) from error
    try:
        touched = state.rewriter.take_touched()
        state.nests.forget(touched)
        verify_ops(touched)
    except VerifyError as error:
        raise frame.error(
            f"`specialize` left the payload in a state that breaks a rule: {error.diagnostic.message}",
            statement,
            required=error.diagnostic.required,
            found=error.diagnostic.found,
            kind=Kind.INTERNAL,
        ) from error
    state.trace.entries.append(
        TraceEntry(
            index=len(state.trace.entries),
            statement=f"specialize {print_expression(statement.target)} when {', '.join(map(str, predicates))}",
            transform="specialize when",
            location=where,
            calls=frame.calls,
            bound=(("target", ", ".join(f"%{op.name}" for op in ops)),),
            journal=(mark, state.rewriter.mark()),
            visited=state.rewriter.visited - visited,
            seconds=perf_counter() - started,
            loops=state.nests.of(state.func),
        )
    )
    return versions


def _run_branch(version: Version, body: ast.Block, state: State, frame: Frame, run_block: RunBlock) -> None:
    state.handles.branches.append(BranchFilter(version.conditional.origins, version.region))
    run_block(body, state, frame.block())
    state.handles.branches.pop()
