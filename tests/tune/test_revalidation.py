"""Records measured again: those that still win are written anew, others go, those of something else stay."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import tcpx
from tcpx.cli.command import execute
from tcpx.tune.revalidation import Revalidation, revalidate
from tcpx.tune.rivals import Rivals
from tcpx.tune.verdicts import Comparison
from tcpx.tuned import TunedRecord, read_records, records_of, write_record
from tests.tune.test_records_of_functions import net

TARGET = "generic"
SCHEDULE = """language 1
sequence layer(mm: op<contract>) {
  knob mr: int = 4 in 1..6
  tile(mm, [m: mr])
}
schedule s(root: func) {
  for mm in match some contract in root { outline([mm, epilogue(mm)]) }
  for mm in match some contract in root { layer(mm) }
}
"""
PLAIN = (
    "language 1\nschedule p(root: func) {\n  knob mr: int = 4 in 1..6\n  tile(match one contract in root, [m: mr])\n}\n"
)
ONE, TWO = net(1), net(2, ops=("max", "sub"))


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, Mapping[str, Any], Mapping[str, Any]]]:
    """What was compared: the operations of the payload, params, those beside them. `mr` of 5 is faster than the
    defaults, of 3 not known to be, of 2 wrong."""
    seen: list[tuple[int, Mapping[str, Any], Mapping[str, Any]]] = []
    found: dict[object, Comparison | str] = {
        5: Comparison(0.5, 0.4, 0.6, 3, 1e-6),
        3: Comparison(0.98, 0.95, 1.01, 3, 1e-6),
        2: "wrong result: 1 of 2 elements",
    }

    def compared(self: Rivals, params: Mapping[str, Any], others: Mapping[str, Any]) -> Comparison | str:
        seen.append((len(self.problem().module.main.body.ops), params, others))
        (value,) = {number for name, number in params.items() if name.endswith(".mr")}
        return found[value]

    monkeypatch.setattr(Rivals, "compared", compared)
    return seen


def records(module: tcpx.Module, text: str, mr: int, **changes: Any) -> tuple[TunedRecord, ...]:
    schedule, target = tcpx.parse_schedule(text), tcpx.load_target(changes.get("target", TARGET))
    return records_of(module, schedule, target, 1, {"*.mr": mr}, {"study": "abc"})


def again(path: Path, module: tcpx.Module = ONE, text: str = PLAIN, **options: Any) -> Revalidation:
    schedule = tcpx.parse_schedule(text)
    return revalidate(module, schedule, record=path, sizes=[{"M": 8}], target=TARGET, **options)


@pytest.mark.usefixtures("times")
def test_a_winner_of_an_edited_schedule_is_renewed(tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    write_record(path, records(ONE, PLAIN, 5)[0])
    edited = PLAIN.replace("1..6", "1..8")
    with pytest.raises(tcpx.ArgumentError, match="no record for this compilation"):
        tcpx.tuned_record(path, ONE, tcpx.parse_schedule(edited), target=TARGET)
    found = again(path, text=edited)
    assert found.text() == (
        f"kept: the payload, 0.500 (0.400..0.600) of the defaults' time\n{path}: 1 of 1 record kept"
    )
    (record,) = read_records(path)
    assert record.params == {"*.mr": 5}
    assert record.provenance["study"] == "abc"
    assert record.provenance["time"] == "0.500 (0.400..0.600) of that of the defaults"
    assert tcpx.tuned_record(path, ONE, tcpx.parse_schedule(edited), target=TARGET).params == {"*.mr": 5}


@pytest.mark.parametrize(
    ("mr", "edited", "reason"),
    [
        (3, PLAIN, ", 0.980 (0.950..1.010) of the defaults' time; it is not known to be faster"),
        (2, PLAIN, "; wrong result: 1 of 2 elements"),
        (5, PLAIN.replace("1..6", "1..4"), "; its values cannot be set any more: "),
        (5, PLAIN.replace("mr", "rows"), "; its values cannot be set any more: "),
    ],
)
@pytest.mark.usefixtures("times")
def test_what_does_not_win_is_dropped(tmp_path: Path, mr: int, edited: str, reason: str) -> None:
    path = tmp_path / "r.yaml"
    write_record(path, records(ONE, PLAIN, mr)[0])
    found = again(path, text=edited)
    assert found.text().startswith(f"dropped: the payload{reason}")
    assert found.text().endswith(f"{path}: 0 of 1 record kept")
    assert read_records(path) == ()
    assert repr(found) == f"<Revalidation of {path}: 0 of 1 record kept>"


def test_records_of_something_else_stay(tmp_path: Path, times: list[object]) -> None:
    path = tmp_path / "r.yaml"
    others = [records(TWO, SCHEDULE, 3)[0], records(ONE, PLAIN, 3, target="x86_avx2")[0]]
    for record in others:
        write_record(path, record)
    found = again(path)
    assert [held.reason for held in found.records] == [
        "it is of another payload",
        "it is for another target, processor or number of threads",
    ]
    assert found.text().startswith("left as it is: the payload; it is of another payload\n")
    assert (read_records(path), times) == (tuple(others), [])


def test_functions_are_measured_alone(
    tmp_path: Path, times: list[tuple[int, Mapping[str, Any], Mapping[str, Any]]]
) -> None:
    path = tmp_path / "r.yaml"
    for number, record in enumerate(records(TWO, SCHEDULE, 5)[1:]):
        write_record(path, record if number == 0 else records(TWO, SCHEDULE, 3)[1:][1])
    assert [held.function for held in read_records(path)] == ["net.r0", "net.r1"]
    edited = SCHEDULE.replace("1..6", "1..8")
    found = again(path, TWO, edited)
    assert [held.line().partition(",")[0] for held in found.records] == ["kept: @net.r0", "dropped: @net.r1"]
    assert [(list(params.values()), others) for _, params, others in times] == [([5], {}), ([3], {})]
    assert all(size < len(TWO.main.body.ops) for size, _, _ in times)
    (record,) = read_records(path)
    assert (record.function, record.params) == ("net.r0", {"s/%1/layer.mr": 5})
    assert tcpx.tuned_record(path, TWO, tcpx.parse_schedule(edited), target=TARGET).parts.keys() == {"net.r0"}


@pytest.mark.usefixtures("times")
def test_in_the_shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    payload, schedule, path = (str(tmp_path / name) for name in ("net.tcp", "p.tcps", "p.tuned.yaml"))
    Path(payload).write_text(ONE.text())
    Path(schedule).write_text(PLAIN)
    write_record(path, records(ONE, PLAIN, 5)[0])
    words = ["tune", payload, "-s", schedule, "--size", "M=8", "--target", TARGET, "--revalidate", path]
    assert execute(words) == 0
    assert capsys.readouterr().out.endswith(f"{path}: 1 of 1 record kept\n")
    assert execute([*words, "--final", "0"]) == 2
    assert "--revalidate is about the comparison that --final 0 leaves out" in capsys.readouterr().err
    assert execute([*words, "--record"]) == 2
    assert "--revalidate searches nothing: no --record beside it" in capsys.readouterr().err
    assert execute([*words[:-1], str(tmp_path / "absent.yaml")]) == 1
    assert "absent.yaml" in capsys.readouterr().err
