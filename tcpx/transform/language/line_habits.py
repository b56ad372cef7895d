"""Lines of schedules as Python, C, MLIR or Halide have them, and what is written here."""

import re
from typing import Final

from tcpx.payload.diagnostics import Direction
from tcpx.payload.text.habits import AT, QUOTES, Fix, Recognized, habits, recognize

_NAME: Final = r"[A-Za-z_]\w*"
_TYPES: Final = r"(?:int|float|bool|size|string|auto|var|const|val)"
_KEYWORDS: Final = (
    r"(?:let|knob|require|optional|for|if|else|case|try|specialize|versions|tune|return|match|import|sequence|schedule|"
    r"function|matcher|view|language)"
)
_BINDS: Final = "names are bound by `let`"
_CALLED: Final = "a step is a call: its arguments stand in parentheses"
_NO_TYPE: Final = "a `let` has no type"
_IN_BRACKETS: Final = "a map or a list stands in brackets"
_QUOTED: Final = 'text is quoted with `"`'
_NO_MEANING: Final = r"`\g<here>` has no meaning here"
_CARDINALITY: Final = "a match says how many it finds"
_GOES_ON: Final = re.compile(r"\(|\s*(?:[-+*/%<>!]|(?:and|or|in)\b)")
"""What goes on with an expression after its first name: it is one argument."""
_TYPE_OF: Final = ((r"-?[0-9]+", "int"), (r"-?[0-9.]+", "float"), (r"true|false", "bool"), (r'"[^"]*"', "string"))


def _step(match: re.Match[str]) -> str:
    first, rest = match["first"], match["rest"].rstrip()
    if not _GOES_ON.match(rest):
        rest = f", {rest.lstrip(' ,')}" if rest.strip(" ,") else ""
    return f"write `{match['step']}({first}{rest})`"


def _typed_knob(match: re.Match[str]) -> str | None:
    value = match["value"]
    kind = next((name for pattern, name in _TYPE_OF if re.fullmatch(pattern, value)), None)
    return f"write `knob {match['name']}: {kind} = {value}`" if kind is not None else None


def _quoted(match: re.Match[str]) -> str:
    return "write `" + re.sub(f"[{QUOTES}]", '"', match["here"]).replace(AT, "") + "`"


def _closed(match: re.Match[str]) -> str:
    return f"a `]` is missing: write `]{match['rest'].replace(AT, '').rstrip()})`"


def _parameter(match: re.Match[str]) -> str:
    return f"write `{match['name']}: {'func' if match['item'] == 'schedule' or match['name'] == 'root' else 'op'}`"


