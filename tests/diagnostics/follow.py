"""Applying a fix to the texts that an error is of, as a reader would, and asking whether the error is gone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from tcpx.payload.diagnostics import Diagnostic, Direction, Kind
from tests.diagnostics.case import Case, corners

_CODE = re.compile(r"`([^`]+)`")
_MOST_TRIED = 12
_DEEPEST = 2
_WORD = re.compile(r"[%@]?[\w.~/]+")
_ENTRY = re.compile(r"^(\w+)\s*:\s*(.+)$")
_ATTRIBUTE = re.compile(r"^\{(\w+) = (.+)\}$")


@dataclass(frozen=True, slots=True)
class Fix:
    """What an error says, and the case it was made in; None where it is about a call, an option or a table."""

    message: str
    required: str
    found: str
    fix: str
    place: str
    case: Case | None

    @staticmethod
    def of(diagnostic: Diagnostic, place: str, case: Case | None) -> Fix:
        """That of a diagnostic, which is made at a line of a file of tcpx."""
        required, found = str(diagnostic.required or ""), str(diagnostic.found or "")
        return Fix(str(diagnostic.message), required, found, str(diagnostic.fix), place, case)


@dataclass(frozen=True, slots=True)
class Text:
    """One of the texts of a case, with the span of the error in it, as offsets."""

    text: str
    start: int
    end: int

    @staticmethod
    def of(text: str, place: tuple[int, ...]) -> Text | None:
        """The text with the span of a place."""
        if not text or not place:
            return None
        lines = text.removeprefix("\ufeff").split("\n")
        line, column, end_line, end_column = place
        starts = [0]
        for each in lines:
            starts.append(starts[-1] + len(each) + 1)
        end_line = end_line or line
        start = starts[line - 1] + column - 1
        end = starts[min(end_line, len(lines)) - 1] + (end_column or column + 1) - 1
        return Text(text.removeprefix("\ufeff"), start, max(start, min(end, len(text))))

    @property
    def span(self) -> str:
        return self.text[self.start : self.end]

    def put(self, new: str, start: int | None = None, end: int | None = None) -> str:
        """The text with something in place of the span, or of another."""
        start = self.start if start is None else start
        end = self.end if end is None else end
        return self.text[:start] + new + self.text[end:]

    @property
    def line(self) -> tuple[int, int]:
        """The lines of the span, without the blanks around."""
        start = self.text.rfind("\n", 0, self.start) + 1
        end = self.text.find("\n", self.end)
        return start, len(self.text) if end < 0 else end

    @property
    def statement(self) -> tuple[int, int]:
        """The statement of the span: up to what ends it on its lines."""
        start, end = self.line
        head = re.split(r"[;{]|(?<=\S)\}", self.text[start : self.start])
        begin = self.start - len(head[-1])
        begin += len(self.text[begin : self.start]) - len(self.text[begin : self.start].lstrip())
        tail = re.split(r"[;}]", self.text[self.end : end])
        stop = self.end + len(tail[0].rstrip())
        return begin, stop


Editor = Callable[[Text, str, "Fix"], Iterator[str]]


def template(text: str) -> str:
    """A text without its names and numbers."""
    text = re.sub(r"`[^`]*`", "`..`", text)
    text = re.sub(r'"[^"]*"', '".."', text)
    text = re.sub(r"symbols \[[^\]]*\]", "symbols [..]", text)
    text = re.sub(r"[%@][\w./~$-]+", lambda m: f"{m[0][0]}..", text)
    text = re.sub(r"(?<![\w.])[-+]?\d[\w.]*", "N", text)
    return re.sub(r"\S*/\S+", "PATH", text)


def _words_of(fix: Fix) -> list[str]:
    """The names that the message speaks of, most specific first."""
    words = [*_CODE.findall(fix.found), fix.found, *_CODE.findall(fix.message), *_WORD.findall(fix.message)]
    return list(dict.fromkeys(w.strip("%@`") for w in words if w))


def _renamed(text: Text, code: str, fix: Fix) -> Iterator[str]:
    """The name that the message speaks of, replaced where it is in the span, in its lines, or everywhere."""
    bare = code.strip("%@")
    for start, end in ((text.start, text.end), text.statement, text.line):
        part = text.text[start:end]
        for word in _words_of(fix):
            for match in re.finditer(rf"(?<![\w.]){re.escape(word)}(?!\w)", part):
                yield text.put(bare, start + match.start(), start + match.end())
            if "." in word:
                last = word.rsplit(".", 1)[-1]
                for match in re.finditer(rf"(?<=\.){re.escape(last)}(?!\w)", part):
                    yield text.put(bare, start + match.start(), start + match.end())
    for word in _words_of(fix):
        yield re.sub(rf"(?<![\w.]){re.escape(word)}(?!\w)", lambda _: bare, text.text)


def _in_place(text: Text, code: str, fix: Fix) -> Iterator[str]:
    """In place of the span, of its head before a block, of the token or call where it starts, of the statement."""
    yield text.put(code)
    if "{" in text.span:
        yield text.put(f"{code} ", text.start, text.start + text.span.index("{"))
    match = re.compile(r'[%@]?[\w.~/]+|"[^"\n]*"|==|\S').match(text.text, text.start)
    if match is not None:
        yield text.put(code, match.start(), match.end())
        yield text.put(f"{code} ", match.start(), match.end())
        call = _call_end(text.text, match.end())
        if call is not None:
            yield text.put(code, match.start(), call)
    begin, stop = text.statement
    yield text.put(code, begin, stop)
    statement = text.text[begin:stop]
    if re.match(r"let\b", statement) and not code.startswith("let "):
        yield text.put(code, begin + statement.index("=") + 2, stop)
    for match in re.finditer(r"[\w.]+\(", statement):
        if code.startswith((match[0], f"{match[0][:-1]} ")):
            end = _call_end(text.text, begin + match.end() - 1)
            if end is not None:
                yield text.put(code, begin + match.start(), end)
                yield text.put(code, begin + match.start(), end)
    yield text.put(f"{code}\n", begin, begin)
    for word in _words_of(fix):
        for match in re.finditer(re.escape(word), text.text[begin:stop]):
            yield text.put(code, begin + match.start(), begin + match.end())


def _call_end(text: str, at: int) -> int | None:
    """Behind the bracket that closes the one at an offset."""
    pairs = {"(": ")", "[": "]", "{": "}", "<": ">"}
    if text[at : at + 1] not in pairs:
        return None
    depth = 0
    for k in range(at, len(text)):
        depth += (text[k] in "([{") - (text[k] in ")]}")
        if depth == 0:
            return k + 1
    return None


def _as_argument(text: Text, code: str, fix: Fix) -> Iterator[str]:
    """`tail: pad`, in place of the argument of that name, or behind the others."""
    del fix
    begin, stop = text.statement
    statement = text.text[begin:stop]
    entries = re.split(r",\s*(?=\w+:)", code)
    given = {m[1]: m[2] for e in entries if (m := _ENTRY.match(e)) is not None}
    if len(given) < len(entries):
        return
    for opened in re.finditer(r"\w\(", statement):
        end = _call_end(text.text, begin + opened.end() - 1)
        if end is None:
            continue
        call = text.text[begin + opened.start() : end]
        for name, value in given.items():
            new, count = re.subn(rf"(?<!\w){name}\s*:\s*[^,)\]]+", f"{name}: {value}", call, count=1)
            call = new if count else f"{call[:-1]}, {name}: {value})"
        yield text.put(call, begin + opened.start(), end)
        call = text.text[begin + opened.start() : end]
        yield text.put(f"{call[:-1]}, {code})", begin + opened.start(), end)


def _as_map(text: Text, code: str, fix: Fix) -> Iterator[str]:
    """`[m: 4]`, in place of a map or list of the statement, or of its entries with these dims."""
    del fix
    if not (code.startswith("[") and code.endswith("]")):
        return
    begin, stop = text.statement
    for opened in re.finditer(r"\[", text.text[begin:stop]):
        end = _call_end(text.text, begin + opened.start())
        if end is None:
            continue
        part = text.text[begin + opened.start() : end]
        entries = re.findall(r"([\w.]+): ([^,\]]+)", code)
        merged = part
        for name, value in entries:
            merged = re.sub(rf"(?<![\w.]){re.escape(name)}: [^,\]]+", f"{name}: {value}", merged)
        if merged != part:
            yield text.put(merged, begin + opened.start(), end)
        yield text.put(code, begin + opened.start(), end)


def _as_attribute(text: Text, code: str, fix: Fix) -> Iterator[str]:
    """`{dims = [1]}`, in place of the attribute of that name, or beside the others."""
    del fix
    match = _ATTRIBUTE.match(code)
    if match is None:
        return
    key, value = match.groups()
    start, end = text.line
    line = text.text[start:end]
    replaced = re.sub(
        rf"\b{key} = (\[[^\]]*(\[[^\]]*\][^\]]*)*\]|[^,}}]+)", lambda _: f"{key} = {value}", line, count=1
    )
    if replaced != line:
        yield text.put(replaced, start, end)
    yield text.put(re.sub(r"\{", f"{{{key} = {value}, ", line, count=1), start, end)
    yield text.put(re.sub(r"\)( \{[^}]*\})?( *:|$)", rf") {{{key} = {value}}}\2", line, count=1), start, end)
    yield text.put(re.sub(r"( *:|$)", rf" {{{key} = {value}}}\1", line, count=1), start, end)
    yield text.put(re.sub(r"\{[^}]*\}", code, line, count=1), start, end)


def _as_type(text: Text, code: str, fix: Fix) -> Iterator[str]:
    """`: tensor<4xf32>`, in place of the type that ends the statement."""
    del fix
    type_ = code.removeprefix(":").strip()
    start, end = text.line
    line = text.text[start:end]
    cut = line.rfind(" : ")
    if cut >= 0:
        name = re.search(r'\s+name "[^"]*"', line[cut:])
        yield text.put(f"{line[:cut]} : {type_}{name[0] if name else ''}", start, end)
    yield text.put(f"{line.rstrip()} : {type_}", start, end)


def _as_statements(text: Text, code: str, fix: Fix) -> Iterator[str]:
    """Statements of a payload, in place of that of the span or before it, with `and X in place of Y`."""
    lines = code.split("\n")
    others = re.search(r"and (%\S+) in place of (%\S+)$", lines[-1])
    written = "\n".join(lines[:-1] if others else lines)
    begin, stop = text.statement
    start, end = text.line
    for a, b in ((begin, stop), (start, end), (text.start, text.end)):
        statement = text.text[a:b]
        if others:
            statement = re.sub(rf"{re.escape(others[2])}(?![\w.])", others[1], statement)
            yield text.put(f"{written}\n{statement}", a, b)
        else:
            yield text.put(written, a, b)
            yield text.put(f"{written}\n{statement}", a, b)


def _as_symbols(text: Text, code: str, fix: Fix) -> Iterator[str]:
    """`symbols [N: 1..]`, in place of the declaration of these symbols, or as the declaration."""
    del fix
    match = re.search(r"symbols \[(.*)\]", code)
    if match is None:
        return
    whole = text.text
    clauses = list(re.finditer(r"symbols \[([^\]]*)\]", whole))
    declared = next((m for m in reversed(clauses) if m.start() < text.end), clauses[0] if clauses else None)
    if declared is None:
        yield re.sub(r"(func [^{]*?)\s*\{", rf"\1 symbols [{match[1]}] {{", whole, count=1)
        return
    yield whole[: declared.start()] + f"symbols [{match[1]}]" + whole[declared.end() :]
    entries = [e for e in re.split(r",\s*", f"{declared[1]}, {match[1]}") if e]
    known = {re.split(r"[:\s]", entry)[0]: entry for entry in entries}
    yield whole[: declared.start()] + f"symbols [{', '.join(known.values())}]" + whole[declared.end() :]


def _declared(text: Text, code: str, fix: Fix) -> Iterator[str]:
    """`in 0 to V`, behind the type of an argument."""
    if not code.startswith("in "):
        return
    for match in re.finditer(r"%[\w.]+: (?:inout )?(?:tensor<[^>]*>|index)( in [^,)]+)?", text.text):
        plain = match[0].removesuffix(match[1] or "")
        yield text.text[: match.start()] + f"{plain} {code}" + text.text[match.end() :]


def _as_results(text: Text, code: str, fix: Fix) -> Iterator[str]:
    """`-> tensor<4xf32>`, behind the arguments of a function."""
    del fix
    if code.startswith("-> "):
        for match in re.finditer(r"(func @\w+\((?:[^()]|\([^()]*\))*\))( -> [^{]*?)?(?= symbols| ?\{)", text.text):
            yield text.put(f"{match[1]} {code}", match.start(), match.end())


def _as_declaration(text: Text, code: str, fix: Fix) -> Iterator[str]:
    """`%h: inout tensor<f32>`, in place of the declaration of the argument."""
    del fix
    name = re.match(r"%[\w.]+: (?:inout )?\w+<", code)
    if name is not None:
        declared = rf"{re.escape(code.partition(':')[0])}: (?:inout )?(?:\w+<[^>]*>|\w+)"
        yield re.sub(declared, code, text.text, count=1)


def _at_place(text: Text, code: str, fix: Fix) -> Iterator[str]:
    """`CODE` at FILE:LINE:COLUMN, in place of the call there; `tail: pad` in the `tile` there, as its last argument."""
    match = re.search(rf"`{re.escape(code)}` (?:in the `(\w+)` .*)?at \S+?:(\d+):(\d+)", fix.fix)
    if match is None:
        return
    at = Text.of(text.text, (int(match[2]), int(match[3]), 0, 0))
    name = f"{match[1]}(" if match[1] else (re.match(r"\w+\(", code) or [""])[0]
    opened = text.text.find(name, at.start) if at is not None and name else -1
    end = _call_end(text.text, opened + len(name) - 1) if opened >= 0 else None
    if end is not None:
        yield text.put(f", {code}" if match[1] else code, end - 1 if match[1] else opened, end - 1 if match[1] else end)


def _at_end(text: Text, code: str, fix: Fix) -> Iterator[str]:
    """`tcp.return(%y)`, at the end of the function."""
    del fix
    if code.startswith("tcp.return"):
        for match in re.finditer(r"\}", text.text[text.end :]):
            yield text.put(f" {code}\n", text.end + match.start(), text.end + match.start())


def _removed(text: Text, code: str, fix: Fix) -> Iterator[str]:
    """Without the statement, the argument or the span."""
    del code
    if not re.search(r"leave|remove", fix.fix):
        return
    begin, stop = text.statement
    yield text.put("", begin, stop)
    yield text.put("")
    for word in _words_of(fix):
        for pattern in (
            rf",\s*{re.escape(word)}(: \w+)?\b",
            rf"\b{re.escape(word)}: [^,)]+,?\s*",
            rf"{re.escape(word)}",
        ):
            for match in re.finditer(pattern, text.text[begin:stop]):
                yield text.put("", begin + match.start(), begin + match.end())


EDITORS: tuple[Editor, ...] = (
    _renamed, _in_place, _as_argument, _as_map, _as_attribute, _as_type, _as_statements, _as_symbols, _declared,
    _as_results, _as_declaration, _at_place, _at_end, _removed,
)  # fmt: skip


def codes(fix: str) -> list[str]:
    """What of a fix is to be written: in backticks, or behind `write`."""
    quoted = _CODE.findall(fix)
    if quoted:
        return quoted
    for lead in (
        r"^write \([^)]*\): ?",
        r"^write:? ",
        r"^write:\n",
        r"^before it: ",
        r"^did you mean ",
        r"^declare it: ",
    ):
        match = re.match(lead, fix)
        if match is not None:
            return [re.sub(r", and declare symbols .*$", "", fix[match.end() :].rstrip("?").strip())]
    return [fix]


def follow(fix: Fix) -> str:
    """Empty if the error is gone where the fix is applied; else why not."""
    if fix.case is None:
        return "no case"
    if not any(fix.message == str(d.message) for d in fix.case.problems()):
        return "not reproduced"
    return "" if _helps(fix, fix.case) else "no edit helps"


def _helps(fix: Fix, case: Case, depth: int = 0) -> bool:
    """Whether some edit leaves no error at the place of this one, or one whose own fix helps."""
    rest: list[tuple[Case, Diagnostic]] = []
    for edited in _edits(fix, case):
        found = edited.problems()
        if all(_is_elsewhere(fix, case, edited, problem) for problem in found):
            return True
        known = found[0].fix if not isinstance(found[0].fix, Direction) else None
        reads = edited.follows_grammar or not case.follows_grammar
        rest += [(edited, found[0])] if known and reads and found[0].message != fix.message else []
    for edited, problem in rest[:_MOST_TRIED] if depth < _DEEPEST else ():
        places = {
            "payload_place": corners(problem.payload), "schedule_place": corners(problem.schedule)
        }  # fmt: skip
        if _helps(Fix.of(problem, "", None), replace(edited, **places), depth + 1):
            return True
    return False


def _edits(fix: Fix, case: Case) -> Iterator[Case]:
    seen = {case}
    for which in ("schedule", "payload"):
        text = Text.of(getattr(case, which), getattr(case, f"{which}_place"))
        if text is None:
            continue
        for code in codes(fix.fix):
            for editor in EDITORS:
                for new in editor(text, code, fix):
                    edited = replace(case, **{which: new})
                    if edited not in seen:
                        seen.add(edited)
                        yield edited


def _is_elsewhere(fix: Fix, case: Case, edited: Case, problem: Diagnostic) -> bool:
    """Whether an error stands at another place than that of the fix; a text that follows the grammar at last may have
    any other error."""
    if problem.kind is Kind.INTERNAL:
        return False
    if not case.follows_grammar:
        return edited.follows_grammar or _is_later(case, edited, problem)
    if str(problem.message) == fix.message or not edited.follows_grammar:
        return False
    if fix.fix.startswith("did you mean"):
        return template(str(problem.message)) != template(
            fix.message
        )  # the name is known: what else is wrong is another
    if str(problem.message).startswith("@"):
        return True  # of the whole function, whose declaration may have to change with the statement
    place, old = problem.schedule or problem.payload, case.schedule_place or case.payload_place
    grown = max(0, len(edited.schedule.split("\n")) - len(case.schedule.split("\n")))
    return place is not None and bool(old) and not old[0] <= place.line <= max(old[0], old[2]) + grown


def _is_later(case: Case, edited: Case, problem: Diagnostic) -> bool:
    """Whether a syntax error stands after the one before."""
    which = "schedule" if case.schedule_place else "payload"
    old = Text.of(getattr(case, which), getattr(case, f"{which}_place"))
    new = Text.of(getattr(edited, which), corners(problem.schedule or problem.payload))
    return old is not None and new is not None and len(new.text) - new.start <= len(old.text) - old.end
