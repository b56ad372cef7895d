"""What a run of a schedule has done so far, held against the limits on a run."""

from __future__ import annotations

from dataclasses import dataclass

from tcpx.interp.frame import Frame
from tcpx.limits import (
    DEEPEST_RUN,
    LONGEST_LIST,
    MOST_EXPRESSIONS,
    MOST_LIST_WORK,
    MOST_STATEMENTS,
    MOST_STEPS,
    shortened,
)
from tcpx.transform.language import syntax as ast


@dataclass(slots=True)
class Work:
    """Counts of one run. Every method raises a located ScheduleError at the limit it counts towards."""

    shares: int = 1
    """How many times the limits count: more where the payload is larger."""
    depth: int = 0
    expressions: int = 0
    statements: int = 0
    steps: int = 0
    items: int = 0

    def nested(self, frame: Frame, node: ast.Node) -> Work:
        """Inside one more block, call or operator, to the end of the `with` it stands in."""
        if self.depth >= DEEPEST_RUN:
            raise frame.error(
                f"the run of the schedule is nested more than {DEEPEST_RUN} deep here",
                node,
                required=f"at most {DEEPEST_RUN} calls, blocks and operators within one another",
                found=f"{self.depth + 1} of them",
            )
        self.depth += 1
        return self

    def __enter__(self) -> None:
        """`nested` went in."""

    def __exit__(self, *_: object) -> None:
        self.depth -= 1

    def expression(self, frame: Frame, node: ast.Node) -> None:
        """One expression is evaluated, until who evaluates it takes 1 from `depth`."""
        self.expressions += 1
        if self.expressions > self.shares * MOST_EXPRESSIONS:
            raise _too_much(f"evaluates more than {self.shares * MOST_EXPRESSIONS} expressions", frame, node)
        self.nested(frame, node)

    def statement(self, frame: Frame, node: ast.Node) -> None:
        """One statement runs."""
        self.statements += 1
        if self.statements > self.shares * MOST_STATEMENTS:
            raise _too_much(f"runs more than {self.shares * MOST_STATEMENTS} statements", frame, node)

    def step(self, frame: Frame, node: ast.Node) -> None:
        """One transform is applied."""
        self.steps += 1
        if self.steps > self.shares * MOST_STEPS:
            raise _too_much(f"applies more than {self.shares * MOST_STEPS} transforms", frame, node)

    def items_of(self, count: int, frame: Frame, node: ast.Node) -> None:
        """A list of this many items is made, or gone through."""
        if count > LONGEST_LIST:
            raise frame.error(
                "the list is too long", node, required=f"at most {LONGEST_LIST} items", found=shortened(count)
            )
        self.trials(count, frame, node)

    def trials(self, count: int, frame: Frame, node: ast.Node) -> None:
        """So many numbers are looked at."""
        self.items += count
        if self.items > self.shares * MOST_LIST_WORK:
            raise _too_much(f"goes through more than {self.shares * MOST_LIST_WORK} items of lists", frame, node)


def _too_much(what: str, frame: Frame, node: ast.Node) -> Exception:
    return frame.error(
        f"the schedule {what}", node, required="loops over fewer items, or fewer of them", found="one more here"
    )
