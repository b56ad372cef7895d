"""Tuned records of functions: one serves every payload that calls the function."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tcpx
from tcpx.cli.command import execute
from tcpx.tune.duel import QUICK
from tcpx.tuned import TunedRecord, read_records, records_of, write_record
from tests.tune.conftest import PAYLOAD

TARGET = "generic"
SCHEDULE = """language 1
sequence layer(mm: op<contract>) {
  knob mr: int = 4 in 1..6
  fuse(epilogue(mm), into: tile(mm, [m: mr]))
}
schedule s(root: func) {
  for mm in match some contract in root { outline([mm, epilogue(mm)]) }
  CLONE
  for mm in match some contract in root { layer(mm) }
}
""".replace("fuse(epilogue(mm), into: tile(mm, [m: mr]))", "let i = tile(mm, [m: mr])\n  fuse(epilogue(mm), into: i)")
PLAIN = tcpx.parse_schedule(SCHEDULE.replace("CLONE", ""))
CLONED = tcpx.parse_schedule(SCHEDULE.replace("CLONE", "clone(outermost(match some call in root))"))
ROWS = "tensor<[M]x16xf32>"


def net(
    layers: int,
    name: str = "net",
    ops: tuple[str, ...] = ("max",),
    stem: str = "r",
    symbols: str = "M",
    constant: bool = False,
    seed: int = 0,
) -> tcpx.Module:
    """Layers of a product and an operation, which take turns."""
    weights = "" if constant else f", %w: tensor<{layers}x16x16xf32>"
    lines = [f"func @{name}(%x: {ROWS}{weights}) -> {ROWS} symbols [{symbols}] {{"]
    last = "x"
    for k in range(layers):
        lines += [
            f'  %w{k} = tcp.const {{constant = "w{k}"}} : tensor<16x16xf32>'
            if constant
            else f"  %w{k} = gml_st.materialize(%w) tile [{k}, 0, 0] [1, 16, 16] drop [0] : tensor<16x16xf32>",
            f"  %p{stem}{k} = tcp.matmul(%{last}, %w{k}) : {ROWS}",
            f"  %{stem}{k} = tcp.{ops[k % len(ops)]}(%p{stem}{k}, %p{stem}{k}) : {ROWS}",
        ]
        last = f"{stem}{k}"
    draw = np.random.default_rng(seed)
    constants = {f"w{k}": draw.standard_normal((16, 16), np.float32) for k in range(layers if constant else 0)}
    return tcpx.parse("\n".join([*lines, f"  tcp.return(%{last})", "}", ""]), constants=constants)


def records(module: tcpx.Module, mr: int, schedule: tcpx.Schedule = PLAIN) -> tuple[TunedRecord, ...]:
    return records_of(module, schedule, tcpx.load_target(TARGET), 1, {"*/layer.mr": mr}, {"study": "abc"})[1:]


def key(module: tcpx.Module) -> str:
    (found,) = records(module, 2)
    return found.setting.payload


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with one record, of the layer of a net of three."""
    made = tmp_path / "s.tuned.yaml"
    for record in records(net(3), 5):
        write_record(made, record)
    return made


def steps(kernel: tcpx.Kernel, name: str) -> list[int]:
    """By how many rows the loops of the C of a function go on."""
    text = kernel.sources[f"{kernel.signature.name}_{name}.c"]
    return [int(part.partition(")")[0]) for part in text.split("+= ")[1:] if part[0].isdigit()]


