"""What is wrong with a schedule for a payload, found without taking a step.

Statements are followed in order over the payload as it is. What earlier steps would have changed is not known: names
bound to it are unknown, and of blocks that may not run nothing is reported. So every finding is one a run would have.
"""

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from tcpx.interp.calls import use_paths
from tcpx.interp.conditions import Condition
from tcpx.interp.declared_knobs import bind_knob, chosen_alternative
from tcpx.interp.expressions import argument_value, candidates_of, condition, evaluate, pattern_outcome, truth
from tcpx.interp.foresight import Foresight, UnforeseenError
from tcpx.interp.frame import Frame
from tcpx.interp.matching import Miss, match_handles
from tcpx.interp.parameters import checked_parameter
from tcpx.interp.specialization import frame_of_version
from tcpx.interp.state import State
from tcpx.interp.statements import check_requirement, frame_of_arm, is_step, named_parts
from tcpx.interp.step_check import step_findings
from tcpx.interp.values import UNKNOWN, OpHandle, RuntimeValue
from tcpx.interp.versions import expanded
from tcpx.payload.diagnostics import Diagnostic, Kind, TcpxError
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.binding import SequenceCallee, declared_arguments, find_callee
from tcpx.transform.language.checker.reachability import classes_above

Known = RuntimeValue | None
"""A value, or None where it is not known."""
_NEVER_MADE = frozenset(("composite", "contract"))
"""Classes that only steps on the operation tree make: if nothing is of them, a later step finds nothing either."""


def check_on_payload(schedule: ast.Schedule, state: State, frame: Frame) -> tuple[Diagnostic, ...]:
    """Everything found, in the order of the statements; `frame` holds the parameters of the schedule."""
    state.foresight = Foresight()
    checker = PayloadChecker(state, state.foresight)
    checker.block(schedule.body, frame)
    return tuple(checker.found.values())


