"""Text -> syntax tree. Errors say where, what was expected in plain words, and what may have been meant."""

import re
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import Protocol

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from tcpx.payload.collector import collector_paused
from tcpx.payload.diagnostics import Diagnostic, Direction, Location, ParseError, either
from tcpx.payload.text.file import printable
from tcpx.payload.text.tables import tables_file
from tcpx.records import frozen
from tcpx.suggestions import closest
from tcpx.transform.language.blocks import unclosed_block
from tcpx.transform.language.builder import Builder
from tcpx.transform.language.hints import FOREIGN_WORDS, ITEM_FORMS, hint, number_fix
from tcpx.transform.language.line_habits import line_habit
from tcpx.transform.language.source import Source
from tcpx.transform.language.syntax import File
from tcpx.transform.language.tokens import Comment, TokenFilter, UnclosedBracketError

GRAMMAR = Path(__file__).with_name("grammar.lark")

_WORDS = {
    "_NL": "the end of the statement", "$END": "the end of the file", "LPAR": "`(`", "RPAR": "`)`", "LSQB": "`[`",
    "RSQB": "`]`", "LBRACE": "`{`", "RBRACE": "`}`", "COMMA": "`,`", "COLON": "`:`", "EQUAL": "`=`", "DOT": "`.`",
    "_ARROW": "`->`", "_FATARROW": "`=>`", "_DOTDOT": "`..`", "INT": "an integer", "FLOAT": "a number",
    "STRING": "a string", "NAME": "a name", "CARDINALITY": "`one`, `some` or `any`", "LESSTHAN": "`<`",
    "MORETHAN": "`>`",
}  # fmt: skip
_OPERATORS = frozenset("COMPARISON PLUS MINUS TIMES POWER DIVIDE MODULO LESSTHAN MORETHAN AND OR".split())
_EXPRESSION = frozenset("NAME INT FLOAT STRING LPAR LSQB MINUS NOT TRUE FALSE MATCH".split())
_STATEMENT = frozenset("LET KNOB REQUIRE OPTIONAL FOR IF CASE TRY SPECIALIZE VERSIONS TUNE RETURN".split())
_ITEM_WORDS = ("language", "import", "function", "matcher", "view", "sequence", "schedule")
_ITEM = frozenset(word.upper() for word in _ITEM_WORDS)
_STATEMENT_WORDS = tuple("let knob require optional for if case try specialize versions tune return".split())
_CLOSING_OF = {"(": ")", "[": "]"}
_ENDS = {"_NL": "the line", "$END": "the file"}
_STRING_START = re.compile(r'"(\\["\\nt]|[^"\\\n])*')
_AFTER_A_NAME = frozenset("EQUAL PLUS MINUS TIMES DIVIDE DOT COMMA COLON".split())
_STARTERS = frozenset(("_NL", "LBRACE", "RBRACE"))
_PARSING = Lock()
"""The token filter keeps the tokens of one text."""


class _TextParser(Protocol):
    """What of Lark is used here."""

    def parse(self, text: str) -> Tree[Token]: ...


@lru_cache(maxsize=1)
def _parser() -> tuple[_TextParser, TokenFilter]:
    tokens = TokenFilter()
    grammar = GRAMMAR.read_text(encoding="utf-8")
    cache = tables_file(GRAMMAR)
    with collector_paused():
        return Lark(
            grammar, parser="lalr", lexer="basic", postlex=tokens, propagate_positions=True, cache=cache
        ), tokens


@frozen
class ParsedText:
    """A text as the formatter needs it: by its tokens, as the parser saw them, and what stands beside them."""

    tree: Tree[Token]
    tokens: tuple[Token, ...]
    comments: tuple[Comment, ...]


def parse_schedule(text: str, file: str = "<schedule>") -> File:
    """The syntax tree of a `.tcps` text. Raises ParseError with a place, what was expected and what was found."""
    source = Source(file, text)
    with collector_paused():
        parsed = parse_text(source)
        return Builder(source, parsed.comments).file(parsed.tree)


def parse_text(source: Source) -> ParsedText:
    """The parse tree of a text with its tokens and comments. Raises ParseError."""
    with _PARSING:
        return _parsed(source)


