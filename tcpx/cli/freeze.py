"""tcpx freeze: write a schedule with its values written in."""

import argparse
from datetime import UTC, datetime
from pathlib import Path

import tcpx
from tcpx.cli.models import add_specialisation, specialised_of
from tcpx.cli.options import Subcommand, add_payload, add_schedule, add_tuned, assigned, schedule_of
from tcpx.plurals import counted


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_payload(parser)
    add_specialisation(parser)
    add_schedule(parser)
    add_tuned(parser)
    parser.add_argument("-o", "--output", metavar="FILE.tcps", required=True, help="the file to write")


def _execute(options: argparse.Namespace) -> int:
    module, schedule = specialised_of(options), schedule_of(options)
    target = tcpx.load_target(options.target)
    told = {
        "frozen": f"by tcpx {tcpx.__version__}, {datetime.now(UTC).isoformat(timespec='seconds')}",
        "of": options.schedule or "the default policy of tcpx",
        "for": f"{options.file}, fingerprint {tcpx.fingerprint(module)}, {target.title}, "
        f"{counted(options.threads, 'thread')}",
    }
    params, record = assigned(options, module, schedule)
    if record is not None:
        told |= {"cpu": record.setting.cpu, "compiler": record.setting.compiler, **record.provenance}
    output = Path(options.output)
    text = tcpx.freeze(
        module,
        schedule,
        params=params,
        target=target,
        threads=options.threads,
        provenance=told,
        folder=output.parent,
    )
    output.write_text(text, encoding="utf-8")
    print(f"wrote {output}")
    return 0


FREEZE = Subcommand(
    name="freeze",
    summary="write a schedule with its values written in",
    description="Write a schedule that does for this payload and target what the given one does with these values:\n"
    "one file that imports nothing and has no knobs. Comments at its top say where the values come from.",
    example="tcpx freeze examples/digits/digits.tcp -s schedules/digits.tcps --tuned -o schedules/digits.tuned.tcps",
    add_arguments=_add_arguments,
    execute=_execute,
    writes=("output",),
)