@dataclass(slots=True)
class PayloadChecker:
    state: State
    foresight: Foresight
    found: dict[tuple[object, ...], Diagnostic] = field(default_factory=dict[tuple[object, ...], Diagnostic])
    muted: int = 0

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
            self.block(block, frame.block())
            return self.found
        finally:
            self.found = held

    # -- statements ----------------------------------------------------------------------------------------------

    def block(self, block: ast.Block, frame: Frame) -> list[Known] | None:
        """Follow a block; what it returns, None if it does not return for sure."""
        for statement in block.statements:
            self.state.work.statement(frame, statement)
            try:
                returned = self.statement(statement, frame)
            except UnforeseenError:
                returned = None
                self._unknown(statement, frame)
            except TcpxError as error:
                returned = None
                self.report(frame.located(error.diagnostic, statement.location).diagnostic)
                self._unknown(statement, frame)
            if returned is not None:
                return returned
        return None

    def _unknown(self, statement: ast.Statement, frame: Frame) -> None:
        match statement:
            case ast.Let():
                frame.names.update(dict.fromkeys(statement.names, UNKNOWN))
            case ast.Knob():
                frame.names[statement.name] = UNKNOWN
            case ast.ForEach():
                inner = frame.block()
                inner.names.update(dict.fromkeys(statement.variables, UNKNOWN))
                with self.mute():
                    self.block(statement.body, inner)
            case _:
                pass

    def statement(self, statement: ast.Statement, frame: Frame) -> list[Known] | None:
        match statement:
            case ast.Let():
                self._let(statement, frame)
            case ast.Do():
                self._call(statement.call, statement, frame, statement.optional)
            case ast.Knob():
                bind_knob(statement, self.state, frame)
            case ast.Require():
                check_requirement(statement, self.state, frame)
            case ast.Return():
                return [self._value(v, frame) for v in statement.values]
            case ast.ForEach():
                self._for(statement, frame)
            case ast.Tune():
                return self.block(chosen_alternative(statement, self.state, frame), frame.block())
            case _:
                return self._choice(statement, frame)
        return None

    def _choice(
        self, statement: ast.If | ast.Case | ast.Try | ast.Specialize | ast.Versions, frame: Frame
    ) -> list[Known] | None:
        match statement:
            case ast.If():
                return self._if(statement, frame)
            case ast.Case():
                return self._case(statement, frame)
            case ast.Try():
                self._try(statement, frame)
            case ast.Specialize():
                self._specialize(statement, frame)
            case ast.Versions():
                return self._versions(statement, frame)
        return None

    def _value(self, expression: ast.Expression, frame: Frame) -> Known:
        try:
            return evaluate(expression, self.state, frame)
        except UnforeseenError:
            return None

    def _evaluated(self, expression: ast.Expression, frame: Frame) -> RuntimeValue:
        if isinstance(expression, ast.Match) and self.foresight.is_changed:
            return match_after_steps(expression, self.state, frame, self.foresight)
        return evaluate(expression, self.state, frame)

    def _let(self, statement: ast.Let, frame: Frame) -> None:
        value = statement.value
        if isinstance(value, ast.Call) and is_step(value, frame):
            results = self._call(value, statement, frame, statement.optional)
            for k, name in enumerate(statement.names):
                self._bind(name, results[k] if k < len(results) and not statement.optional else None, frame)
            return
        made = self._evaluated(value, frame)
        parts = made if len(statement.names) > 1 and isinstance(made, tuple) else (made,)
        for name, part in zip(statement.names, parts, strict=True):
            self._bind(name, part, frame)

    def _bind(self, name: str, value: Known, frame: Frame) -> None:
        frame.names[name] = UNKNOWN if value is None else value

    def _call(self, call: ast.Call, statement: ast.Statement, frame: Frame, optional: bool = False) -> list[Known]:
        callee = find_callee(call.function, frame.unit)
        with self.mute(optional):
            if isinstance(callee, type):
                for diagnostic in step_findings(callee, call, statement, self.state, frame, self.foresight):
                    self.report(diagnostic)
                self.foresight.note(callee)
            elif isinstance(callee, SequenceCallee):
                return self._sequence(callee, call, frame)
        return []

    def _sequence(self, callee: SequenceCallee, call: ast.Call, frame: Frame) -> list[Known]:
        sequence = callee.sequence
        inner = Frame(callee.unit, frame.use, calls=((sequence.name, call.location), *frame.calls))
        bound = declared_arguments(sequence, call)
        for param in sequence.params:
            given = bound.get(param.name)
            try:
                if given is not None:
                    value = argument_value(param, given.value, self.state, frame)
                elif param.default is not None:
                    value = evaluate(param.default, self.state, inner)
                else:
                    continue
                where = given.value.location if given is not None else param.location
                value = checked_parameter(param.name, param.type, value, where, self.state, frame, callee.unit)
                self._bind(param.name, value, inner)
            except UnforeseenError:
                inner.names[param.name] = UNKNOWN
        inner.given = tuple(value for value in inner.names.values() if value is not UNKNOWN)
        inner.use, inner.place = use_paths(frame, sequence.name, inner, self.state)
        self.entering(sequence, bound, frame, inner)
        return self.block(sequence.body, inner) or []

    def entering(self, sequence: ast.Sequence, bound: Mapping[str, ast.Argument], frame: Frame, inner: Frame) -> None:
        """Called with the frames outside and inside a sequence, before it is followed."""

    def _for(self, statement: ast.ForEach, frame: Frame) -> None:
        value = self._evaluated(statement.items, frame)
        for item in value if isinstance(value, tuple) else (value,):
            inner = frame.block()
            for name, part in named_parts(statement, item, frame).items():
                self._bind(name, part, inner)
            self.block(statement.body, inner)

    def _if(self, statement: ast.If, frame: Frame) -> list[Known] | None:
        certain = True
        for branch in statement.branches:
            try:
                taken = truth(branch.condition, "`if`", self.state, frame)
            except UnforeseenError:
                certain = False
                with self.mute():
                    self.block(branch.body, frame.block())
                continue
            if taken:
                with self.mute(not certain):
                    returned = self.block(branch.body, frame.block())
                return returned if certain else None
        if statement.orelse is not None:
            with self.mute(not certain):
                returned = self.block(statement.orelse, frame.block())
            return returned if certain else None
        return None

    def _case(self, statement: ast.Case, frame: Frame) -> list[Known] | None:
        subject = self._value(statement.subject, frame)
        last = statement.orelse if isinstance(statement.orelse, ast.Block) else None
        if not isinstance(subject, OpHandle) or not self.foresight.is_known(subject.origins):
            return self._any_of((*(arm.body for arm in statement.arms), *((last,) if last is not None else ())), frame)
        ops = self.state.handles.resolve(subject, statement.subject.location)
        for k, arm in enumerate(statement.arms):
            try:
                inside = subject.inside
                tested = [pattern_outcome(arm.pattern, arm.where, op, self.state, frame, inside) for op in ops]
            except UnforeseenError:
                left = (arm.body for arm in statement.arms[k:])
                return self._any_of((*left, *((last,) if last is not None else ())), frame)
            if not any(isinstance(outcome, Miss) for outcome in tested):
                return self.block(arm.body, frame_of_arm(arm, subject, tested[0], frame))
        if last is not None:
            return self.block(last, frame.block())
        message = statement.orelse.message if isinstance(statement.orelse, ast.Fail) else "no case fits"
        found = f"%{subject.label}"
        raise frame.error(message, statement, required="an arm that fits", found=found, kind=Kind.SILENCEABLE)

    def _any_of(self, blocks: Iterable[ast.Block], frame: Frame) -> None:
        """One of these runs; which one is not known."""
        with self.mute():
            for block in blocks:
                self.block(block, frame.block())

    def _try(self, statement: ast.Try, frame: Frame) -> None:
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

    def _specialize(self, statement: ast.Specialize, frame: Frame) -> None:
        versions = self.versions(statement, frame)
        self.foresight.is_changed = self.foresight.is_changed or len(versions) > 1
        for body, certain in versions:
            with self.mute(not certain):
                self.block(body, frame_of_version(statement, body, frame))

    def _versions(self, statement: ast.Versions, frame: Frame) -> list[Known] | None:
        try:
            meant = expanded(statement, self.state, frame)
        except UnforeseenError:
            return None
        if isinstance(meant, ast.Block):
            return self.block(meant, frame.block())
        self._specialize(meant, frame)
        return None

    def versions(self, statement: ast.Specialize, frame: Frame) -> list[tuple[ast.Block, bool]]:
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
