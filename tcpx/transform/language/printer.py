"""Syntax tree -> text, in the one format. Loses no comment; idempotent."""

from __future__ import annotations

from tcpx.transform.language import syntax as ast
from tcpx.transform.language.printed_expressions import print_expression, quoted

__all__ = ["print_expression", "print_file", "print_statement"]

WIDTH = 110
INDENT = "  "
_SIMPLE = (ast.Let, ast.Knob, ast.Require, ast.Do, ast.Return)


def print_file(file: ast.File) -> str:
    """The text of a file; `parse_schedule` of it gives an equal tree."""
    lines: list[str] = []
    for k, item in enumerate(file.items):
        if k > 0 and (isinstance(item, ast.Sequence | ast.Schedule) or item.trivia.blank_line):
            lines.append("")
        lines += _with_trivia(item.trivia, _item(item), "")
    lines += _comments(file.comments, "")
    return "\n".join(lines) + "\n" if lines else ""


def print_statement(statement: ast.Statement, indent: str = "") -> str:
    """The text of one statement, without its comments."""
    return "\n".join(indent + line if line else line for line in _statement(statement))


def _comments(texts: tuple[str, ...], indent: str) -> list[str]:
    return [f"{indent}// {text}".rstrip() for text in texts]


def _with_trivia(trivia: ast.Trivia, lines: list[str], indent: str, doc_behind: bool = False) -> list[str]:
    before = _comments(trivia.before, indent)
    docs = trivia.doc.split("\n") if trivia.doc else []
    behind: list[str] = []
    if doc_behind and len(docs) == 1 and not trivia.behind and len(lines) == 1:
        behind = [f"/// {docs[0]}"]
    else:
        before += [f"{indent}/// {text}".rstrip() for text in docs]
    if trivia.behind:
        behind.append(f"// {trivia.behind}")
    header = next((k for k, line in enumerate(lines) if line.startswith(")") and line.endswith("{")), 0)
    shown = ["  ".join([line, *behind]) if k == header else line for k, line in enumerate(lines)]
    return [*before, *(indent + line if line else line for line in shown)]


# -- items -------------------------------------------------------------------------------------------------------


def _item(item: ast.Item) -> list[str]:
    match item:
        case ast.Language():
            return [f"language {item.version}"]
        case ast.Import():
            return [f"import {quoted(item.path)}" + (f" as {item.alias}" if item.alias else "")]
        case ast.Sequence():
            results = ", ".join(map(str, item.results))
            arrow = f" -> ({results})" if len(item.results) > 1 else f" -> {results}" if results else ""
            return _callable(f"sequence {item.name}", item.params, arrow, item.body)
        case ast.Schedule():
            expects = f" expects {quoted(item.expects)}" if item.expects else ""
            return _callable(f"schedule {item.name}", item.params, expects, item.body)


def _callable(head: str, params: tuple[ast.Param, ...], tail: str, body: ast.Block) -> list[str]:
    plain = all(p.trivia == ast.Trivia() for p in params)
    line = f"{head}({', '.join(map(_param, params))}){tail} {{"
    if plain and len(line) <= WIDTH:
        return [line, *_body(body), "}"]
    lines = [f"{head}("]
    for k, param in enumerate(params):
        comma = "," if k < len(params) - 1 else ""
        lines += _with_trivia(param.trivia, [_param(param) + comma], INDENT, doc_behind=True)
    return [*lines, f"){tail} {{", *_body(body), "}"]


def _param(param: ast.Param) -> str:
    default = f" = {print_expression(param.default)}" if param.default is not None else ""
    return f"{param.name}: {param.type}{default}"


# -- statements --------------------------------------------------------------------------------------------------


def _body(block: ast.Block) -> list[str]:
    lines: list[str] = []
    for k, statement in enumerate(block.statements):
        if k > 0 and statement.trivia.blank_line:
            lines.append("")
        doc_behind = isinstance(statement, ast.Knob | ast.Let)
        lines += _with_trivia(statement.trivia, _statement(statement), INDENT, doc_behind)
    return lines + _comments(block.comments, INDENT)