def test_a_function_of_one_payload_is_tuned_in_another(path: Path) -> None:
    """Other names, more layers, other operations round them."""
    other = net(5, "other", stem="z")
    text = other.text().replace("tcp.return(%z4)", f"%e = tcp.tanh(%z4) : {ROWS}\n  tcp.return(%e)")
    other = tcpx.parse(text)
    kernel = tcpx.compile(other, PLAIN, target=TARGET, tuned=path)
    assert steps(kernel, "z0") == [5]
    assert steps(tcpx.compile(other, PLAIN, target=TARGET), "z0") == [4]
    (record,) = read_records(path)
    assert (record.function, record.params) == ("net.r0", {"s/%1/layer.mr": 5})
    assert isinstance(kernel.tuned, TunedRecord)
    assert kernel.tuned.params == {"@other.z0:s/pz0/layer.mr": 5}
    assert f"; @other.z0 has the record of @net.r0 ({record.setting.payload})" in str(kernel.report())
    for m in (0, 1, 5, 13):
        arrays = tcpx.random_inputs(other, m, sizes={"M": m})
        found, wanted = (np.asarray(held, np.float64) for held in (kernel(*arrays), tcpx.evaluate(other, *arrays)))
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("given", [{"mr": 3}, {"*/layer.mr": 3}, {"@*:*.mr": 3}, {"@net.r0:s/pr0/layer.mr!": 3}])
def test_params_go_before_records(path: Path, given: dict[str, int]) -> None:
    assert steps(tcpx.compile(net(4), PLAIN, target=TARGET, tuned=path, params=given), "r0") == [3]


@pytest.mark.parametrize(
    ("module", "schedule", "target", "threads", "note"),
    [
        (
            net(3),
            SCHEDULE.replace("1..6", "1..7"),
            TARGET,
            1,
            "what @net.r0 reached of the schedule and its imports has",
        ),
        (net(3), SCHEDULE, "x86_avx2", 1, "target: the record is for generic, this is x86_avx2"),
        (net(3), SCHEDULE, TARGET, 2, "threads: the record is for 1, this is 2"),
        (
            net(3, ops=("min",)),
            SCHEDULE,
            TARGET,
            1,
            "no function that is called has the structure and the constant arguments of @net.r0",
        ),
    ],
)
def test_what_a_record_is_not_for(
    module: tcpx.Module, schedule: str, target: str, threads: int, note: str, path: Path
) -> None:
    program = tcpx.parse_schedule(schedule.replace("CLONE", ""))
    with pytest.raises(tcpx.ArgumentError) as caught:
        tcpx.compile(module, program, target=target, threads=threads, tuned=path)
    found = caught.value.diagnostic
    (record,) = read_records(path)
    assert found.message == f"{path} has no record for this compilation"
    assert found.found == f"nearest: {record}"
    assert [text for text in found.notes if text.startswith(note)]
    assert ("no function" in " ".join(found.notes)) == (module.text() != net(3).text())


def test_only_what_ran_in_a_function_makes_its_record_stale(tmp_path: Path) -> None:
    """Not the sequence for another operation, in whose payload the record is used."""
    rows = "sequence rows(e: op) { tile(e, [d0: 7]) }\n"
    use = "  for e in match any exp in root { rows(e) }\n"
    text = SCHEDULE.replace("schedule s", f"{rows}schedule s").replace("  CLONE\n", use)
    path = tmp_path / "s.tuned.yaml"
    for record in records(net(3), 5, tcpx.parse_schedule(text)):
        write_record(path, record)
    payload = net(2).text().replace("tcp.return(%r1)", f"%e = tcp.exp(%r1) : {ROWS}\n  tcp.return(%e)")
    edited = tcpx.parse_schedule(text.replace("[d0: 7]", "[d0: 8]"))
    kernel = tcpx.compile(tcpx.parse(payload), edited, target=TARGET, tuned=path)
    assert steps(kernel, "r0") == [5]
    with pytest.raises(tcpx.ArgumentError, match="no record for this compilation"):
        tcpx.tuned_record(path, net(3), tcpx.parse_schedule(text.replace("1..6", "1..7")), target=TARGET)


def test_two_functions_have_records_of_their_own(path: Path) -> None:
    """Their products are of one structure: within a function such share a value, among functions they do not."""
    for record in records(net(2, "second", ops=("sub",)), 2):
        write_record(path, record)
    kernel = tcpx.compile(net(5, "both", ops=("sub", "max")), PLAIN, target=TARGET, tuned=path)
    assert (steps(kernel, "r0"), steps(kernel, "r1")) == ([2], [5])
    assert isinstance(kernel.tuned, TunedRecord)
    assert {name: of.partition(" ")[0] for name, of in kernel.tuned.parts.items()} == {
        "both.r0": "@second.r0",
        "both.r1": "@net.r0",
    }


