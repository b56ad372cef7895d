"""Names that are free in a function."""

from tcpx.payload.ir import Block, FuncOp, Module, Operation, Value, defined_by
from tcpx.payload.journal import Journal
from tcpx.payload.sizes import Var
from tcpx.payload.value_names import as_value_name


class Names(Journal):
    """Gives out names, each once in its function."""

    def __init__(self, module: Module) -> None:
        super().__init__(module)
        self._names: dict[FuncOp, set[str]] = {}
        self._counts: dict[tuple[FuncOp, str], int] = {}
        """By function and beginning of a name: how many of `name1`, `name2`, ... are known to be taken."""

    def fresh_name(self, place: Operation | Block, base: str) -> str:
        """`base`, or `base.1`, `base.2`, ... : the first that is free in the function; it is reserved."""
        func = self.func_of(place)
        names, base = self._names_in(func), as_value_name(base)
        name = base if base not in names else self._first_free(func, f"{base}.")
        names.add(name)
        self.record(lambda: names.discard(name))
        return name

    def take_name(self, func: FuncOp, value: Value, name: str) -> None:
        """Call a value so; another one of the function that was is called by it and a number."""
        if value.name == name:
            return
        for op in func.walk():
            for other in defined_by(op):
                if other.name == name and other is not value:
                    self._rename(other, self.fresh_name(func, name))
        self._rename(value, name)

    def _rename(self, value: Value, name: str) -> None:
        old, value.name = value.name, name
        self.record(lambda: setattr(value, "name", old))

    def ordinal_name(self, place: Operation | Block, base: str) -> str:
        """`base1`, `base2`, ... : the first that is free in the function; it is reserved."""
        return self.fresh_name(place, self._first_free(self.func_of(place), as_value_name(base)))

    def _first_free(self, func: FuncOp, beginning: str) -> str:
        names, key = self._names_in(func), (func, beginning)
        before = count = self._counts.get(key, 0)
        while f"{beginning}{count + 1}" in names:
            count += 1
            self.visited += 1
        if count != before:
            self._counts[key] = count
            self.record(lambda: self._counts.update({key: before}))
        return f"{beginning}{count + 1}"

    def func_of(self, place: Operation | Block) -> FuncOp:
        """The function that holds an operation or a block."""
        op = place.parent if isinstance(place, Block) else place
        func = op.func if op is not None else None
        if func is None:
            raise ValueError("the place is in no function")
        return func

    def _names_in(self, func: FuncOp) -> set[str]:
        known = self._names.get(func)
        if known is None:
            known = self._names[func] = set()
            for op in func.walk():
                self.visited += 1
                known.update(_names_of(op))
            # What was erased before comes back when the changes so far are undone: its names are not among these.
            self.record(lambda: self._drop_names(func))
        return known

    def _drop_names(self, func: FuncOp) -> None:
        self._names.pop(func, None)


def _names_of(op: Operation) -> list[str]:
    names = [op.name, *(r.name for r in op.results)]
    names += [a.name for block in op.regions for a in block.args]
    own = op.attributes.get("var")
    if isinstance(own, Var):
        names.append(own.name)
    return [n for n in names if n]
