"""The payload of a command: of a model of ONNX, specialised on `--size` and `--input`."""

from __future__ import annotations

import argparse
from collections.abc import Container, Mapping
from dataclasses import field
from pathlib import Path

import tcpx
from tcpx.cli.options import UsageError, add_sizes, checked_unique, input_file
from tcpx.inputs import Array, SizeValues
from tcpx.records import frozen

SUFFIX = ".onnx"
VALUE = "of a model: the value of an input that becomes constant, such as a shape"


@frozen
class CommandPayload:
    """The payload of a command, which calls it with `files`, by argument, and at `sizes`. Of a model, `names` are its
    arguments by its own names for them, `values` those of its inputs that became constants, and `numbers` its dims that
    became numbers, or one with another."""

    module: tcpx.Module
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    sizes: SizeValues = field(default_factory=dict[str, int | str])
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    values: tuple[str, ...] = ()
    numbers: SizeValues = field(default_factory=dict[str, int | str])
    model: tcpx.onnx.Model | None = None

    def arrays(self, seed: int) -> tuple[Array, ...]:
        """The arrays of the files, and random ones for the rest. Raises ArgumentError."""
        dtypes = tcpx.argument_dtypes(self.module)
        given = {name: tcpx.read_array(path, dtypes.get(name)) for name, path in self.files.items()}
        return tcpx.random_inputs(self.module, seed, given=given, sizes=self.sizes)


def add_arguments(parser: argparse.ArgumentParser, sizes: str, inputs: str) -> None:
    """`--size` and `--input` of a command that calls the payload."""
    _add_sizes(parser, sizes)
    add_inputs(parser, f"{inputs}; of a model also the value of an input that has to be constant")


def add_drawn_arguments(parser: argparse.ArgumentParser, sizes: str) -> None:
    """`--size` and `--input` of a command that calls the payload with random arguments."""
    _add_sizes(parser, sizes)
    add_inputs(parser, VALUE)


def add_specialisation(parser: argparse.ArgumentParser) -> None:
    """`--size` and `--input` of a command that does not call the payload."""
    add_sizes(parser, "of a model: a number for a dim that it names; may be repeated")
    add_inputs(parser, VALUE)


def add_inputs(parser: argparse.ArgumentParser, meaning: str) -> None:
    """`--input`."""
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        type=input_file,
        metavar="NAME=FILE.npy",
        help=f"{meaning}; may be repeated",
    )


def _add_sizes(parser: argparse.ArgumentParser, meaning: str) -> None:
    add_sizes(parser, f"{meaning}; of a model also the number of a dim that has to be one; may be repeated")


def payload_of(
    options: argparse.Namespace, *, values_are_constant: bool = False, keeps_model: bool = False
) -> CommandPayload:
    """The payload of a command that calls it. Of a model, the inputs that have to be constant, or have a default, take
    the values that are given, and the dims that have to be numbers the sizes; all inputs that are given become
    constants if `values_are_constant`. The model itself, with its weights, is kept if `keeps_model`. Raises OnnxError,
    and UsageError."""
    files, sizes = given_files(options), given_sizes(options)
    if Path(options.file).suffix != SUFFIX:
        _require_model(files if values_are_constant else {}, "--input")
        return CommandPayload(tcpx.load(options.file), files, sizes)
    model = tcpx.onnx.load(options.file)
    chosen = files if values_are_constant else [name for name in model.defaults if name in files]
    equal = {name: other for name, other in sizes.items() if isinstance(other, str)}
    model = _with_values(model.specialized(sizes=equal), files, chosen)
    model = _with_what_it_needs(model, files, sizes)
    names = {port.name: port.argument for port in model.inputs}
    return CommandPayload(
        model.module,
        argument_files(files, names, model.values),
        {name: number for name, number in sizes.items() if name not in model.sizes},
        names,
        tuple(model.values),
        model.sizes,
        model if keeps_model else None,
    )


def specialised_of(options: argparse.Namespace) -> tcpx.Module:
    """The payload of a command that does not call it: of a model, with all that is given constant. Raises OnnxError,
    and UsageError."""
    files, sizes = given_files(options), given_sizes(options)
    if Path(options.file).suffix != SUFFIX:
        _require_model(sizes, "--size")
        _require_model(files, "--input")
        return tcpx.load(options.file)
    return specialised_model_of(options).module


def specialised_model_of(
    options: argparse.Namespace, *, state: bool = False, capacity: int | None = None
) -> tcpx.onnx.Model:
    """The model with all that is given constant. Raises OnnxError."""
    model = tcpx.onnx.load(options.file, sizes=given_sizes(options), state=state, capacity=capacity)
    files = given_files(options)
    return _with_values(model, files, files)


def given_files(options: argparse.Namespace) -> dict[str, str]:
    """The files of `--input`, by name."""
    return checked_unique(options.input, "--input")


def given_sizes(options: argparse.Namespace) -> dict[str, int | str]:
    """What `--size` says, by name."""
    return checked_unique(options.size, "--size")


def argument_files(files: Mapping[str, str], names: Mapping[str, str], values: Container[str]) -> dict[str, str]:
    """The files of `--input` by argument: of a model without those that became constants."""
    return {names.get(name, name): file for name, file in files.items() if name not in values}


def _with_values(model: tcpx.onnx.Model, files: Mapping[str, str], names: Container[str]) -> tcpx.onnx.Model:
    """The model with the inputs of these names constant that files are given for."""
    values = {name: tcpx.read_array(file) for name, file in files.items() if name in names}
    return model.specialized(values) if values else model


def _with_what_it_needs(model: tcpx.onnx.Model, files: Mapping[str, str], sizes: SizeValues) -> tcpx.onnx.Model:
    """The model with numbers for the dims, and values for the inputs, that its import asks for, so far as they are
    given. Dims that its nodes determine get their numbers, too, since no call can give these."""
    while True:
        try:
            needs = [name for name in model.needs if name in files]
        except tcpx.onnx.OnnxError as error:
            numbers = {name: sizes[name] for name in error.dims if name in sizes and name not in model.sizes}
            if not numbers:
                raise
            model = model.specialized(sizes=numbers)
        else:
            solved = {name: sizes[name] for name in model.imported.solved if name in sizes and name not in model.sizes}
            if not needs and not solved:
                return model
            model = _with_values(model, files, needs).specialized(sizes=solved)


def _require_model(given: Mapping[str, object], option: str) -> None:
    if given:
        raise UsageError(f"{option} of this command is for a model, FILE.onnx")
