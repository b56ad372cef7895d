"""Loops whose iterations threads share: OpenMP, where there is enough to do."""

from dataclasses import replace
from textwrap import wrap
from typing import Final

from tcpx.emit_c.printer.context import FunctionContext
from tcpx.emit_c.printer.scopes import INDENT, Scope, without_unused, words_in
from tcpx.emit_c.printer.set_ups import NONE, SetUp
from tcpx.emit_c.printer.shared_work import shared_work
from tcpx.payload.contexts import context_at
from tcpx.payload.ops.gml_st import Loop
from tcpx.payload.sizes import is_less_equal
from tcpx.records import frozen

_WIDTH: Final = 110
"""Characters of a line of a pragma, from where it begins."""
_MOST_LINES_TWICE: Final = 100
"""A loop that one thread may run or several is printed for each, up to this many lines: to open a region of OpenMP
takes 0.3 us even where its `if` does not hold, as long as to add a thousand numbers. A symbolic product, of hundreds of
lines, would take twice the time to compile."""


@frozen
class Shares:
    """How iterations are shared: the clause for several loops, how many threads, the condition under which that pays,
    empty where it always does, and further clauses."""

    collapsed: str
    threads: int
    condition: str
    clauses: str

    @property
    def all_clauses(self) -> str:
        """Those behind the number of threads."""
        return f"{f' if ({self.condition})' if self.condition else ''}{self.clauses}"


def print_shared(shares: Shares | None, head: str, body: Scope, setup: SetUp, scope: Scope) -> None:
    """A loop whose iterations are shared where that pays; by one thread without `shares`."""
    is_long = setup != NONE or len(body.lines()) > _MOST_LINES_TWICE  # the C of a row with a set-up does much
    if shares is None or not shares.condition or is_long:
        _print_region(shares, head, body, setup, scope)
        return
    many, one = Scope(scope), Scope(scope)
    _print_region(replace(shares, condition=""), head, body, setup, many)
    _print_region(None, head, body, setup, one)
    scope.block(f"if ({shares.condition})", many)
    scope.extend_last_block("else", one)


def _print_region(shares: Shares | None, head: str, body: Scope, setup: SetUp, scope: Scope) -> None:
    """A loop whose iterations are shared, or are all run by the thread that comes there; each thread is set up."""
    if setup == NONE:
        if shares is not None:
            text = f"parallel for{shares.collapsed} num_threads({shares.threads}) schedule(static){shares.all_clauses}"
            _print_pragma(text, scope)
        scope.block(head, body)
        return
    region = Scope(scope)
    region.statements(setup.begin)
    if shares is not None:
        _print_pragma(f"for{shares.collapsed} schedule(static) nowait", region)
        _print_pragma(f"parallel num_threads({shares.threads}){shares.all_clauses}", scope)
    region.block(head, body)
    region.statements(setup.end)
    scope.block("", region)


def shares_of(grid: list[Loop], body: Scope, known: int, context: FunctionContext, scope: Scope) -> Shares | None:
    """How iterations are shared; None where there is too little to do for threads."""
    work, threshold = shared_work(grid[0], context.target, context.threads), context.target.parallel_threshold
    enough = is_less_equal(threshold, work, context_at(grid[0]).names)
    if enough is False:
        return None
    collapsed = f" collapse({len(grid)})" if len(grid) > 1 else ""
    condition = "" if enough else f"{context.sizes.text(work, scope)} >= {threshold}"
    copied = _read_in(body, known, context, scope)
    copies = f" firstprivate({', '.join(copied)})" if copied else ""
    return Shares(collapsed, context.threads, condition, copies)


def _read_in(body: Scope, known: int, context: FunctionContext, scope: Scope) -> list[str]:
    """The variables from outside that a parallel loop reads: each thread gets a copy.

    Else clang has a pointer to each of them, and reads it again after every write to memory. From outside are the
    first `known` names, and sizes that were named there while the body was printed; arrays are shared.
    """
    given = context.names.given
    outside = scope.sizes()
    read = [
        name
        for name in words_in(without_unused(body.lines()))
        if name in given and name not in context.arrays and (given[name] < known or name in outside)
    ]
    return sorted(read, key=given.__getitem__)


def _print_pragma(text: str, scope: Scope) -> None:
    *firsts, last = wrap(f"#pragma omp {text}", _WIDTH, subsequent_indent=INDENT, break_long_words=False)
    for line in firsts:
        scope.statement(f"{line} \\")
    scope.statement(last)
