"""A run on the fake peer: every outcome has its row, and the limits of the machine are there."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from tcpx.measure import session as session_module
from tcpx.measure.calibration import Calibration
from tcpx.measure.labels import box_of
from tcpx.measure.limits import Limits
from tcpx.measure.output import write_results
from tcpx.measure.peer_process import Launch, PeerProcess
from tcpx.measure.picture import Point, points_of, roofline_svg
from tcpx.measure.pinned_threads import available_cpus
from tcpx.measure.protocol import Array, Task
from tcpx.measure.roofline import Work
from tcpx.measure.rounds import Plan
from tcpx.measure.rows import Row, read_rows
from tcpx.measure.session import MACHINE, Session
from tcpx.measure.table import table
from tests.measure.conftest import FAKE

MakeTask = Callable[[str], Task]
PLAN = Plan(rounds=2, samples=2, shortest=1e-4, patience=0.5)
RATES = {"fma_f32", "fma_f64", "add_min_f32", "read_l1", "read_l2", "read_l3", "read_memory", "copy", "stream_copy"}


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    second = Launch("fake-2", FAKE.module)
    with Session([FAKE, second], available_cpus()[:1], target="generic", plan=PLAN) as made:
        made.calibration = Calibration(lambda: 1.0)  # the machine that runs the tests may be slow and busy
        made.calibration.warm_up()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(session_module, "MOST_WAITING", float("inf"))
            yield made


def doubled(found: Array, dtype: str) -> float:
    assert dtype == "float64"
    difference = float(np.max(np.abs(found - 2 * np.arange(4.0))))
    return difference * 1e6 if np.isfinite(difference) else float("inf")


def test_measured(session: Session, task: MakeTask) -> None:
    rows = session.measure(task("ok"), Work(8, 64), doubled)
    assert [row.peer for row in rows] == ["fake", "fake-2"]
    for row in rows:
        assert (row.workload, row.threads, row.version, row.status) == ("fake/ok", 1, "1.2", "measured")
        assert row.median_s is not None
        assert row.best_s is not None
        assert row.limit_s is not None
        assert row.fraction == pytest.approx(row.limit_s / row.median_s)
        assert 0 < row.best_s <= row.median_s
        assert (row.samples, row.rejected, row.error) == (4, 0, 0.0)
        assert row.limited_by in ("fma_f32", "read_l1")


@pytest.mark.parametrize(
    ("behaviour", "status", "reason"),
    [
        ("wrong", "wrong", "off by 3e+06 times what rounding may do"),
        ("nan", "wrong", "off by inf times what rounding may do"),
        ("unsupported", "unsupported", "no doubling here"),
        ("crash", "crashed", "signal SIGABRT"),
        ("crash when timed", "crashed", "signal SIGABRT"),
        ("raise", "failed", "RuntimeError: two lines"),
    ],
)
def test_no_figure_without_a_right_result(
    behaviour: str, status: str, reason: str, session: Session, task: MakeTask
) -> None:
    for row in session.measure(task(behaviour), Work(8, 64), doubled):
        assert (row.status, row.median_s, row.fraction) == (status, None, None)
        assert row.reason.startswith(reason)
    assert session.measure(task("ok"), check=doubled)[0].status == "measured", "it is started again"


def test_a_slow_machine_gives_no_figure(session: Session, task: MakeTask) -> None:
    session.calibration.probe = lambda: 0.5
    try:
        row = session.measure(task("ok"), check=doubled)[0]
    finally:
        session.calibration.probe = lambda: 1.0
    assert (row.status, row.median_s) == ("unsteady", None)
    assert row.rejected > 0


def test_a_sample_that_waited_for_its_cpu_does_not_count(
    session: Session, task: MakeTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "MOST_WAITING", -1.0)
    row = session.measure(task("ok"), check=doubled)[0]
    assert (row.status, row.samples) == ("unsteady", 0)


def test_the_limits_come_first_and_the_results_are_written(session: Session, task: MakeTask, tmp_path: Path) -> None:
    session.measure(task("ok"), Work(8, 64), doubled)
    rows = session.finished()
    assert (rows[0].workload, rows[0].peer) == (MACHINE, MACHINE)
    assert set(rows[0].facts["limits"]) == RATES
    assert all(rate > 0 for rate in rows[0].facts["limits"].values())
    assert {"caches", "target", "cpus", "cpu", "huge_pages"} <= set(rows[0].facts)
    written = write_results(rows, str(tmp_path / "out.json"))
    assert [path.name for path in written] == ["out.json", "out-1.svg"]
    assert read_rows(written[0]) == rows
    picture = ET.parse(written[1]).getroot()
    assert picture.tag.endswith("svg")
    assert any(node.tag.endswith("circle") for node in picture)


def test_table() -> None:
    rows = [
        Row("a/b", 1, "x", median_s=2.5e-3, spread=0.01, fraction=0.5, operations=5e6, samples=4, rejected=1),
        Row("a/b", 1, "y", status="unsupported", reason="no such thing"),
    ]
    head, measured, other = table(rows).splitlines()
    assert head.split() == ["workload", "threads", "peer", "time", "rate", "of", "limit", "spread", "samples"]
    assert measured.split() == ["a/b", "1", "x", "2.5", "ms", "2.0", "Gop/s", "50.0", "%", "1.0", "%", "4", "(-1)"]
    assert other.endswith("unsupported: no such thing")
    assert len(table(rows, head=False).splitlines()) == 2


def test_an_interrupt_while_a_peer_starts_leaves_no_process(task: MakeTask, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[PeerProcess] = []

    def interrupted(self: PeerProcess, *_: object, **__: object) -> None:
        started.append(self)
        self.stop()
        raise KeyboardInterrupt

    monkeypatch.setattr(PeerProcess, "ask", interrupted)
    with pytest.raises(KeyboardInterrupt), Session([FAKE], available_cpus()[:1], target="generic", plan=PLAN) as made:
        made.measure(task("ok"))
    (process,) = started
    assert not process.is_alive


def test_a_picture_names_all_peers_and_peaks_apart() -> None:
    peers = [f"peer{k}" for k in range(12)]
    rows = [Row("a", 1, peer, median_s=1e-3, operations=1e6, bytes=1e5) for peer in peers]
    limits = Limits(1, {"fma_f64": 58.8e9, "add_min_f32": 58.9e9, "fma_f32": 118e9, "read_l1": 2e11}, {})
    root = ET.fromstring(roofline_svg(points_of(rows), limits))
    texts = [node.text for node in root.iter() if node.tag.endswith("text")]
    assert [text for text in texts if text in peers] == peers
    assert "add_min_f32 58.9, fma_f64 58.8 Gop/s" in texts
    assert texts.count("a") == 1
    assert len({node.get("fill") for node in root.iter() if node.tag.endswith("circle")}) == len(peers)


def test_names_of_points_do_not_cover_each_other() -> None:
    """Of twenty statements of the same rates, as many have names as fit on both sides and above one another."""
    points = [Point(f"layer{k}/MatMul", "@f", 1e6, 1e5, 1e-3 * (1 + k / 1000), share=0.05) for k in range(20)]
    limits = Limits(1, {"fma_f32": 118e9, "read_l1": 2e11, "read_memory": 2e9}, {})
    root = ET.fromstring(roofline_svg(points, limits))
    names = [node for node in root.iter() if node.tag.endswith("text") and (node.text or "").startswith("layer")]
    boxes = [
        box_of(float(node.get("x", "")), float(node.get("y", "")), str(node.text), node.get("text-anchor", ""))
        for node in names
    ]
    assert len(names) > 10
    assert not any(a.covers(b) for k, a in enumerate(boxes) for b in boxes[:k])
    titles = [node.text or "" for node in root.iter() if node.tag.endswith("title")]
    assert len(titles) == 20
    assert "layer0/MatMul, @f: 1 ms, 1.0 Gop/s, 10 op/byte" in titles
    words = {node.text for node in root.iter() if node.tag.endswith("text")}
    assert {"operations per byte (op/byte)", "10^9 operations a second (Gop/s)", "fma_f32 118 Gop/s"} <= words
    assert {"read_l1 200 GB/s", "read_memory 2 GB/s"} <= words


@pytest.mark.parametrize(
    ("name", "shown"), [("a" * 40, ".." + "a" * 26), ("x" * 30 + "/norm/d0", "norm/d0"), ("b", "b")]
)
def test_long_names_are_cut_at_their_parts(name: str, shown: str) -> None:
    limits = Limits(1, {"fma_f32": 118e9, "read_l1": 2e11}, {})
    root = ET.fromstring(roofline_svg([Point(name, "@f", 1e6, 1e5, 1e-3)], limits))
    assert shown in {node.text for node in root.iter() if node.tag.endswith("text")}
