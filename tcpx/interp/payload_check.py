"""What is wrong with a schedule for a payload, found without taking a step.

Statements are followed in order over the payload as it is. What earlier steps would have changed is not known: names
bound to it are unknown, and of blocks that may not run nothing is reported. So every finding is one a run would have.
"""

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import replace

from tcpx.interp.conditions import Condition
from tcpx.interp.expressions import candidates_of, condition
from tcpx.interp.foresight import Foresight, UnforeseenError
from tcpx.interp.frame import Frame
from tcpx.interp.interpreter import Arm, Interpreter, Values
from tcpx.interp.matching import match_handles
from tcpx.interp.specialization import frame_of_version
from tcpx.interp.state import State
from tcpx.interp.step_check import step_findings
from tcpx.interp.values import UNKNOWN, OpHandle, RuntimeValue
from tcpx.payload.diagnostics import Diagnostic, Kind, TcpxError
from tcpx.transform.declaration import Transform
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.binding import SequenceCallee
from tcpx.transform.language.checker.reachability import classes_above

_NEVER_MADE = frozenset(("composite", "contract"))
"""Classes that only steps on the operation tree make: if nothing is of them, a later step finds nothing either."""


def check_on_payload(schedule: ast.Schedule, state: State, frame: Frame) -> tuple[Diagnostic, ...]:
    """Everything found, in the order of the statements; `frame` holds the parameters of the schedule."""
    state.foresight = Foresight()
    checker = PayloadChecker(state, state.foresight)
    checker.block(schedule.body, frame)
    return tuple(checker.found.values())


