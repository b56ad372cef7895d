"""A payload, and spaces of schedules for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

import tcpx
from tcpx.tune.space import Space, Value
from tests.tune.cluster import Cluster

PAYLOAD = """\
func @f(%x: tensor<[N]x64xf32>, %w: tensor<64x48xf32>) -> tensor<[N]x48xf32> symbols [N: 0..4096] {
  %mm = tcp.matmul(%x, %w) : tensor<[N]x48xf32>
  %y = tcp.max(%mm, %mm) : tensor<[N]x48xf32>
  tcp.return(%y)
}
"""
MakeSpace = Callable[..., Space]


@pytest.fixture(autouse=True)
def _known_limits(known_limits: None) -> None:
    """No study here measures the machine."""


def schedule_text(body: str, before: str = "") -> str:
    lines = "\n".join(f"  {line}" for line in body.strip().splitlines())
    return f"language 1\n{before}\nschedule s(root: func) {{\n{lines}\n}}\n"


def is_allowed(space: Space, point: Mapping[str, Value]) -> bool:
    """Whether a point keeps all constraints."""
    return all(constraint.holds(point) for constraint in space.search.constraints)


@pytest.fixture
def module() -> tcpx.Module:
    return tcpx.parse(PAYLOAD, "f.tcp")


@pytest.fixture
def make_space(module: tcpx.Module) -> MakeSpace:
    """`make_space(body, before)`: the space of a schedule with this body, behind these declarations."""

    def made(body: str, before: str = "", params: Mapping[str, Value] | None = None) -> Space:
        schedule = tcpx.parse_schedule(schedule_text(body, before), "s.tcps")
        return Space(tcpx.search_space(module, schedule, target="generic", params=params))

    return made


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A Dask scheduler without workers."""
    made = Cluster(tmp_path)
    try:
        yield made
    finally:
        made.close()
