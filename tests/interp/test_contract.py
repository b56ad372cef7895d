"""`expects`: a schedule that is stale is refused, in the words of the payload."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tcpx
from tcpx.payload.diagnostics import Diagnostic, ScheduleError
from tcpx.payload.ir import Module
from tests.transform.payloads import RELU

SCHEDULE = 'language 1\nschedule main(root: func) expects "{}" {{ emit_remark(root, "ran") }}\n'


def run(folder: Path, expects: str, module: Module) -> None:
    path = folder / "s.tcps"
    path.write_text(SCHEDULE.format(expects))
    tcpx.apply_schedule(module, tcpx.load_schedule(path), target="generic")


def refusal(folder: Path, expects: str, module: Module) -> Diagnostic:
    with pytest.raises(ScheduleError) as caught:
        run(folder, expects, module)
    return caught.value.diagnostic


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "relu.tcp").write_text(RELU)
    return tmp_path


def test_names_do_not_count(folder: Path) -> None:
    renamed = RELU.replace("%mm", "%product").replace("[M]", "[Rows]").replace("M: 0..", "Rows: 0..")
    run(folder, "relu.tcp", tcpx.parse(renamed.replace("@relu", "@other")))
    assert tcpx.fingerprint(tcpx.parse(renamed)) == tcpx.fingerprint(tcpx.parse(RELU))


def test_where_the_rows_lie_does_not_count(folder: Path) -> None:
    strided = tcpx.parse(RELU.replace("[K]xf32>,", "[K]xf32> strided,", 1))
    assert "strided" in strided.text()
    run(folder, "relu.tcp", strided)


@pytest.mark.parametrize(
    ("old", "new", "difference"),
    [
        ("[N]xf32", "48xf32", "argument %w: dim 1 is 48, not [N]"),
        ("tcp.max(%s, %zero)", "tcp.max(%zero, %s)", "%r (tcp.max): `lhs` is %zero, not %s"),
        ("tcp.add(", "tcp.sub(", "%s (tcp.sub) is new"),
        ("value = 0.0", "value = 1.0", "%zero (tcp.fill): `value` is 1.0, not 0.0"),
        ("M: 0..", "M: 1..64", "[M] is in 1..64, not 0.."),
    ],
)
def test_a_stale_schedule_is_refused(folder: Path, old: str, new: str, difference: str) -> None:
    other = tcpx.parse(RELU.replace(old, new).replace(", N: 0..", "" if "48" in new else ", N: 0.."), "new.tcp")
    found = refusal(folder, "relu.tcp", other)
    assert found.message == "the schedule `main` is for another payload"
    note = next(n for n in found.notes if n.startswith(difference))
    assert "new.tcp" in note
    assert found.schedule is not None
    assert found.payload is not None
    assert tcpx.fingerprint(other) in (found.found or "")


def test_both_places_are_said(folder: Path) -> None:
    found = refusal(folder, "relu.tcp", tcpx.parse(RELU.replace("value = 0.0", "value = 1.0"), "new.tcp"))
    assert found.notes == (
        f"%zero (tcp.fill): `value` is 1.0, not 0.0 (expected at {folder / 'relu.tcp'}:5:3, found at new.tcp:5:3)",
    )


def test_inline_signature(folder: Path) -> None:
    module = tcpx.parse(RELU)
    run(folder, "(x: tensor<[A]x[B]xf32>, w: tensor<[B]x[C]xf32>, tensor<[C]xf32>) -> tensor<[A]x[C]xf32>", module)
    found = refusal(folder, "(tensor<[A]x[B]xf32>, tensor<[B]x64xf32>) -> tensor<[A]x64xf32>", module)
    assert found.notes[0].startswith("@relu has 3 arguments, not 2")
    assert found.notes[1].startswith("argument %w: dim 1 is [N], not 64")
    assert found.notes[2].startswith("result %r: dim 1 is [N], not 64")


def test_what_cannot_be_read(folder: Path) -> None:
    missing = refusal(folder, "there_is_none.tcp", tcpx.parse(RELU))
    assert missing.message == 'the payload "there_is_none.tcp" that the schedule expects cannot be read'
    wrong = refusal(folder, "(tensr<4>) -> f32", tcpx.parse(RELU))
    assert wrong.message == "the signature that the schedule expects cannot be read"
    assert missing.found == "No such file or directory"


@pytest.mark.parametrize("signature", ["(tensor<4xf32>", "(tensor<4xf32>)", "(tensor<4xf32>) ->", "(f32) -> (f32"])
def test_half_a_signature_is_none(folder: Path, signature: str) -> None:
    found = refusal(folder, signature, tcpx.parse(RELU))
    assert found.message == "the signature that the schedule expects cannot be read"


def test_a_payload_that_is_none_has_its_place_in_the_schedule(folder: Path) -> None:
    (folder / "other.tcp").write_text("language 1\n")
    found = refusal(folder, "other.tcp", tcpx.parse(RELU))
    assert found.message == 'the payload "other.tcp" that the schedule expects cannot be read'
    assert found.found == "the text does not follow the grammar"
    assert found.schedule is not None
    assert found.payload is not None


def test_expecting_nothing_is_no_contract(folder: Path) -> None:
    with pytest.raises(tcpx.ParseError) as caught:
        run(folder, "", tcpx.parse(RELU))
    assert caught.value.diagnostic.message == "`expects` says no payload"


@pytest.mark.parametrize("expects", ["{folder}/relu.tcp", "secret", "link.tcp", "circle.tcp"])
def test_what_is_no_payload_is_not_quoted(folder: Path, expects: str) -> None:
    (folder / "secret").write_text("root:x:0:0")
    (folder / "link.tcp").symlink_to("secret")
    (folder / "circle.tcp").symlink_to("circle.tcp")
    found = refusal(folder, expects.format(folder=folder), tcpx.load(folder / "relu.tcp"))
    assert found.message.endswith("that the schedule expects cannot be read")
    assert "root:x" not in found.render()


def test_a_payload_with_constants(folder: Path) -> None:
    np.savez(folder / "w.npz", allow_pickle=False, w=np.ones(4, np.float32))
    (folder / "c.tcp").write_text(
        'constants "w.npz"\nfunc @f() -> tensor<4xf32> {\n  %w = tcp.const {constant = "w"} : tensor<4xf32>\n'
        "  tcp.return(%w)\n}\n"
    )
    run(folder, "c.tcp", tcpx.load(folder / "c.tcp"))
