"""Syntax tree -> text; how it is laid out is the formatter's business."""

from tcpx.transform.language import syntax as ast
from tcpx.transform.language.formatter import format_schedule
from tcpx.transform.language.printed_expressions import print_expression, print_pattern, quoted

__all__ = ["print_expression", "print_file", "print_statement"]

_SIMPLE = (ast.Let, ast.Knob, ast.Require, ast.Do, ast.Return)


def print_file(file: ast.File) -> str:
    """The formatted text of a file; `parse_schedule` of it gives an equal tree."""
    lines = [line for item in file.items for line in _with_docs(item.trivia, _item(item))]
    return format_schedule("\n".join(lines), file.path)


def print_statement(statement: ast.Statement) -> str:
    """The text of one statement, without its docs."""
    return "\n".join(_statement(statement))


def _with_docs(trivia: ast.Trivia, lines: list[str], behind: bool = False) -> list[str]:
    """Lines with their docs in front; a single line may have a single one behind it."""
    docs = [f"/// {text}".rstrip() for text in trivia.doc.split("\n")] if trivia.doc else []
    if behind and len(docs) == len(lines) == 1:
        return [f"{lines[0]}  {docs[0]}"]
    return [*docs, *lines]


# -- items -------------------------------------------------------------------------------------------------------


def _item(item: ast.Item) -> list[str]:
    match item:
        case ast.Language():
            return [f"language {item.version}"]
        case ast.Import():
            return [f"import {quoted(item.path)}" + (f" as {item.alias}" if item.alias else "")]
        case ast.Sequence():
            return _callable(f"sequence {item.name}", item.params, _arrow(item.results), item.body)
        case ast.Function():
            if item.lets:
                back = ast.Return((item.value,), location=item.location)
                body = ast.Block((*item.lets, back), location=item.location)
                return _callable(f"function {item.name}", item.params, f" -> {item.result}", body)
            value = f" -> {item.result} = {print_expression(item.value)}"
            return _head(f"function {item.name}", item.params, value)
        case ast.View():
            body = ast.Block(item.lets, location=item.location)
            return _callable(f"view {item.name}", item.params, "", body)
        case ast.Matcher():
            return _callable(f"matcher {item.name}", item.params, _arrow(item.results), item.body)
        case ast.Schedule():
            expects = f" expects {quoted(item.expects)}" if item.expects else ""
            return _callable(f"schedule {item.name}", item.params, expects, item.body)


def _arrow(results: tuple[ast.TypeOf, ...]) -> str:
    text = ", ".join(map(str, results))
    return f" -> ({text})" if len(results) > 1 else f" -> {text}" if text else ""


def _callable(head: str, params: tuple[ast.Param, ...], tail: str, body: ast.Block) -> list[str]:
    return [*_head(head, params, f"{tail} {{"), *_body(body), "}"]


def _head(head: str, params: tuple[ast.Param, ...], tail: str) -> list[str]:
    """Name and parameters: on one line, or one per line where they have docs."""
    if all(p.trivia == ast.Trivia() for p in params):
        return [f"{head}({', '.join(map(_param, params))}){tail}"]
    lines = [f"{head}("]
    for k, param in enumerate(params):
        comma = "," if k < len(params) - 1 else ""
        lines += _with_docs(param.trivia, [_param(param) + comma], behind=True)
    return [*lines, f"){tail}"]


def _param(param: ast.Param) -> str:
    default = f" = {print_expression(param.default)}" if param.default is not None else ""
    return f"{param.name}: {param.type}{default}"


# -- statements --------------------------------------------------------------------------------------------------


def _body(block: ast.Block) -> list[str]:
    return [
        line
        for statement in block.statements
        for line in _with_docs(statement.trivia, _statement(statement), isinstance(statement, ast.Knob | ast.Let))
    ]


def _one_line(block: ast.Block) -> str | None:
    """`{ f(x) }` for a block of one plain statement without docs."""
    if not block.statements:
        return "{}"
    statement = block.statements[0]
    if len(block.statements) > 1 or not isinstance(statement, _SIMPLE) or statement.trivia != ast.Trivia():
        return None
    return "{ " + _statement(statement)[0] + " }"


