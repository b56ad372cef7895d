"""Code for a target that this CPU cannot run: compiled, written, saved; to run it is refused."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tcpx
from tcpx.cli import main
from tcpx.measure.limits import Machine
from tcpx.measure.pinned_threads import PinnedThreads, available_cpus
from tcpx.processor import cpu_flags, missing_flags
from tcpx.target.loader import native_target

PAYLOAD = """\
func @twice(%x: tensor<[N]xf32>) -> tensor<[N]xf32> symbols [N] {
  %y = tcp.add(%x, %x) : tensor<[N]xf32>
  tcp.return(%y)
}
"""
X = np.arange(37, dtype=np.float32)
FOREIGN = "x86_avx512"
REFUSED = r"this CPU cannot run code for x86_avx512\n  required: a CPU with avx2, .*\n  found: one without avx512f"


@pytest.fixture
def foreign(monkeypatch: pytest.MonkeyPatch) -> tcpx.Kernel:
    """A kernel for AVX-512, where AVX-512 is hidden."""
    monkeypatch.setenv("TCPX_HIDE_CPU_FLAGS", "avx512*")
    return tcpx.compile(tcpx.parse(PAYLOAD), target=FOREIGN)


RUNS: dict[str, Callable[[tcpx.Kernel], object]] = {
    "call": lambda kernel: kernel(X),
    "call by name": lambda kernel: kernel(x=X),
    "bind": lambda kernel: kernel.bind(X),
    "call_raw": lambda kernel: kernel.call_raw([0, 0], [1], 0),
    "unpickled": lambda kernel: pickle.loads(pickle.dumps(kernel))(X),
    "sanitized": lambda _: tcpx.compile(tcpx.parse(PAYLOAD), target=FOREIGN, sanitize=True)(X),
    "profile": lambda _: tcpx.profile(tcpx.parse(PAYLOAD), None, X, target=FOREIGN),
    "bisect": lambda _: tcpx.bisect(tcpx.parse(PAYLOAD), target=FOREIGN, sizes={"N": 3}),
    "bisect_speed": lambda _: tcpx.bisect_speed(tcpx.parse(PAYLOAD), target=FOREIGN, sizes={"N": 3}),
    "tune": lambda _: tcpx.tune(tcpx.parse(PAYLOAD), sizes=[{"N": 3}], target=FOREIGN),
    "verify_rows": lambda _: tcpx.verify_rows(tcpx.load_target(FOREIGN)),
    "limits": lambda _: Machine(tcpx.load_target(FOREIGN), PinnedThreads(available_cpus()[:1])),
}


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_running_is_refused(foreign: tcpx.Kernel, run: Callable[[tcpx.Kernel], object]) -> None:
    with pytest.raises(tcpx.TargetError, match=REFUSED):
        run(foreign)


def test_writing_is_not(foreign: tcpx.Kernel, tmp_path: Path) -> None:
    assert "_mm512_add_ps" in foreign.c_source
    foreign.save(tmp_path)
    with pytest.raises(tcpx.TargetError, match=REFUSED):
        tcpx.load_kernel(tmp_path)
    assert foreign.report().target == FOREIGN


def test_features_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler that may use an extension does so where it likes."""
    monkeypatch.setenv("TCPX_HIDE_CPU_FLAGS", "avx512_bf16 ,avx512_vnni")
    plain = tcpx.load_target("x86_avx512+")
    assert (plain.features, plain.spec) == ((), "x86_avx512+")
    assert missing_flags(plain.cpu_flags) == missing_flags(["avx512f", "avx512bw", "avx512dq", "avx512vl"])
    with pytest.raises(tcpx.TargetError, match=r"found: one without .*avx512_vnni"):
        tcpx.load_target("x86_avx512+avx512_vnni").require_cpu()
    with pytest.raises(tcpx.TargetError, match="unknown feature 'avx512_vni'"):
        tcpx.load_target("x86_avx512+avx512_vni")


def test_what_load_target_takes() -> None:
    for target in (tcpx.load_target("x86_avx512"), tcpx.load_target("sapphire_rapids+avx512_bf16")):
        assert tcpx.load_target(target.spec) is target
    assert tcpx.load_target("sapphire_rapids+avx512_bf16").features == ("avx512_bf16",)
    ice_lake = native_target(frozenset(set(tcpx.load_target("x86_avx512").cpu_flags) - {"avx512_bf16"}))
    assert ice_lake.spec == "x86_avx512+avx512_vnni"


def test_hidden_extensions_are_not_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCPX_HIDE_CPU_FLAGS", "avx512*, amx*")
    assert not any(flag.startswith(("avx512", "amx")) for flag in cpu_flags())
    for target in (tcpx.load_target("native"), tcpx.compile(tcpx.parse(PAYLOAD)).target):
        assert not any(flag.startswith(("avx512", "amx")) for flag in target.cpu_flags)
    monkeypatch.setenv("TCPX_HIDE_CPU_FLAGS", "*")
    assert tcpx.load_target("native").name == "generic"
    np.testing.assert_array_equal(tcpx.compile(tcpx.parse(PAYLOAD))(X), 2 * X)


@pytest.mark.parametrize(
    "words", [["run", "--check", "--random", "0"], ["profile"], ["tune"]], ids=lambda words: words[0]
)
def test_commands(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TCPX_HIDE_CPU_FLAGS", "avx512*")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "twice.tcp").write_text(PAYLOAD, encoding="utf-8")
    assert main([words[0], "twice.tcp", "--size", "N=3", "--target", FOREIGN, *words[1:]]) == 1
    said = capsys.readouterr().err
    assert "found: one without avx512f, avx512bw, avx512dq, avx512vl, avx512_vnni, avx512_bf16 (TCPX_HIDE" in said
