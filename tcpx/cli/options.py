"""What a subcommand is, and what several of them take: schedule, target, threads, parameters, `NAME=VALUE` words."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Iterator
from math import isfinite
from pathlib import Path
from typing import TypeVar

import tcpx
from tcpx.installed import available_targets
from tcpx.records import frozen
from tcpx.schedule_options import EXACT, FAST, NUMERICS, SMALL, ParamValue, with_options

ValueT = TypeVar("ValueT")


@frozen
class Subcommand:
    """One subcommand: its texts, what declares its options, and what does it and returns the exit status."""

    name: str
    summary: str
    description: str
    example: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    execute: Callable[[argparse.Namespace], int]
    writes: tuple[str, ...] = ()
    """The options that name a file to write."""


TABLE_SUFFIXES = (".yaml", ".yml")
NATIVE = "native"


class _Targets:
    """The names of targets, among which the name of every file of a table counts."""

    def __iter__(self) -> Iterator[str]:
        return iter((*available_targets(), NATIVE))

    def __contains__(self, word: object) -> bool:
        if not isinstance(word, str):
            return False
        name, _, _ = word.partition("+")
        return name in available_targets() or word == NATIVE or word.endswith(TABLE_SUFFIXES)


def load_table(options: argparse.Namespace) -> None:
    """Let `--target` be the target of a table, where it names one. Raises TargetError."""
    word = getattr(options, "target", None)
    if isinstance(word, str) and word.endswith(TABLE_SUFFIXES):
        options.target = tcpx.load_target(word, allow_native=options.allow_native)


def add_schedule(parser: argparse.ArgumentParser, default: str = "the default policy of tcpx") -> None:
    """`-s SCHEDULE`, `--param` and what a schedule may ask about: `--target`, `--threads`."""
    parser.add_argument("-s", "--schedule", metavar="SCHEDULE", help=f"schedule file (.tcps); default: {default}")
    parser.add_argument(
        "--param",
        action="append",
        default=[],
        type=_param,
        metavar="KNOB=VALUE",
        help="override a knob, by name (mc=144) or by a glob of its path (*/fc1/*.mc=96); may be repeated",
    )
    parser.add_argument(
        "--numerics",
        choices=NUMERICS,
        default=EXACT,
        help="winograd: convolutions may be computed by fewer multiplications, and rounded otherwise; default: exact",
    )
    parser.add_argument(
        "--small",
        action="store_const",
        const=SMALL,
        default=FAST,
        help="products and convolutions whose sizes alone differ share code: less of it, somewhat slower",
    )
    parser.add_argument(
        "--target",
        choices=_Targets(),
        default=NATIVE,
        metavar="TARGET",
        help="%(choices)s, the widest that this CPU has, or a table (.yaml); default: native",
    )
    parser.add_argument(
        "--allow-native", action="store_true", help="compile and run the C, headers and flags that a table brings"
    )
    parser.add_argument(
        "--threads", type=positive, default=1, metavar="N", help="threads that parallel loops run on; default: 1"
    )


def add_payload(parser: argparse.ArgumentParser) -> None:
    """`FILE`."""
    parser.add_argument("file", metavar="FILE", help="payload file (.tcp), or a model (.onnx)")


def add_sizes(parser: argparse.ArgumentParser, meaning: str) -> None:
    """`--size`."""
    parser.add_argument("--size", action="append", default=[], type=size, metavar="SYMBOL=N", help=meaning)


def add_strided(parser: argparse.ArgumentParser) -> None:
    """`--strided`."""
    parser.add_argument(
        "--strided",
        action="store_true",
        help="take arrays as they are whose rows lie any distance apart: all arguments and results of two dims or more",
    )


def add_contract(parser: argparse.ArgumentParser) -> None:
    """`--no-contract`."""
    parser.add_argument(
        "--no-contract",
        action="store_true",
        help="round each product and each sum as the payload says, also where the target has an instruction for both",
    )


def add_layouts(parser: argparse.ArgumentParser) -> None:
    """`--layout`."""
    parser.add_argument(
        "--layout",
        action="append",
        default=[],
        type=_layout,
        metavar="NAME=DIMS",
        help="take an argument, or give a result, with its dims in this order, as x=0,2,3,1 takes [N, H, W, C] for "
        "[N, C, H, W]; may be repeated",
    )


def layouts_of(options: argparse.Namespace) -> dict[str, list[int]] | None:
    """What `--layout` says; None without."""
    given: list[tuple[str, list[int]]] = options.layout
    return dict(given) if given else None


def schedule_of(options: argparse.Namespace) -> tcpx.Schedule | None:
    """The schedule that `-s` names, or None for the default policy. Raises ParseError and ScheduleError."""
    path: str | None = options.schedule
    return None if path is None else tcpx.load_schedule(path)


def add_tuned(parser: argparse.ArgumentParser) -> None:
    """`--tuned [FILE]`."""
    parser.add_argument(
        "--tuned",
        nargs="?",
        const="",
        metavar="FILE",
        help="use the tuned values for this payload, schedule, target and compiler; default: those beside the "
        "schedule, NAME.tuned.yaml",
    )


def tuned_of(options: argparse.Namespace) -> str | None:
    """The file of `--tuned`, or None."""
    return None if options.tuned is None else options.tuned or tuned_path(options)


def assigned(
    options: argparse.Namespace, module: tcpx.Module, schedule: tcpx.Schedule | None
) -> tuple[dict[str, ParamValue], tcpx.TunedRecord | None]:
    """The overrides, with the values of `--tuned` that they leave, and its record for a payload or None. Raises
    ArgumentError where none fits."""
    path, params = tuned_of(options), params_of(options)
    if path is None:
        return params, None
    record = tcpx.tuned_record(path, module, schedule, target=options.target, threads=options.threads)
    return record.under(params), record


def tuned_path(options: argparse.Namespace) -> str:
    """Where the tuned records of a schedule are; for the default policy, beside the payload."""
    return str(Path(options.schedule or options.file).with_suffix(".tuned.yaml"))


def params_of(options: argparse.Namespace) -> dict[str, ParamValue]:
    """The overrides of `--param`, `--numerics` and `--small`; of equal names the last one counts."""
    given: list[tuple[str, ParamValue]] = options.param
    return dict(with_options(dict(given), options.numerics, options.small) or {})


def size(word: str) -> tuple[str, int | str]:
    """`B=64`, or `K2=K` for a size that equals another one, for `--size`."""
    parts = word.split(",")
    if len(parts) > 1 and all(re.fullmatch(r"\w+=\w+", part.strip()) for part in parts):
        each = " ".join(f"--size {part.strip()}" for part in parts)
        raise argparse.ArgumentTypeError(f"required an option for each size: {each}, found {word!r}")
    name, value = _split(word, "B=64")
    if re.fullmatch(r"[0-9]+", value):
        return name, int(value)
    if not re.match(r"[^\W\d]", value):
        raise argparse.ArgumentTypeError(f"required a size such as B=64, or K2=K, found {word!r}")
    return name, value


def input_file(word: str) -> tuple[str, str]:
    """`x=file.npy`, for `--input`."""
    return _split(word, "x=file.npy")


def checked_unique(words: Iterable[tuple[str, ValueT]], option: str) -> dict[str, ValueT]:
    """The words by name; a name said twice is an error of the command line."""
    found: dict[str, ValueT] = {}
    for name, value in words:
        if name in found:
            raise UsageError(f"{option} {name} is there twice")
        found[name] = value
    return found


class UsageError(Exception):
    """The command line makes no sense, though each word of it does: exit status 2."""


def _param(word: str) -> tuple[str, ParamValue]:
    name, value = _split(word, "mc=144")
    if value in ("true", "false"):
        return name, value == "true"
    if re.fullmatch(r"[+-]?[0-9]+", value):
        return name, int(value)
    if re.fullmatch(r"[+-]?[0-9]+\.[0-9]+([eE][+-]?[0-9]+)?", value):
        return name, float(value)
    return name, value


def _layout(word: str) -> tuple[str, list[int]]:
    """`x=0,2,3,1`."""
    name, value = _split(word, "x=0,2,3,1")
    if not re.fullmatch(r"[0-9]+(,[0-9]+)*", value):
        raise argparse.ArgumentTypeError(f"required an order of dims such as x=0,2,3,1, found {word!r}")
    return name, [int(dim) for dim in value.split(",")]


def natural(word: str) -> int:
    """A number that is not negative."""
    return _whole(word, 0)


def tolerance(word: str) -> float:
    """A tolerance: a finite number that is not negative."""
    try:
        value = float(word)
    except ValueError:
        value = -1.0
    if not (isfinite(value) and value >= 0):
        raise argparse.ArgumentTypeError(f"required a number >= 0, found {word!r}")
    return value


def seconds(word: str) -> float:
    """A time: a finite number above 0."""
    if tolerance(word) == 0:
        raise argparse.ArgumentTypeError(f"required a number > 0, found {word!r}")
    return float(word)


def positive(word: str) -> int:
    """A number of at least 1."""
    return _whole(word, 1)


def _whole(word: str, least: int) -> int:
    if not re.fullmatch(r"[0-9]+", word) or int(word) < least:
        raise argparse.ArgumentTypeError(f"required a number >= {least}, found {word!r}")
    return int(word)


def _split(word: str, example: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not (name and equals and value):
        raise argparse.ArgumentTypeError(f"required NAME=VALUE such as {example}, found {word!r}")
    return name, value