def _parsed(source: Source) -> ParsedText:
    lark, tokens = _parser()
    try:
        tree = lark.parse(source.text)
    except UnexpectedCharacters as error:
        raise _unexpected_character(source, error) from None
    except UnexpectedToken as error:
        raise _unexpected_token(source, error, list(tokens.tokens)) from None
    except UnclosedBracketError as error:
        if error.found is not None:
            known = _of_habit(source, source.of_token(error.found), f"`{error.found}`", set())
            if known is not None:
                raise ParseError(replace(known, required=known.required or f"`{error.closing}`")) from None
        found = f"`{error.found}` at line {error.found.line}" if error.found is not None else "the end of the file"
        is_map = error.found is not None and error.found.type == "LBRACE"
        fix = "a map is written with brackets: `[m: 6, n: 64]`" if is_map else _division_in(source, error.bracket)
        raise ParseError(
            Diagnostic(
                f"`{error.bracket}` is not closed",
                schedule=source.of_token(error.bracket),
                required=f"`{error.closing}`",
                found=found,
                fix=fix,
            )
        ) from None
    return ParsedText(tree, tuple(tokens.tokens), tuple(tokens.comments))


def _unexpected_character(source: Source, error: UnexpectedCharacters) -> ParseError:
    place = source.at(error.line, error.column)
    character = source.lines[error.line - 1][error.column - 1]
    if character == '"':
        escape = _unknown_escape(place.text, error.column)
        if escape is not None:
            return _of_escape(source, error.line, escape, place.text[escape])
        return ParseError(
            Diagnostic("the string is not closed", schedule=place, required='`"` on the same line', found=place.text)
        )
    rest = place.text[error.column - 1 :]
    if character.isdigit():
        return ParseError(
            Diagnostic(
                f"`{rest.split()[0]}` is not a number",
                schedule=place,
                required="digits",
                found=rest.split()[0],
                fix=number_fix(rest),
            )
        )
    known = _of_habit(source, place, printable(character), set())
    if known is not None:
        required = known.required or "a name, a number, a string, an operator or a bracket"
        return ParseError(replace(known, required=required))
    fix = {"'": 'strings are written with `"`', "#": "comments start with `//`", "!": "write `not` or `!=`",
           "&": "write `and`", "|": "write `or`",
           "?": "write `a if c else b`", "^": "write `**`", "~": "write `not`", "%": "names have no `%`",
           "@": Direction("this looks like a payload, a .tcp file")}.get(character)  # fmt: skip
    return ParseError(
        Diagnostic(
            f"{printable(character)} has no meaning here",
            schedule=place,
            required="a name, a number, a string, an operator or a bracket",
            found=printable(character),
            fix=fix,
        )
    )


def _unknown_escape(line: str, column: int) -> int | None:
    """The column of the backslash that ends what can be read of the string at a column."""
    read = _STRING_START.match(line, column - 1)
    end = read.end() if read is not None else len(line)
    return end + 1 if line[end : end + 1] == "\\" and end + 1 < len(line) else None


def _of_escape(source: Source, line: int, column: int, character: str) -> ParseError:
    found = rf"`\{character}`" if character.isprintable() else f"a backslash before {printable(character)}"
    return ParseError(
        Diagnostic(
            f"{found} is no escape",
            schedule=source.at(line, column, line, column + 2),
            required=r"`\"`, `\\`, `\n` or `\t`",
            found=found,
            fix=r"a backslash is written `\\`",
        )
    )


def _unexpected_token(source: Source, error: UnexpectedToken, seen: list[Token]) -> ParseError:
    token: Token = error.token
    accepted = {str(t) for t in error.accepts} if error.accepts else {str(t) for t in error.expected}
    before = seen[: next((k for k, t in enumerate(seen) if t is token), len(seen))]
    problem = unclosed_block(source, token, before) or _foreign_word(source, token, before)
    if problem is not None:
        return ParseError(problem)
    place = source.end() if token.type == "$END" else source.of_token(token)
    found = _ENDS.get(token.type, f"`{token}`")
    if token.type == "RBRACE" and _statement(before) and (before[-1].end_line or 0) < place.line:
        place, found = source.at(before[-1].end_line or 1, before[-1].end_column or 1), _ENDS["_NL"]
    known = _of_habit(source, place, found, accepted) if _misspelt_statement(token, before) is None else None
    if known is not None and not _is_bound(known, before):
        return ParseError(known)
    fix = (
        _comment_of_c(place)
        or _misspelt_statement(token, before)
        or hint(token, before, frozenset(accepted), place.text)
    )
    return ParseError(
        Diagnostic(
            _unexpected(found),
            schedule=place,
            required=expected_words(accepted),
            found=found,
            fix=fix,
        )
    )


