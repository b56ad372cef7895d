"""Models of ONNX where a command takes a payload: the inputs that have to be constant come from files."""

import argparse
from collections.abc import Mapping
from pathlib import Path

import tcpx
from tcpx.cli.options import checked_unique

SUFFIX = ".onnx"


def payload_of(options: argparse.Namespace) -> tuple[tcpx.Module, Mapping[str, str]]:
    """The payload of a command, and the files of `--input` by argument: of a model without those that became constants,
    by its own names for the rest."""
    model, files = model_of(options)
    if model is None:
        return tcpx.load(options.file), files
    arguments = {port.name: port.argument for port in model.inputs}
    return model.module, {arguments.get(n, n): file for n, file in files.items() if n not in model.values}


def model_of(options: argparse.Namespace) -> tuple["tcpx.onnx.Model | None", Mapping[str, str]]:
    """The model of a command, specialised on what is given for inputs that have to be constant, None for a payload, and
    the files of `--input`."""
    files: dict[str, str] = checked_unique(options.input, "--input")
    if Path(options.file).suffix != SUFFIX:
        return None, files
    model = tcpx.onnx.load(options.file)
    while any(name in files for name in model.needs):
        model = model.specialized({name: tcpx.read_array(files[name]) for name in model.needs if name in files})
    return model, files
