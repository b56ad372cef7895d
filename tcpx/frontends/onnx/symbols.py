"""The sizes of a model that are known when it is called: what its file calls dims, and what was learned of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Final, cast

import onnx

from tcpx.frontends.onnx.errors import Equation
from tcpx.frontends.onnx.learned import Bound, Conditions, Learned
from tcpx.payload.size_values import SizeValues, last_equal
from tcpx.payload.sizes import Dim, Symbol, substitute, symbols
from tcpx.payload.text.scope import RESERVED

_SUM: Final = re.compile(r"\s*(\w+)\s*(\+\s*\w+\s*)+", re.ASCII)


def _is_name(dim: str) -> bool:
    """Whether a file names a dim: `?` and the like stand for any number, another one each time."""
    return any(c.isalnum() or c == "_" for c in dim)


class Symbols:
    """The symbols of a model. `sizes` are numbers for dims by their names in the file, or other dims that they equal,
    `bounds` and `equations` what its nodes said of them when they were imported before. `numbers` are the dims, by
    input, that a call says by numbers of their own: how much of caches is used."""

    def __init__(
        self,
        inputs: Sequence[onnx.ValueInfoProto],
        sizes: SizeValues,
        bounds: Sequence[Bound],
        equations: Sequence[Equation],
        numbers: Mapping[str, int],
    ) -> None:
        self.sizes = sizes
        self._named = {d.dim_param: None for i in inputs for d in i.type.tensor_type.shape.dim if _is_name(d.dim_param)}
        self._held: dict[str, Symbol] = {}
        self._names: dict[str, str] = {}
        for shown in self._named:
            self._name(shown)
        self.asked: dict[str, None] = {}
        """The dims that inputs have, as `sizes` calls them, or the file."""
        dims = {i.name: i.type.tensor_type.shape.dim for i in inputs if i.name in numbers}
        told = {self._name(self._shown(name, numbers[name], held[numbers[name]])) for name, held in dims.items()}
        self.learned = Learned(bounds, equations, told)

    def dim(self, name: str, index: int, dim: onnx.TensorShapeProto.Dimension, least: int) -> Dim:
        """Dim `index` of the input `name`: a number, a symbol that is `least` or more, or a sum as exporters write it,
        `past + sequence`, of dims that inputs have alone."""
        if dim.HasField("dim_value") and dim.dim_value >= 0:
            return int(dim.dim_value)
        shown = self._shown(name, index, dim)
        parts = [part.strip() for part in shown.split("+")]
        if _SUM.fullmatch(shown) and all(p.isdecimal() or p in self._named or p in self.sizes for p in parts):
            return sum((int(p) if p.isdecimal() else self.named(p) for p in parts), start=0)
        return self.named(shown, least)

    def _shown(self, name: str, index: int, dim: onnx.TensorShapeProto.Dimension) -> str:
        """What the file calls a dim of an input that is no number, or a name for one that it does not name."""
        return dim.dim_param if _is_name(dim.dim_param) else self._unnamed(f"{name}_{index}")

    def named(self, shown: str, least: int = 1) -> Dim:
        """What the file calls so; `sizes` may also call it as the payload does."""
        name = self._name(shown)
        known = name if name in self.sizes and shown not in self.sizes and name not in self._named else shown
        self.asked[known] = None
        given = last_equal(known, self.sizes) if known in self.sizes else shown
        return self._symbol(given, least) if isinstance(given, str) else cast("int", given)

    def _symbol(self, given: str, least: int) -> Dim:
        """The symbol of a dim that has no number, called as in the file or as in the payload."""
        shown = given if given in self._names else next((s for s, name in self._names.items() if name == given), given)
        name = self._name(shown)
        value = self.learned.values.get(name)
        if value is not None:
            for symbol in () if isinstance(value, int) else symbols(value):
                self._symbol(symbol.name, symbol.lower)
            return substitute(value, {symbol: symbol.size() for symbol in self._held.values()})
        if shown not in self._held:
            known = self.learned.symbols.get(name)
            learned = known if known is not None else Symbol(name)
            self._held[shown] = Symbol(name, max(least, learned.lower), learned.upper, learned.multiple_of)
        return self._held[shown].size()

    def _name(self, shown: str) -> str:
        """What the payload calls it."""
        if shown not in self._names:
            name = re.sub(r"\W", "_", shown, flags=re.ASCII)
            name = name if name[:1].isalpha() or name[:1] == "_" else f"_{name}"
            while name in RESERVED or name in self._names.values():  # `a b` and `a-b` are two dims
                name = f"{name}_"
            self._names[shown] = name
        return self._names[shown]

    def new(self, name: str) -> Dim:
        """A symbol that the file does not have."""
        while name in self._held:
            name = f"{name}_"
        return self.named(self._unnamed(name))

    def _unnamed(self, name: str) -> str:
        """`name`, or one like it that is none of the file's."""
        while name in self._named:
            name = f"{name}_"
        return name

    @property
    def unknown(self) -> list[str]:
        """The names in `sizes` that no dim so far has."""
        targets = (name for name in self.sizes.values() if isinstance(name, str))
        known = {*self.asked, *map(self._name, list(self.asked))}
        return [name for name in (*self.sizes, *targets) if name not in known]

    @property
    def solved(self) -> frozenset[str]:
        """The dims that equations give, as the file and as the payload calls them."""
        given = self.learned.values
        return frozenset((*given, *(shown for shown, name in self._names.items() if name in given)))

    @property
    def declared(self) -> list[Symbol]:
        """All that were asked for."""
        return list(self._held.values())

    @cached_property
    def conditions(self) -> Conditions:
        """What has to be asserted, as the symbols that are declared do not say it."""
        return self.learned.declared(self.declared)
