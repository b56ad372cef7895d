"""tcpx bench: the workloads of the checkout beside other libraries, or one payload alone."""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Final

import numpy as np

import tcpx
from tcpx.cli.measuring import add_ledger, add_measuring, plan_of, threads_of
from tcpx.cli.options import Subcommand, UsageError, add_sizes, checked_unique
from tcpx.cli.progress import showing
from tcpx.measure.output import checked_output, write_results
from tcpx.measure.peer_process import Launch
from tcpx.measure.protocol import RAW_DTYPES, Input, Task
from tcpx.measure.roofline import Work
from tcpx.measure.rounds import Plan
from tcpx.measure.rows import Row
from tcpx.measure.session import Session
from tcpx.measure.table import table
from tcpx.plurals import counted

ROOT: Final = Path(__file__).parents[2]
RUNNER: Final = "benchmarks.run"
FOR_WORKLOADS: Final = ("peers", "check", "list", "random", "against", "keep", "page")
ALONE: Final = Launch("tcpx", "tcpx.measure.kernel_peer")


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words",
        nargs="*",
        metavar="WORKLOAD|FILE",
        help="names or globs of workloads (gemm/*), YAML files of workloads, or one payload (.tcp); default: all",
    )
    parser.add_argument("-s", "--schedule", metavar="SCHEDULE", help="for a payload: its schedule (.tcps)")
    add_sizes(parser, "for a payload: a symbolic size")
    add_measuring(parser)
    add_ledger(parser)
    parser.add_argument("--page", metavar="FILE.html", help="show what was kept, each workload over time, and end")
    parser.add_argument("--list", action="store_true", help="show the names of the workloads and end")
    parser.add_argument(
        "--check",
        action="store_true",
        help="exit status 1 if a bar is missed; with --against, if something is slower",
    )
    parser.add_argument(
        "--random", nargs="?", type=int, const=-1, metavar="SEED", help="50 products of random sizes instead"
    )


def _execute(options: argparse.Namespace) -> int:
    words: list[str] = options.words
    payloads = [word for word in words if word.endswith(".tcp")]
    checked_output(options.output)
    if payloads:
        if len(words) > 1:
            raise UsageError(f"required one payload and nothing beside it, found {' '.join(words)}")
        if any(vars(options)[name] is not None and vars(options)[name] is not False for name in FOR_WORKLOADS):
            *names, last = (f"--{name}" for name in FOR_WORKLOADS)
            raise UsageError(f"{', '.join(names)} and {last} are for workloads, not for a payload")
        return _time_alone(Path(payloads[0]), options)
    if options.schedule is not None or options.size:
        raise UsageError("-s and --size are for a payload: required FILE.tcp")
    if not (ROOT / "benchmarks" / "run.py").is_file():
        raise _no_checkout()
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    if options.keep and options.random is not None:
        raise UsageError("--keep is for workloads that are measured again, --random measures others each time")
    options.workloads = words
    status: int = import_module(RUNNER).execute(options)
    return status


def _time_alone(payload: Path, options: argparse.Namespace) -> int:
    """Time tcpx on a payload, on random arguments; nothing is compared and no result is checked."""
    module = tcpx.load(payload)
    arrays = tcpx.random_inputs(module, sizes=checked_unique(options.size, "--size"))
    schedule = tcpx.schedule_text(options.schedule) if options.schedule is not None else None
    plan = plan_of(options)
    print(f"tcpx alone on {payload}: no peers, results unchecked (tcpx run --check does that)")
    print(_what_is_measured(options.quick, plan), flush=True)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="tcpx-bench-") as folder:
        inputs: list[Input] = []
        for (name, dtype), array in zip(tcpx.argument_dtypes(module).items(), arrays, strict=True):
            raw = RAW_DTYPES.get("bf16" if dtype.name == "bfloat16" else dtype.name)
            np.save(Path(folder, f"{name}.npy"), array if raw is None else array.view(raw))
            inputs.append(Input(name, dtype.name))
        for cpus in threads_of(options):
            task = Task(
                name=payload.name,
                kind="payload",
                threads=len(cpus),
                folder=folder,
                inputs=tuple(inputs),
                payload=payload.read_text(encoding="utf-8"),
                payload_folder=str(payload.parent.resolve()),
                schedule=schedule,
            )
            made = _rows(task, cpus, plan, options.quick, sum(array.nbytes for array in arrays))
            print(table(made[1:], head=not rows), flush=True)
            rows += made
    for path in write_results(rows, options.output):
        print(f"wrote {path}")
    return 0 if all(row.median_s is not None for row in rows if row.peer == ALONE.name) else 1


def _rows(task: Task, cpus: Sequence[int], plan: Plan, is_quick: bool, count: int) -> list[Row]:
    """The rows of one number of threads, for arrays of `count` bytes, that of the machine first."""
    work = Work(0, count)
    stage = "measuring the limits of the machine"
    with (
        showing(lambda seconds: f"{stage}, {seconds:.0f} s"),
        Session([ALONE], cpus, plan=plan, only=work if is_quick else None) as session,
    ):
        stage = "compiling the kernel and timing it"
        session.measure(task, work)
        stage = "measuring the limits of the machine again"
        return session.finished()


def _what_is_measured(is_quick: bool, plan: Plan) -> str:
    """How much is measured, in a line."""
    samples = f"{counted(plan.rounds, 'round')} of {counted(plan.samples, 'sample')} of {plan.shortest * 1e3:g} ms"
    if is_quick:
        return f"{samples}; of the machine's limits the one that counts, once (--quick)"
    return f"{samples}; all limits of the machine before and after, which takes longest (--quick: one of them, once)"


def _no_checkout() -> tcpx.ArgumentError:
    return tcpx.ArgumentError(
        tcpx.Diagnostic(
            "the workloads are not installed",
            required="a checkout of tcpx, or one payload: FILE.tcp",
            found=f"no benchmarks/ in {ROOT}",
            fix="tcpx bench FILE.tcp -s SCHEDULE.tcps times tcpx alone",
        )
    )


BENCH = Subcommand(
    name="bench",
    summary="measure workloads, beside other libraries",
    description="Measure the workloads of the checkout on tcpx and on the peers that are set up (make bench-peers),\n"
    "in turn, every result checked first. Given a payload, time tcpx alone on random arguments.",
    example="tcpx bench 'gemm/*' --threads 1,2 --peers numpy -o out.json",
    add_arguments=_add_arguments,
    execute=_execute,
    writes=("output",),
)
