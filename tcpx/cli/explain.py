"""tcpx explain: what every statement of a schedule did to a payload."""

import argparse
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import tcpx
from tcpx.cli.models import SUFFIX, add_specialisation, given_files, given_sizes, specialised_of
from tcpx.cli.options import (
    Subcommand,
    UsageError,
    add_payload,
    add_schedule,
    add_tuned,
    assigned,
    schedule_of,
)
from tcpx.cli.watching import run_on_save
from tcpx.plurals import counted


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_payload(parser)
    add_specialisation(parser)
    add_schedule(parser)
    add_tuned(parser)
    parser.add_argument("--html", metavar="PAGE", help="write one HTML file that needs nothing else, and no text")
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="show steps of this transform; may be repeated"
    )
    parser.add_argument(
        "--step", action="append", default=[], type=_step, metavar="N", help="show step N, from 1; may be repeated"
    )
    parser.add_argument("--func", default="", metavar="NAME", help="the function, where the payload has several")
    parser.add_argument(
        "--color", choices=("auto", "always", "never"), default="auto", help="default: auto, on a terminal"
    )
    parser.add_argument(
        "--verify",
        choices=("off", "numeric"),
        default="off",
        help="numeric: also evaluate the payload after every step and compare with it before the first; default: off",
    )
    parser.add_argument(
        "--why",
        nargs="?",
        const="",
        metavar="NEST",
        help="say why the innermost loops of this nest, named as by `tcpx profile`, take what they take, by a model of "
        "the core; without NEST, of the nests that take most of the time",
    )
    parser.add_argument("--json", metavar="FILE", help="with --why: write all of it as JSON")
    parser.add_argument("--watch", action="store_true", help="do it again on every save of a file it reads")


def _step(word: str) -> int:
    if not re.fullmatch(r"[0-9]+", word) or int(word) < 1:
        raise argparse.ArgumentTypeError(f"required the number of a step, from 1, found {word!r}")
    return int(word)


def _execute(options: argparse.Namespace) -> int:
    for name in options.only:
        if name not in (*tcpx.transforms(), "specialize when"):
            raise UsageError(f"there is no transform `{name}` to show (--only)")
    if options.html is not None and (options.step or options.only):
        raise UsageError("a page (--html) shows all steps and has a filter of its own: leave out --step and --only")
    _check_why(options)
    if not options.watch:
        return _explain(options)[0]
    given = [Path(path) for path in (options.file, options.schedule, *given_files(options).values()) if path]
    return run_on_save(lambda: _explain(options)[1], given)


def _check_why(options: argparse.Namespace) -> None:
    """Raise UsageError for options that do not go together with --why, or need it."""
    if options.why is None:
        if options.json is not None:
            raise UsageError("--json writes what --why says: add --why")
        return
    others = {"--html": options.html, "--only": options.only, "--step": options.step, "--func": options.func}
    found = [name for name, value in others.items() if value]
    if options.verify != "off":
        found.append("--verify")
    if found:
        raise UsageError(f"--why shows no steps: leave out {' and '.join(found)}")


def _why(options: argparse.Namespace) -> tuple[int, list[Path]]:
    """The loops of a nest, as modelled; the exit status and the files that were read."""
    sizes: dict[str, int] = {}
    if Path(options.file).suffix == SUFFIX:
        module = specialised_of(options)
    else:
        module = tcpx.load(options.file)
        sizes = {name: size for name, size in given_sizes(options).items() if isinstance(size, int)}
    schedule = schedule_of(options)
    params, record = assigned(options, module, schedule)
    if record is not None:
        print(f"tuned: {record}")
    found = tcpx.why(
        module, schedule, options.why, sizes=sizes, params=params, target=options.target, threads=options.threads
    )
    _print(found.lines())
    if options.json is not None:
        Path(options.json).write_text(json.dumps(found.as_json(), indent=1) + "\n", encoding="utf-8")
        print(f"wrote {options.json}")
    return 0, [Path(path) for path in (options.file, options.schedule, *given_files(options).values()) if path]


