"""Following the hint of a remark as a reader would: by what it says to write, and where."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import tcpx
from tcpx.payload.diagnostics import Direction, Location


@dataclass(frozen=True, slots=True)
class Texts:
    """A payload and its schedule; None is the default one."""

    payload: str
    schedule: str | None


def followed(texts: Texts, remark: tcpx.Diagnostic) -> Texts | None:
    """The texts with the change that the hint of a remark asks for; None where it is a direction in prose. Raises
    ValueError for a hint of another form."""
    fix = remark.fix
    if fix is None or isinstance(fix, Direction):
        return None
    for form, change in FORMS:
        match = re.fullmatch(form, fix, re.DOTALL)
        if match is not None:
            return change(texts, remark, match)
    raise ValueError(f"no form of hints: {fix}")


def _instead_in_schedule(texts: Texts, remark: tcpx.Diagnostic, match: re.Match[str]) -> Texts:
    return replace(texts, schedule=_put(_of(texts), remark.schedule, match["text"], match["gone"]))


def _instead_in_payload(texts: Texts, remark: tcpx.Diagnostic, match: re.Match[str]) -> Texts:
    return replace(texts, payload=_put(texts.payload, remark.payload, match["text"], match["gone"]))


def _before_loop(texts: Texts, remark: tcpx.Diagnostic, match: re.Match[str]) -> Texts:
    lines = texts.payload.splitlines()
    moved = _numbers(match["moved"])
    at = int(match["at"])
    kept = [line for number, line in enumerate(lines, 1) if number not in moved]
    at -= sum(number < at for number in moved)
    return replace(texts, payload="\n".join([*kept[: at - 1], match["text"], *kept[at - 1 :]]) + "\n")


def _whole(texts: Texts, remark: tcpx.Diagnostic, match: re.Match[str]) -> Texts:
    return replace(texts, schedule=match["text"] + "\n")


def _unscheduled(texts: Texts, remark: tcpx.Diagnostic, match: re.Match[str]) -> Texts:
    return replace(texts, schedule=None)


def _first(texts: Texts, remark: tcpx.Diagnostic, match: re.Match[str]) -> Texts:
    head = re.search(r"schedule \w+\(.*?\)[^{]*\{\n", _of(texts))
    if head is None:
        raise ValueError("no schedule")
    schedule = _of(texts)
    return replace(texts, schedule=f"{schedule[: head.end()]}{match['text']}\n{schedule[head.end() :]}")


def _without(texts: Texts, remark: tcpx.Diagnostic, match: re.Match[str]) -> Texts:
    lines = _of(texts).rstrip().splitlines()
    left_out = _numbers(match["lines"]) if match["lines"] else set[int]()
    kept = [line for number, line in enumerate(lines, 1) if number not in left_out]
    if match["last"]:
        kept[-1:] = [f"  {match['last']}", kept[-1]]
    if match["begin"]:
        head = next(k for k, line in enumerate(kept) if line.startswith("schedule "))
        kept[head + 1 : head + 1] = [match["begin"]]
    if match["first"]:
        kept[1:1] = [match["first"]]
    return replace(texts, schedule="\n".join(kept) + "\n")


Change = Callable[[Texts, tcpx.Diagnostic, "re.Match[str]"], Texts]
FORMS: tuple[tuple[str, Change], ...] = (
    (
        r"in place of this statement of the schedule write(, without (?P<gone>[^:]*))?:\n(?P<text>.*)",
        _instead_in_schedule,
    ),
    (
        r"in place of this statement of the payload write(, without (?P<gone>[^:]*))?:\n(?P<text>.*)",
        _instead_in_payload,
    ),
    (r"in place of (?P<moved>lines? [^\n]*) of the payload write before line (?P<at>\d+):\n(?P<text>.*)", _before_loop),
    (r"give it the schedule:\n(?P<text>.*)", _whole),
    (r"compile without a schedule", _unscheduled),
    (r"as the first statement of the schedule write:\n(?P<text>.*)", _first),
    (
        r"(leave out (?P<lines>lines? [\d to,and]+) of the schedule)?(, | and )?"
        r"(end (it|the schedule) with `(?P<last>[^`]+)`)?"
        r"((, | and )write `(?P<first>[^`]+)` after the line of its language)?"
        r"( and as its first statement write:\n(?P<begin>.*))?",
        _without,
    ),
)


def _of(texts: Texts) -> str:
    if texts.schedule is None:
        raise ValueError("a hint about the schedule of a payload that has none")
    return texts.schedule


def _put(text: str, place: Location | None, new: str, gone: str | None = None) -> str:
    """A text with another one in place of a span, without the lines that are gone."""
    if place is None:
        raise ValueError("a hint without a place")
    lines = text.splitlines(keepends=True)
    starts = [sum(map(len, lines[:number])) for number in range(len(lines) + 1)]
    start = starts[place.line - 1] + place.column - 1
    end = starts[(place.end_line or place.line) - 1] + (place.end_column or len(lines[place.line - 1])) - 1
    more = new.count("\n") + place.line - (place.end_line or place.line)
    left_out = {line + (more if line > place.line else 0) for line in _numbers(gone or "")}
    changed = (text[:start] + new + text[end:]).splitlines(keepends=True)
    return "".join(line for number, line in enumerate(changed, 1) if number not in left_out)


def _numbers(text: str) -> set[int]:
    """`lines 4 to 6 and 9`."""
    spans = re.findall(r"(\d+)(?: to (\d+))?", text)
    return {number for first, last in spans for number in range(int(first), int(last or first) + 1)}
