"""Models of ONNX where a command takes a payload: the inputs that have to be constant come from files."""

from __future__ import annotations

import argparse
from collections.abc import Container, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

import tcpx
from tcpx.cli.options import checked_unique
from tcpx.records import frozen

SUFFIX = ".onnx"


@frozen
class CommandPayload:
    """The payload of a command. Of a model, `names` are its arguments by its own names for them, and `values` those of
    its inputs that became constants."""

    module: tcpx.Module
    names: Mapping[str, str]
    values: tuple[str, ...]


def payload_of(options: argparse.Namespace) -> CommandPayload:
    """The payload of a command."""
    model, _ = model_of(options)
    if model is None:
        return CommandPayload(tcpx.load(options.file), {}, ())
    return CommandPayload(model.module, {port.name: port.argument for port in model.inputs}, tuple(model.values))


def argument_files(files: Mapping[str, str], names: Mapping[str, str], values: Container[str]) -> dict[str, str]:
    """The files of `--input` by argument: of a model without those that became constants."""
    return {names.get(name, name): file for name, file in files.items() if name not in values}


def model_of(options: argparse.Namespace) -> tuple[tcpx.onnx.Model | None, Mapping[str, str]]:
    """The model of a command, specialised on what is given for inputs that have to be constant, or have a default; None
    for a payload; and the files of `--input`."""
    files: dict[str, str] = checked_unique(options.input, "--input")
    if Path(options.file).suffix != SUFFIX:
        return None, files
    model = tcpx.onnx.load(options.file)

    def given(names: Sequence[str]) -> dict[str, npt.NDArray[np.generic]]:
        return {name: tcpx.read_array(files[name]) for name in names if name in files}

    if defaults := given(model.defaults):
        model = model.specialized(defaults)
    while needed := given(model.needs):
        model = model.specialized(needed)
    return model, files
