"""Sizes that depend on a loop variable by its quotient and its remainder alone, as on two variables."""

from collections.abc import Sequence

from tcpx.payload.sizes.arithmetic import ceildiv
from tcpx.payload.sizes.bounds import is_equal
from tcpx.payload.sizes.expressions import Atom, Dim, Division, Extremum, FloorDiv, Mod, Var, atoms, to_text
from tcpx.payload.sizes.substitution import Rebuild
from tcpx.payload.sizes.traversal import variables


def by_digits(sizes: Sequence[Dim], var: Var) -> tuple[tuple[Dim, ...], tuple[Var, ...]] | None:
    """The sizes, and the variables in place of the quotient and the remainder of `var` by one number; None where they
    depend on it otherwise."""
    parts = {atom.text: atom for size in sizes for atom in _parts(size)}
    own = [a for a in parts.values() if isinstance(a, FloorDiv | Mod) and is_equal(a.lhs, var.size()) is True]
    if len(own) != 2 or len({to_text(a.rhs) for a in own}) != 1:
        return None
    digits = {
        a.text: Var(f"{var.name}/rest", 0, a.rhs, 1)
        if isinstance(a, Mod)
        else Var(f"{var.name}/digit", 0, ceildiv(var.upper, a.rhs), 1)
        for a in own
    }
    rebuild = Rebuild({**{text: digit.size() for text, digit in digits.items()}, var.text: var.size()})
    made = tuple(map(rebuild.of, sizes))
    return None if any(var in variables(size) for size in made) else (made, tuple(digits.values()))


def _parts(size: Dim) -> list[Atom]:
    """The atoms of a size, and those within them."""
    found: list[Atom] = []
    for atom in [] if isinstance(size, int) else atoms(size):
        inside = atom.args if isinstance(atom, Extremum) else (atom.lhs, atom.rhs) if isinstance(atom, Division) else ()
        found += [atom, *(part for each in inside for part in _parts(each))]
    return found
