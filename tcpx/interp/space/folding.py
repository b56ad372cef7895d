"""Expressions of a schedule as formulas over its knobs: the evaluation of them with formulas for the knobs in scope."""

from tcpx.interp.expressions import evaluate
from tcpx.interp.foresight import UnforeseenError
from tcpx.interp.frame import Frame
from tcpx.interp.lifting import lifted
from tcpx.interp.space.foresight import SurveyForesight
from tcpx.interp.space.formula import Formula, guessed
from tcpx.interp.state import State
from tcpx.payload.diagnostics import TcpxError
from tcpx.transform.language import syntax as ast


def fold(expression: ast.Expression, state: State, frame: Frame) -> Formula | None:
    """The expression over knobs; None where it depends on what is not known before the schedule runs."""
    foresight = state.foresight
    before = isinstance(foresight, SurveyForesight) and foresight.start_guessing()
    try:
        made = lifted(evaluate(expression, state, frame.over_knobs()))
    except (UnforeseenError, TcpxError):
        return None
    finally:
        is_guess = isinstance(foresight, SurveyForesight) and foresight.end_guessing(before)
    return guessed(made) if is_guess else made


def depends_on_knobs(expression: ast.Expression, frame: Frame) -> bool:
    """Whether an expression mentions a name that does."""
    return not frame.formulas.keys().isdisjoint(names_in(expression))


def names_in(expression: ast.Expression) -> set[str]:
    """All names that an expression mentions."""
    return {node.name for node in ast.walk(expression) if isinstance(node, ast.Name)}
