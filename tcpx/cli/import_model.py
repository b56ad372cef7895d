"""tcpx import: write a model of ONNX as a payload, to read and to schedule."""

import argparse
from pathlib import Path

import tcpx
from tcpx.cli.models import add_specialisation, specialised_model_of
from tcpx.cli.options import Subcommand, UsageError
from tcpx.plurals import counted


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE.onnx", help="the model")
    add_specialisation(parser)
    parser.add_argument(
        "--state",
        action="store_true",
        help="change caches in place; how much of them is used is an argument",
    )
    parser.add_argument("--capacity", type=int, metavar="N", help="the room of caches; without it, what a call gives")
    parser.add_argument(
        "-o", "--output", metavar="DIR", required=True, help="folder to write to, made where it is missing"
    )


def _execute(options: argparse.Namespace) -> int:
    folder = Path(options.output)
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"required a folder for --output, found the file {folder}")
    if options.capacity is not None and not options.state:
        raise UsageError("required --state beside --capacity, found --capacity alone")
    model = specialised_model_of(options, state=options.state, capacity=options.capacity)
    module = model.module
    written = tcpx.onnx.write(model, folder)
    ops, weights = counted(len(module.main.body.ops), "operation"), counted(len(model.weights), "array")
    print(f"@{module.main.name}: {ops}, {weights} of weights")
    for port in model.inputs:
        print(f"  in   %{port.argument}: {port.type}" + (f" (input {port.name})" if port.name != port.argument else ""))
    for name, value in zip(model.outputs, module.main.returned, strict=True):
        print(f"  out  %{value.name}: {value.type}" + (f" (output {name})" if name != value.name else ""))
    for path in written:
        print(f"  wrote {path}: {path.stat().st_size} bytes")
    return 0


IMPORT = Subcommand(
    name="import",
    summary="write a model of ONNX as a payload",
    description="Read an ONNX file and write DIR/model.tcp, the payload with the names of the nodes, and\n"
    "DIR/model.safetensors, its weights. What is not supported is listed, all of it, with the names of the nodes.",
    example="tcpx import model.onnx -o model/",
    add_arguments=_add_arguments,
    execute=_execute,
)
