"""tcpx tune: search the knobs of a schedule by measuring, and look at what was found before."""

import argparse
import sys
from dataclasses import replace
from errno import ENOENT
from importlib.util import find_spec
from os import strerror
from pathlib import Path
from time import monotonic
from typing import Final

import tcpx
from tcpx.cli.models import CommandPayload, add_drawn_arguments, payload_of
from tcpx.cli.options import (
    Subcommand,
    UsageError,
    add_schedule,
    natural,
    positive,
    schedule_of,
    tuned_path,
)
from tcpx.cli.plain_lines import PlainLines
from tcpx.cli.tune_by_kernel import search_of, tune_by_kernel
from tcpx.cli.tune_commands import how_to_emit, how_to_go_on, how_to_record, how_to_use, status_of
from tcpx.cli.tune_ledger import merge, show, size_on_disk
from tcpx.cli.tune_revalidation import revalidate_file
from tcpx.tune.dispatch import dispatch
from tcpx.tune.executor import LOCAL
from tcpx.tune.samplers.sampler import CORE, OPTUNA
from tcpx.tune.slots import Limits
from tcpx.tune.space_file import read_space_file, seconds_of
from tcpx.tune.study import Study

STORAGE: Final = "tune.db"


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", nargs="?", metavar="FILE", help="payload file (.tcp), or a model (.onnx)")
    add_schedule(parser)
    add_drawn_arguments(parser, "the value of a symbolic size; several workloads stand in a --space file")
    search = parser.add_argument_group("search")
    search.add_argument("--space", metavar="FILE", help="YAML file that narrows knobs and lists workloads")
    search.add_argument("--trials", type=positive, metavar="N", help="candidates at most; default: 100")
    search.add_argument(
        "--budget",
        type=_seconds,
        metavar="T",
        help="time for all but the comparison of --final, which says how long it takes: 90s, 10m, 2h; candidates that "
        "are tried at its end are tried to their end; with --dispatch for all sizes; default: no limit",
    )
    search.add_argument("--sampler", choices=(*CORE, *OPTUNA), help="default: tpe with Optuna, else evolutionary")
    search.add_argument("--seed", type=natural, default=0, metavar="N", help="of the sampler and the data; default: 0")
    search.add_argument("--early-stop", type=positive, metavar="N", help="end after N candidates that are not faster")
    search.add_argument("--workers", type=positive, metavar="N", help="compile so many at once; default: one per CPU")
    search.add_argument("--executor", default=LOCAL, metavar="E", help="local, or dask://HOST:PORT; default: local")
    search.add_argument(
        "--timeout", type=_seconds, metavar="T", help="for a candidate's check and samples; default: 30s"
    )
    search.add_argument("--memory", type=positive, default=4096, metavar="MIB", help="for a candidate; default: 4096")
    search.add_argument(
        "--final",
        type=natural,
        metavar="N",
        help="measure the winner again in at least so many sets of fresh processes; default: 5, with --quick 2; 0: not",
    )
    search.add_argument("--quick", action="store_true", help="few and short samples: to try things out")
    search.add_argument("--plain", action="store_true", help="one line per candidate, also in a terminal")
    parser.add_argument(
        "--record",
        nargs="?",
        const="",
        metavar="FILE",
        help="write the winner there, for --tuned; without a name: beside the schedule, NAME.tuned.yaml",
    )
    parser.add_argument(
        "--by-kernel",
        action="store_true",
        help="tune each function that the payload calls, and each of its own loop nests, by itself, with as much of "
        "--trials and --budget as it has of the time; keep what wins where the payload is not slower with it; write "
        "the file of --record",
    )
    parser.add_argument(
        "--dispatch",
        metavar="FILE.tcps",
        help="tune for each of the sizes of the --space file apart, and write a schedule that chooses a winner",
    )
    parser.add_argument(
        "--revalidate",
        metavar="FILE",
        help="do not search: measure the winners that are recorded there again, beside the defaults of this schedule; "
        "keep those that still win in the file, say which do not",
    )
    parser.add_argument("--html", metavar="FILE", help="write a page with plots there: one file")
    storage = parser.add_argument_group("ledger")
    storage.add_argument("--storage", default=STORAGE, metavar="FILE", help=f"default: {STORAGE}")
    storage.add_argument("--resume", action="store_true", help="go on with what the ledger has of this study")
    storage.add_argument("--show", nargs="?", const="", metavar="STUDY", help="print a study, the last one by default")
    storage.add_argument("--export", choices=("csv", "json"), help="print all candidates of a study")
    storage.add_argument("--merge", metavar="FILE", help="take over what another ledger has")


def _execute(options: argparse.Namespace) -> int:
    looks = options.show is not None or options.export is not None
    if options.merge is not None or looks:
        if options.file is not None:
            raise UsageError("--show, --export and --merge are about a ledger: no payload beside them")
        return merge(options) if options.merge is not None else show(options)
    if options.file is None:
        raise UsageError("required a payload, FILE.tcp, or --show, --export, --merge")
    if not isinstance(options.target, str):
        raise UsageError("required an installed target, found a table: a study is kept and resumed by names")
    _require_one_purpose(options)
    _require_folders(options)
    began = monotonic()
    limits = Limits() if options.timeout is None else Limits(check=options.timeout, sample=options.timeout)
    try:
        if options.revalidate is None:
            print(f"ledger: {options.storage}; Ctrl-C ends the search and keeps what it found", flush=True)
        payload = payload_of(options, values_are_constant=True)
        if options.budget is not None:
            options.budget = max(0.0, options.budget + began - monotonic())
        if options.revalidate is not None:
            with _listener(options.plain) as listener:
                return revalidate_file(options, payload, limits, listener)
        if options.by_kernel:
            with _listener(options.plain) as listener:
                return tune_by_kernel(options, payload, limits, listener)
        if options.dispatch is not None:
            return _dispatch(options, payload, limits)
        study = _study(options, payload, limits)
    except KeyboardInterrupt:
        if options.revalidate is None:
            print(f"ended at once; to go on:\n  {how_to_go_on()}", flush=True)
        raise
    _finish(options, payload, study)
    return status_of(study.is_interrupted, done=study.winner is not None)


