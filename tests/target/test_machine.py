"""`native` has the numbers of the machine, and they are part of what it is; a target by name has those of its table."""

from __future__ import annotations

import pickle
from mmap import PAGESIZE
from pathlib import Path

import pytest

import tcpx
from tcpx import machine, request_cache
from tcpx.machine import Machine, read_caches
from tcpx.processor import UNKNOWN, Processor, parse_processor
from tcpx.target import TargetError, load_target
from tcpx.target.loader import native_target, target_with
from tcpx.tuned import setting_of

ZEN3 = Processor("AuthenticAMD", 25, 33, "AMD Ryzen 9 5900X 12-Core Processor")
AVX2 = frozenset({"avx2", "fma", "f16c", "bmi2"})
AVX512 = AVX2 | {"avx512f", "avx512bw", "avx512dq", "avx512vl"}
LEVELS = {"l1": ("1", "Data"), "l1i": ("1", "Instruction"), "l2": ("2", "Unified"), "l3": ("3", "Unified")}
PAYLOAD = """\
func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = tcp.exp(%x) : tensor<8xf32>
  tcp.return(%y)
}
"""


def system(root: Path, *cpus: dict[str, str], siblings: str = "0") -> Path:
    """The system's folder of CPUs, each with caches of so many bytes, `SIZE` or `SIZE CPUS`."""
    for number, caches in enumerate(cpus):
        cpu = root / f"cpu{number}"
        (cpu / "topology").mkdir(parents=True)
        (cpu / "topology" / "thread_siblings_list").write_text(f"{siblings}\n")
        for index, (name, said) in enumerate(caches.items()):
            size, _, sharing = said.partition(" ")
            entry = cpu / "cache" / f"index{index}"
            entry.mkdir(parents=True)
            level, kind = LEVELS[name]
            for file, text in (("level", level), ("type", kind), ("size", size), ("shared_cpu_list", sharing or "0")):
                (entry / file).write_text(f"{text}\n")
    return root


ZEN5 = {"l1": "48K", "l1i": "32K", "l2": "1024K", "l3": "32768K 0-15"}


@pytest.mark.parametrize(
    ("cpus", "siblings", "sizes"),
    [
        ([ZEN5], "0", (49152, 1048576, 33554432)),
        ([{**ZEN5, "l1": "48K 0-1", "l2": "1M 0,8"}], "0,8", (49152, 1048576, 33554432)),  # threads of one core
        ([{**ZEN5, "l2": "4M 0-3"}], "0", (49152, 1048576, 33554432)),  # cores that share it
        ([ZEN5, {**ZEN5, "l1": "32K", "l2": "512K"}], "0", (32768, 524288, 33554432)),  # cores of two kinds
        ([{**ZEN5, "l3": "480M 0-1"}], "0", (49152, 1048576)),  # a part of a large one
        ([{**ZEN5, "l3": "480M 0-7"}], "0", (49152, 1048576)),
        ([{**ZEN5, "l3": "96M 0-1"}], "0", (49152, 1048576, 100663296)),  # an EPYC 9184X
        ([{**ZEN5, "l2": "4096K"}], "0", (49152, 33554432)),
        ([ZEN5, {**ZEN5, "l3": "0K"}], "0", (49152, 1048576)),
        ([{"l1": "48K", "l2": "2M", "l3": "1M 0-3"}], "0", ()),  # they do not grow
        ([{"l1": "K", "l2": "-1", "l3": "many"}], "?", ()),
        ([{"l1": "48K"}], "0", (49152,)),
        ([{}], "", ()),
        ([], "", ()),
    ],
)
def test_caches_of_the_system(
    tmp_path: Path, cpus: list[dict[str, str]], siblings: str, sizes: tuple[int, ...]
) -> None:
    assert tuple(read_caches(system(tmp_path, *cpus, siblings=siblings)).values()) == sizes


