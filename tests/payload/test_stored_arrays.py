"""Files of arrays: what is damaged, what does not fit, and what does not lie beside the payload."""

from __future__ import annotations

import io
import os
import random
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tcpx
from tcpx.payload.diagnostics import ArgumentError, ParseError, VerifyError

TEXT = """constants "{name}"
func @f() -> tensor<2xf32> {{
  %w = tcp.const {{constant = "w"}} : tensor<{shape}xf32>
  tcp.return(%w)
}}
"""
W = np.array([1.5, -2], np.float32)


def payload(folder: Path, name: str = "w.npz", shape: str = "2") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "p.tcp").write_text(TEXT.format(name=name, shape=shape).replace("-> tensor<2x", f"-> tensor<{shape}x"))
    return folder / "p.tcp"


def npy(header: str, data: bytes = b"", version: tuple[int, int] = (1, 0)) -> bytes:
    """A file of this header."""
    text = header.encode() + b"\n"
    return b"\x93NUMPY" + bytes(version) + len(text).to_bytes(2 if version == (1, 0) else 4, "little") + text + data


def described(shape: str, dtype: str = "<f4") -> str:
    return f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}}}"


def archive(member: bytes, name: str = "w.npy", kind: int = zipfile.ZIP_STORED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", kind) as file:
        file.writestr(name, member)
    return made.getvalue()


def intact() -> bytes:
    made = io.BytesIO()
    np.savez(made, allow_pickle=False, w=W)
    return made.getvalue()


def plain() -> bytes:
    made = io.BytesIO()
    np.save(made, W)
    return made.getvalue()


DAMAGED: dict[str, Callable[[], bytes]] = {
    "empty": lambda: b"",
    "text": lambda: b"no archive at all\n" * 100,
    "one array under another name": plain,
    "cut in half": lambda: intact()[: len(intact()) // 2],
    "cut at its end": lambda: intact()[:-1],
    "another byte in the data": lambda: intact().replace(W.tobytes(), W.tobytes()[::-1]),
    "an empty member": lambda: archive(b""),
    "a member of text": lambda: archive(b"w = 1"),
    "a cut header": lambda: archive(npy(described("(2,)"))[:40]),
    "a header of brackets": lambda: archive(npy("(" * 9000)),
    "a header that is too long": lambda: archive(npy(" " * 60000)),
    "a header without a shape": lambda: archive(npy("{'descr': '<f4', 'fortran_order': False}")),
    "a header of names": lambda: archive(npy("{'descr': no_such_name()}")),
    "less data than the header says": lambda: archive(npy(described("(2,)"), b"1234567")),
    "version 9": lambda: archive(npy(described("(2,)"), W.tobytes(), (9, 9))),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_a_damaged_file_is_an_error_at_the_line_that_names_it(case: str, tmp_path: Path) -> None:
    path = payload(tmp_path)
    (tmp_path / "w.npz").write_bytes(DAMAGED[case]())
    with pytest.raises(ParseError) as caught:
        tcpx.load(path)
    found = caught.value.diagnostic
    assert (found.message, str(found.payload)) == ('cannot read the constants "w.npz"', f"{path}:1:1")


def test_files_with_bytes_that_differ(tmp_path: Path) -> None:
    """300 files, each with one to four bytes replaced or cut: read as they were, or a diagnostic."""
    path, bits, refused = payload(tmp_path), random.Random(20), 0
    for _ in range(300):
        held = bytearray(intact() if bits.random() < 0.5 else archive(plain(), kind=zipfile.ZIP_DEFLATED))
        for _ in range(bits.randint(1, 4)):
            held[bits.randrange(len(held))] = bits.randrange(256)
        if bits.random() < 0.2:
            del held[bits.randrange(len(held)) :]
        (tmp_path / "w.npz").write_bytes(held)
        try:
            np.testing.assert_array_equal(np.asarray(tcpx.evaluate(tcpx.load(path))), W)
        except (ParseError, VerifyError):
            refused += 1
    assert refused > 100


MISFITS: dict[str, tuple[str, str]] = {
    "another shape": (described("(3,)"), "float32 of shape (3,)"),
    "more than there is memory": (described("(10000000, 10000000)"), "float32 of shape (10000000, 10000000)"),
    "a negative extent": (described("(-2,)"), "float32 of shape (-2,)"),
    "Python objects": (described("(2,)", "|O"), "object of shape (2,)"),
    "another byte order": (described("(2,)", ">f4"), ">f4 of shape (2,)"),
}


@pytest.mark.parametrize("case", MISFITS)
def test_the_header_is_compared_before_the_data_is_read(case: str, tmp_path: Path) -> None:
    header, found = MISFITS[case]
    path = payload(tmp_path)
    (tmp_path / "w.npz").write_bytes(archive(npy(header)))
    with pytest.raises(VerifyError) as caught:
        tcpx.load(path)
    assert caught.value.diagnostic.message == '%w (tcp.const): the constant "w" does not fit its type'
    assert caught.value.diagnostic.found == found


def test_more_data_than_there_is(tmp_path: Path) -> None:
    """The type of the payload is as large as the header: 400 TB."""
    path = payload(tmp_path, shape="100000000000000")
    (tmp_path / "w.npz").write_bytes(archive(npy(described("(100000000000000,)"))))
    with pytest.raises(
        ParseError, match=r"0 bytes for float32 of shape \(100000000000000,\), which takes 400000000000000"
    ):
        tcpx.load(path)


def test_data_that_nothing_refers_to_is_not_read(tmp_path: Path) -> None:
    path = payload(tmp_path)
    with zipfile.ZipFile(tmp_path / "w.npz", "w") as file:
        file.writestr("w.npy", plain())
        file.writestr("large.npy", npy(described("(100000000000000,)")))
    assert list(tcpx.load(path).constants) == ["w"]


def test_a_name_that_is_not_there_is_told_those_that_are(tmp_path: Path) -> None:
    path = payload(tmp_path)
    (tmp_path / "w.npz").write_bytes(archive(plain(), "other.npy"))
    with pytest.raises(VerifyError, match='there is no constant "w"') as caught:
        tcpx.load(path)
    assert caught.value.diagnostic.found == "stored: other"


def test_files_in_a_folder_below(tmp_path: Path) -> None:
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "w.npz").write_bytes(intact())
    for name in ("weights/w.npz", "weights/../weights/w.npz", "./weights/w.npz"):
        np.testing.assert_array_equal(np.asarray(tcpx.evaluate(tcpx.load(payload(tmp_path, name)))), W)
    (tmp_path / "link.npz").symlink_to("weights/w.npz")
    tcpx.load(payload(tmp_path, "link.npz"))


@pytest.mark.parametrize("name", ["../w.npz", "{outside}", "link.npz", "folder/w.npz", "{inside}", "circle.npz"])
def test_files_elsewhere_are_not_read(name: str, tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    for folder in (tmp_path, inside):
        (folder / "w.npz").write_bytes(intact())
    (inside / "link.npz").symlink_to("../w.npz")
    (inside / "folder").symlink_to("..")
    (inside / "circle.npz").symlink_to("circle.npz")
    path = payload(inside, name.format(outside=tmp_path / "w.npz", inside=inside / "w.npz"))
    with pytest.raises(ParseError, match="cannot read the constants"):
        tcpx.load(path)


@pytest.mark.parametrize("kind", ["pipe", "folder", "device"])
def test_what_is_no_file_is_not_waited_for(kind: str, tmp_path: Path) -> None:
    path = payload(tmp_path)
    special = tmp_path / "w.npz"
    if kind == "pipe":
        os.mkfifo(special)
    elif kind == "folder":
        special.mkdir()
    else:
        special.symlink_to("/dev/zero")
    with pytest.raises(ParseError, match="cannot read the constants"):
        tcpx.load(path)


def test_a_pipe_for_a_payload_a_schedule_or_an_array(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(ParseError, match=r"(?s)cannot read .*found: Not a regular file"):
        tcpx.load(pipe)
    with pytest.raises(tcpx.ScheduleError, match=r"(?s)cannot read .*found: Not a regular file"):
        tcpx.load_schedule(pipe)
    with pytest.raises(ArgumentError, match=r"(?s)cannot read the array .*found: Not a regular file"):
        tcpx.read_array(pipe)


def test_an_array_of_an_input(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, W)
    np.testing.assert_array_equal(tcpx.read_array(path), W)
    np.save(path, np.asfortranarray(np.arange(6).reshape(2, 3)))
    np.testing.assert_array_equal(tcpx.read_array(path), np.arange(6).reshape(2, 3))
    for content in (b"", npy(described("(100000000000000,)")), npy("(" * 9000), plain()[:-1], intact()):
        path.write_bytes(content)
        with pytest.raises(ArgumentError, match="cannot read the array"):
            tcpx.read_array(path)
