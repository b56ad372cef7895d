"""Samplers propose points of the space, learn, and say what they cannot do."""

from __future__ import annotations

import pytest

import tcpx
from tcpx.tune.samplers import sampler as samplers
from tcpx.tune.samplers.sampler import default_sampler, make_sampler
from tcpx.tune.space import Point, Space, point_key
from tests.optional_tools import OPTUNA
from tests.tune.conftest import MakeSpace, is_allowed

BODY = """
let mm = match one contract in root
knob mr: int = 1 in 1..12
knob mc: int = mr in multiples(mr, 48)
knob wide: bool = false
require mr + mc <= 40 "too many rows"
tune { tile(mm, [m: mc, n: 16 if wide else 8]) }
or { knob kc: int = 8 in pow2(4, 64)
  tile(mm, [m: mc, k: kc]) }
tile(mm, [m: mr])
"""
LEARNING = ["evolutionary", pytest.param("tpe", marks=OPTUNA.needed)]


def cost(point: Point) -> float:
    """Best at mr = 6, mc = 24, kc = 32."""
    kc = point.get("s.kc", 1)
    return 1 + abs(int(point["s.mr"]) - 6) + abs(int(point["s.mc"]) - 24) / 6 + abs(int(kc) - 32) / 16


def best_of(name: str, space: Space, trials: int, seed: int = 0) -> float:
    sampler = make_sampler(name, space, seed)
    seen: dict[str, float] = {}
    for _ in range(trials):
        point = sampler.ask()
        assert point is not None
        assert is_allowed(space, point)
        seen[point_key(point)] = cost(point)
        sampler.tell(point, seen[point_key(point)])
    return min(seen.values())


@pytest.mark.parametrize("name", ["random", *LEARNING])
def test_points_are_of_the_space_and_the_same_for_a_seed(name: str, make_space: MakeSpace) -> None:
    space = make_space(BODY)
    assert best_of(name, space, 30) == best_of(name, space, 30)


@pytest.mark.parametrize("name", LEARNING)
def test_those_that_learn_find_good_points(name: str, make_space: MakeSpace) -> None:
    space = make_space(BODY)
    found = sorted(best_of(name, space, 70, seed) for seed in range(3))
    assert found[1] <= 2.5


def test_a_grid_is_the_space_once(make_space: MakeSpace) -> None:
    space = make_space(BODY)
    sampler = make_sampler("grid", space, 0)
    found: list[str] = []
    while (point := sampler.ask()) is not None:
        found.append(point_key(point))
    assert found == [point_key(point) for point in space.points()]
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("name", ["random", "evolutionary"])
def test_a_small_space_is_exhausted_without_repeats(name: str, make_space: MakeSpace) -> None:
    space = make_space("knob mr: int = 4 in 1..9\nlet mm = match one contract in root\ntile(mm, [m: mr])")
    sampler = make_sampler(name, space, 0)
    found: list[str] = []
    while (point := sampler.ask()) is not None:
        found.append(point_key(point))
        sampler.tell(point, None)
    assert len(found) == len(set(found)) == 9


def refusal(name: str, space: Space) -> tcpx.Diagnostic:
    with pytest.raises(tcpx.ArgumentError) as caught:
        make_sampler(name, space, 0)
    return caught.value.diagnostic


def test_cma_es_is_refused_where_knobs_depend_on_knobs(make_space: MakeSpace) -> None:
    found = refusal("cma-es", make_space(BODY))
    assert "every knob always counts" in found.message
    assert "`s.mc`" in (found.found or "")


def test_one_that_there_is_not(make_space: MakeSpace) -> None:
    assert refusal("evolutionari", make_space(BODY)).fix == "did you mean `evolutionary`?"


def test_without_the_extra(make_space: MakeSpace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samplers, "find_spec", lambda name: None)
    assert "tcpx[tune]" in (refusal("tpe", make_space(BODY)).fix or "")
    assert default_sampler() == "evolutionary"
