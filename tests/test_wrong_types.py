"""Arguments of other Python types than the public functions take: an error of tcpx that names them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import tcpx
from tcpx.payload.diagnostics import Diagnostic, Location

PAYLOAD = """\
func @f(%x: tensor<[M]x8xf32>) -> tensor<[M]x8xf32> symbols [M] {
  %o = tcp.neg(%x) : tensor<[M]x8xf32>
  tcp.return(%o)
}
"""
SCHEDULE = "language 1\nschedule s(root: func) { optional canonicalize(root) }\n"
MODULE, PROGRAM = tcpx.parse(PAYLOAD), tcpx.parse_schedule(SCHEDULE)
X = np.ones((3, 8), np.float32)
WRONG: list[Any] = [3, 1.5, b"x", [], {"a": 1}, object(), np.ones(3), MODULE, len]

PATHS: dict[str, Callable[[Any], object]] = {
    "load": tcpx.load,
    "load_schedule": tcpx.load_schedule,
    "load_kernel": tcpx.load_kernel,
    "load_target": tcpx.load_target,
    "read_array": tcpx.read_array,
    "schedule_text": tcpx.schedule_text,
    "tuned": lambda path: tcpx.tuned_record(path, MODULE, PROGRAM, target="generic"),
    "write": lambda path: tcpx.emit(MODULE, PROGRAM, target="generic").write(path),
}
OTHERS: dict[str, tuple[Callable[[Any], object], tuple[type, ...], str]] = {
    "text": (tcpx.format_schedule, (), "this is no text of a schedule"),
    "page": (tcpx.html_page, (), "this is no explanation"),
    "requests": (tcpx.compile_many, (list,), "these are no kernels to compile"),
    "params": (lambda given: tcpx.compile(MODULE, PROGRAM, params=given), (dict,), "`params` is no mapping"),
    "name": (lambda given: tcpx.compile(MODULE, PROGRAM, name=given), (), "this is no name"),
    "threads": (
        lambda given: tcpx.compile(MODULE, PROGRAM, threads=given),
        (int,),
        "no kernel runs on so many threads",
    ),
    "given": (lambda given: tcpx.random_inputs(MODULE, given=given), (dict,), "`given` is no mapping"),
    "sizes": (lambda given: tcpx.random_inputs(MODULE, sizes=given), (dict,), "required: a mapping"),
    "array": (lambda given: tcpx.profile(MODULE, PROGRAM, given, target="generic", seconds=0.0), (), "does not fit"),
    "features": (lambda given: tcpx.load_target("x86_avx512", given), (list,), "`features` is no tuple of names"),
}
"""For each, the types that are right, and what the error of any other says."""


@pytest.mark.parametrize("name", PATHS)
def test_paths(name: str) -> None:
    for given in [None, *WRONG]:
        with pytest.raises(tcpx.TcpxError) as caught:
            PATHS[name](given)
        assert "this is no" in str(caught.value), given


@pytest.mark.parametrize("name", [name for name in PATHS if name not in ("write", "load_target")])
def test_paths_that_no_file_has(name: str) -> None:
    for given in ("a\0b", "x" * 100_000, Path("a\0b"), "\ud800", ""):
        with pytest.raises(tcpx.TcpxError) as caught:
            PATHS[name](given)
        assert len(str(caught.value)) < 5_000
        str(caught.value).encode()


@pytest.mark.parametrize("name", OTHERS)
def test_others(name: str) -> None:
    call, right, message = OTHERS[name]
    for given in WRONG:
        if not isinstance(given, right):
            with pytest.raises(tcpx.TcpxError) as caught:
                call(given)
            assert message in str(caught.value), given
            assert str(caught.value).count("definite error") == 1, given


def test_wrong_requests() -> None:
    with pytest.raises(tcpx.ArgumentError, match="found: something of the Python type Module"):
        tcpx.compile_many(cast("Any", [MODULE]))
    with pytest.raises(tcpx.ScheduleError, match="found: something of the Python type bool"):
        tcpx.compile(MODULE, PROGRAM, threads=True)
    with pytest.raises(tcpx.TargetError, match=r'fix: features=\("avx512_vnni",\)'):
        tcpx.load_target("x86_avx512", cast("Any", "avx512_vnni"))


@pytest.mark.parametrize("seed", [-1, 1.5, {"M": 3}, "x", None, np.ones(3)])
def test_seeds(seed: Any) -> None:
    for call in (
        lambda: tcpx.evaluate(MODULE, X, seed=seed),
        lambda: tcpx.random_inputs(MODULE, seed, sizes={"M": 3}),
    ):
        with pytest.raises(tcpx.ArgumentError, match="required: a whole number that is not negative"):
            call()


def test_what_is_like_a_number_or_a_path_is_one(tmp_path: Path) -> None:
    (tmp_path / "f.tcp").write_text(PAYLOAD, encoding="utf-8")
    with os.scandir(tmp_path) as entries:
        (entry,) = entries
    assert tcpx.load(cast("Any", entry)).text() == PAYLOAD
    seeds: list[Any] = [7, np.int64(7)]
    drawn = [tcpx.random_inputs(MODULE, seed, sizes={"M": 3})[0] for seed in seeds]
    assert np.array_equal(drawn[0], drawn[1])


def test_messages_have_bytes() -> None:
    diagnostic = Diagnostic("no \ud800", payload=Location("\udcff" + "f" * 10_000, 1, 1))
    assert diagnostic.render().encode().startswith(b"definite error: no \\ud800\n  --> \\udcfffff")
    assert len(diagnostic.render()) < 1_200