def _explain(options: argparse.Namespace) -> tuple[int, list[Path]]:
    """Do it once; gives the exit status and the files that were read."""
    if options.why is not None:
        return _why(options)
    module = specialised_of(options)
    schedule = schedule_of(options)
    show = tcpx.ExplanationText(frozenset(options.only), frozenset(options.step), _is_coloured(options.color))
    shown: list[tuple[int, str]] = []

    def on_step(step: tcpx.TraceEntry) -> None:
        shown.append((step.index + 1, step.transform))
        _print(show.step(step))

    quiet = options.html is not None
    params, record = assigned(options, module, schedule)
    if record is not None:
        print(f"tuned: {record}")
    explanation = tcpx.explain(
        module,
        schedule,
        params=params,
        target=options.target,
        threads=options.threads,
        func=options.func,
        on_start=None if quiet else lambda known: _print(show.start(known)),
        on_step=None if quiet else on_step,
    )
    files = [
        Path(options.file),
        *map(Path, given_files(options).values()),
        *(Path(file) for file in explanation.schedule_files if file),
    ]
    if module.constants.source:
        files.append(Path(options.file).parent / module.constants.source)
    if quiet:
        page = tcpx.html_page(explanation).encode()
        Path(options.html).write_bytes(page)
        print(f"wrote {options.html}: {counted(len(explanation.steps), 'step')}, {len(page) // 1024} KiB")
    else:
        _print(show.end(explanation))
    if explanation.error is not None:
        print(explanation.error.render(), file=sys.stderr)
        return 1, files
    if not quiet:
        _require_shown(options, shown)
    return (_verify(options, module, schedule, params) if options.verify == "numeric" else 0), files


def _require_shown(options: argparse.Namespace, taken: list[tuple[int, str]]) -> None:
    """Raise ArgumentError if --step or --only chose steps that there are not; `taken` are numbers and transforms."""
    numbers, names = dict.fromkeys(n for n, _ in taken), dict.fromkeys(name for _, name in taken)
    of_transforms = ", ".join(names) or "no steps"
    for number in options.step:
        if number not in numbers:
            raise _not_there(
                f"there is no step {number} (--step)", f"1 to {len(numbers)}", counted(len(numbers), "step")
            )
    for name in options.only:
        if name not in names:
            raise _not_there(f"no step is of `{name}` (--only)", "a transform that ran", of_transforms)
    if options.step and options.only and not any(n in options.step and name in options.only for n, name in taken):
        found = ", ".join(f"step {n} is of `{name}`" for n, name in taken if n in options.step)
        raise _not_there("no step is one of --step and of a transform of --only", "a step that is both", found)


def _not_there(message: str, required: str, found: str) -> tcpx.ArgumentError:
    return tcpx.ArgumentError(tcpx.Diagnostic(message, required=required, found=found))


def _verify(
    options: argparse.Namespace,
    module: tcpx.Module,
    schedule: tcpx.Schedule | None,
    params: Mapping[str, int | float | bool | str],
) -> int:
    verified = tcpx.verify_steps(module, schedule, params=params, target=options.target, threads=options.threads)
    if verified.wrong is not None:
        print(verified.wrong.diagnostic().render(), file=sys.stderr)
        return 1
    evaluations = verified.steps * len(verified.cases)
    left_out = f"; {verified.left_out} of {evaluations} evaluations left out: too long" if verified.left_out else ""
    cases = counted(len(verified.cases), "case")
    print(f"\nverified: the numbers stay the same in {counted(verified.steps, 'step')} and {cases}{left_out}")
    for case in verified.cases:
        print(f"  {case}")
    return 0


def _is_coloured(choice: str) -> bool:
    return choice == "always" or (choice == "auto" and sys.stdout.isatty() and "NO_COLOR" not in os.environ)


def _print(lines: Iterator[str]) -> None:
    for line in lines:
        print(line)


EXPLAIN = Subcommand(
    name="explain",
    summary="show what every statement of a schedule did",
    description="Run a schedule over a payload and show, for every step, the line it stands in, what its arguments\n"
    "denoted and its handles denote, the time, the loop nest after it, and the payload before and after as a diff;\n"
    "`+` marks lines of the nest that are new, `~` those that moved into or out of a loop. As text, or as a page\n"
    "(--html) that also shows which lines of the C each step made. Nothing is compiled. With --watch, a\n"
    "diagnostic does not end it, and Ctrl-C does, with status 0. --why says of each innermost loop of a nest how long\n"
    "an iteration takes by port and by latency, the bytes by level of the memory, what bounds it, and what to try.",
    example="tcpx explain examples/digits/digits.tcp -s schedules/digits.tcps --html digits.html",
    add_arguments=_add_arguments,
    execute=_execute,
    writes=("html", "json"),
)
