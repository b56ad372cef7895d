"""Conditions of a schedule: decided, or on sizes that only the kernel knows; several of these may be joined by `or`."""

from collections.abc import Iterable, Sequence

from tcpx.limits import MOST_ALTERNATIVES
from tcpx.payload.diagnostics import Diagnostic, ScheduleError
from tcpx.payload.sizes.context import EMPTY, Context
from tcpx.payload.sizes.expressions import Symbol
from tcpx.payload.sizes.predicates import Predicate
from tcpx.records import frozen


@frozen
class AnyOf:
    """Two or more predicates; the condition holds where one of them does."""

    alternatives: tuple[Predicate, ...]

    def __str__(self) -> str:
        return " or ".join(map(str, self.alternatives))

    def symbols(self) -> tuple[Symbol, ...]:
        """The symbols they mention, by name."""
        found = {s.name: s for predicate in self.alternatives for s in predicate.symbols()}
        return tuple(found[name] for name in sorted(found))


Condition = bool | Predicate | AnyOf


def alternatives_of(condition: Condition) -> tuple[Predicate, ...]:
    """The predicates any one of which makes a condition hold; the empty predicate where it holds always."""
    match condition:
        case bool():
            return (Predicate(),) if condition else ()
        case Predicate():
            return (condition,)
        case AnyOf():
            return condition.alternatives


def conjunction(lhs: Condition, rhs: Condition) -> Condition:
    """`a and b`."""
    return _any_of(a & b for a in alternatives_of(lhs) for b in alternatives_of(rhs))


def disjunction(lhs: Condition, rhs: Condition) -> Condition:
    """`a or b`."""
    return _any_of((*alternatives_of(lhs), *alternatives_of(rhs)))


def opposite(condition: Condition) -> Condition:
    """`not a`."""
    made: Condition = True
    for predicate in alternatives_of(condition):
        made = conjunction(made, _any_of(Predicate((c.negate(),)) for c in predicate.comparisons))
    return made


def is_covered(held: Predicate, earlier: Sequence[Predicate], facts: Context = EMPTY) -> bool:
    """Whether a predicate holds, where the facts do, only where one of the earlier ones does."""
    rest = held
    for predicate in earlier:
        negated = predicate.negate()
        rest = rest if negated is None else rest & negated
    return not facts.allows(rest) or any(Context([held]).decide(predicate) is True for predicate in earlier)


def _any_of(predicates: Iterable[Predicate]) -> Condition:
    """The condition that one of these holds, without those that the ones before them cover; True where it always does.

    One that cannot hold stays if it is the only one: a branch on it is an error.
    """
    kept: list[Predicate] = []
    impossible: Condition = False
    for predicate in predicates:
        if not predicate.comparisons:
            return True
        impossible = predicate
        if predicate.decide() is False or is_covered(predicate, kept):
            continue
        kept.append(predicate)
        if len(kept) > MOST_ALTERNATIVES:
            raise ScheduleError(
                Diagnostic(
                    f"the condition holds in more than {MOST_ALTERNATIVES} ways",
                    required=f"at most {MOST_ALTERNATIVES} conditions joined by `or`, with `and` and `not` worked out",
                    found=f"{len(kept)} of them",
                )
            )
    if is_covered(Predicate(), kept):
        return True
    if not kept:
        return impossible
    return AnyOf(tuple(kept)) if len(kept) > 1 else kept[0]