class PayloadChecker(Interpreter):
    """Follows a schedule over what is known before it runs: names bound to what steps change are bound to top. What it
    finds in a block that may not run is not reported."""

    def __init__(self, state: State, foresight: Foresight) -> None:
        super().__init__(state)
        self.foresight = foresight
        self.found: dict[tuple[object, ...], Diagnostic] = {}
        self.muted = 0
        self.may_be_over = False
        """Whether the sequence that is followed may have returned."""

    def report(self, diagnostic: Diagnostic) -> None:
        """Keep a finding, each place and message once."""
        if not self.muted:
            self.found.setdefault((str(diagnostic.schedule), diagnostic.message), diagnostic)

    @contextmanager
    def mute(self, on: bool = True) -> Generator[None]:
        """Follow statements that may not run: nothing is reported."""
        self.muted += on
        try:
            yield
        finally:
            self.muted -= on

    def captured(self, block: ast.Block, frame: Frame) -> dict[tuple[object, ...], Diagnostic]:
        """What is found in a block, set apart."""
        held, self.found = self.found, {}
        try:
            if self.block(block, frame.block()) is not None:
                self.may_return()
            return self.found
        finally:
            self.found = held

    # -- the domain ----------------------------------------------------------------------------------------------

    def guarded(self, statement: ast.Statement, frame: Frame) -> Values | None:
        try:
            return self.statement(statement, frame)
        except UnforeseenError:
            self._forget(statement, frame)
        except TcpxError as error:
            self.report(frame.located(error.diagnostic, statement.location).diagnostic)
            self._forget(statement, frame)
        return None

    def _forget(self, statement: ast.Statement, frame: Frame) -> None:
        """Nothing is known of what a statement binds."""
        match statement:
            case ast.Let():
                frame.names.update(dict.fromkeys(statement.names, UNKNOWN))
            case ast.Knob():
                frame.names[statement.name] = UNKNOWN
            case ast.ForEach():
                inner = frame.block()
                inner.names.update(dict.fromkeys(statement.variables, UNKNOWN))
                self.may_run(Arm(statement.body, inner, is_certain=False))
            case _:
                pass

    def may_run(self, arm: Arm) -> None:
        with self.mute():
            returned = self.block(arm.body, arm.frame)
        if returned is not None:
            self.may_return()

    def may_return(self) -> None:
        """What follows in the sequence may not run."""
        self.may_be_over = True
        self.muted += 1

    def sequence(self, callee: SequenceCallee, call: ast.Call, frame: Frame) -> Values | None:
        outer, self.may_be_over = (self.muted, self.may_be_over), False
        try:
            returned = super().sequence(callee, call, frame)
            return None if self.may_be_over else returned
        finally:
            self.muted, self.may_be_over = outer

    def optional(self, follow: Callable[[], Values | None]) -> None:
        with self.mute():
            follow()

    def step(
        self, transform: type[Transform], call: ast.Call, statement: ast.Statement, frame: Frame, optional: bool
    ) -> None:
        with self.mute(optional):
            for diagnostic in step_findings(transform, call, statement, self.state, frame, self.foresight):
                self.report(diagnostic)
            self.foresight.note(transform)

    def evaluated(self, expression: ast.Expression, frame: Frame) -> RuntimeValue:
        if isinstance(expression, ast.Match) and self.foresight.is_changed:
            return match_after_steps(expression, self.state, frame, self.foresight)
        return super().evaluated(expression, frame)

    def items(self, statement: ast.ForEach, frame: Frame) -> Iterable[RuntimeValue]:
        value = self.evaluated(statement.items, frame)
        return value if isinstance(value, tuple) else (value,)

    def attempts(self, statement: ast.Try, frame: Frame) -> None:
        failures: list[Diagnostic] = []
        hits = self.state.knobs.hits
        for alternative in statement.alternatives:
            before = replace(self.foresight)
            found = list(self.captured(alternative, frame).values())
            definite = [d for d in found if d.kind is not Kind.SILENCEABLE]
            for diagnostic in definite:
                self.report(diagnostic)
            if definite or not found:
                return
            failures.append(found[0])
            self.foresight.is_changed, self.foresight.is_reshaped = before.is_changed, before.is_reshaped
        if isinstance(statement.orelse, ast.Remark):
            for diagnostic in failures if self.state.knobs.hits > hits else ():
                self.report(diagnostic)
        elif statement.orelse is not None or len(failures) > 1:
            raise frame.error(
                statement.orelse.message if statement.orelse is not None else "every alternative of `try` fails",
                statement,
                required="an alternative that applies",
                notes=tuple(f"{d.schedule}: {d.message}" for d in failures),
                kind=Kind.SILENCEABLE,
            )

    def specialize(self, statement: ast.Specialize, frame: Frame) -> None:
        versions = self.versions_made(statement, frame)
        self.foresight.is_changed = self.foresight.is_changed or len(versions) > 1
        for body, certain in versions:
            with self.mute(not certain):
                self.block(body, frame_of_version(statement, body, frame))

    def versions_made(self, statement: ast.Specialize, frame: Frame) -> list[tuple[ast.Block, bool]]:
        """The blocks of the versions that may be made, and whether that is certain."""
        bodies: list[ast.Block] = []
        certain = True
        for branch in statement.branches:
            held = self.tested(branch.condition, frame)
            certain = certain and held is not None
            if held is not False:
                bodies.append(branch.body)
            if held is True:
                break
        else:
            bodies += [statement.orelse] if isinstance(statement.orelse, ast.Block) else []
        return [(body, certain) for body in bodies]

    def tested(self, expression: ast.Expression, frame: Frame) -> Condition | None:
        """The condition of a version; None if it is not known."""
        try:
            return condition(expression, self.state, frame)
        except UnforeseenError:
            return None


def match_after_steps(match: ast.Match, state: State, frame: Frame, foresight: Foresight) -> RuntimeValue:
    """What a match behind steps finds, if they leave no doubt. Raises UnforeseenError if they do, and ScheduleError
    for one that finds nothing whatever they do."""
    name = match.pattern.op_class
    if match.pattern.equations or foresight.is_reshaped or not _NEVER_MADE & {name, *classes_above(name)}:
        foresight.require_unchanged()
    found = match_handles(match, state, frame, candidates_of(match, state, frame))
    handles = found if isinstance(found, tuple) else (found,)
    if any(isinstance(h, OpHandle) and not foresight.is_known(h.origins) for h in handles):
        raise UnforeseenError
    return found
