"""The search space of a schedule for a payload: the entry point of this package."""

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Final

from tcpx.assignment import Assignment, KnobNames, ParamValue, in_any_function, listed_knobs
from tcpx.interp.engine import START, begin_run, run_schedule
from tcpx.interp.knobs import KnobUse, OverriddenLaterError
from tcpx.interp.lifting import plain_value
from tcpx.interp.space.foresight import SurveyForesight
from tcpx.interp.space.formula import constant
from tcpx.interp.space.survey import Surveyor
from tcpx.interp.space.variables import Constraint, Surveyed, Variable
from tcpx.payload.diagnostics import Diagnostic, Kind, ScheduleError
from tcpx.payload.ir import Module
from tcpx.records import brief, frozen
from tcpx.suggestions import did_you_mean
from tcpx.target import Target
from tcpx.transform.language.loader import Program

_NUMBERED: Final = re.compile(r"tune\d+")
"""The names of choices without a name: a run numbers those that it takes, the space all that there are."""


@frozen
class SearchSpace:
    """The knobs that nothing sets, in the order in which they are bound, and what is required of them.

    `refusal` says why the defaults do not make a kernel, where they do not. `untaken` are the paths of knobs that stand
    only in branches of `specialize` that the given sizes never take; they are not among the variables. `names` are the
    shortest ones that tell knobs apart, these and those that something sets included.
    """

    variables: tuple[Variable, ...]
    constraints: tuple[Constraint, ...]
    refusal: Diagnostic | None = None
    untaken: tuple[str, ...] = ()
    names: KnobNames = KnobNames({})

    def __repr__(self) -> str:
        return brief("SearchSpace", f"of {len(self.variables)} knob(s), {len(self.constraints)} constraint(s)")

    def no_knob(self, key: str, required: str) -> Diagnostic:
        """What is wrong with a name, path or glob of paths that none of the variables has."""
        paths = [variable.path for variable in self.variables]
        found, notes = listed_knobs(key, paths)
        fix = did_you_mean(key, [*map(self.names, paths), *paths, *(variable.name for variable in self.variables)])
        return Diagnostic(f"no knob is called `{key}`", required=required, found=found, notes=notes, fix=fix)


def survey(
    module: Module,
    copy: Module,
    program: Program,
    target: Target,
    *,
    threads: int = 1,
    params: Mapping[str, ParamValue] | None = None,
    sizes: Sequence[Mapping[str, int]] = (),
) -> SearchSpace:
    """The space of a schedule. `params` pins knobs; `module` stays what it is, `copy` is changed. `sizes` are those
    that the kernel will be called with, if that is known.

    The schedule is run once with its defaults, which tells what uses share a knob; then it is followed without taking
    a step. Raises ScheduleError for a schedule that is wrong whatever its knobs are, and for a pinned value outside a
    domain that no knob decides.
    """
    shares: dict[str, str] = {}
    present: set[str] | None = None
    used: list[KnobUse] = []
    refusal = None
    try:
        run = run_schedule(copy, program, target, threads=threads, params=params)
        shares = {form(use.path): form(use.shares or use.path) for use in run.knobs for form in (str, in_any_function)}
        present = set(shares)
        used = [use for use in run.knobs if not use.shares]
    except ScheduleError as error:
        if error.diagnostic.kind is not Kind.SILENCEABLE:
            raise
        refusal = error.diagnostic
    found = _followed(module, program, target, threads, Assignment.of(params), shares, sizes)
    if found.misfits:
        raise ScheduleError(found.misfits[0])
    behind = _behind_steps(used, found)
    found.variables |= behind
    found.taken |= behind.keys()
    kept = _that_count(found.variables.values(), present)
    untaken = tuple(variable.path for variable in kept if variable.path not in found.taken)
    kept = [variable for variable in kept if variable.path in found.taken]
    known = {variable.path for variable in kept}
    constraints = tuple(c for c in found.constraints if c.knobs <= known)
    others = (in_any_function(use.path) for use in used if use.path not in found.variables)
    names = KnobNames.of([*found.variables, *others])
    return SearchSpace(tuple(kept), constraints, refusal, untaken, names)


def _behind_steps(used: Iterable[KnobUse], found: Surveyed) -> dict[str, Variable]:
    """The knobs of the run that following the schedule did not come by: what they are used on is made by steps, so that
    the domains of the run are all that is known."""
    made: dict[str, Variable] = {}
    for use in used:
        path = in_any_function(use.path)
        default, items = plain_value(use.default), [plain_value(item) for item in use.domain]
        if (
            {path, use.path} & found.variables.keys()
            or use.overridden
            or default is None
            or len(items) < 2
            or None in items
        ):
            continue
        domain = constant(tuple(item for item in items if item is not None), is_guess=True)
        place, _, name = path.rpartition(".")
        if not _NUMBERED.fullmatch(name):
            type_ = type(default).__name__.replace("str", "string")
            made[path] = Variable(path, place, type_, constant(default, is_guess=True), domain, (), use.location)
    return made


def _that_count(variables: Iterable[Variable], present: Set[str] | None) -> list[Variable]:
    """The variables that a run with the defaults has, or may have where knobs that it has choose other blocks; all if
    the defaults are refused, which is None."""
    kept: dict[str, Variable] = {}
    for variable in variables:
        conditions = variable.active
        is_open = bool(conditions) and all(formula.knobs & kept.keys() for formula in conditions)
        if present is None or is_open or variable.is_choice or variable.path in present:
            kept[variable.path] = variable
    return list(kept.values())


def _followed(
    module: Module,
    program: Program,
    target: Target,
    threads: int,
    assignment: Assignment,
    shares: Mapping[str, str],
    sizes: Sequence[Mapping[str, int]],
) -> Surveyed:
    """What is found without taking a step; begun anew where an override reaches only a later use of a shared knob."""
    while True:
        called, state, frame = begin_run(module, program, target, threads, assignment)
        state.foresight = foresight = SurveyForesight()
        surveyor = Surveyor(state, foresight, shares, sizes)
        try:
            surveyor.block(called.body, frame)
        except OverriddenLaterError as error:
            assignment = error.settled(assignment)
            continue
        finally:
            state.rewriter.rollback(START)
        return surveyor.result
