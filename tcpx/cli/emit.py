"""tcpx emit: write the C of a payload to a folder."""

import argparse
import shlex
import sys

import tcpx
from tcpx.cli.models import add_specialisation, specialised_of
from tcpx.cli.options import (
    Subcommand,
    add_contract,
    add_layouts,
    add_payload,
    add_schedule,
    add_strided,
    add_tuned,
    assigned,
    layouts_of,
    schedule_of,
)
from tcpx.cli.system_errors import check_folder
from tcpx.plurals import counted


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_payload(parser)
    add_specialisation(parser)
    add_schedule(parser)
    add_tuned(parser)
    add_strided(parser)
    add_contract(parser)
    add_layouts(parser)
    parser.add_argument(
        "--name", metavar="NAME", help="name of the C function and of the files; default: the payload's"
    )
    parser.add_argument(
        "-o", "--output", metavar="DIR", help="folder to write to, made where it is missing; default: NAME"
    )


def _execute(options: argparse.Namespace) -> int:
    if options.output:
        check_folder(options.output)
    module, schedule = specialised_of(options), schedule_of(options)
    params, record = assigned(options, module, schedule)
    if record is not None:
        print(f"tuned: {', '.join(f'{name}={value}' for name, value in record.params.items())}")
    source = tcpx.emit(
        module,
        schedule,
        params=params,
        target=options.target,
        threads=options.threads,
        name=options.name,
        strided=options.strided,
        contract=not options.no_contract,
        layouts=layouts_of(options),
    )
    folder = source.write(options.output or source.name)
    print(f"@{source.signature.name} as {source.name}")
    for file, content in source.files.items():
        print(f"  wrote {folder / file}: {_meaning(file, source)}, {counted(len(content), 'byte')}")
    for remark in source.remarks:
        print(remark.render(), file=sys.stderr)
    print("to compile it:")
    print(f"  cd {shlex.quote(str(folder))} && {source.compile_command}")
    print("with CMake, with a program that runs it on .npy files:")
    build = shlex.quote(str(folder / "build"))
    print(f"  cmake -S {shlex.quote(str(folder))} -B {build} && cmake --build {build}")
    return 0


def _meaning(file: str, source: tcpx.Source) -> str:
    """What a file is."""
    known = {
        f"{source.name}.c": "the kernel",
        f"{source.name}.h": "its prototype",
        f"{source.name}.bin": "its constants, to be read into 64-byte aligned memory",
        f"{source.name}.json": "what tcpx.load_kernel reads",
        "main.c": "a program that runs it",
        "CMakeLists.txt": "how CMake builds both",
    }
    return known.get(file, "a function that it calls")


EMIT = Subcommand(
    name="emit",
    summary="write the C of a payload",
    description="Compile a payload to C as a schedule says, and write a C library: NAME.c and a file for each\n"
    "function that it calls, NAME.h with the prototypes, NAME.bin with the constants, CMakeLists.txt, and main.c,\n"
    "a program that runs it on .npy files without Python. `tcpx.load_kernel` loads the folder. No C compiler is\n"
    "needed; the target may be another machine's.",
    example="tcpx emit examples/digits/digits.tcp -s schedules/digits.tcps --target x86_avx2 -o build/digits",
    add_arguments=_add_arguments,
    execute=_execute,
)
