"""What became of the fixes of a test run that were followed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.diagnostics.follow import Fix, follow

FLOOR: Final = 150
"""So many kinds of fixes, by message and fix without their names and numbers, are followed in `make test`."""

CEILING: Final = 3
"""So many kinds may not help yet: each is to become text that does, or a Direction."""


@dataclass(slots=True)
class Followed:
    """The kinds of fixes that help, those that do not, each with an example, and how many no text is known for."""

    helping: set[str] = field(default_factory=set[str])
    failing: dict[str, str] = field(default_factory=dict[str, str])
    untried: set[str] = field(default_factory=set[str])

    @staticmethod
    def of(fixes: Mapping[tuple[str, str], Iterable[Fix]]) -> Followed:
        """Follow each fix of each kind."""
        made = Followed()
        for (message, kind), examples in fixes.items():
            key = f"{message} / {kind}"
            for fix in examples:
                outcome = follow(fix)
                if outcome == "no edit helps":
                    made.failing.setdefault(key, f"{fix.message}  [{fix.place}]: the fix does not help: {fix.fix}")
                elif outcome:
                    made.untried.add(key)
                else:
                    made.helping.add(key)
        return made

    @staticmethod
    def read(plain: Mapping[str, Any]) -> Followed:
        """As it came from a worker."""
        return Followed(set(plain["helping"]), dict(plain["failing"]), set(plain["untried"]))

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"helping": sorted(self.helping), "failing": self.failing, "untried": sorted(self.untried)}

    def __iadd__(self, other: Followed) -> Followed:
        self.helping |= other.helping
        self.failing |= other.failing
        self.untried |= other.untried
        return self

    def problems(self, is_whole: bool) -> list[str]:
        """That too many fixes do not help, with each of them; in `make test` also that too few do."""
        few = [f"{self.summary}: at least {FLOOR} are to help"] if is_whole and len(self.helping) < FLOOR else []
        return [*(self.listed if len(self.failing) > CEILING else []), *few]

    @property
    def listed(self) -> list[str]:
        """The fixes that do not help."""
        return sorted(self.failing.values())

    @property
    def summary(self) -> str:
        untried = self.untried - self.helping - self.failing.keys()
        return f"{len(self.helping)} kinds of fixes followed, {len(self.failing)} do not help, {len(untried)} untried"