def _headed(parts: list[tuple[str, ast.Block]], closed_by: str = "") -> list[str]:
    """`head { ... } head { ... }`: on one line per part where every block is short."""
    short = [_one_line(block) for _, block in parts]
    texts = [f"{head} {text}" for (head, _), text in zip(parts, short, strict=True) if text is not None]
    if len(texts) == len(parts):
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
            optional = "optional " if statement.optional else ""
            return [f"let {', '.join(statement.names)} = {optional}{print_expression(statement.value)}"]
        case ast.Knob():
            domain = f" in {print_expression(statement.domain)}" if statement.domain is not None else ""
            domain += f" up_to {print_expression(statement.limit)}" if statement.limit is not None else ""
            separate = "separate " if statement.separate else ""
            return [
                f"knob {separate}{statement.name}: {statement.type} = {print_expression(statement.default)}{domain}"
            ]
        case ast.Require():
            message = f" {quoted(statement.message)}" if statement.message else ""
            return [f"require {print_expression(statement.condition)}{message}"]
        case ast.Do():
            return [("optional " if statement.optional else "") + print_expression(statement.call)]
        case ast.Return():
            return [f"return {', '.join(map(print_expression, statement.values))}".rstrip()]
        case ast.ForEach():
            return _headed(
                [(f"for {', '.join(statement.variables)} in {print_expression(statement.items)}", statement.body)]
            )
        case ast.If():
            return _headed(_if_parts(statement))
        case ast.Specialize() | ast.Versions():
            return _specialize(statement)
        case ast.Case():
            return _case(statement)
        case ast.Try():
            parts = [("try" if k == 0 else "else", block) for k, block in enumerate(statement.alternatives)]
            return _headed(parts, f"else {_end_of_try(statement.orelse)}" if statement.orelse is not None else "")
        case ast.Tune():
            return _tune(statement)


def _if_parts(statement: ast.If) -> list[tuple[str, ast.Block]]:
    parts = [
        (f"{'if' if k == 0 else 'else if'} {print_expression(branch.condition)}", branch.body)
        for k, branch in enumerate(statement.branches)
    ]
    return parts + ([("else", statement.orelse)] if statement.orelse is not None else [])


def _specialize(statement: ast.Specialize | ast.Versions) -> list[str]:
    if isinstance(statement, ast.Versions):
        items, condition = print_expression(statement.items), print_expression(statement.condition)
        of_items = f"for {statement.variable} in {items} when {condition}"
        by = of_items if statement.variable else f"by {condition} at {items}"
        return _headed([(f"versions {print_expression(statement.target)} {by}", statement.body)])
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
        where = f" where {print_expression(arm.where)}" if arm.where is not None else ""
        lines += _headed([(f"{print_pattern(arm.pattern)}{where} =>", arm.body)])
    if isinstance(statement.orelse, ast.Fail):
        lines.append(f"else => {_fail(statement.orelse)}")
    elif statement.orelse is not None:
        lines += _headed([("else =>", statement.orelse)])
    return [*lines, "}"]


def _tune(statement: ast.Tune) -> list[str]:
    if not statement.name:
        return _headed([("tune" if k == 0 else "or", block) for k, block in enumerate(statement.alternatives)])
    default = f" = {print_expression(statement.default)}" if statement.default is not None else ""
    lines = [f"tune {statement.name}{default} {{"]
    for word, condition, block in zip(statement.words, statement.conditions, statement.alternatives, strict=True):
        where = f" where {print_expression(condition)}" if condition is not None else ""
        lines += _headed([(f"{word}{where} =>", block)])
    return [*lines, "}"]


def _end_of_try(last: ast.Fail | ast.Remark) -> str:
    return _fail(last) if isinstance(last, ast.Fail) else f"remark {print_expression(last.target)}"


def _fail(fail: ast.Fail) -> str:
    return f"fail {quoted(fail.message)}"
