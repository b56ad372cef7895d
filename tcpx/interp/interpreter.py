"""The meaning of statements in any domain: over concrete values they are run, over others they are only followed.

What a name is bound to is an element of the domain (`values.RuntimeValue`). Where a condition has no concrete value,
each block that it may choose is followed, and what they do is joined: nothing that only one of them says is certain.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from tcpx.interp.calls import frame_of_call
from tcpx.interp.declared_knobs import bind_knob, chosen_alternative
from tcpx.interp.expressions import evaluate, pattern_outcome, truth, value_or_top
from tcpx.interp.foresight import UnforeseenError
from tcpx.interp.frame import Frame
from tcpx.interp.matching import Miss, Outcome, near_misses, pattern_text
from tcpx.interp.navigation import UnknownAttributeError, narrowed
from tcpx.interp.patterns import names_of
from tcpx.interp.space.formula import Formula
from tcpx.interp.state import State
from tcpx.interp.values import UNKNOWN, OperandHandle, OpHandle, RuntimeValue, Unknown, describe
from tcpx.interp.versions import expanded
from tcpx.payload.diagnostics import ConditionError, Kind, MissingError
from tcpx.payload.ir import Operation
from tcpx.plurals import counted
from tcpx.records import frozen
from tcpx.transform.declaration import Transform
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.binding import SequenceCallee, find_callee, is_import
from tcpx.transform.language.printer import print_expression

Values = tuple[RuntimeValue, ...]


@frozen
class Arm:
    """A block that may be chosen, with the frame it is followed in. `under` are formulas that hold where it is."""

    body: ast.Block
    frame: Frame
    is_certain: bool
    """Whether its condition holds; what does not hold is no arm."""
    under: tuple[Formula, ...] = ()


class Interpreter(ABC):
    """Goes through a schedule. A domain says what a step does, what a failure does, and how blocks are joined."""

    def __init__(self, state: State) -> None:
        self.state = state

    # -- what a domain says --------------------------------------------------------------------------------------

    @abstractmethod
    def guarded(self, statement: ast.Statement, frame: Frame) -> Values | None:
        """The effect of a statement, also where it fails."""

    @abstractmethod
    def step(
        self, transform: type[Transform], call: ast.Call, statement: ast.Statement, frame: Frame, optional: bool
    ) -> Values | None:
        """The effect of a step; the handles of its results, None if they are not known."""

    @abstractmethod
    def optional(self, follow: Callable[[], Values | None]) -> Values | None:
        """The effect of a call that is left out where it fails."""

    @abstractmethod
    def attempts(self, statement: ast.Try, frame: Frame) -> Values | None:
        """The effect of the first alternative that does not fail."""

    @abstractmethod
    def specialize(self, statement: ast.Specialize, frame: Frame) -> None:
        """The effect of all versions."""

    @abstractmethod
    def items(self, statement: ast.ForEach, frame: Frame) -> Iterable[RuntimeValue]:
        """What a `for` goes through."""

    @abstractmethod
    def may_run(self, arm: Arm) -> None:
        """The join of a block that may be chosen into what is known."""

    def frame_of(self, callee: SequenceCallee, call: ast.Call, frame: Frame) -> Frame:
        """The frame of a sequence, with its parameters bound."""
        return frame_of_call(callee, call, self.state, frame)

    def evaluated(self, expression: ast.Expression, frame: Frame) -> RuntimeValue:
        """What a name is bound to. Raises UnforeseenError for top."""
        return evaluate(expression, self.state, frame)

    # -- statements ----------------------------------------------------------------------------------------------

    def block(self, block: ast.Block, frame: Frame) -> Values | None:
        """Statements in order, in the names of `frame`; the returned values once one surely returns, else None."""
        with self.state.work.nested(frame, block):
            for statement in block.statements:
                self.state.work.statement(frame, statement)
                returned = self.guarded(statement, frame)
                if returned is not None:
                    return returned
        return None

    def statement(self, statement: ast.Statement, frame: Frame) -> Values | None:
        """The effect of one that does not fail."""
        match statement:
            case ast.Let():
                self.let(statement, frame)
            case ast.Do():
                self.call(statement.call, statement, frame, statement.optional)
            case ast.Knob():
                bind_knob(statement, self.state, frame)
            case ast.Require():
                check_requirement(statement, self.state, frame)
            case ast.Return():
                return tuple(value_or_top(value, self.state, frame) for value in statement.values)
            case ast.Specialize():
                self.specialize(statement, frame)
            case ast.Versions():
                self.versions(statement, frame)
            case _:
                return self.choice(statement, frame)
        return None

    def choice(self, statement: ast.If | ast.Case | ast.ForEach | ast.Try | ast.Tune, frame: Frame) -> Values | None:
        """The effect of a statement whose blocks can return."""
        match statement:
            case ast.If():
                return self.first_of(self.arms_of_if(statement, frame))
            case ast.Case():
                return self.first_of(self.arms_of_case(statement, frame))
            case ast.ForEach():
                return self.for_each(statement, frame)
            case ast.Try():
                return self.attempts(statement, frame)
            case ast.Tune():
                return self.block(chosen_alternative(statement, self.state, frame), frame.block())

    def first_of(self, arms: Iterable[Arm]) -> Values | None:
        """The effect of the first block whose condition holds: all of them, where that is not certain."""
        is_certain = True
        for arm in arms:
            if is_certain and arm.is_certain:
                return self.block(arm.body, arm.frame)
            self.may_run(arm)
            if arm.is_certain:
                return None
            is_certain = False
        return None

    def let(self, statement: ast.Let, frame: Frame) -> None:
        """Bind names to a value, to its parts, or to the results of a call."""
        value, names = statement.value, statement.names
        if isinstance(value, ast.Call) and is_step(value, frame):
            results = self.call(value, statement, frame, statement.optional)
            if results is None:
                results = (UNKNOWN,) * len(names)
            elif statement.optional and not results:
                results = tuple(OpHandle((), name) for name in names)
        else:
            made = self.evaluated(value, frame)
            results = made if len(names) > 1 and isinstance(made, tuple) else (made,)
        if len(results) != len(names):
            raise frame.error(
                "names and results differ in number",
                statement,
                required=counted(len(results), "name"),
                found=", ".join(names),
            )
        frame.names.update((name, value) for name, value in zip(names, results, strict=True) if name != ast.NOTHING)

    def call(self, call: ast.Call, statement: ast.Statement, frame: Frame, optional: bool) -> Values | None:
        """The effect of a step or a sequence; None for results that are not known."""
        callee = find_callee(call.function, frame.unit)
        if isinstance(callee, type):
            return self.step(callee, call, statement, frame, optional)
        if not isinstance(callee, SequenceCallee):
            raise frame.error("this statement has no effect", statement, required="the call of a transform or sequence")
        if optional:
            return self.optional(lambda: self.sequence(callee, call, frame))
        return self.sequence(callee, call, frame)

    def sequence(self, callee: SequenceCallee, call: ast.Call, frame: Frame) -> Values | None:
        """The effect of the statements of a sequence."""
        return self.block(callee.sequence.body, self.frame_of(callee, call, frame))

    def for_each(self, statement: ast.ForEach, frame: Frame) -> Values | None:
        """The effect of all iterations."""
        for item in self.items(statement, frame):
            returned = self.iteration(statement, item, frame)
            if returned is not None:
                return returned
        return None

    def iteration(self, statement: ast.ForEach, item: RuntimeValue, frame: Frame) -> Values | None:
        """The effect of one iteration."""
        inner = frame.block()
        inner.names.update(_named_parts(statement, item, frame))
        return self.block(statement.body, inner)

    def versions(self, statement: ast.Versions, frame: Frame) -> None:
        """The effect of the `specialize` that is meant."""
        meant = expanded(statement, self.state, frame)
        if isinstance(meant, ast.Block):
            self.block(meant, frame.block())
        else:
            self.specialize(meant, frame)

    # -- what may be chosen --------------------------------------------------------------------------------------

    def arms_of_if(self, statement: ast.If, frame: Frame) -> Iterator[Arm]:
        """The blocks whose conditions are not known to be false."""
        for branch in statement.branches:
            holds = self.holds(branch.condition, frame)
            if holds is not False:
                yield Arm(branch.body, frame.block(), holds is True)
        if statement.orelse is not None:
            yield Arm(statement.orelse, frame.block(), is_certain=True)

    def holds(self, condition: ast.Expression, frame: Frame) -> bool | None:
        """Whether the condition of an `if` holds; None if that is not known."""
        try:
            return truth(condition, "`if`", self.state, frame)
        except UnforeseenError:
            return None

    def arms_of_case(self, statement: ast.Case, frame: Frame) -> Iterator[Arm]:
        """The blocks whose patterns may fit. Behind the first of which that is not known, it is known of none."""
        subject = value_or_top(statement.subject, self.state, frame)
        if not isinstance(subject, OpHandle | Unknown):
            raise frame.error("`case` is about an op", statement.subject, required="op", found=describe(subject))
        foresight, asked = self.state.foresight, None
        if isinstance(subject, OpHandle) and (foresight is None or foresight.is_known(subject.origins)):
            asked = subject
        ops = self.state.handles.resolve(asked, statement.subject.location) if asked is not None else []
        reasons: list[str] = []
        for arm in statement.arms:
            outcomes = self._outcomes(arm, asked, ops, frame) if asked is not None else None
            if asked is None or outcomes is None:
                asked = None
                yield Arm(arm.body, frame.block(), is_certain=False)
                continue
            miss = next((outcome for outcome in outcomes if isinstance(outcome, Miss)), None)
            if miss is None:
                yield Arm(arm.body, _frame_of_arm(arm, asked, outcomes[0], frame), is_certain=True)
                return
            reason = near_misses([miss])[0] if miss.op.name else miss.reason
            reasons.append(f"{pattern_text(arm.pattern)}: {reason}")
        if isinstance(statement.orelse, ast.Block):
            yield Arm(statement.orelse, frame.block(), is_certain=True)
        elif asked is not None:
            raise _no_arm(statement, asked, reasons, frame)

    def _outcomes(self, arm: ast.Arm, subject: OpHandle, ops: list[Operation], frame: Frame) -> list[Outcome] | None:
        """How operations do by the pattern of an arm; None if it is not known."""
        try:
            return [pattern_outcome(arm.pattern, arm.where, op, self.state, frame, subject.inside) for op in ops]
        except UnforeseenError:
            return None


def is_step(call: ast.Call, frame: Frame) -> bool:
    """Whether a call is of a transform or a sequence, not of a function or a method."""
    if isinstance(call.function, ast.Attribute) and not is_import(call.function, frame.unit):
        return False
    callee = find_callee(call.function, frame.unit)
    return isinstance(callee, type | SequenceCallee)


def check_requirement(statement: ast.Require, state: State, frame: Frame) -> None:
    """Raise ScheduleError if a `require` does not hold."""
    condition = statement.condition
    try:
        if truth(condition, "`require`", state, frame):
            return
    except (UnknownAttributeError, MissingError) as error:  # to ask for one is a question, too
        raise ConditionError(error.diagnostic) from None
    found = "it does not hold"
    if isinstance(condition, ast.Binary) and condition.operator not in ("and", "or"):
        sides = [describe(evaluate(e, state, frame)) for e in (condition.lhs, condition.rhs)]
        found = f"{sides[0]} {condition.operator} {sides[1]} does not hold"
    raise frame.error(
        statement.message or "a requirement of the schedule does not hold",
        statement,
        required=print_expression(condition),
        found=found,
        kind=Kind.SILENCEABLE,
        of=ConditionError,
    )


def _named_parts(statement: ast.ForEach, item: RuntimeValue, frame: Frame) -> dict[str, RuntimeValue]:
    """The variables of a `for`: one is the item, several are its parts."""
    names = statement.variables
    if len(names) == 1:
        return {names[0]: item}
    parts = item if isinstance(item, tuple) else (item,)
    if len(parts) != len(names):
        raise frame.error(
            "variables and parts of an item differ in number",
            statement,
            required=counted(len(parts), "name"),
            found=", ".join(names),
        )
    return dict(zip(names, parts, strict=True))


def _no_arm(statement: ast.Case, subject: OpHandle, reasons: Iterable[str], frame: Frame) -> Exception:
    return frame.error(
        statement.orelse.message if isinstance(statement.orelse, ast.Fail) else f"no case fits %{subject.label}",
        statement,
        required="an arm that fits",
        found=f"%{subject.label}",
        notes=tuple(reasons),
        kind=Kind.SILENCEABLE,
        of=ConditionError,
    )


def _frame_of_arm(arm: ast.Arm, subject: OpHandle, outcome: Outcome, frame: Frame) -> Frame:
    """Names in the block of an arm that fits: those of its pattern, too."""
    inner = frame.block()
    if not isinstance(outcome, Miss):
        parts = tuple(_narrowed(part, subject) for part in outcome)
        inner.names.update(names_of(arm.pattern, subject, parts, frame))
    return inner


def _narrowed(part: RuntimeValue, subject: OpHandle) -> RuntimeValue:
    """A part of a pattern, in the copies that are asked about."""
    match part:
        case OpHandle():
            return narrowed(part, subject)
        case OperandHandle():
            return replace(part, base=narrowed(part.base, subject))
        case _:
            return part
