"""Foresight that guesses: behind steps, sizes and neighbours are taken to be what they were."""

from collections.abc import Iterable
from dataclasses import dataclass

from tcpx.interp.foresight import Foresight, UnforeseenError
from tcpx.transform.language import syntax as ast


@dataclass(slots=True)
class SurveyForesight(Foresight):
    """A knob behind a step still belongs to the space; what its domain was read from may turn out to be different."""

    has_guessed: bool = False

    def is_known(self, origins: Iterable[int]) -> bool:
        """Operations are followed whatever steps did to them."""
        del origins
        return True

    def require_unchanged(self) -> None:
        """Never raises: operations are taken to be those that there were; of others, no run has the knobs."""
        self.has_guessed = True

    def require_known(self, expression: ast.Expression) -> None:
        """Never raises; notes that it would have."""
        try:
            Foresight.require_known(self, expression)
        except UnforeseenError:
            self.has_guessed = True

    def start_guessing(self) -> bool:
        """From here on, until `end_guessing`, see whether something is guessed; what was seen before."""
        before, self.has_guessed = self.has_guessed, False
        return before

    def end_guessing(self, before: bool) -> bool:
        """Whether something was."""
        found, self.has_guessed = self.has_guessed, self.has_guessed or before
        return found
