"""The reference page of each transform, made from its declaration."""

import re
from inspect import cleandoc
from textwrap import indent

from tcpx.records import frozen
from tcpx.transform.declaration import Category, Parameter, Transform, transforms

__all__ = ["Example", "example_of", "reference", "reference_page", "terminal_page"]

_SECTIONS = ("before", "statement", "after", "output")
_SECTION = re.compile(rf"^({'|'.join(_SECTIONS)}):\n((?:(?:    .*)?\n?)+)", re.MULTILINE)
_NAMES = re.compile(r'%([A-Za-z_]\w*)\s*=|name "([A-Za-z_]\w*)"')

HEAD = """\
# The transforms

<!-- Made by `make docs` from tcpx/transform/ops/; do not edit. -->

What each step of a schedule does. `tcpx ops --transforms NAME` shows one page in the terminal;
[language.md](language.md) is the language around them, [coming-from.md](coming-from.md) finds them by the names of
other systems.

In an example, a name that is not bound denotes the operation of that name, and `root` the function. The payload before
and after is complete, except where `...` leaves something out; lines are broken to fit. The target is `x86_avx512`.
A step is a transaction, and a handle stays with its computation through all of them; a page says where one ends.
"""


@frozen
class Example:
    """The example of a docstring. `after` is the payload text, or what the step prints if `is_output`."""

    before: str
    statement: str
    after: str
    is_output: bool

    def bindings(self) -> str:
        """`let` statements for the operations that the statement names."""
        names = dict.fromkeys(a or b for a, b in _NAMES.findall(self.before))
        used = [n for n in names if re.search(rf'(?<![.\w"%]){n}\b(?!:)', self.statement)]
        return "\n".join(f'let {n} = match one "{n}" in root' for n in used)


def example_of(transform: type[Transform]) -> Example | None:
    """The example in the docstring of a transform; None if it has none, or one that is not whole."""
    found = {name: cleandoc(text) for name, text in _SECTION.findall(cleandoc(transform.__doc__ or "") + "\n")}
    after = found.get("after", found.get("output"))
    if after is None or "before" not in found or "statement" not in found:
        return None
    return Example(found["before"], found["statement"], after, "output" in found)


def reference_page(transform: type[Transform]) -> str:
    """The page of one transform, as Markdown."""
    parts = [f"### {transform.name}", f"```\n{transform.signature()}\n```", _prose(transform)]
    if transform.parameters:
        rows = "\n".join(map(_row, transform.parameters))
        parts.append(f"| parameter | type | default | meaning |\n|---|---|---|---|\n{rows}")
    parts.append(_effects(transform))
    example = example_of(transform)
    if example is not None:
        says = "prints" if example.is_output else "makes of it"
        parts.append(f"```\n{example.before}\n```\n\n`{_one_line(example.statement)}` {says}")
        parts.append(f"```\n{example.after}\n```")
    return "\n\n".join(parts)


def reference() -> str:
    """The page of all built-in transforms, grouped by category."""
    known = [t for t in transforms().values() if t.__module__.startswith("tcpx.transform.ops.")]
    parts = [HEAD.rstrip()]
    for category in Category:
        inside = [t for t in known if t.category is category]
        if inside:
            parts.append(f"## {category.value[0].upper()}{category.value[1:]}")
            parts += map(reference_page, inside)
    return "\n\n".join(parts) + "\n"


def _prose(transform: type[Transform]) -> str:
    return _SECTION.sub("", cleandoc(transform.__doc__ or "") + "\n").strip()


def _row(parameter: Parameter) -> str:
    kind = str(parameter.type).replace("|", "\\|")
    default = "" if parameter.is_required else "absent" if parameter.default is None else str(parameter.default).lower()
    return f"| `{parameter.name}` | {kind} | {default} | {parameter.doc} |"


def _effects(transform: type[Transform]) -> str:
    """What the declaration says of the results, the handles and the payload."""
    results = {
        "loops": "one loop per entry of the map",
        "op": "the operation",
        "target": "the operation or the loop",
        "loop": "the loop",
        "value": "the value",
    }
    returned = ", ".join(results[r.value] for r in transform.results) or "nothing"
    lines = [f"Returns {returned}."]
    if transform.ends:
        lines.append(f"Ends the handle {', '.join(f'`{name}`' for name in transform.ends)}.")
    if not transform.mutates:
        lines.append("Inspection: changes nothing.")
    elif not transform.marks:
        lines.append("Does not make operations `scheduled`.")
    else:
        lines.append("What it changes is `scheduled`; to change nothing is a failure.")
    return " ".join(lines)


def _one_line(statement: str) -> str:
    return "; ".join(statement.splitlines())


def terminal_page(transform: type[Transform]) -> str:
    """The page of one transform for a terminal."""
    lines = [f"{transform.signature()}   [{transform.category.value}]", indent(cleandoc(transform.__doc__ or ""), "  ")]
    if transform.parameters:
        lines.append("\n  parameters:")
        lines += [f"    {parameter.name}: {parameter.doc}" for parameter in transform.parameters]
    return "\n".join([*lines, "", f"  {_effects(transform)}"])
