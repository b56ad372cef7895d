"""What knobs a schedule has for a payload, and what it requires of them.

The schedule is followed without taking a step, and everything that depends on knobs becomes a formula over them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tcpx.interp.conditions import Condition
from tcpx.interp.declared_knobs import bind_knob, chosen_alternative, limit_of
from tcpx.interp.expressions import evaluate
from tcpx.interp.foresight import UnforeseenError
from tcpx.interp.frame import Frame
from tcpx.interp.interpreter import Arm, Values, check_requirement
from tcpx.interp.lifting import lifted, plain_value
from tcpx.interp.payload_check import PayloadChecker
from tcpx.interp.space.decided import may_hold, surely_holds
from tcpx.interp.space.foresight import SurveyForesight
from tcpx.interp.space.formula import Formula, Value, apply, constant, either, guessed, knob
from tcpx.interp.space.variables import CHOICE, Constraint, Surveyed, Variable
from tcpx.interp.state import State
from tcpx.interp.values import UNKNOWN, DimHandle, OpHandle
from tcpx.payload.diagnostics import Location, TcpxError
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.binding import SequenceCallee


class Surveyor(PayloadChecker):
    """Follows a schedule. `shares` gives the path of the first use for knobs that share its value; `sizes` are those
    that the kernel will be called with, none if that is not known."""

    def __init__(
        self,
        state: State,
        foresight: SurveyForesight,
        shares: Mapping[str, str],
        sizes: Sequence[Mapping[str, int]] = (),
    ) -> None:
        super().__init__(state, foresight)
        self.guesses, self.shares, self.sizes = foresight, shares, sizes
        self.is_taken = True
        self.surely: list[Condition | None] = []
        self.unreached: set[int] = set()
        self.result = Surveyed()
        self.active: tuple[Formula, ...] = ()
        self.returned: tuple[Formula | None, ...] = ()
        """The results of the sequence that was followed last, over knobs; None for one that is no formula."""

    def statement(self, statement: ast.Statement, frame: Frame) -> Values | None:
        match statement:
            case ast.Knob():
                self._knob(statement, frame)
            case ast.Require():
                self._require(statement, frame)
            case ast.Tune():
                self._tune(statement, frame)
            case ast.Return():
                self.returned = tuple(self.fold(v, frame) for v in statement.values)
                return super().statement(statement, frame)
            case _:
                return super().statement(statement, frame)
        return None

    def let(self, statement: ast.Let, frame: Frame) -> None:
        self.returned = ()
        super().let(statement, frame)
        if len(statement.names) == 1:
            self._note(statement.names[0], statement.value, frame, frame)
        for name, formula in zip(statement.names, self.returned, strict=False):
            if formula is not None and not formula.is_constant:
                frame.formulas[name] = formula

    def sequence(self, callee: SequenceCallee, call: ast.Call, frame: Frame) -> Values | None:
        results = super().sequence(callee, call, frame)
        if results is None:
            self.returned = ()
        return results

    def fold(self, expression: ast.Expression, frame: Frame) -> Formula | None:
        """The expression over knobs; None where it depends on what is not known before the schedule runs."""
        before = self.guesses.start_guessing()
        try:
            made = lifted(evaluate(expression, self.state, frame.over_knobs()))
        except (UnforeseenError, TcpxError):
            return None
        finally:
            is_guess = self.guesses.end_guessing(before)
        return guessed(made) if is_guess else made

    def _knob(self, statement: ast.Knob, frame: Frame) -> None:
        default = self.fold(statement.default, frame)
        domain = self.fold(statement.domain, frame) if statement.domain is not None else None
        pinned = self.state.knobs.value(frame.use, statement.name)
        try:
            bind_knob(statement, self.state, frame)
        except TcpxError as error:  # a default that does not fit is no point of the space
            refused = frame.located(error.diagnostic, statement.location)
            self.report(refused.diagnostic)
            if default is None or domain is None:
                return
            if pinned is not None:
                if domain.is_constant and not domain.is_guess and not self.active:
                    self.result.misfits.append(refused.diagnostic)
                frame.names[statement.name] = pinned
                self._keep_inside(domain, pinned, statement, frame)
                return
            frame.names[statement.name] = next(iter(_items(domain)), UNKNOWN)
        use = self.state.knobs.at(f"{frame.use}.{statement.name}")
        if use is not None and use.overridden:
            if not use.beyond:
                self._keep_inside(domain, plain_value(use.value), statement, frame)
            return
        if default is None and use is not None:
            held = plain_value(use.default)
            default = constant(held, is_guess=True) if held is not None else None
        if domain is None and statement.domain is not None and use is not None:
            held = [plain_value(item) for item in use.domain]
            domain = constant(tuple(item for item in held if item is not None), is_guess=True)
        limit = limit_of(statement, self.state, frame)
        if domain is not None and limit is not None:
            domain = apply("up_to", (domain, constant(limit)))
        if default is None:  # not known here, or a size that symbols decide
            return
        if statement.domain is None and statement.type.name == "bool":
            domain = constant((False, True))
        type_, documentation = statement.type.name, statement.trivia.doc
        path = self._variable(frame, statement.name, type_, default, domain, statement.location, documentation)
        frame.formulas[statement.name] = knob(path)

    def _keep_inside(self, domain: Formula | None, held: Value | None, statement: ast.Knob, frame: Frame) -> None:
        """A pinned value is in the domain that other knobs leave."""
        if domain is None or domain.is_guess or held is None:
            return
        inside = apply("contains", (domain, constant(held)))
        if inside is not None and (inside.knobs or self.active):
            message = f"`{statement.name}` is not in its domain at {frame.use}"
            self.result.constraints.append(Constraint(inside, self.active, message, statement.location))

    def _variable(
        self,
        frame: Frame,
        name: str,
        type_: str,
        default: Formula,
        domain: Formula | None,
        location: Location,
        documentation: str = "",
    ) -> str:
        """Declare a coordinate, or another use of one; its path."""
        own = f"{frame.use}.{name}"
        use = self.state.knobs.at(own)
        shared = use.shares if use is not None else ""
        path = (shared if type_ == CHOICE else self.shares.get(own, shared)) or own
        if self.is_taken:
            self.result.taken.add(path)
        known = self.result.variables.get(path)
        if known is None:
            made = Variable(path, frame.use, type_, default, domain, self.active, location, documentation)
            self.result.variables[path] = made
            return path
        own_texts, other_texts = ({f.text for f in active} for active in (known.active, self.active))
        if own_texts != other_texts and known.active:
            either_way = (either([known.active, self.active]),) if self.active else ()
            self.result.variables[path] = replace(known, active=either_way)
        if domain is not None and known.domain is not None and domain.text != known.domain.text:
            inside = apply("contains", (domain, knob(path)))
            if inside is not None:
                message = f"`{name}` is not in its domain at {frame.use}"
                self.result.constraints.append(Constraint(inside, self.active, message, location))
        return path

    def _require(self, statement: ast.Require, frame: Frame) -> None:
        formula = self.fold(statement.condition, frame)
        if formula is not None and not formula.is_constant and not formula.is_guess:
            message = statement.message or f"`{statement.location.span}` does not hold"
            self.result.constraints.append(Constraint(formula, self.active, message, statement.location))
        elif formula is not None:
            check_requirement(statement, self.state, frame)

    def _tune(self, statement: ast.Tune, frame: Frame) -> None:
        if statement.name:
            self._named_tune(statement, frame)
            return
        chosen_alternative(statement, self.state, frame)
        places = list(dict.fromkeys(tune.location for tune in frame.tunes))
        name = f"tune{places.index(statement.location) + 1}"
        use = self.state.knobs.at(f"{frame.use}.{name}")
        if use is not None and use.overridden:
            chosen = use.value if isinstance(use.value, int) else 0
            self.block(statement.alternatives[chosen], frame.block())
            return
        blocks = dict(enumerate(statement.alternatives))
        self._alternatives(statement, name, CHOICE, constant(0), blocks, frame)

    def _named_tune(self, statement: ast.Tune, frame: Frame) -> None:
        default = self.fold(statement.default, frame) if statement.default is not None else None
        taken = chosen_alternative(statement, self.state, frame)
        use = self.state.knobs.at(f"{frame.use}.{statement.name}")
        if use is None or use.overridden:
            self.block(taken, frame.block())
            return
        blocks = {w: b for w, b in zip(statement.words, statement.alternatives, strict=True) if w in use.domain}
        held = default if default is not None else constant(str(use.default), is_guess=statement.default is not None)
        self._alternatives(statement, statement.name, "string", held, blocks, frame)

    def _alternatives(
        self,
        statement: ast.Tune,
        name: str,
        type_: str,
        default: Formula,
        blocks: Mapping[int, ast.Block] | Mapping[str, ast.Block],
        frame: Frame,
    ) -> None:
        """A knob that chooses a block: what is in one counts where it is chosen."""
        domain = constant(tuple(blocks))
        path = self._variable(frame, name, type_, default, domain, statement.location, statement.trivia.doc)
        for value, block in blocks.items():
            is_chosen = apply("==", (knob(path), constant(value)))
            under = (is_chosen,) if is_chosen is not None else ()
            self.may_run(Arm(block, frame.block(), is_certain=False, under=under))

    def may_run(self, arm: Arm) -> None:
        held, self.active = self.active, (*self.active, *arm.under)
        try:
            super().may_run(arm)
        finally:
            self.active = held

    def arms_of_if(self, statement: ast.If, frame: Frame) -> Iterator[Arm]:
        """All blocks, where all conditions are formulas: each under its own, and the opposites of those before it."""
        conditions = [self.fold(branch.condition, frame) for branch in statement.branches]
        known = [c for c in conditions if c is not None]
        if len(known) < len(conditions) or all(c.is_constant for c in known):
            yield from super().arms_of_if(statement, frame)
            return
        opposites: tuple[Formula, ...] = ()
        for condition, branch in zip(known, statement.branches, strict=True):
            yield Arm(branch.body, frame.block(), is_certain=False, under=(*opposites, condition))
            opposite = apply("not", (condition,))
            opposites += (opposite,) if opposite is not None else ()
        if statement.orelse is not None:
            yield Arm(statement.orelse, frame.block(), is_certain=False, under=opposites)

    def tested(self, expression: ast.Expression, frame: Frame) -> Condition | None:
        """The condition of a version; one that steps may have changed says nothing about sizes."""
        before = self.guesses.start_guessing()
        try:
            held = super().tested(expression, frame)
        finally:
            guessed = self.guesses.end_guessing(before)
        self.surely.append(None if guessed and not self._is_untouched(expression, frame) else held)
        return held

    def _is_untouched(self, expression: ast.Expression, frame: Frame) -> bool:
        """Whether all handles that an expression mentions are of operations that no step was given."""
        values = [frame.names[name] for name in _names_in(expression) if name in frame.names]
        handles = [value.base if isinstance(value, DimHandle) else value for value in values]
        return all(isinstance(h, OpHandle) and not self.guesses.touched.intersection(h.origins) for h in handles)

    def versions_made(self, statement: ast.Specialize, frame: Frame) -> list[tuple[ast.Block, bool]]:
        """The versions that may be made; those that none of the sizes reaches are not taken."""
        outer, self.surely = self.surely, []
        made = super().versions_made(statement, frame)
        conditions, self.surely = self.surely, outer
        bodies = [branch.body for branch in statement.branches]
        self.unreached -= {id(block) for block in (*bodies, statement.orelse)}
        left: Sequence[Mapping[str, int]] = self.sizes
        for body, condition in zip(bodies, conditions, strict=False):
            if not any(may_hold(condition, sizes) for sizes in left):
                self.unreached.add(id(body))
            left = [sizes for sizes in left if not surely_holds(condition, sizes)]
        if not left:
            self.unreached.add(id(statement.orelse))
        return made

    def block(self, block: ast.Block, frame: Frame) -> Values | None:
        """Follow a block; knobs in one that no size reaches are not taken."""
        held, self.is_taken = self.is_taken, self.is_taken and not (self.sizes and id(block) in self.unreached)
        try:
            return super().block(block, frame)
        finally:
            self.is_taken = held

    def frame_of(self, callee: SequenceCallee, call: ast.Call, frame: Frame) -> Frame:
        """Parameters are formulas of what they are given."""
        inner = super().frame_of(callee, call, frame)
        given = self.state.arguments_of(callee.sequence, call)
        for param in callee.sequence.params:
            if param.name in given:
                self._note(param.name, given[param.name].value, frame, inner)
            elif param.default is not None:
                self._note(param.name, param.default, inner, inner)
        return inner

    def _note(self, name: str, value: ast.Expression, frame: Frame, bound_in: Frame) -> None:
        """A name bound to what depends on knobs: to the formula, or to top where it is none."""
        if not frame.formulas.keys().isdisjoint(_names_in(value)):
            formula = self.fold(value, frame)
            if formula is None or not formula.is_constant:
                bound_in.formulas[name] = formula or UNKNOWN


def _names_in(expression: ast.Expression) -> set[str]:
    """All names that an expression mentions."""
    return {node.name for node in ast.walk(expression) if isinstance(node, ast.Name)}


def _items(domain: Formula) -> tuple[Value, ...]:
    """The values of a domain that no knob decides."""
    held = domain.value({}) if domain.is_constant else ()
    return held if isinstance(held, tuple) else (held,)
