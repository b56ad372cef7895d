"""The versions of the schedule language, and how they differ: each difference is declared here, and nowhere else.

The checker refuses what a version does not have, steps ask `holds`, `tcpx fmt --upgrade` looks at the transforms that
are named, and docs/language.md has `table()`.
"""

from typing import Final

from tcpx.records import frozen

OLDEST: Final = 1
NEWEST: Final = 2


@frozen
class Difference:
    """What `subject`, a transform or a function, means before a version and since. `instead` is what to write."""

    since: int
    subject: str
    before: str
    now: str
    instead: str
    argument: str = ""
    """The parameter of the transform that, if true, gives the meaning before."""
    allowed_by: tuple[str, ...] = ()
    """The parameters of the transform each of which, if true, lifts the refusal."""

    def holds(self, language: int) -> bool:
        """Whether the language has the new meaning."""
        return language >= self.since


COPIES: Final = Difference(
    since=2,
    subject="fuse",
    before="computes a producer that the loop reads at several offsets once for each of them, with a remark",
    now="refuses that without `offsets: true` or `recompute: true`",
    instead="`offsets: true`, which computes what `language 1` did, or no `fuse` of this producer",
    argument="offsets",
    allowed_by=("offsets", "recompute"),
)
LIKE: Final = Difference(
    since=2,
    subject="like",
    before="`like(dims, x)` gives the dims of `x` with the names of other dims, whatever they mean",
    now="is no function",
    instead="the dims: `[x.m, x.n]`",
)
DIFFERENCES: Final = (COPIES, LIKE)


def known_versions() -> str:
    """`language 1 or 2`."""
    return f"language {' or '.join(map(str, range(OLDEST, NEWEST + 1)))}"


def gone(function: str, language: int) -> Difference | None:
    """The difference that took a function out of the language, if one did."""
    lost = (each for each in DIFFERENCES if not each.argument and each.subject == function)
    return next((each for each in lost if each.holds(language)), None)


def table() -> str:
    """The differences as rows of Markdown."""
    rows = [f"| {d.since} | `{d.subject}` | {d.before} | {d.now} | {d.instead} |" for d in DIFFERENCES]
    return "\n".join(["| since | what | before | now | write |", "|---|---|---|---|---|", *rows])
