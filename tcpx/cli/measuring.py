"""What every command that measures takes: threads, rounds, samples, where the rows go."""

import argparse
import re
from collections.abc import Sequence

import tcpx
from tcpx.cli.options import positive, seconds
from tcpx.measure.pinned_threads import available_cpus
from tcpx.measure.rounds import Plan

QUICK = Plan(rounds=2, samples=3, shortest=2e-3, patience=2.0)


def add_measuring(parser: argparse.ArgumentParser) -> None:
    """`--threads`, `--peers`, `--rounds`, `--samples`, `--patience`, `--quick`, `-o`."""
    default = Plan()
    parser.add_argument(
        "--threads", type=_counts, default=(1,), metavar="N,..", help="numbers of threads, one CPU each; default: 1"
    )
    parser.add_argument("--peers", metavar="NAME,..", help="peers beside tcpx; default: all that are set up")
    parser.add_argument("--rounds", type=positive, metavar="N", help=f"default: {default.rounds}")
    parser.add_argument(
        "--samples", type=positive, metavar="N", help=f"that count, per round; default: {default.samples}"
    )
    parser.add_argument(
        "--patience",
        type=seconds,
        metavar="S",
        help=f"seconds a round waits for samples; default: {default.patience:g}",
    )
    parser.add_argument("--quick", action="store_true", help="few and short samples: to try things out")
    parser.add_argument(
        "-o", "--output", metavar="FILE.json", help="write the rows there, and a picture of the roofline beside it"
    )


def add_ledger(parser: argparse.ArgumentParser) -> None:
    """`--against`, `--keep`: for what is measured in a checkout."""
    parser.add_argument(
        "--against",
        metavar="REV",
        help="measure tcpx of this git revision (main, HEAD~1, a hash) beside this tree, and compare",
    )
    parser.add_argument(
        "--keep",
        action=argparse.BooleanOptionalAction,
        help="add the times to benchmarks/results, by processor; default: with --against, unless --quick",
    )


def plan_of(options: argparse.Namespace) -> Plan:
    """How much is measured."""
    base = QUICK if options.quick else Plan()
    return Plan(
        options.rounds or base.rounds, options.samples or base.samples, base.shortest, options.patience or base.patience
    )


def threads_of(options: argparse.Namespace) -> list[tuple[int, ...]]:
    """The CPUs for each number of threads. Raises ArgumentError where there are too few."""
    cpus = available_cpus()
    counts: Sequence[int] = options.threads
    for count in counts:
        if count > len(cpus):
            raise tcpx.ArgumentError(
                tcpx.Diagnostic(
                    "more threads than CPUs cannot be measured", required=f"at most {len(cpus)}", found=str(count)
                )
            )
    return [cpus[:count] for count in counts]


def _counts(word: str) -> tuple[int, ...]:
    if not re.fullmatch(r"[1-9][0-9]*(,[1-9][0-9]*)*", word):
        raise argparse.ArgumentTypeError(f"required numbers of threads such as 1,2, found {word!r}")
    return tuple(int(part) for part in word.split(","))
