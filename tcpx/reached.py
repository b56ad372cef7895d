"""What of a schedule, and of all that it imports, a run of it depends on: the sequences that it called, and the
functions, matchers and views that these name. Comments, layout and declarations that the run did not reach do not
count, nor does the file that a declaration stands in."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tcpx.transform.language import syntax as ast
from tcpx.transform.language.loader import Program, Unit

Called = ast.Sequence | ast.Schedule
Declared = Called | ast.Function | ast.Matcher | ast.View


def reached_hash(program: Program, used: Sequence[Called], within: Sequence[Called] | None = None) -> str:
    """What a run depends on that called `used`, its schedule first, as 16 digits; or what its calls `within` do: these,
    and the sequences that lead to them."""
    return _Reached(program, used, within).digest(used[0], program.main)


class _Reached:
    def __init__(self, program: Program, used: Sequence[Called], within: Sequence[Called] | None) -> None:
        self._units = {id(item): unit for unit in program.units for item in unit.sequences.values()}
        self._digests: dict[int, str] = {}
        self._counted = {id(called) for called in (used if within is None else within)}
        pending = list(used) if within is not None else []
        while found := [called for called in pending if self._leads_to_counted(called, program)]:
            self._counted.update(map(id, found))
            pending = [called for called in pending if id(called) not in self._counted]

    def digest(self, item: Declared, unit: Unit) -> str:
        """Of a declaration, with all that it names."""
        known = self._digests.get(id(item))
        if known is None:
            parts = [repr(_without_docs(item))]
            for name, owner, named in references(item, unit):
                if isinstance(named, ast.Sequence) and id(named) not in self._counted:
                    continue
                parts.append(f"{name}: {self.digest(named, owner)}")
            known = self._digests[id(item)] = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
        return known

    def _leads_to_counted(self, called: Called, program: Program) -> bool:
        unit = self._units.get(id(called), program.main)
        return any(id(named) in self._counted for _, _, named in references(called, unit))


def references(item: Declared, unit: Unit) -> Iterator[tuple[str, Unit, Declared]]:
    """The declarations that one names, each once, by name with the file that they stand in. A name of its own that is
    also one of the file counts as both."""
    seen: set[str] = set()
    for node in ast.walk(item):
        name = _name_in(node)
        alias, dot, last = name.rpartition(".")
        owner = unit.imports.get(alias) if dot else unit
        if not name or name in seen or owner is None:
            continue
        seen.add(name)
        tables = (owner.sequences, owner.functions, owner.matchers, owner.views)
        yield from ((name, owner, table[last]) for table in tables if last in table and table[last] is not item)


def _name_in(node: ast.Node) -> str:
    match node:
        case ast.Attribute(base=ast.Name(name=alias), name=name):
            return f"{alias}.{name}"
        case ast.Name(name=name) | ast.TypeOf(name=name):
            return name
        case ast.Pattern() | ast.Shape():
            return node.op_class
        case _:
            return ""


def _without_docs(item: Declared) -> object:
    def change(node: object) -> object:
        return replace(node, trivia=ast.Trivia()) if isinstance(node, ast.Commented) else node

    return ast.rebuilt(item, change)
