"""No sequence, function, matcher or view calls itself, directly or through others: every run of a schedule ends."""

from graphlib import CycleError, TopologicalSorter

from tcpx.payload.diagnostics import Direction, Location
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.checker.scope import Problems, Scope

Declaration = ast.Function | ast.Matcher | ast.Sequence | ast.Schedule


def check_recursion(checked: list[tuple[Declaration, Scope]], problems: Problems) -> None:
    """Report one cycle of calls, if there is any, at a call that closes it."""
    declared = {id(item): item for item, _ in checked}
    calls: dict[int, dict[int, Location]] = {}
    for item, scope in checked:
        calls[id(item)] = {id(callee): where for callee, where in reversed(scope.calls)}
    try:
        TopologicalSorter(calls).prepare()
    except CycleError as error:
        cycle: list[int] = error.args[1][::-1]
        first = declared[cycle[0]]
        problems.add(
            f"`{first.name}` calls itself" if len(cycle) == 2 else f"`{first.name}` calls itself through others",
            calls[cycle[-2]][cycle[-1]],
            required="sequences, functions and matchers that do not call each other in a circle",
            given=" -> ".join(declared[key].name for key in cycle),
            fix=Direction("write the repetition as `for`"),
        )