def test_the_processor() -> None:
    text = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 33\nmodel name\t: AMD Ryzen: 9\n\n"
    assert parse_processor(text + text.replace("33", "8")) == Processor("AuthenticAMD", 25, 33, "AMD Ryzen: 9")
    assert parse_processor("processor : 0\nFeatures : asimd\n") == parse_processor("") == UNKNOWN


@pytest.mark.parametrize(
    ("vendor", "family", "model", "cpu", "name"),
    [
        ("AuthenticAMD", 25, 33, AVX2, "zen3"),
        ("AuthenticAMD", 25, 97, AVX512, "zen4"),
        ("AuthenticAMD", 25, 97, AVX2, "x86_avx2"),
        ("AuthenticAMD", 26, 68, AVX512, "zen5"),
        ("AuthenticAMD", 26, 80, AVX512, "x86_avx512"),  # no model of the table
        ("GenuineIntel", 6, 143, AVX512, "sapphire_rapids"),
        ("GenuineIntel", 6, 33, AVX2, "x86_avx2"),
        ("GenuineIntel", 6, 167, AVX512 | {"avx512_fp16", "serialize"}, "sapphire_rapids"),
        ("AuthenticAMD", 26, 80, AVX512 | {"avx512_fp16"}, "x86_avx512"),  # not Intel's alone
        ("", -1, -1, AVX512, "x86_avx512"),
    ],
)
def test_native_is_the_table_of_the_processor(
    vendor: str, family: int, model: int, cpu: frozenset[str], name: str
) -> None:
    assert native_target(cpu, None, Processor(vendor, family, model)).name == name


@pytest.mark.parametrize(
    ("entry", "required"),
    [
        ("{vendor: A, family: 1}", "the keys vendor, family, models"),
        ("{vendor: A, family: 1, models: [[1]]}", "the first and the last of models"),
    ],
)
def test_processors_that_are_no_list_of_models(tmp_path: Path, entry: str, required: str) -> None:
    table = tmp_path / "mine.yaml"
    table.write_text(f"name: mine\nbase: generic.yaml\nprocessors: [{entry}]\n")
    with pytest.raises(TargetError, match=required):
        tcpx.load_target(table)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    """A Zen 3 with caches of its own, and no calibration."""
    known = Machine(ZEN3, (("l1", 49152), ("l2", 1048576)), tmp_path / "machines", PAGESIZE)
    monkeypatch.setattr("tcpx.target.loader.this_machine", lambda: known)
    monkeypatch.setattr("tcpx.target.loader.cpu_flags", lambda: AVX2)
    return known


def calibrate(here: Machine, text: str = "processor: this\nl3_rate: 9\ncosts: {rows: [{direct: [0, 7]}]}\n") -> Path:
    path = here.calibration("zen3")
    assert path is not None
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def test_native_has_the_numbers_of_the_machine(here: Machine) -> None:
    named, native = load_target("zen3"), load_target("native")
    assert (native.name, native.l1, native.l2, native.l3) == ("zen3", 49152, 1048576, named.l3)
    assert native.title == native.spec == f"zen3@{native.machine}"
    assert native.costs["rows"][1].most_bytes == native.l2
    assert load_target("native") is load_target(native.spec) is pickle.loads(pickle.dumps(native)) is native
    assert (named.l1, named.machine, named.title, named.numbers) == (32768, "", "zen3", "")
    calibrate(here)
    measured = load_target("native")
    assert measured.machine not in ("", native.machine)
    assert (measured.l1, measured.l3_rate, measured.costs["rows"][0].lines["direct"].row) == (49152, 9, 7)
    assert measured.costs["depths"] == native.costs["depths"]
    assert load_target("zen3") is named


def test_numbers_that_the_table_has_are_no_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    known = Machine(ZEN3, (("l1", 32768), ("l2", 524288), ("l3", 33554432)))
    monkeypatch.setattr("tcpx.target.loader.this_machine", lambda: known)
    monkeypatch.setattr("tcpx.target.loader.cpu_flags", lambda: AVX2)
    assert load_target("native") is target_with("zen3", (), "")
    assert load_target("native").title == "zen3"


