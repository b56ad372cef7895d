"""Functions that are called, as they are before they are scheduled: what tuned records of functions are of."""

from collections.abc import Mapping
from hashlib import sha256

from tcpx.payload.ir import FuncOp, Module, Value
from tcpx.payload.structure import DIGITS, fingerprint
from tcpx.payload.text.printer import print_func
from tcpx.payload.traits.constant import Constant
from tcpx.records import frozen


@frozen
class Called:
    """A function when it came up: its structure, its text with what it calls, its operations by their names."""

    name: str
    structure: str
    text: str
    numbers: dict[str, int]


class CalledFunctions:
    """The functions of a module beside the entry. A clone is what it was copied from."""

    def __init__(self, module: Module) -> None:
        self._known: dict[FuncOp, Called] = {}
        self._keys: dict[FuncOp, str] = {}
        self._asked: dict[str, Called] = {}
        self.note(module)

    def note(self, module: Module) -> None:
        """Look at functions that are new: after a step, nothing has been done to them yet."""
        for func in module.funcs.values():
            if func is module.main or func in self._known or func.row is not None:
                continue
            if func.clone_of in self._known:
                self._known[func] = self._known[func.clone_of]
                continue
            *called, own = module.reached(func)
            text = "\n".join(map(print_func, (own, *called)))
            numbers = {op.name: number for number, op in enumerate(func.walk())}
            self._known[func] = Called(func.name, fingerprint(func), text, numbers)

    def key(self, func: FuncOp) -> str:
        """The structure of a function, and which arguments are constants in every call, as 16 digits."""
        if func not in self._keys:
            known, calls = self._known[func], func.callers()
            fixed = [k for k in range(len(func.inputs)) if all(_is_fixed(call.operands[k]) for call in calls)]
            self._keys[func] = sha256(f"{known.structure} {fixed}".encode()).hexdigest()[:DIGITS]
            self._asked.setdefault(self._keys[func], known)
        return self._keys[func]

    @property
    def keys(self) -> Mapping[FuncOp, str]:
        """Of the functions whose key was asked for: those that have knobs."""
        return self._keys

    def text(self, func: FuncOp) -> str | None:
        """The text that a function had; None for the entry and for rows."""
        return self._known[func].text if func in self._known else None

    def number(self, func: FuncOp, name: str) -> str:
        """`%3`, the operation of this name; one that a step made of it, `%3.start`; empty for others."""
        numbers, parts = self._known[func].numbers, name.split(".")
        stems = ((".".join(parts[:k]), parts[k:]) for k in range(len(parts), 0, -1))
        return next((".".join([f"%{numbers[stem]}", *rest]) for stem, rest in stems if stem in numbers), "")

    def at(self, key: str) -> Called:
        """The function of a key that was asked for."""
        return self._asked[key]


def _is_fixed(value: Value) -> bool:
    return value.defining_op is not None and Constant.of(value.defining_op) is not None