def test_what_has_no_record_keeps_its_defaults(path: Path) -> None:
    kernel = tcpx.compile(net(4, ops=("max", "sub")), PLAIN, target=TARGET, tuned=path)
    assert (steps(kernel, "r0"), steps(kernel, "r1")) == ([5], [4])


def test_a_clone_has_the_record_of_its_original(path: Path) -> None:
    for record in records(net(3), 5, CLONED):
        write_record(path, record)
    kernel = tcpx.compile(net(4), CLONED, target=TARGET, tuned=path)
    assert (steps(kernel, "r0"), steps(kernel, "r0_1")) == ([5], [5])
    assert kernel.report().clones == 1


def test_what_a_key_is_made_of() -> None:
    plain = key(net(2))
    assert key(net(5, "other", stem="z")) == plain
    assert key(net(2, symbols="M: 0..64")) != plain
    assert key(net(2, symbols="M: 0.. multiple_of 8")) != plain
    assert key(net(2, ops=("min",))) != plain
    assert key(net(2, constant=True)) != plain
    assert key(net(2, constant=True)) == key(net(3, constant=True, seed=1))


def test_ranges_of_indices_are_a_part_of_the_structure() -> None:
    text = "func @f(%x: tensor<4xsi32> in 0 to 8) -> tensor<4xsi32> {\n  tcp.return(%x)\n}"
    assert tcpx.fingerprint(tcpx.parse(text)) != tcpx.fingerprint(tcpx.parse(text.replace("to 8", "to 9")))


def test_a_param_of_one_function() -> None:
    module = net(4, ops=("max", "sub"))
    kernel = tcpx.compile(module, PLAIN, target=TARGET, params={"@net.r1:*.mr": 2, "mr": 3})
    assert (steps(kernel, "r0"), steps(kernel, "r1")) == ([3], [2])
    with pytest.raises(tcpx.ScheduleError) as caught:
        tcpx.compile(module, PLAIN, target=TARGET, params={"@net.r2:*.mr": 2})
    assert caught.value.diagnostic.message == "the parameter `@net.r2:*.mr` (= 2) matches no knob of the schedule"
    assert caught.value.diagnostic.found == "pr0/layer.mr, pr1/layer.mr"


def test_a_study_records_the_functions(tmp_path: Path) -> None:
    study = tcpx.tune(
        net(2), PLAIN, trials=2, sizes=[{"M": 8}], sampler="grid", effort=QUICK, target=TARGET, processes=0
    )
    assert [*study.params] == ["s/pr0/layer.mr"]
    path = tmp_path / "s.tuned.yaml"
    made = study.record(path)
    first, second = read_records(path)
    assert (first, second.function, second.params) == (
        made,
        "net.r0",
        {"s/%1/layer.mr": study.params["s/pr0/layer.mr"]},
    )
    kernel = tcpx.compile(net(3), PLAIN, target=TARGET, tuned=path)
    mr = study.params["s/pr0/layer.mr"]
    assert steps(kernel, "r0") == ([mr] if mr != 1 else [])  # a step of 1 is `++`


def test_the_default_schedule_has_knobs() -> None:
    """It begins with a step after which other operations might match."""
    found = tcpx.search_space(tcpx.parse(PAYLOAD), target=TARGET)
    assert {variable.path.rpartition(".")[2] for variable in found.variables} >= {"mr", "nv"}


def test_the_shell_says_which_record_was_used(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    payload, schedule = path.with_name("net.tcp"), path.with_name("s.tcps")
    payload.write_text(net(5).text())
    schedule.write_text(SCHEDULE.replace("CLONE", ""))
    given = [str(payload), "-s", str(schedule), "--target", TARGET, "--tuned", str(path)]
    assert execute(["explain", *given]) == 0
    shown = capsys.readouterr().out
    assert "; @net.r0 has the record of @net.r0 (" in shown
    assert "\n\nknobs:\n  mr = 5 (overridden)\n\n" in shown
    assert execute(["freeze", *given, "-o", str(path.with_name("frozen.tcps"))]) == 0
    assert "let mr = 5" in path.with_name("frozen.tcps").read_text()
    assert "// functions: @net.r0 has the record of @net.r0 (" in path.with_name("frozen.tcps").read_text()
