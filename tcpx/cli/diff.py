"""tcpx diff: two schedules for a payload, side by side: values of knobs, loop nests, C, speed."""

import argparse
import re
from collections.abc import Mapping
from difflib import unified_diff
from pathlib import Path
from typing import Final

import tcpx
from tcpx.cli.options import Subcommand, add_sizes, checked_unique, positive
from tcpx.plurals import counted
from tcpx.quantities import duration
from tcpx.verification.speed import interleaved

COMMENT: Final = re.compile(r"/\*.*?\*/", re.DOTALL)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("old", metavar="OLD.tcps", help="a schedule")
    parser.add_argument("new", metavar="NEW.tcps", help="another one")
    parser.add_argument("--on", required=True, metavar="FILE", help="the payload (.tcp) that both are for")
    parser.add_argument("--target", choices=(*tcpx.targets(), "native"), default="native", metavar="TARGET")
    parser.add_argument("--threads", type=positive, default=1, metavar="N", help="default: 1")
    parser.add_argument("--c", action="store_true", help="show the lines of C that differ, not just how many")
    parser.add_argument("--time", action="store_true", help="compile both and time them in turn, on random arguments")
    add_sizes(parser, "for --time: a symbolic size")


def _execute(options: argparse.Namespace) -> int:
    module = tcpx.load(options.on)
    paths = (options.old, options.new)
    schedules = [tcpx.load_schedule(path) for path in paths]
    runs = [tcpx.apply_schedule(module, s, target=options.target, threads=options.threads) for s in schedules]
    knobs = [{use.path: str(use.value) for use in run.knobs} for run in runs]
    nests = [tcpx.loop_nest(run.module.main).splitlines() for run in runs]
    sources = [
        COMMENT.sub("", tcpx.emit(module, s, target=options.target, threads=options.threads).c_source).splitlines()
        for s in schedules
    ]
    _show("knobs", _knob_lines(*knobs))
    _show("loop nest", _changes(nests, paths))
    changed = _changes(sources, paths)
    different = [line for line in changed if line[:1] in "+-" and not line.startswith(("+++", "---"))]
    _show("C", changed if options.c else [counted(len(different), "different line")] if different else [])
    if options.time:
        arrays = tcpx.random_inputs(module, sizes=checked_unique(options.size, "--size"))
        kernels = [tcpx.compile(module, s, target=options.target, threads=options.threads) for s in schedules]
        old, new = interleaved(kernels, arrays)
        print(f"speed: {duration(old)}, then {duration(new)}: {new / old:.3f} of the time")
    return 0


def _knob_lines(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    paths = dict.fromkeys((*old, *new))
    names = tcpx.KnobNames.of(paths)
    return [f"{names(p)}: {old.get(p, 'none')} -> {new.get(p, 'none')}" for p in paths if old.get(p) != new.get(p)]


def _changes(texts: list[list[str]], paths: tuple[str, str]) -> list[str]:
    old, new = texts
    return list(unified_diff(old, new, *(Path(path).name for path in paths), n=1, lineterm=""))


def _show(what: str, lines: list[str]) -> None:
    print(f"{what}: {'the same' if not lines else ''}".rstrip())
    for line in lines:
        print(f"  {line}")


DIFF = Subcommand(
    name="diff",
    summary="compare two schedules for a payload",
    description="Show what two schedules do differently to a payload: the values of their knobs, the loop nest before\n"
    "lowering, the C, and with --time their speed.",
    example="tcpx diff schedules/digits.tcps frozen.tcps --on examples/digits/digits.tcp --time --size B=64",
    add_arguments=_add_arguments,
    execute=_execute,
)