_ENTRIES: tuple[tuple[str, Fix] | tuple[str, Fix, str] | tuple[str, Fix, str, str], ...] = (
    # names
    (rf"^\s*(?P<here>(?P<a>{_NAME}(?:\s*{AT}?,\s*{_NAME})+)\s*=)(?!=)", r"write `let \g<a> =`", _BINDS, "a statement"),
    (
        rf"(?:^|[{{;])\s*(?P<here>(?P<a>(?!{_KEYWORDS}\b){_NAME})\s*{AT}=)(?!=)", r"write `let \g<a> =`", _BINDS,
        "a statement",
    ),
    (
        rf"(?:^|[{{;])\s*(?P<here>{_TYPES}\s+{AT}(?P<a>{_NAME})\s*=)(?!=)", r"write `let \g<a> =`", _NO_TYPE,
        "a statement",
    ),
    (
        rf"(?:^|[{{;])\s*(?P<here>(?P<a>(?!{_KEYWORDS}\b){_NAME})\s*{AT}:\s*\w+\s*=)(?!=)",
        r"write `let \g<a> =`", _NO_TYPE, "a statement",
    ),
    (rf"(?P<here>\blet\s+(?P<a>{_NAME})\s*{AT}:\s*\w*\s*=)(?!=)", r"write `let \g<a> =`", _NO_TYPE),
    (
        rf"\bmatch\s+(?:one|some|any)\s+(?P<here>{AT}%(?P<a>{_NAME}))", r'write `"\g<a>"`',
        "the operation of a name is matched by a string",
    ),
    (rf"(?P<here>{AT}%(?P<a>{_NAME}))", r"write `\g<a>`", "names have no `%`"),
    (
        rf"{AT}%[0-9]|\btransform\.{AT}?\w|^\s*{AT}module\b",
        Direction(
            "this is a script of MLIR's transform dialect: write `let mm = match one matmul in root`, "
            "`tile(mm, [m: 6, n: 16])`; docs/coming-from.md has a table"
        ),
    ),
    (
        rf"\b(?:let\s+{_NAME}(?:\s*,\s*{_NAME})*|knob\s+(?:separate\s+)?{_NAME}\s*:\s*\w+)\s*"
        rf"(?P<here>{AT}==)", "write `=`", "a name is bound by a single `=`",
    ),
    # calls
    (
        rf"(?:^|[{{;])\s*(?P<here>(?!{_KEYWORDS}\b)(?P<step>{_NAME})\s+{AT}(?P<first>{_NAME}(?:\.\w+(?:\([^()]*\))?)*)"
        rf"(?P<rest>[^=;{{}}]*?))\s*(?:[;}}]|$)",
        _step, _CALLED, "`(`",
    ),
    (
        rf"(?P<here>(?:\w+\.)+match\s+{AT}ops\s*\{{\s*\[?\s*\"(?:\w+\.)*(?P<a>\w+)\"\s*\]?\s*\}}\s*in\s+[%\w]+.*)$",
        r"write `match one \g<a> in root`", "a match names a class of operations",
    ),
    (
        rf"(?P<here>\bmatch\s+{AT}?ops\s*\{{\s*\[?\s*\"(?:\w+\.)*(?P<a>\w+)\"\s*\]?\s*\}}\s*in\s+[%\w]+)",
        r"write `match one \g<a> in root`", "a match names a class of operations",
    ),
    # matches
    (
        rf"\bmatch\s+(?P<here>{AT}(?:all|every|each)\s+(?P<a>[\w.]+))(?!.*\bin\b)", r"write `some \g<a> in root`",
        _CARDINALITY,
    ),
    (rf"\bmatch\s+(?P<here>{AT}(?:all|every|each))\b", "write `some`", _CARDINALITY),
    (rf"\bmatch\s+(?P<here>{AT}(?P<a>{_NAME}))\s+in\b", r"write `one \g<a>`", _CARDINALITY),
    (rf"(?P<here>\bmatch\s*{AT}\((?P<a>{_NAME})\))", r"write `match one \g<a> in root`", _CARDINALITY),
    (
        rf"(?P<here>\bmatch\s+(?:one|some|any)\s+[\w.]+)\s*{AT}\s*(?:$|\{{)", r"write `\g<here> in root`",
        "a match says where it looks",
    ),
    (
        rf"(?P<here>{AT}\{{\s*(?P<a>\w+)\s*[:=]\s*(?P<b>[^{{}}]*)\}}\s*(?P<c>in\s+\w+))",
        r'write `\g<c> where it.attribute("\g<a>") == \g<b>`', "attributes are asked for in the `where` of a match",
    ),
    (
        rf"(?P<here>\battribute\(\"(?P<a>\w+)\"\)\s*==\s*{AT}\{{\s*(?P=a)\s*[:=]\s*(?P<b>[^{{}}]*)\}})",
        r'write `attribute("\g<a>") == \g<b>`', "an attribute is compared with its value",
    ),
    # maps and lists
    (rf"(?P<here>\((?P<a>\w+\s*{AT}:[^()]*)\))", r"write `[\g<a>]`", _IN_BRACKETS),
    (rf"(?P<here>{AT}\{{(?P<a>\s*\w+\s*:[^{{}}]*)\}})", r"write `[\g<a>]`", _IN_BRACKETS),
    (
        rf"\[[^\[\]()]*?(?P<here>(?P<rest>,\s*(?:tail|parallel|num_threads|explicit|factor|at|into):[^\[\]()]*{AT})\))",
        _closed, "`[` is not closed", "`]`",
    ),
    # knobs and parameters
    (
        rf"(?P<here>\bknob\s+(?:separate\s+)?{_NAME}\s*:\s*\w+)\s*{AT}in\s+\[?\s*(?P<a>[\w.\"]+?)(?=\.\.|[,\]\s])",
        r"write `\g<here> = \g<a>`", "a knob has a default",
    ),
    (
        rf"(?P<here>\bknob\s+(?:separate\s+)?{_NAME}\s*:\s*\w+)\s*{AT}\s*(?:$|//|[;}}])",
        Direction(r"write `\g<here> = 4`, with a default of its type"), "a knob has a default", "`=` and a value",
    ),
    (
        rf"(?P<here>\bknob\s+(?:separate\s+)?{_NAME})\s*{AT}\s*(?:=\s*)?(?:$|//|[;}}]|in\b)",
        Direction(r"write `\g<here>: int = 4`, with a type and a default"), "a knob has a type and a default",
        "`:` and a type, `=` and a value",
    ),
    (
        rf"(?P<here>\bknob\s+(?P<a>(?!separate\b){_NAME})\s+{AT}(?P<b>int|float|bool|string|dtype))\b",
        r"write `knob \g<a>: \g<b>`", "a knob has a type", "`:`",
    ),
    (rf"(?P<here>\bknob\s+(?P<name>{_NAME})\s*{AT}=\s*(?P<value>[^\s]+))", _typed_knob, "a knob has a type"),
    (
        rf"\b(?P<item>schedule|sequence)\s+\w+\((?P<here>(?P<name>{_NAME})\s*){AT}[,)]", _parameter,
        "a parameter has a type",
    ),
    (
        rf"^\s*(?P<here>(?P<what>require\b.*?){AT},\s*(?P<why>\"[^\"]*\"))", r"write `\g<what> \g<why>`",
        "the reason stands behind the condition, without a comma",
    ),
    # tokens
    (rf"(?P<here>f{AT}\"[^\"]*\")", Direction("text is joined with `+`: nothing is put into it")),
    (rf"(?P<here>{AT}[{QUOTES}][^{QUOTES}]*[{QUOTES}])", _quoted, _QUOTED),
    (rf"(?P<here>{AT}&&?)", "write `and`", _NO_MEANING),
    (rf"(?P<here>{AT}\|\|)", "write `or`", _NO_MEANING),
    (rf"(?P<here>{AT}!)(?!=)", "write `not `", _NO_MEANING),
    (rf"(?P<here>{AT}#)", "write `//`: a comment begins with it", _NO_MEANING),
    (
        rf"(?P<here>(?<==\s)(?P<c>[^=?](?:.*?[^=?])?)\s*{AT}\?\s*(?P<a>[^:?]+?)\s*:\s*(?P<b>.+?))\s*$",
        r"write `\g<a> if \g<c> else \g<b>`", "`?` has no meaning here",
    ),
    (
        rf"\)\s*{AT}\|(?!\|)", Direction("steps stand one after the other, each in a line of its own"),
        "`|` has no meaning here",
    ),
)  # fmt: skip
_HABITS: Final = habits(*_ENTRIES)


def line_habit(line: str, column: int, before: str) -> Recognized | None:
    """What was meant where the grammar was left in a line, if it is known; `before` is the line before."""
    return recognize(_HABITS, before, line, column)
