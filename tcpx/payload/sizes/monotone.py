"""Which way an expression moves when one of its atoms grows and everything else stands still."""

from collections.abc import Callable

from tcpx.payload.sizes.expressions import Atom, CeilDiv, Dim, Extremum, FloorDiv, Monomial, make

Sign = Callable[[Dim], int | None]
"""1 for a size proved >= 0, -1 for one proved <= 0, None for neither."""


def direction(d: Dim, leaf: Atom, sign: Sign) -> int | None:
    """1 if d never falls as the atom grows, -1 if it never rises, 0 if it does not depend on it, None if unknown."""
    if isinstance(d, int):
        return 0
    slope: Dim = 0
    total: int | None = 0
    for monomial, coefficient in d.terms:
        dependent = [i for i, atom in enumerate(monomial) if leaf.text in atom.inside]
        if len(dependent) == 1 and monomial[dependent[0]] == leaf:
            slope = slope + _cofactor(monomial, coefficient, dependent[0])
        elif dependent:
            total = _sum(total, _monomial_direction(monomial, coefficient, dependent, leaf, sign))
            if total is None:
                return None
    return total if slope == 0 else _sum(total, sign(slope))


def _monomial_direction(
    monomial: Monomial, coefficient: int, dependent: list[int], leaf: Atom, sign: Sign
) -> int | None:
    total: int | None = 0
    for i in dependent:
        total = _sum(total, 1 if monomial[i] == leaf else _atom_direction(monomial[i], leaf, sign))
    if total is None:
        return None
    if len(dependent) == 1:
        factor = sign(_cofactor(monomial, coefficient, dependent[0]))
        return None if factor is None else total * factor
    if any(sign(atom.size()) != 1 for atom in monomial):
        return None
    return total if coefficient > 0 else -total


def _atom_direction(atom: Atom, leaf: Atom, sign: Sign) -> int | None:
    match atom:
        case Extremum():
            total: int | None = 0
            for arg in atom.args:
                total = _sum(total, direction(arg, leaf, sign))
            return total
        case FloorDiv() | CeilDiv():
            total = direction(atom.lhs, leaf, sign)
            divisor = direction(atom.rhs, leaf, sign)
            if not divisor:
                return None if divisor is None else total
            numerator = sign(atom.lhs)
            return None if numerator is None else _sum(total, -numerator * divisor)
        case _:
            return None


def _cofactor(monomial: Monomial, coefficient: int, index: int) -> Dim:
    rest = monomial[:index] + monomial[index + 1 :]
    return make({rest: coefficient}, 0) if rest else coefficient


def _sum(a: int | None, b: int | None) -> int | None:
    """The direction of a sum."""
    if a is None or b is None or a * b < 0:
        return None
    return a or b
