"""What is kept of runs, and its page."""

from __future__ import annotations

import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

import tcpx
from benchmarks.ledger import FOLDER, Run, keep, kept, runs_of
from benchmarks.ledger_page import page, write_page
from benchmarks.revisions import Revision, Tree
from tcpx.measure.rows import Row
from tcpx.measure.session import MACHINE
from tests.optional_tools import CHROMIUM

REVISION = Revision("0123456789abcdef", "2026-11-28", "main")
TREE = Tree("fedcba9876543210", 1)
VOID = {"meta", "link", "br"}


def machine(threads: int, target: str = "zen4@12ab") -> Row:
    return Row(MACHINE, threads, MACHINE, facts={"cpu": "AMD (R) EPYC", "target": target})


def row(peer: str, seconds: float | None, threads: int = 1) -> Row:
    interval = None if seconds is None else seconds * 1.1
    return Row("gemm/8", threads, peer, "1.2", median_s=seconds, low_s=seconds, high_s=interval, limit_s=1e-6)


class Tags(HTMLParser):
    """The elements that are open, and what the page asks of elsewhere."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.outside: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open += [] if tag in VOID else [tag]
        held = [value or "" for name, value in attrs if name in ("src", "href")]
        self.outside += [value for value in held if not value.startswith(("#", "data:"))]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_runs_are_kept_by_processor_and_read_again(tmp_path: Path) -> None:
    rows = [machine(1), row("tcpx", 1.23456e-5), row("numpy", 2e-5), row(REVISION.peer, 1e-5), row("jax", None)]
    rows += [machine(2), row("tcpx", 1e-5, 2)]
    made = runs_of(rows, "2026-11-29T10:00Z", TREE, REVISION)
    assert [(run.commit, run.changed, run.threads) for run in made] == [
        ("0123456789ab", False, 1),
        ("fedcba987654", True, 1),
        ("fedcba987654", True, 2),
    ]
    assert made[0].times == {"gemm/8": {"tcpx": (1e-5, 1e-5, 1.1e-5)}}
    assert dict(made[1].times["gemm/8"]) == {"tcpx": (1.235e-5, 1.235e-5, 1.358e-5), "numpy": (2e-5, 2e-5, 2.2e-5)}
    assert (made[1].versions, made[1].limits) == ({"numpy": "1.2"}, {"gemm/8": (1e-6, "")})
    assert keep(made, tmp_path) == [tmp_path / "amd-epyc-zen4.jsonl"]
    assert keep(runs_of([machine(1, "zen5"), row("tcpx", 1.0)], "2026-11-28", TREE), tmp_path) == [
        tmp_path / "amd-epyc-zen5.jsonl"
    ]
    assert [run.date for run in kept(tmp_path)] == ["2026-11-28", *["2026-11-29T10:00Z"] * 3]
    assert kept(tmp_path)[1:] == made


def test_a_line_that_is_no_run_is_named(tmp_path: Path) -> None:
    keep(runs_of([machine(1), row("tcpx", 1.0)], "2026-11-28", TREE), tmp_path)
    (path,) = tmp_path.iterdir()
    with path.open("a") as file:
        file.write('{"date": "today"}\n')
    with pytest.raises(tcpx.ArgumentError, match=rf"(?s)cannot read a run of {path}:2.*fix: take the line out"):
        kept(tmp_path)


def runs() -> list[Run]:
    rows = [machine(1), row("tcpx", 3e-5), row("numpy", 2e-5)]
    later = [machine(1), row("tcpx", 1e-5), row("numpy", 2e-5), row("tcpx-again", 1e-6)]
    return [*runs_of(rows, "2026-11-27", Tree("aaaa", 0)), *runs_of(later, "2026-11-28", Tree("<b>", 0))]


def test_the_page_shows_each_workload_over_time(tmp_path: Path) -> None:
    text = page(runs())
    parsed = Tags(text)
    assert (parsed.open, parsed.outside) == ([], [])
    assert "<b>gemm/8, 1 thread</b><br>10 us, fastest peer numpy: 2.00 of it, 10.0 % of the limit" in text
    assert "2026-11-27 aaaa\ntcpx: 30 us (30 us to 33 us)" in text
    assert "&lt;b&gt;" in text
    assert "AMD (R) EPYC, zen4" in text
    assert write_page(runs(), str(tmp_path / "made" / "page.html")).read_text(encoding="utf-8") == text
    with pytest.raises(tcpx.ArgumentError, match=r"(?s)there is nothing to show.*fix: tcpx bench --keep"):
        write_page([], str(tmp_path / "page.html"))


def test_what_was_kept_has_a_page() -> None:
    assert {path.suffix for path in FOLDER.iterdir()} == {".jsonl"}
    assert Tags(page(kept())).open == []


@pytest.mark.slow
@CHROMIUM.needed
def test_a_browser_draws_it(tmp_path: Path) -> None:
    shot, made = tmp_path / "page.png", write_page(runs(), str(tmp_path / "page.html"))
    words = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    subprocess.run([*words, f"--screenshot={shot}", made.as_uri()], check=True, capture_output=True, timeout=120)
    assert shot.stat().st_size > 15_000