def test_caches_that_do_not_fit_the_table_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tcpx.target.loader.this_machine", lambda: Machine(ZEN3, (("l3", 524288),)))
    monkeypatch.setattr("tcpx.target.loader.cpu_flags", lambda: AVX2)
    assert load_target("native") is target_with("zen3", (), "")


def test_the_numbers_of_another_machine_are_refused_by_name(here: Machine) -> None:
    path = calibrate(here)
    native = load_target("native")
    path.unlink()
    with pytest.raises(TargetError) as caught:
        load_target(native.spec)
    found = caught.value.diagnostic
    assert found.message == "the target has the numbers of another machine, or of this one before it was calibrated"
    assert (found.required, found.found) == (
        f"a machine with the numbers {native.machine}",
        load_target("native").machine,
    )
    assert found.fix == "`native`, for this machine; `zen3`, for every one"
    assert pickle.loads(pickle.dumps(native)) is native


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("l1: 4096\n", "one of the keys processor, l3_rate, memory_rates, parallel_threshold, costs"),
        ("memory_rates: [5, 4]\n", "two numbers above 0, that of all cores no less than that of one"),
        ("l3_rate: fast\n", "a whole number that is not negative"),
        ("costs: {rows: [{direct: [0]}]}\n", "two numbers"),
        ("- 1\n", "a mapping"),
        ("{", "is not YAML"),
    ],
)
def test_a_damaged_calibration_is_refused(here: Machine, text: str, words: str) -> None:
    path = calibrate(here, text)
    with pytest.raises(TargetError, match=words) as caught:
        load_target("native")
    assert str(path) in str(caught.value)
    assert "`tcpx calibrate --remove`" in str(caught.value)


def test_the_machine_is_part_of_whatever_depends_on_it(
    here: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tcpx.parse(PAYLOAD)
    named, native = load_target("zen3"), load_target("native")
    assert tcpx.emit(module, target=native).c_source.startswith(
        f"/* Written by tcpx for the target zen3@{native.machine}. */"
    )
    schedule = tcpx.parse_schedule("language 1\nschedule s(root: func) { }")
    settings = [setting_of(module, schedule, target, 1).target for target in (named, native)]
    assert settings == ["zen3", native.title]
    keys = [request_cache._key(module, schedule, None, target, 1, None, {}) for target in (named, native)]
    assert len(set(keys)) == 2


def test_a_saved_kernel_has_the_numbers_that_it_was_compiled_with(tmp_path: Path) -> None:
    native = target_with("generic", (), '{"l1": 49152}')
    kernel = tcpx.compile(tcpx.parse(PAYLOAD), target=native)
    folder = kernel.save(tmp_path / "k")
    assert f'"machine": "{native.machine}"' in (folder / "f.json").read_text()
    assert tcpx.load_kernel(folder).target is pickle.loads(pickle.dumps(kernel)).target is native


def test_the_environment_gives_native_the_numbers_of_the_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(machine, "SYSTEM", system(tmp_path, ZEN5))
    monkeypatch.setattr(machine, "this_processor", lambda: ZEN3)
    monkeypatch.setenv(machine.VARIABLE, "table")
    assert machine.this_machine() == Machine(ZEN3)
    monkeypatch.delenv(machine.VARIABLE)
    monkeypatch.setenv("TCPX_CACHE_DIR", str(tmp_path))
    caches = (("l1", 49152), ("l2", 1048576), ("l3", 33554432))
    assert machine.this_machine() == Machine(ZEN3, caches, tmp_path / "machines", PAGESIZE)
    monkeypatch.setenv("TCPX_CACHE_DIR", "~no-such-user/cache")
    assert machine.this_machine() == Machine(ZEN3, caches, page=PAGESIZE)
    monkeypatch.setenv(machine.VARIABLE, "tables")
    with pytest.raises(tcpx.ArgumentError, match="found: tables"):
        machine.this_machine()
