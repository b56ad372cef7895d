"""Optuna's samplers on a constrained, conditional space.

Optuna proposes, for each knob that counts, a position in 0..1 among the values that constraints and earlier knobs leave
(or the value itself, where values have no order). So all it proposes is in the space, and domains may depend on knobs.
"""

from collections.abc import Sequence
from typing import Any, Final

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution

import tcpx
from tcpx.tune.space import Point, Space, Value, nearest, point_key

STARTUP: Final = 10
"""Random proposals before the model is asked."""


class OptunaSampler:
    """TPE (Bergstra et al., Algorithms for Hyper-Parameter Optimization, 2011), or CMA-ES."""

    def __init__(self, space: Space, name: str, seed: int) -> None:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._space = space
        self._study = optuna.create_study(sampler=_sampler(name, seed))
        self._asked: dict[str, optuna.Trial] = {}

    def ask(self) -> Point | None:
        """What the model proposes."""
        trial = self._study.ask()

        def choose(variable: tcpx.Variable, items: Sequence[Value]) -> Value:
            if _is_ordered(variable, items):
                position = trial.suggest_float(variable.path, 0.0, 1.0)
                return items[min(len(items) - 1, int(position * len(items)))]
            return nearest(items, trial.suggest_categorical(variable.path, self._categories(variable)))

        found = self._space.walk(choose)
        if found is None or point_key(found) in self._asked:
            self._study.tell(trial, state=optuna.trial.TrialState.FAIL)
        else:
            self._asked[point_key(found)] = trial
        return found

    def tell(self, point: Point, cost: float | None) -> None:
        """Add to the model; a point without a time is left out."""
        trial = self._asked.pop(point_key(point), None)
        if trial is not None:
            state = optuna.trial.TrialState.FAIL if cost is None else optuna.trial.TrialState.COMPLETE
            self._study.tell(trial, cost, state=state)
        elif cost is not None:
            params, distributions = self._described(point)
            self._study.add_trial(optuna.trial.create_trial(params=params, distributions=distributions, value=cost))

    def _categories(self, variable: tcpx.Variable) -> tuple[Value, ...]:
        return tuple(self._space.items(variable, {}))

    def _described(self, point: Point) -> tuple[dict[str, Any], dict[str, BaseDistribution]]:
        """A point as Optuna would have proposed it."""
        params: dict[str, Any] = {}
        distributions: dict[str, BaseDistribution] = {}

        def choose(variable: tcpx.Variable, items: Sequence[Value]) -> Value:
            held = nearest(items, point.get(variable.path))
            if _is_ordered(variable, items):
                params[variable.path] = (items.index(held) + 0.5) / len(items)
                distributions[variable.path] = FloatDistribution(0.0, 1.0)
            else:
                params[variable.path] = held
                distributions[variable.path] = CategoricalDistribution(self._categories(variable))
            return held

        self._space.walk(choose)
        return params, distributions


def _sampler(name: str, seed: int) -> optuna.samplers.BaseSampler:
    if name == "cma-es":
        return optuna.samplers.CmaEsSampler(seed=seed, n_startup_trials=STARTUP)
    return optuna.samplers.TPESampler(seed=seed, n_startup_trials=STARTUP)


def _is_ordered(variable: tcpx.Variable, items: Sequence[Value]) -> bool:
    return variable.has_moving_domain or (
        not variable.is_choice and all(isinstance(item, int | float) and not isinstance(item, bool) for item in items)
    )