def _one_line(block: ast.Block) -> str | None:
    """`{ f(x) }` for a block of one plain statement without comments."""
    if block.comments or len(block.statements) > 1:
        return None
    if not block.statements:
        return "{}"
    (statement,) = block.statements
    if not isinstance(statement, _SIMPLE) or statement.trivia != ast.Trivia():
        return None
    return "{ " + _statement(statement)[0] + " }"


def _headed(parts: list[tuple[str, ast.Block]], closed_by: str = "") -> list[str]:
    """`head { ... } head { ... }`: on one line per part where every block is short."""
    short = [_one_line(block) for _, block in parts]
    texts = [f"{head} {text}" for (head, _), text in zip(parts, short, strict=True) if text is not None]
    if len(texts) == len(parts) and all(len(t) <= WIDTH for t in texts):
        texts[-1] += f" {closed_by}" if closed_by else ""
        return texts
    lines: list[str] = []
    for k, (head, block) in enumerate(parts):
        lines.append(f"{'} ' if k else ''}{head} {{")
        lines += _body(block)
    return [*lines, "}" + (f" {closed_by}" if closed_by else "")]


def _statement(statement: ast.Statement) -> list[str]:
    match statement:
        case ast.Let():
            return [f"let {', '.join(statement.names)} = {print_expression(statement.value)}"]
        case ast.Knob():
            domain = f" in {print_expression(statement.domain)}" if statement.domain is not None else ""
            return [f"knob {statement.name}: {statement.type} = {print_expression(statement.default)}{domain}"]
        case ast.Require():
            message = f" {quoted(statement.message)}" if statement.message else ""
            return [f"require {print_expression(statement.condition)}{message}"]
        case ast.Do():
            return [("optional " if statement.optional else "") + print_expression(statement.call)]
        case ast.Return():
            return [f"return {', '.join(map(print_expression, statement.values))}".rstrip()]
        case ast.ForEach():
            return _headed([(f"for {statement.variable} in {print_expression(statement.items)}", statement.body)])
        case ast.If():
            return _headed(_if_parts(statement))
        case ast.Specialize():
            return _specialize(statement)
        case ast.Case():
            return _case(statement)
        case ast.Try():
            parts = [("try" if k == 0 else "else", block) for k, block in enumerate(statement.alternatives)]
            return _headed(parts, f"else {_fail(statement.orelse)}" if statement.orelse is not None else "")
        case ast.Tune():
            return _headed([("tune" if k == 0 else "or", block) for k, block in enumerate(statement.alternatives)])


def _if_parts(statement: ast.If) -> list[tuple[str, ast.Block]]:
    parts = [
        (f"{'if' if k == 0 else 'else if'} {print_expression(branch.condition)}", branch.body)
        for k, branch in enumerate(statement.branches)
    ]
    return parts + ([("else", statement.orelse)] if statement.orelse is not None else [])


def _specialize(statement: ast.Specialize) -> list[str]:
    head = f"specialize {print_expression(statement.target)} when"
    parts = [
        (f"{head if k == 0 else 'else when'} {print_expression(branch.condition)}", branch.body)
        for k, branch in enumerate(statement.branches)
    ]
    if isinstance(statement.orelse, ast.Fail):
        return _headed(parts, f"else {_fail(statement.orelse)}")
    return _headed([*parts, ("else", statement.orelse)])


def _case(statement: ast.Case) -> list[str]:
    lines = [f"case {print_expression(statement.subject)} {{"]
    for arm in statement.arms:
        pattern = " ".join(part for part in (arm.pattern.op_class, _glob(arm.pattern)) if part)
        where = f" where {print_expression(arm.where)}" if arm.where is not None else ""
        lines += [INDENT + line for line in _headed([(f"{pattern}{where} =>", arm.body)])]
    if isinstance(statement.orelse, ast.Fail):
        lines.append(f"{INDENT}else => {_fail(statement.orelse)}")
    elif statement.orelse is not None:
        lines += [INDENT + line for line in _headed([("else =>", statement.orelse)])]
    return [*lines, "}"]


def _glob(pattern: ast.Pattern) -> str:
    return quoted(pattern.glob) if pattern.glob else ""


def _fail(fail: ast.Fail) -> str:
    return f"fail {quoted(fail.message)}"