def _finish(options: argparse.Namespace, payload: CommandPayload, study: Study) -> None:
    """Print the study, write what was asked for, say how to use it and how to go on."""
    _say(options, study)
    if options.html is not None:
        study.html(options.html)
        print(f"wrote {options.html}")
    if study.winner is not None:
        path = (options.record or tuned_path(options)) if options.record is not None else None
        if path is not None:
            for held in (study, *study.others):
                if held.winner is not None:
                    held.record(path)
            print(f"wrote {path}")
        print(f"to use it:\n  {how_to_use(options, payload, study, path)}")
        if path is None and not study.keeps_defaults:
            print(f"to write it into a file for --tuned:\n  {how_to_record(study)}")
    if not all(held.is_exhausted for held in (study, *study.others)):
        print(f"to go on:\n  {how_to_go_on(study)}")


def _require_one_purpose(options: argparse.Namespace) -> None:
    others = {"--record": options.record is not None, "--by-kernel": options.by_kernel, "--resume": options.resume}
    others |= {"--dispatch": options.dispatch is not None, "--html": options.html is not None}
    given = [name for name, is_given in others.items() if is_given]
    if options.revalidate is not None and given:
        raise UsageError(f"--revalidate searches nothing: no {given[0]} beside it")


def _require_folders(options: argparse.Namespace) -> None:
    """Those that results are written into: a long search is not for nothing."""
    for path in (options.record, options.html, options.dispatch):
        if path and not Path(path).parent.is_dir():
            raise FileNotFoundError(ENOENT, strerror(ENOENT), path)


def _say(options: argparse.Namespace, study: Study) -> None:
    for held in (study, *study.others):
        if study.others:
            print(f"on {held.key.facts['cpu']}:")
        print(held.text())
        print(f"{size_on_disk(options.storage)}, study {held.key.key}")


def _dispatch(options: argparse.Namespace, payload: CommandPayload, limits: Limits) -> int:
    """A study for each workload, and one schedule with all winners."""
    if options.record is not None or options.html is not None:
        raise UsageError("--record and --html are about one study, --dispatch makes several")
    workloads = read_space_file(options.space).workloads if options.space is not None else ()
    studies: list[Study] = []
    budget = options.budget
    for number, workload in enumerate(workloads):
        print(f"for {workload}:", flush=True)
        if budget is not None:
            options.budget = max(0.0, budget - sum(held.searching for held in studies)) / (len(workloads) - number)
        studies.append(_study(options, replace(payload, sizes=dict(workload.sizes)), limits))
        _say(options, studies[-1])
    if len(studies) < 2:
        raise UsageError("--dispatch needs a --space file with two or more `sizes`")
    path = Path(options.dispatch)
    path.write_text(dispatch(studies, path.parent), encoding="utf-8")
    print(f"wrote {path}\nto use it:\n  {how_to_emit(options, payload, [], str(path))}")
    return status_of(any(study.is_interrupted for study in studies))


def _study(options: argparse.Namespace, payload: CommandPayload, limits: Limits) -> Study:
    with _listener(options.plain) as listener:
        return tcpx.tune(
            payload.module,
            schedule_of(options),
            executor=options.executor,
            **search_of(options, payload, limits, listener),
        )


def _listener(plain: bool) -> PlainLines:
    """The live view in a terminal, where rich is installed; else lines."""
    if plain or not sys.stdout.isatty() or find_spec("rich") is None:
        return PlainLines()
    from tcpx.cli.live_view import LiveView

    return LiveView()


def _seconds(word: str) -> float:
    found = seconds_of(word)
    if found is None:
        raise argparse.ArgumentTypeError(f"required a time such as 90s, 10m or 2h, found {word!r}")
    return found


TUNE = Subcommand(
    name="tune",
    summary="search the knobs of a schedule by measuring",
    description="Try values for the knobs of a schedule, each compiled, run in a process of its own, checked\n"
    "against the reference evaluator, and timed beside the fastest so far. All go into the ledger.\n\n"
    "With --by-kernel: measure what part of the time each function has that the payload calls, such as the layers of\n"
    "a model, and each loop nest of its own; tune each by itself, at the sizes and with the constants of its calls;\n"
    "compare the payload with the winner and without. Equal ones are tuned once, and not where the file of records\n"
    "has them already.\n\n"
    "With --revalidate: measure the winners of a file of records again, by the code of today.\n\n"
    "Ctrl-C ends the search when the candidates at hand are through, a second one at once.",
    example="tcpx tune examples/digits/digits.tcp -s schedules/digits.tcps --size B=64 --trials 300 --budget 10m",
    add_arguments=_add_arguments,
    execute=_execute,
    writes=("record", "dispatch", "html", "revalidate"),
)
