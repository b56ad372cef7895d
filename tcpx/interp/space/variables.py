"""The variables and constraints of a search space, as formulas over the knobs that are bound earlier."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from tcpx.assignment import Assignment, last_name
from tcpx.interp.space.formula import Formula, FormulaError, Ranges, Value, Values
from tcpx.payload.diagnostics import Diagnostic, Location
from tcpx.records import brief, frozen

CHOICE = "choice"
"""The type of the knob that `tune` is."""


@frozen
class Variable:
    """A coordinate of the space. It counts where all of `active` hold; `domain` gives a tuple, None for any value.

    The knob of a `tune` is numbered among those of its `use` that run; `path` numbers it among all.
    """

    path: str
    use: str
    type: str
    default: Formula
    domain: Formula | None
    active: tuple[Formula, ...]
    location: Location
    documentation: str = ""

    def __repr__(self) -> str:
        return brief("Variable", self.path, self.type)

    @property
    def name(self) -> str:
        """The name without the use."""
        return last_name(self.path)

    def key_among(self, keys: Iterable[str]) -> str | None:
        """The one of some keys of `params` that holds for it: a name, the end of its path, a glob of paths."""
        return Assignment(dict.fromkeys(keys, True)).key(self.path)

    def items(self, values: Values) -> tuple[Value, ...]:
        """The values it may have, given those of earlier knobs; the default alone where no domain is declared."""
        try:
            held = (self.default if self.domain is None else self.domain).value(values)
        except (FormulaError, KeyError):
            return ()
        return tuple(dict.fromkeys(held)) if isinstance(held, tuple) else (held,)

    def default_value(self, values: Values) -> Value | None:
        """The default, given the values of earlier knobs; None where these leave it without a value."""
        try:
            return self.default.value(values)
        except (FormulaError, KeyError):
            return None

    def is_active(self, values: Values) -> bool:
        """Whether it counts, given the values of earlier knobs."""
        return _all_hold(self.active, values)

    @property
    def is_conditional(self) -> bool:
        """Whether values of other knobs decide about it, or about its values."""
        return bool(self.active) or self.has_moving_domain

    @property
    def has_moving_domain(self) -> bool:
        """Whether values of other knobs decide about its values."""
        return self.domain is not None and not self.domain.is_constant

    @property
    def is_choice(self) -> bool:
        """Whether it chooses an alternative of `tune`."""
        return self.type == CHOICE


@frozen
class Constraint:
    """A `require` over knobs, or a domain that another use of a knob declares, where all of `active` hold."""

    condition: Formula
    active: tuple[Formula, ...]
    message: str
    location: Location

    def __repr__(self) -> str:
        return brief("Constraint", self.condition.text)

    @property
    def knobs(self) -> frozenset[str]:
        """The knobs that decide it."""
        return self.condition.knobs.union(*(formula.knobs for formula in self.active))

    def holds(self, values: Values) -> bool:
        """Whether these values keep to it; those of knobs that do not count are missing."""
        try:
            return not _all_hold(self.active, values) or bool(self.condition.value(values))
        except KeyError:
            return True
        except FormulaError:
            return False

    def may_hold(self, ranges: Ranges) -> bool:
        """False where no values in these ranges keep to it."""
        is_certain = all(formula.bounds(ranges) == (1, 1) for formula in self.active)
        return not is_certain or self.condition.bounds(ranges) != (0, 0)


@dataclass(slots=True)
class Surveyed:
    """The variables in the order in which they are bound, and the constraints. `taken` are the paths of those that
    stand where the kernel gets with some of the sizes it will be called with; `misfits` says which pinned values are
    outside a domain that no knob decides."""

    variables: dict[str, Variable] = field(default_factory=dict[str, Variable])
    constraints: list[Constraint] = field(default_factory=list[Constraint])
    taken: set[str] = field(default_factory=set[str])
    misfits: list[Diagnostic] = field(default_factory=list[Diagnostic])


def _all_hold(conditions: tuple[Formula, ...], values: Values) -> bool:
    try:
        return all(formula.value(values) for formula in conditions)
    except (FormulaError, KeyError):
        return False
