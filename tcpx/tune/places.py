"""Places in YAML files for diagnostics, and the nearest name that is known."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any, cast

import yaml

import tcpx


def place_of(where: yaml.Node | yaml.Mark, path: str, lines: Sequence[str]) -> tcpx.Location:
    """The span of a node, or the point of a mark."""
    start = where.start_mark if isinstance(where, yaml.Node) else where
    end = where.end_mark if isinstance(where, yaml.Node) else where
    text = lines[start.line] if start.line < len(lines) else ""
    return tcpx.Location(path, start.line + 1, start.column + 1, end.line + 1, end.column + 1, text)


def compose(text: str) -> yaml.Node | None:
    """The tree of a YAML text; None for an empty one. Raises YAMLError."""
    try:
        return cast("Any", yaml).compose(text, Loader=yaml.SafeLoader)
    except RecursionError as error:
        raise yaml.YAMLError("lists and mappings too deep in one another") from error


def value_of(node: yaml.Node) -> object:
    """What a node stands for. Raises YAMLError, also for a date that there is not."""
    loader = cast("Any", yaml.SafeLoader(""))
    try:
        return loader.construct_document(node)
    except (ValueError, RecursionError) as error:
        raise yaml.MarkedYAMLError(problem=str(error), problem_mark=node.start_mark) from error
    finally:
        loader.dispose()


def suggestion(name: str, known: Iterable[str]) -> str | None:
    """The fix for a name that there is not."""
    found = get_close_matches(name, sorted(set(known)), n=1, cutoff=0.6)
    return f"did you mean `{found[0]}`?" if found else None
