"""The reference of the Python API, from its docstrings: docs/api.md."""

from __future__ import annotations

import inspect
import re

from tcpx import public

HEAD = """\
# The Python API

<!-- Made by `make docs` from docstrings; do not edit. -->

Everything here is an attribute of `tcpx`. A `PayloadLike` is a module, a model, or the path of a file.
"""


def api_page() -> str:
    """The page: functions, then classes, each in alphabetical order."""
    named = {name: getattr(public, name) for name in sorted(public.__all__, key=str.lower)}
    functions = [f"### `{name}`\n\n{_function(name, held)}" for name, held in named.items() if inspect.isfunction(held)]
    classes = [_class(name, held) for name, held in named.items() if inspect.isclass(held)]
    return "\n".join([HEAD, "## Functions\n", *functions, "## Classes\n", *classes])


def _function(name: str, function: object) -> str:
    return f"```python\n{name}{_signature(function)}\n```\n\n{inspect.getdoc(function) or ''}\n"


def _class(name: str, held: type) -> str:
    doc = inspect.getdoc(held) or ""
    lines = [f"### class `{name}`\n", doc if not doc.startswith(f"{name}(") else "", ""]
    for member, value in vars(held).items():
        found = value.fget if isinstance(value, property) else value
        if not member.startswith("_") and inspect.isfunction(found):
            first = " ".join((inspect.getdoc(found) or "").split("\n\n")[0].split())
            shown = member if isinstance(value, property) else f"{member}(..)"
            lines.append(f"* `{shown}`: {first}")
    return "\n".join([*lines, ""])


def _signature(function: object) -> str:
    """One parameter a line, without the addresses that defaults may print."""
    if not callable(function):
        return ""
    text = re.sub(r" at 0x[0-9a-f]+", "", str(inspect.signature(function)))
    text = re.sub(r"\b(?:[a-z_]\w*\.)+([A-Za-z]\w*)", r"\1", text)  # types by their names alone
    text = text.replace("Module | ModelLike | ProtoLike | str | Path | bytes", "PayloadLike")
    return text.replace("'", "") if len(text) < 90 else re.sub(r", (?=\*?\*?\w+(?::|,|\)))", ",\n    ", text)