def _of_habit(source: Source, place: Location, found: str, accepted: set[str]) -> Diagnostic | None:
    """The error for a line as another language has it, if it is known."""
    habit = line_habit(place.text, place.column, source.at(place.line - 1, 1).text)
    if habit is None:
        return None
    message = habit.message or _unexpected(found)
    if habit.start is not None and habit.end is not None:
        place = source.at(place.line - habit.start[0], habit.start[1], place.line - habit.end[0], habit.end[1])
        found = f"`{place.span}`"
    required = habit.required or expected_words(accepted)
    return Diagnostic(message, schedule=place, required=required, found=found, fix=habit.fix)


def _unexpected(found: str) -> str:
    return f"{found} ends too early" if found in _ENDS.values() else f"unexpected {found}"


def _is_bound(known: Diagnostic, before: list[Token]) -> bool:
    """Whether a name that would be bound is bound by an earlier statement: `a = 4` behind `let a = 3`."""
    binds = re.fullmatch(r"write `let (.*) =`", known.fix or "")
    names = re.findall(r"\w+", binds[1]) if binds is not None else []
    earlier = before[: len(before) - len(_statement(before))]
    return any(t in names and b.type in ("LET", "COMMA") for b, t in pairwise(earlier))


def _division_in(source: Source, bracket: Token) -> str | None:
    """Where a comment hides what closes a bracket, what divides."""
    _, slashes, comment = source.lines[(bracket.line or 1) - 1][bracket.column or 0 :].partition("//")
    is_hidden = bool(slashes) and _CLOSING_OF[str(bracket)] in comment
    return "`//` begins a comment; `/` divides integers, rounding down" if is_hidden else None


def _comment_of_c(place: Location) -> str | None:
    """Where a `/*` stands at a place, or ends there, what the language has for it."""
    at = place.column - 1
    is_comment = "/*" in (place.text[at : at + 2], place.text[max(0, at - 1) : at + 1])
    return "comments start with `//`, on every line" if is_comment else None


def expected_words(accepted: set[str]) -> str:
    """The names of terminals in plain words, grouped."""
    left = set(accepted)
    words: list[str] = []
    if left >= _STATEMENT:
        left -= _STATEMENT | _EXPRESSION
        words.append("a statement")
    elif left >= _ITEM - {"LANGUAGE"}:
        words += [f"`{word}`" for word in _ITEM_WORDS if word != "language"]
        left -= _ITEM
    elif left >= _EXPRESSION - {"MATCH", "NOT"}:
        left -= _EXPRESSION
        words.append("an expression")
    if left >= {"PLUS", "MINUS"}:
        left -= _OPERATORS | {"IF", "DOT", "LPAR"}
        words.append("an operator")
    words += sorted(_WORDS.get(t, f"`{t.lower()}`") for t in left)
    return either(words)


def _line(token: Token, before: list[Token]) -> list[Token]:
    """The tokens of a statement up to one of them."""
    return [*_statement(before), token]


def _statement(before: list[Token]) -> list[Token]:
    """The tokens of the statement that the last of them stand in."""
    return before[next((k + 1 for k in range(len(before) - 1, -1, -1) if before[k].type in _STARTERS), 0) :]


def _foreign_word(source: Source, token: Token, before: list[Token]) -> Diagnostic | None:
    """A statement that begins with a word of other languages, and is no call."""
    first, *others = _line(token, before)
    is_call = bool(others) and others[0].type == "LPAR" and token.type != "LBRACE"
    fix = FOREIGN_WORDS.get(str(first))
    if first.type != "NAME" or fix is None or is_call or (others and others[0].type in ("DOT", "EQUAL")):
        return None
    depth = sum(t.type == "LBRACE" for t in before) - sum(t.type == "RBRACE" for t in before)
    return Diagnostic(
        f"`{first}` is no word of the language",
        schedule=source.of_token(first),
        required="a statement" if depth > 0 else f"an item: {either([f'`{word}`' for word in _ITEM_WORDS[1:]])}",
        found=f"`{first}`",
        fix=fix,
    )


def _misspelt_statement(token: Token, before: list[Token]) -> str | None:
    """Where the line starts with a word much like a keyword, or a keyword elsewhere, what the language has for it."""
    line = _line(token, before)
    if line[0].type != "NAME" or len(line) > 3 or token.type in _AFTER_A_NAME:
        return None
    depth = sum(t.type == "LBRACE" for t in before) - sum(t.type == "RBRACE" for t in before)
    word = str(line[0])
    if word in ITEM_FORMS and depth == 0:
        return f"write `{ITEM_FORMS[word]}`"
    found = closest(word, _STATEMENT_WORDS if depth > 0 else _ITEM_WORDS)
    return f"did you mean `{found}`?" if found is not None else None
