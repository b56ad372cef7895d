"""`versions x by size at [..] { }`, `versions x for name in [..] when c { }`: the `specialize` that is meant."""

from tcpx.interp.expressions import evaluate
from tcpx.interp.frame import Frame
from tcpx.interp.state import State
from tcpx.interp.values import RuntimeValue, describe
from tcpx.transform.language import syntax as ast


def expanded(statement: ast.Versions, state: State, frame: Frame) -> ast.Specialize | ast.Block:
    """One branch of the block for each item, in which its name stands for it, and one for what is left; the block alone
    where there is nothing to choose from. Kept with the file: what statements are found by lives as long as that."""
    items = _items(statement, state, frame)
    key = (id(statement), items)
    if key not in frame.unit.expanded:
        frame.unit.expanded[key] = _specialize(statement, items)
    return frame.unit.expanded[key]


def _items(statement: ast.Versions, state: State, frame: Frame) -> tuple[int | float | str | bool, ...]:
    held = evaluate(statement.items, state, frame)
    listed: tuple[RuntimeValue, ...] = held if isinstance(held, tuple) else (held,)
    items = tuple(item for item in listed if isinstance(item, int | float | str | bool))
    is_limit = all(isinstance(item, int) and not isinstance(item, bool) for item in items)
    if len(items) < len(listed) or not (is_limit or statement.variable) or (statement.variable and not items):
        required = "numbers and words that are known now" if statement.variable else "ints"
        raise frame.error(
            "versions are made for items that are known", statement.items, required=required, found=describe(held)
        )
    return items


def _specialize(statement: ast.Versions, items: tuple[int | float | str | bool, ...]) -> ast.Specialize | ast.Block:
    chosen, last = (items[:-1], items[-1]) if statement.variable else (items, None)
    where = statement.condition.location
    branches = [ast.Branch(_condition(statement, i), _body(statement, i), location=where) for i in chosen]
    orelse = _body(statement, last)
    if not branches:
        return orelse
    return ast.Specialize(
        statement.target, tuple(branches), orelse, True, trivia=statement.trivia, location=statement.location
    )


def _condition(statement: ast.Versions, item: float | str) -> ast.Expression:
    literal = ast.Literal(item, location=statement.condition.location)
    if not statement.variable:
        return ast.Binary("<=", statement.condition, literal, location=statement.condition.location)

    def change(node: object) -> object:
        is_item = isinstance(node, ast.Name) and node.name == statement.variable
        return literal if is_item else node

    return ast.rebuilt(statement.condition, change)


def _body(statement: ast.Versions, item: float | str | None) -> ast.Block:
    """A block of its own for each version: what tells them apart."""
    where = statement.body.location
    if not statement.variable or item is None:
        return ast.Block(statement.body.statements, location=where)
    bound = ast.Let((statement.variable,), ast.Literal(item, location=statement.location), location=statement.location)
    return ast.Block((bound, *statement.body.statements), location=where)
