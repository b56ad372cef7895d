"""What the process that measures and the processes that are timed say to each other: one JSON object a line.

    request                                   reply
    {"do": "describe"}                        {"ok": {"version": ..}}
    {"do": "prepare", "task": {..}}           {"ok": {..}}, facts of what was prepared, or {"unsupported": "why"}
    {"do": "check", "path": "y.npy"}          {"ok": {"dtype": "f32"}}, and the result of one call in the file
    {"do": "run", "samples": 3, "shortest": 0.005}   {"ok": {"seconds": [..], "waited": [..], "calls": 7}}
    {"do": "quit"}                            {"ok": {}}, and the process ends

A failure is {"error": "what, where"}; the process lives on. `check` comes after `prepare`, `run` after `check`.
`waited` is the part of each sample during which a thread of the process waited for a CPU that others had.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tcpx.records import frozen

Array = npt.NDArray[Any]

RAW_DTYPES: Mapping[str, str] = {"bf16": "uint16"}
"""Dtypes that NumPy does not have, and the one their bits are kept in."""

REQUIRED: Final = {"name", "kind", "threads", "folder", "dtype"}
"""The fields of tasks and of their inputs that have no default."""

APART: Final = 16
"""Elements between the rows of a strided input."""


class UnsupportedError(Exception):
    """Raised by a peer's `prepare` for a task that it cannot do; the text says why."""


@frozen
class Input:
    """One array of a task: a file `NAME.npy` in the folder of the task. Constant ones may be prepared in advance; those
    that are `strided` are a block of an array whose rows are `APART` elements longer."""

    name: str
    dtype: str
    constant: bool = False
    strided: bool = False


@frozen
class Task:
    """What a peer is to compute. `kind` and `attributes` say what, for peers; `payload` says it for tcpx.

    Constants of the payload lie in `payload_folder`.
    """

    name: str
    kind: str
    threads: int
    folder: str
    inputs: tuple[Input, ...]
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    payload: str = ""
    payload_folder: str = ""
    schedule: str | None = None
    target: str = "native"
    params: Mapping[str, int | float | bool | str] = field(default_factory=dict[str, "int | float | bool | str"])

    def arrays(self) -> dict[str, Array]:
        """The inputs by name. Those of `RAW_DTYPES` come as their bits."""
        held = {given: np.load(Path(self.folder, f"{given.name}.npy")) for given in self.inputs}
        return {given.name: _block(array) if given.strided else array for given, array in held.items()}

    def constants(self) -> set[str]:
        """The names of the constant inputs."""
        return {given.name for given in self.inputs if given.constant}

    def to_json(self) -> dict[str, Any]:
        """Plain JSON. Fields that have their default are left out: a peer of an older tree may not know them."""
        return {**_told(self), "inputs": [_told(given) for given in self.inputs]}

    @staticmethod
    def from_json(held: Mapping[str, Any]) -> Task:
        """The inverse of `to_json`."""
        fields: dict[str, Any] = {**held, "inputs": tuple(Input(**given) for given in held["inputs"])}
        return Task(**fields)


@frozen
class Prepared:
    """What a peer made of a task: the call that is timed, and how to get a NumPy array from what it returns.

    `dtype` is that of the result where NumPy does not have it. `facts` become those of the row.
    """

    run: Callable[[], Any]
    as_array: Callable[[Any], Array] = np.asarray
    dtype: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])


def _told(record: Task | Input) -> dict[str, Any]:
    """The fields of a record that differ from their defaults."""
    least = Task("", "", 0, "", ()) if isinstance(record, Task) else Input("", "")
    own, usual = asdict(record), asdict(least)
    return {name: value for name, value in own.items() if name in REQUIRED or value != usual[name]}


def _block(array: Array) -> Array:
    """The array as a block of a wider one."""
    wider = np.zeros((*array.shape[:-1], array.shape[-1] + APART), array.dtype)
    block = wider[..., : array.shape[-1]]
    block[...] = array
    return block


def line(message: Mapping[str, Any]) -> bytes:
    """A message as it is sent."""
    return json.dumps(message).encode() + b"\n"
