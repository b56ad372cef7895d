"""What `tcpx.tune` can be given, checked before anything runs."""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final, cast

import numpy as np

import tcpx
from tcpx.records import frozen
from tcpx.tune.duel import Effort
from tcpx.tune.slots import Limits
from tcpx.tune.space_file import SpaceFile


@frozen
class Argument:
    """What an argument has to be, in words; where it is optional, None will do too."""

    required: str
    fits: Callable[[object], bool]
    is_optional: bool = False

    def takes(self, value: object) -> bool:
        """Whether a value will do."""
        return (self.is_optional and value is None) or self.fits(value)


def check_arguments(given: Mapping[str, object]) -> None:
    """Raises ArgumentError for the first of those given that `tcpx.tune` cannot use."""
    for name, argument in ARGUMENTS.items():
        value = given.get(name)
        if name in given and not argument.takes(value):
            raise tcpx.ArgumentError(
                tcpx.Diagnostic(f"`{name}` cannot be used", required=argument.required, found=_shown(value))
            )
    for plugin in cast("Sequence[str]", given["plugins"]):
        if plugin not in sys.modules and not _exists(plugin):
            raise tcpx.ArgumentError(
                tcpx.Diagnostic(f"there is no plugin `{plugin}`", required="a module to import", found="no such module")
            )


def _exists(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ModuleNotFoundError, ValueError):  # of a part before a dot; of no name at all
        return False


def _whole(least: int) -> Callable[[object], bool]:
    def is_whole(value: object) -> bool:
        return isinstance(value, int | np.integer) and not isinstance(value, bool) and cast("int", value) >= least

    return is_whole


def _is_time(value: object) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool) and cast("float", value) >= 0


def _is_sizes(value: object) -> bool:
    fits, entries = _whole(0), cast("Mapping[object, object]", value)
    return _is_mapping(value) and all(isinstance(size, str) or fits(size) for size in entries.values())


def _is_mapping(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(k, str) for k in cast("Mapping[object, object]", value))


def _each(fits: Callable[[object], bool]) -> Callable[[object], bool]:
    def all_fit(value: object) -> bool:
        is_sequence = isinstance(value, Sequence) and not isinstance(value, str)
        return is_sequence and all(map(fits, cast("Sequence[object]", value)))

    return all_fit


def _is(*types: type) -> Callable[[object], bool]:
    return lambda value: isinstance(value, types)


def _shown(value: object) -> str:
    is_plain = value is None or isinstance(value, int | float | str)
    return repr(value) if is_plain else f"something of the Python type {type(value).__name__}"


ARGUMENTS: Final[Mapping[str, Argument]] = {
    "trials": Argument("a number of candidates, 1 or more", _whole(1), is_optional=True),
    "budget": Argument("seconds, 0 or more", _is_time, is_optional=True),
    "storage": Argument("the path of a file", _is(str, Path), is_optional=True),
    "resume": Argument("True or False", _is(bool)),
    "sampler": Argument("the name of a sampler", _is(str), is_optional=True),
    "seed": Argument("a number, 0 or more", _whole(0)),
    "params": Argument("a mapping of knobs to values, such as {'mc': 96}", _is(Mapping), is_optional=True),
    "sizes": Argument("a list of mappings of symbols to sizes, such as [{'B': 64}]", _each(_is_sizes)),
    "space": Argument("the path of a YAML file", _is(str, Path, SpaceFile), is_optional=True),
    "seeds": Argument("a list of mappings of knobs to values, such as [{'mc': 96}]", _each(_is_mapping)),
    "target": Argument("the name of a target", _is(str)),
    "threads": Argument("a number of threads, 1 or more", _whole(1)),
    "workers": Argument("a number of processes, 1 or more", _whole(1), is_optional=True),
    "limits": Argument("a tcpx.tune.slots.Limits", _is(Limits), is_optional=True),
    "effort": Argument("a tcpx.tune.duel.Effort", _is(Effort), is_optional=True),
    "memory": Argument("bytes, 1 or more", _whole(1)),
    "plugins": Argument("a list of names of modules", _each(_is(str))),
    "processes": Argument("a number of sets of processes, 0 or more", _whole(0)),
    "early_stop": Argument("a number of candidates, 1 or more", _whole(1), is_optional=True),
    "executor": Argument("local, or dask://HOST:PORT", _is(str)),
    "listener": Argument("a function of a tcpx.tune.progress.Progress", callable),
}
