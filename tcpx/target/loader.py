"""Targets by name: those of the package, and `native`, the one of the machine that runs."""

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import cast

from tcpx.installed import TABLES, available_targets
from tcpx.machine import CACHES, this_machine
from tcpx.payload.diagnostics import python_type_of
from tcpx.processor import UNKNOWN, Processor, cpu_flags
from tcpx.target.calibration import numbers_of
from tcpx.target.errors import TargetError
from tcpx.target.reading import (
    described,
    features_of,
    is_for,
    numbers_node,
    read_target,
    table_of,
    target_of,
    usual_features,
    words,
)
from tcpx.target.table import read_table
from tcpx.target.target import Target

_SUFFIXES = (".yaml", ".yml")


def load_target(
    name: str | Path | Target, features: tuple[str, ...] | None = None, *, allow_native: bool = False
) -> Target:
    """The target of this name, or of the table in a file, `my.yaml`; `native` is the widest one the running CPU
    supports, with the caches of this machine and what was measured on it. A target is itself.

    `features` chooses among the table's optional extensions: by default all that are not slow there, for `native` those
    of them that the CPU has. A name may say them, too: `x86_avx512+avx512_vnni`, or `x86_avx512+` for none. A file may
    bring C, headers and flags for the compiler: whoever compiles a kernel for it runs them. Raises TargetError on those
    without `allow_native`, an unknown name or feature, or a malformed table.
    """
    if isinstance(name, Target):
        return name
    features = _names_of_features(features)
    if isinstance(name, Path):
        return read_target(name, features, allow_native)
    if not isinstance(cast("object", name), str):
        raise TargetError(
            "this is no target",
            required=f"{', '.join((*available_targets(), 'native'))} or the path of a table",
            found=python_type_of(name),
        )
    if name == "native":
        machine = this_machine()
        found = native_target(cpu_flags(), features, machine.processor)
        return target_with(found.name, found.features, numbers_of(machine, found.name))
    if not name.endswith(_SUFFIXES):
        return _by_spec(name, features)
    return read_target(Path(name), features, allow_native)


def _by_spec(spec: str, features: tuple[str, ...] | None) -> Target:
    """The installed target of `NAME`, `NAME+FEATURE+FEATURE`, and of either with `@MACHINE`. Raises TargetError, also
    where this machine is another."""
    named, _, digest = spec.partition("@")
    base, plus, chosen = named.partition("+")
    found = _installed(base, tuple(filter(None, chosen.split("+"))) if plus and features is None else features, "")
    if not digest:
        return found
    here = target_with(found.name, found.features, numbers_of(this_machine(), found.name))
    if here.machine != digest:
        raise TargetError(
            "the target has the numbers of another machine, or of this one before it was calibrated",
            required=f"a machine with the numbers {digest}",
            found=here.machine or f"those of the table {found.name}",
            fix=f"`native`, for this machine; `{named}`, for every one",
        )
    return here


def target_with(name: str, features: tuple[str, ...], numbers: str) -> Target:
    """An installed target with the numbers of a machine, as JSON; those that the table has do not count. Raises
    TargetError."""
    return _installed(name, features, _differing(name, numbers) if numbers else "")


@lru_cache(maxsize=64)
def _differing(name: str, numbers: str) -> str:
    """What of the numbers of a machine the table does not say; nothing of its caches where they then would not grow."""
    own = described(table_of(name), TABLES)
    given = numbers_node(numbers)
    found = {key: node.value for key, node in given.items() if key not in own or node.value != own[key].value}
    sizes = [given.get(key, own[key]).number() for key in CACHES]
    if sorted(set(sizes)) != sizes:
        found = {key: value for key, value in found.items() if key not in CACHES}
    return json.dumps(found, sort_keys=True) if found else ""


def _names_of_features(features: object) -> tuple[str, ...] | None:
    """Raises TargetError for what is no tuple of names."""
    if features is None:
        return None
    is_sequence = isinstance(features, tuple | list)
    if is_sequence and all(isinstance(name, str) for name in cast("Sequence[object]", features)):
        return tuple(cast("Sequence[str]", features))
    raise TargetError(
        "`features` is no tuple of names",
        required=", ".join(known_features()),
        found=python_type_of(cast("object", features)),
        fix=f'features=("{features}",)' if isinstance(features, str) else None,
    )


@lru_cache(maxsize=64)
def _installed(name: str, features: tuple[str, ...] | None, numbers: str) -> Target:
    return target_of(table_of(name), TABLES, features, numbers)


@lru_cache(maxsize=1)
def known_features() -> tuple[str, ...]:
    """The optional extensions of all shipped tables."""
    tables = [read_table(path).fields() for path in sorted(TABLES.glob("*.yaml"))]
    return tuple(dict.fromkeys(feature for table in tables for feature in features_of(table)))


@lru_cache(maxsize=64)
def native_target(
    cpu: frozenset[str], features: tuple[str, ...] | None = None, processor: Processor = UNKNOWN
) -> Target:
    """The widest installed target that a CPU with these flags runs, with the optional extensions the CPU has. Of those
    that are as wide, the one that is for this processor, else the one that needs the most extensions."""
    tables = {name: described(table_of(name), TABLES) for name in available_targets()}
    ranks: dict[str, tuple[int, bool, int]] = {}
    for name, table in tables.items():
        needed, signs, is_own = set(words(table, "cpu_flags")), set(words(table, "found_on")), is_for(table, processor)
        is_fit = is_own or (signs <= cpu if signs else "processors" not in table)
        if is_fit and needed <= cpu:
            ranks[name] = table["vector_bits"].number(), is_own, len(needed | signs)
    widest = max(ranks, key=ranks.__getitem__)
    fields = tables[widest]
    if features is None:
        features = tuple(f for f in usual_features(fields) if set(features_of(fields)[f][0]) <= cpu)
    return _installed(widest, features, "")
