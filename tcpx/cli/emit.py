"""tcpx emit: write the C of a payload to a folder."""

import argparse
import shlex
import sys
from pathlib import Path

import tcpx
from tcpx.cli.options import (
    ParamValue,
    Subcommand,
    add_payload,
    add_schedule,
    add_strided,
    add_tuned,
    params_of,
    schedule_of,
    tuned_record_of,
)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_payload(parser)
    add_schedule(parser)
    add_tuned(parser)
    add_strided(parser)
    parser.add_argument(
        "--name", metavar="NAME", help="name of the C function and of the files; default: the payload's"
    )
    parser.add_argument(
        "-o", "--output", metavar="DIR", default=".", help="folder to write to, made where it is missing; default: ."
    )


def _execute(options: argparse.Namespace) -> int:
    module, schedule = tcpx.load(options.file), schedule_of(options)
    params: dict[str, ParamValue] = dict(params_of(options))
    record = tuned_record_of(options, module, schedule)
    if record is not None:
        params = record.under(params)
        print(f"tuned: {', '.join(f'{name}={value}' for name, value in record.params.items())}")
    source = tcpx.emit(
        module,
        schedule,
        params=params,
        target=options.target,
        threads=options.threads,
        name=options.name,
        strided=options.strided,
    )
    folder = Path(options.output)
    folder.mkdir(parents=True, exist_ok=True)
    files = {"c": source.c_source.encode(), "h": source.header.encode()}
    if source.constants:
        files["bin"] = source.constants
    print(f"@{source.signature.name} as {source.name}")
    meanings = {"c": "the kernel", "h": "its prototype", "bin": "its constants, to be read into 64-byte aligned memory"}
    for suffix, content in files.items():
        path = folder / f"{source.name}.{suffix}"
        path.write_bytes(content)
        print(f"  wrote {path}: {meanings[suffix]}, {len(content)} bytes")
    for remark in source.remarks:
        print(remark.render(), file=sys.stderr)
    print("to compile it:")
    print(f"  cd {shlex.quote(str(folder))} && {source.compile_command}")
    return 0


EMIT = Subcommand(
    name="emit",
    summary="write the C of a payload",
    description="Compile a payload to C as a schedule says, and write NAME.c, NAME.h with the prototypes and,\n"
    "where the payload has constants, NAME.bin. No C compiler is needed; the target may be another machine's.",
    example="tcpx emit examples/digits/digits.tcp -s schedules/digits.tcps --target x86_avx2 -o build/digits",
    add_arguments=_add_arguments,
    execute=_execute,
)
