"""Modules in pickles, as text: the graph of operations is too deep for them where a payload is long."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module

from tcpx.payload.constants import Constants, NumpyArray
from tcpx.payload.ir import Module
from tcpx.payload.text.parser import parse_print
from tcpx.payload.text.printer import print_module


def reduced(module: Module) -> tuple[Callable[..., Module], tuple[object, ...]]:
    """What `__reduce__` gives. The files in Python that declare operations of the module are imported where it is
    loaded."""
    constants = module.constants
    arrays = {name: array for name in constants if (array := constants.get(name)) is not None}
    declared = dict.fromkeys(type(op).__module__ for op in module.walk())
    places = [func.location for func in module.funcs.values() if func.location is not None]
    file = f"{places[0].file}, as it is printed" if places else ""
    return _restored, (print_module(module), file, module.entry, constants.source, arrays, tuple(declared))


def _restored(
    text: str, file: str, entry: str, source: str, arrays: Mapping[str, NumpyArray], declared: Sequence[str]
) -> Module:
    for name in declared:
        import_module(name)
    module = parse_print(text, file or "<pickle>", constants=Constants(arrays, source))
    module.entry = entry
    return module
