"""Running statements: the interpreter over concrete values, whose steps change the payload in transactions."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from tcpx.interp.attempts import note_errors, run_or_leave, run_try
from tcpx.interp.expressions import evaluate, where_miss
from tcpx.interp.frame import Frame
from tcpx.interp.interpreter import Arm, Interpreter, Values
from tcpx.interp.patterns import names_of
from tcpx.interp.recovery import Savepoint
from tcpx.interp.specialization import run_specialize
from tcpx.interp.state import State
from tcpx.interp.steps import run_step
from tcpx.interp.values import OpHandle, RuntimeValue, describe, kind_of
from tcpx.payload.diagnostics import ScheduleError
from tcpx.transform.declaration import Transform
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.binding import SequenceCallee, find_callee


class Runner(Interpreter):
    """Runs a schedule. Raises ScheduleError; the payload is then as it was before the step that failed."""

    def guarded(self, statement: ast.Statement, frame: Frame) -> Values | None:
        self.state.trace.fire(statement.location)
        if _is_recovered_inside(statement, frame):
            return self.statement(statement, frame)
        return run_or_leave(self.state, lambda: self.statement(statement, frame))

    def step(
        self, transform: type[Transform], call: ast.Call, statement: ast.Statement, frame: Frame, optional: bool
    ) -> Values:
        self.state.work.step(frame, statement)
        return run_step(transform, call, statement, self.state, frame, optional)

    def optional(self, follow: Callable[[], Values | None]) -> Values | None:
        saved = Savepoint.take(self.state)
        try:
            return follow()
        except ScheduleError as error:
            if not self.state.recovers_from(error):
                raise
            saved.restore(self.state)
            note_errors([error], self.state)
            return ()

    def attempts(self, statement: ast.Try, frame: Frame) -> Values | None:
        return run_try(statement, self.state, frame, self.block)

    def specialize(self, statement: ast.Specialize, frame: Frame) -> None:
        run_specialize(statement, self.state, frame, self.block)

    def may_run(self, arm: Arm) -> None:
        raise AssertionError("a condition has a concrete value in a run")

    def sequence(self, callee: SequenceCallee, call: ast.Call, frame: Frame) -> Values:
        return super().sequence(callee, call, frame) or ()

    def frame_of(self, callee: SequenceCallee, call: ast.Call, frame: Frame) -> Frame:
        self.state.trace.use(callee.sequence)
        inner = super().frame_of(callee, call, frame)
        self.state.trace.use_in(inner.place, callee.sequence)
        return inner

    def items(self, statement: ast.ForEach, frame: Frame) -> Iterator[RuntimeValue]:
        """Items that ended, or that an earlier one was merged with, are passed over."""
        earlier = defaultdict[int, list[OpHandle]](list)
        items = list[RuntimeValue]()
        run_or_leave(self.state, lambda: items.extend(_listed(statement, self.state, frame)))
        for item in items:
            head = item[0] if isinstance(item, tuple) and item else item
            if isinstance(head, OpHandle):
                if not _still_wanted(item, head, statement.items, self.state, frame):
                    continue
                if _is_merged(head, earlier, self.state):
                    continue
                for origin in head.origins:
                    earlier[origin].append(head)
            yield item

    def iteration(self, statement: ast.ForEach, item: RuntimeValue, frame: Frame) -> Values | None:
        inner = super().iteration
        return run_or_leave(self.state, lambda: inner(statement, item, frame))


def _is_recovered_inside(statement: ast.Statement, frame: Frame) -> bool:
    """Whether a failure leaves out a part of a statement: an iteration of a loop, a statement of a sequence."""
    match statement:
        case ast.ForEach():
            return True
        case ast.Do(optional=False):
            return isinstance(find_callee(statement.call.function, frame.unit), SequenceCallee)
        case _:
            return False


def _is_merged(item: OpHandle, earlier: Mapping[int, Sequence[OpHandle]], state: State) -> bool:
    """Whether an item denotes what an earlier one does by now, by the origins of the earlier ones."""
    origins = dict.fromkeys(origin for op in state.handles.live(item) for origin in op.origins)
    heads = (head for origin in origins if origin in earlier for head in earlier[origin])
    return any(state.handles.same(item, head) for head in heads)


def _listed(statement: ast.ForEach, state: State, frame: Frame) -> Iterator[RuntimeValue]:
    """What a `for` goes through."""
    value = evaluate(statement.items, state, frame)
    if isinstance(value, tuple):
        yield from value
    elif isinstance(value, OpHandle):
        yield value
    else:
        found = f"{kind_of(value)} {describe(value)}"
        raise frame.error("`for` goes through a list", statement.items, required="list or range", found=found)


def _still_wanted(item: RuntimeValue, head: OpHandle, items: ast.Expression, state: State, frame: Frame) -> bool:
    """Items that ended, or no longer satisfy the `where` they were matched by, are passed over."""
    parts = item if isinstance(item, tuple) else (item,)
    if not all(state.handles.live(part) for part in parts if isinstance(part, OpHandle)):
        return False
    if not isinstance(items, ast.Match):
        return True
    named = names_of(items.pattern, head, parts[1:], frame)
    asked = state.handles.live(head)
    return all(where_miss(items.where, op, state, frame, named, head.inside) is None for op in asked)
