"""One case: a random payload, a random schedule, and after every statement the checks that nothing was broken."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

import tcpx
from tcpx.payload.constants import Constants
from tcpx.payload.diagnostics import Kind, TcpxError, VerifyError
from tcpx.payload.evaluator import evaluate_func
from tcpx.payload.ir import Module
from tcpx.payload.text.parser import parse
from tcpx.payload.verifier import verify_module
from tcpx.target import Target
from tests.comparison import structurally_equal
from tests.nets.counts import Counts
from tests.nets.messages import is_located
from tests.nets.oracle import KINDS, Array, Expected, arguments, expectation, sizes_of
from tests.nets.payloads import CONSTANTS, MANY_CONSTANTS, RandomPayload
from tests.nets.schedules import LATE, RARE, RandomSchedule, Step
from tests.nets.session import Session, schedule_text
from tests.nets.symbols import other_symbols

SIZES = 3
"""Of which a step is checked on one, in turn, and the whole schedule on all."""


EVERY_TEXT = 10
"""One case in so many is printed and parsed after every step, all at the end."""


class BrokenError(AssertionError):
    """A wrong number, a crash, or a failure that does not say where."""


@dataclass(frozen=True, slots=True)
class Trial:
    """Arguments, and what they should give."""

    sizes: dict[str, int]
    kind: str
    arguments: list[Array]
    expected: list[Expected]


def trials_of(module: Module, seed: int) -> list[Trial]:
    """Arguments of every kind at several sizes; none where rounding decides the result."""
    made: list[Trial] = []
    for k, sizes in enumerate(sizes_of(module, seed, SIZES)):
        kind = KINDS[(seed + k) % len(KINDS)]
        given = arguments(module, sizes, kind, seed)
        expected = expectation(module, given, sizes)
        if expected is not None:
            made.append(Trial(sizes, kind, given, expected))
    return made


def exact_trials(module: Module, calls: Sequence[tuple[dict[str, int], list[Array]]]) -> list[Trial]:
    """Trials of whole numbers, of which no operation rounds. Raises VerifyError for a race of a parallel loop."""
    made: list[Trial] = []
    for sizes, given in calls:
        found = evaluate_func(module, module.main, given)
        expected = [Expected(a, np.zeros(a.shape), np.zeros(a.shape, np.bool_)) for a in found]
        made.append(Trial(sizes, "whole", given, expected))
    return made


def compare(found: Sequence[Array], trial: Trial) -> None:
    """Raise BrokenError unless the results are right."""
    for k, (array, wanted) in enumerate(zip(found, trial.expected, strict=True)):
        difference = wanted.difference(np.asarray(array))
        if difference is not None:
            raise BrokenError(f"result {k} at sizes {trial.sizes}, {trial.kind} numbers: {difference}")


def check_text(module: Module) -> None:
    """The module prints, and parses back equal."""
    try:
        again = parse(module.text(), constants=module.constants)
    except TcpxError as error:
        raise BrokenError(f"the payload does not parse back: {error}\n{module.text()}") from error
    difference = structurally_equal(module, again)
    if difference is not None:
        raise BrokenError(f"printed and parsed it differs in {difference}:\n{module.text()}")


def check_numbers(module: Module, trials: Sequence[Trial]) -> None:
    """The module keeps the rules and gives the right numbers."""
    try:
        verify_module(module)
    except TcpxError as error:
        raise BrokenError(f"the payload does not verify: {error}\n{module.text()}") from error
    for trial in trials:
        try:
            found = evaluate_func(module, module.main, trial.arguments, seed=sum(trial.sizes.values()))
        except VerifyError as error:
            raise BrokenError(f"at sizes {trial.sizes}: {error}\n{module.text()}") from error
        compare(found, trial)


def check_module(module: Module, trials: Sequence[Trial]) -> None:
    """Both, and that its sizes know what is declared."""
    others = other_symbols(module)
    if others:
        raise BrokenError(f"{others[0]}:\n{module.text()}")
    check_text(module)
    check_numbers(module, trials)


@dataclass(slots=True)
class Case:
    """A payload text and the statements of a schedule: what reproduces a failure."""

    seed: int
    payload: str
    constants: Constants
    statements: list[str] = field(default_factory=list[str])
    trials: list[Trial] = field(default_factory=list[Trial])

    @property
    def schedule(self) -> str:
        """The text of the schedule."""
        return schedule_text(self.statements)

    def module(self) -> Module:
        """The payload, read again."""
        return parse(self.payload, constants=self.constants)

    def report(self, error: BaseException) -> str:
        """What to paste into an issue."""
        return f"seed {self.seed}: {error}\n\n{self.payload}\n{self.schedule}"


class Checker:
    """Checks a session after each of its statements."""

    def __init__(self, session: Session, trials: Sequence[Trial], every_text: bool) -> None:
        self.session = session
        self.every_text = every_text
        self.trials = list(trials)
        self.text = session.module.text()
        self.steps = 0

    def accept(self, error: TcpxError | None, text: str) -> None:
        """Raise BrokenError if the statement, or its failure, is not as it should be."""
        module = self.session.module
        if error is not None:
            missing = is_located(error)
            if missing is not None:
                raise BrokenError(f"`{text}` fails with {missing}: {error}")
            if module.text() != self.text:
                raise BrokenError(f"`{text}` fails and changes the payload: {error}")
            return
        self.text = module.text()
        self.steps += 1
        check_numbers(module, self.trials[self.steps % len(self.trials) :][:1])
        if self.every_text:
            check_text(module)


def new_case(seed: int, counts: Counts, target: Target, opcodes: Sequence[str] = ()) -> tuple[Case, list[Step]]:
    """Make a payload and a schedule for it, checking every step. Raises BrokenError with a reproducer, made small."""
    part = MANY_CONSTANTS if counts.cases >= LATE and counts.by_transform["constant_fold"] < RARE else CONSTANTS
    for attempt in range(20):
        made = RandomPayload(seed + 1_000_003 * attempt, opcodes=opcodes, constant_part=part).make()
        case = Case(seed, made.text(), made.constants)
        case.trials = trials_of(case.module(), seed)
        if len(case.trials) >= 2:
            break
    return case, scheduled(case, counts, target)


def scheduled(case: Case, counts: Counts, target: Target, lowers: bool = False) -> list[Step]:
    """Draw a schedule for the payload of a case, checking every step; with `lowers`, down to buffers and rows. Raises
    BrokenError with a reproducer, made small."""
    module = case.module()
    check_module(module, case.trials)
    session = Session(module, target)
    checker = Checker(session, case.trials, every_text=case.seed % EVERY_TEXT == 0)
    schedule = RandomSchedule(case.seed, session, counts, checker.accept, lowers)
    try:
        schedule.make()
        case.statements = schedule.statements
        check_whole(case, session.module, target)
    except Exception as error:
        case.statements = schedule.statements
        raise BrokenError(shrunk(case, error, target)) from error
    counts.finish(schedule.applied, len(schedule.steps))
    counts.see_ranges(session.module, [trial.sizes for trial in case.trials])
    return schedule.steps


def check_whole(case: Case, stepwise: Module, target: Target) -> None:
    """The text as a whole does what its statements did one after the other."""
    program = tcpx.parse_schedule(case.schedule)
    found = [d for d in tcpx.check(program) if d.kind is not Kind.WARNING]
    if found:
        raise BrokenError(f"the checker refuses a schedule that ran: {found[0].render()}")
    run = tcpx.apply_schedule(case.module(), program, target=target, threads=2)
    difference = structurally_equal(run.module, stepwise)
    if difference is not None:
        raise BrokenError(f"run as a whole the schedule gives another payload: {difference}")
    check_module(run.module, case.trials)


def replay(case: Case, statements: Sequence[str], target: Target) -> BaseException | None:
    """Run a schedule with all checks; what is wrong with it, or None."""
    session = Session(case.module(), target)
    for text in statements:
        try:
            session.run(text)
        except TcpxError as error:
            if error.diagnostic.kind is Kind.INTERNAL:
                return error
        except Exception as error:  # noqa: BLE001 - a crash, whatever it is, is what is looked for
            return error
        try:
            check_module(session.module, case.trials)
        except Exception as error:  # noqa: BLE001
            return error
    return None


def shrunk(case: Case, error: BaseException, target: Target) -> str:
    """The report of a failure with the statements that do not matter left out."""
    if os.environ.get("TCPX_NETS_SHRINK", "1") == "0":
        return case.report(error)
    kept = list(case.statements)
    if replay(case, kept, target) is None:
        return case.report(error)
    for at in reversed(range(len(kept))):
        fewer = [*kept[:at], *kept[at + 1 :]]
        if replay(case, fewer, target) is not None:
            kept = fewer
    smaller = Case(case.seed, case.payload, case.constants, kept, case.trials)
    return smaller.report(replay(case, kept, target) or error)
