"""tcpx run, again: nothing is read that has not changed, and whatever has changed is."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tcpx import reruns
from tcpx.cli import main
from tcpx.store import store
from tests.kernel_cache import kernel_cache

Command = Callable[..., SimpleNamespace]
PAYLOAD = """\
constants "w.npz"
func @f(%x: tensor<[M]x8xf32>) -> tensor<[M]x4xf32> symbols [M: 0..16] {
  %w = tcp.const {constant = "w"} : tensor<8x4xf32>
  %o = tcp.matmul(%x, %w) : tensor<[M]x4xf32>
  tcp.return(%o)
}
"""
SCHEDULE = 'language 1\nimport "rows.tcps" as r\nschedule s(root: func) { r.rows(match one matmul in root) }\n'
ROWS = "language 1\nsequence rows(mm: op) {\n  knob height: int = 2 in [2, 4]\n  tile(mm, [m: height])\n}\n"


class Case:
    """A payload with weights in a file and a schedule that imports another."""

    def __init__(self, folder: Path, command: Command) -> None:
        self.folder, self._command = folder, command
        self.x = np.arange(24, dtype=np.float32).reshape(3, 8)
        np.save(folder / "x.npy", self.x)
        self.weigh(1.0)
        for name, text in (("f.tcp", PAYLOAD), ("s.tcps", SCHEDULE), ("rows.tcps", ROWS)):
            (folder / name).write_text(text, encoding="utf-8")

    def weigh(self, scale: float, name: str = "w.npz") -> None:
        np.savez(self.folder / name, w=np.full((8, 4), scale, np.float32))

    def is_read(self, *options: str, scale: float = 1.0, x: str = "x.npy", said: str = "") -> bool:
        """Run it and check what comes out: whether the payload was read for it."""
        words = ("run", str(self.folder / "f.tcp"), "-s", str(self.folder / "s.tcps"), "--target", "generic")
        out = self.folder / "out.npy"
        done = self._command(*words, "--input", f"x={self.folder / x}", "-o", str(out), *options)
        assert (done.status, done.err) == (0, said)
        np.testing.assert_array_equal(np.load(out), np.load(self.folder / x) @ np.full((8, 4), scale, np.float32))
        return "(model " in done.out


@pytest.fixture
def case(tmp_path: Path, tcpx_command: Command, monkeypatch: pytest.MonkeyPatch) -> Generator[Case]:
    """In a cache of its own, on a file system whose clock ticks as often as files change here."""
    monkeypatch.setenv("TCPX_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(reruns, "TICK", 0)
    with kernel_cache():
        yield Case(tmp_path, tcpx_command)


def replaced(path: Path, content: bytes) -> None:
    """Another file of the same size and time in the place of this one."""
    status = path.stat()
    other = path.with_name("other")
    other.write_bytes(content)
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    other.replace(path)


def rewritten(path: Path, content: bytes) -> None:
    """The same file with other content, of the same size and the same time of its change."""
    status = path.stat()
    with path.open("r+b") as file:
        file.write(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_what_has_not_changed_is_not_read(case: Case) -> None:
    assert [case.is_read() for _ in range(3)] == [True, False, False]
    np.save(case.folder / "y.npy", case.x[:2] + 1)
    assert not case.is_read(x="y.npy"), "other inputs, of another size"
    assert not case.is_read("--random", "3")
    for options in (["--param", "height=4"], ["--threads", "2"], ["--strided"], ["--target", "x86_avx2"]):
        assert [case.is_read(*options) for _ in range(2)] == [True, False], options
    assert case.is_read("--no-cache")
    assert case.is_read("--check")


@pytest.mark.parametrize("change", [replaced, rewritten])
def test_weights_of_the_same_size_and_time(case: Case, change: Callable[[Path, bytes], None]) -> None:
    case.weigh(2.0, "two.npz")
    case.is_read()
    change(case.folder / "w.npz", (case.folder / "two.npz").read_bytes())
    assert [case.is_read(scale=2.0) for _ in range(2)] == [True, False]


def test_links(case: Case) -> None:
    for scale in (1.0, 2.0):
        case.weigh(scale, f"{scale}.npz")
    weights = case.folder / "w.npz"
    for scale in (1.0, 2.0, 1.0):
        weights.unlink()
        weights.symlink_to(f"{scale}.npz")
        assert [case.is_read(scale=scale) for _ in range(2)] == [True, False]
    weights.unlink()
    (case.folder / "1.0.npz").rename(weights)
    assert case.is_read()


def test_texts(case: Case) -> None:
    case.is_read()
    for name in ("f.tcp", "s.tcps", "rows.tcps"):
        path = case.folder / name
        path.write_text(path.read_text(encoding="utf-8") + "// more\n", encoding="utf-8")
        assert [case.is_read() for _ in range(2)] == [True, False], name
        os.utime(path)
        assert [case.is_read() for _ in range(2)] == [True, False], name


def test_errors_are_those_of_a_first_run(case: Case, tcpx_command: Command) -> None:
    """An import that is there twice now, sizes out of range, an argument that there is not."""
    case.is_read()
    words = ("run", str(case.folder / "f.tcp"), "--target", "generic")
    np.save(case.folder / "large.npy", np.zeros((65, 8), np.float32))
    wrong = (
        ["--input", f"x={case.folder / 'large.npy'}"],
        ["--input", f"x={case.folder / 'x.npy'}", "--input", f"y={case.folder / 'x.npy'}"],
        ["--random", "0", "--size", "N=3"],
        ["--random", "0"],
        [],
    )
    assert tcpx_command(*words, "--random", "0", "--size", "M=3").status == 0
    for options in wrong:
        first, again = tcpx_command(*words, *options, "--no-cache"), tcpx_command(*words, *options)
        assert first.status == again.status == 1
        assert first.err == again.err
    missing = case.folder / "rows.tcps"
    missing.unlink()
    assert tcpx_command(*words, "-s", str(case.folder / "s.tcps"), "--random", "0", "--size", "M=3").status == 1


def test_a_file_that_comes_to_be_where_an_import_was_looked_for(case: Case, tcpx_command: Command) -> None:
    (case.folder / "s.tcps").write_text(
        'language 1\nimport "default.tcps" as d\nschedule s(root: func) { d.rest(root) }\n', encoding="utf-8"
    )
    assert [case.is_read() for _ in range(2)] == [True, False]
    (case.folder / "default.tcps").write_text(ROWS, encoding="utf-8")
    words = ("run", str(case.folder / "f.tcp"), "-s", str(case.folder / "s.tcps"), "--target", "generic")
    assert '"default.tcps" is there twice' in tcpx_command(*words, "--random", "0", "--size", "M=3").err


def test_what_changed_a_moment_ago_is_read_again(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may change again before the clock of its file system goes on."""
    monkeypatch.setattr(reruns, "TICK", 3_600_000_000_000)
    assert [case.is_read() for _ in range(2)] == [True, True]


def test_what_was_kept_is_damaged(case: Case) -> None:
    cache = case.folder / "cache"
    case.is_read()
    (note,) = (cache / "runs").glob("*/note")
    note.write_bytes(note.read_bytes()[:-1])
    assert [case.is_read() for _ in range(2)] == [True, False]
    (constants,) = cache.glob("kernels/*/f.bin")
    constants.write_bytes(b"\0" * constants.stat().st_size)
    assert [case.is_read() for _ in range(2)] == [True, False]
    for path in (constants, *cache.glob("compiled/*/*.so")):
        path.unlink()
        assert [case.is_read() for _ in range(2)] == [True, False]


def test_where_nothing_can_be_written(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a full disk: the run is as it would be."""

    write = store.write_whole

    def full(path: Path, *parts: bytes) -> None:
        if path.name == "note":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(path, *parts)

    with warnings.catch_warnings(), monkeypatch.context() as patch:
        warnings.simplefilter("always")
        patch.setattr(store, "write_whole", full)
        assert case.is_read(said="warning: the run is not noted for other processes: No space left on device\n")
    assert [case.is_read() for _ in range(2)] == [True, False]


@pytest.mark.parametrize("is_folder", [True, False])
def test_what_is_no_note_is_written_anew(case: Case, is_folder: bool) -> None:
    case.is_read()
    (note,) = (case.folder / "cache" / "runs").glob("*/note")
    shutil.rmtree(note.parent) if not is_folder else note.unlink()
    if is_folder:
        (note / "inside").mkdir(parents=True)
    else:
        note.parent.write_text("no folder", encoding="utf-8")
    assert [case.is_read() for _ in range(2)] == [True, False]


def test_a_run_leaves_what_it_needs_in_a_full_cache(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCPX_CACHE_LIMIT", "1")
    assert [case.is_read() for _ in range(2)] == [True, False]
    assert [case.is_read("--strided") for _ in range(2)] == [True, False]
    assert len(list((case.folder / "cache" / "kernels").iterdir())) == 1


def test_several_at_once(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("run", str(case.folder / "f.tcp"), "--target", "generic", "--input", f"x={case.folder / 'x.npy'}")
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: main(words), range(4))) == [0] * 4
    assert main(words) == 0  # notes itself, if one of those replaced what another had noted
    capsys.readouterr()
    assert main(words) == 0
    assert "(model " not in capsys.readouterr().out


def test_an_input_of_a_model_that_has_a_default(tmp_path: Path, case: Case, tcpx_command: Command) -> None:
    """It is taken where it is given, and is the default where it is not, whatever was run before."""
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [70, 70]) for name in "xwy"]
    stored = numpy_helper.from_array(np.ones((70, 70), np.float32), "w")
    graph = helper.make_graph([helper.make_node("Sub", ["x", "w"], ["y"])], "g", info[:2], info[2:], [stored])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    for name, number in (("x", 7), ("w", 3), ("short", 3)):
        np.save(tmp_path / f"{name}.npy", np.full((70 - (name == "short"), 70), number, np.float32))

    def run(*names: str) -> SimpleNamespace:
        given = (word for name in names for word in ("--input", f"{name[0]}={tmp_path / name[2:]}.npy"))
        return tcpx_command("run", str(tmp_path / "m.onnx"), *given, "-o", str(tmp_path / "y.npy"))

    for names, wanted, is_read in (
        (["x=x"], 6, True),
        (["x=x"], 6, False),
        (["x=x", "w=w"], 4, True),
        (["x=x", "w=w"], 4, False),
        (["x=x", "w=x"], 0, True),
        (["x=x"], 6, True),
    ):
        done = run(*names)
        assert (done.status, done.err) == (0, "")
        assert ("(model " in done.out) is is_read
        np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), np.full((70, 70), wanted))
    assert "the input `w` is another array" in run("x=x", "w=short").err


def test_a_model_whose_inputs_are_constants(tmp_path: Path, case: Case, tcpx_command: Command) -> None:
    """The values are read again where their file is another one; weights lie in a file beside the model."""
    weights = np.arange(6, dtype=np.float32)
    (tmp_path / "weights").write_bytes(weights.tobytes())
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[6], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="weights")
    nodes = [helper.make_node("Add", ["x", "w"], ["s"]), helper.make_node("Reshape", ["s", "shape"], ["y"])]
    inputs = [("x", TensorProto.FLOAT, [2, 6]), ("shape", TensorProto.INT64, [2])]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(*held) for held in inputs],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["a", "b"])],
        [tensor],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    x = np.ones((2, 6), np.float32)
    np.save(tmp_path / "ones.npy", x)

    def is_read(shape: str, wanted: tuple[int, ...]) -> bool:
        given = ("--input", f"x={tmp_path / 'ones.npy'}", "--input", f"shape={tmp_path / shape}.npy")
        done = tcpx_command("run", str(tmp_path / "m.onnx"), *given, "-o", str(tmp_path / "y.npy"))
        assert (done.status, done.err) == (0, "")
        np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), (x + weights).reshape(wanted))
        return "(model " in done.out

    for name, shape in (("a", (3, 4)), ("b", (4, 3))):
        np.save(tmp_path / f"{name}.npy", np.array(shape))
        assert [is_read(name, shape) for _ in range(2)] == [True, False]
    np.save(tmp_path / "b.npy", np.array((12, 1)))
    assert [is_read("b", (12, 1)) for _ in range(2)] == [True, False]
    weights += 1
    rewritten(tmp_path / "weights", weights.tobytes())
    assert [is_read("b", (12, 1)) for _ in range(2)] == [True, False]


def test_another_process_imports_little(case: Case) -> None:
    assert case.is_read()
    words = ["run", str(case.folder / "f.tcp"), "-s", str(case.folder / "s.tcps"), "--target", "generic"]
    program = (
        "import sys; from tcpx.cli import main; status = main(sys.argv[1:]); "
        "print(*sorted({'tcpx.api', 'tcpx.target', 'tcpx.payload.ops', 'lark', 'onnx', 'yaml'} & {*sys.modules})); "
        "sys.exit(status)"
    )
    command = [sys.executable, "-c", program, *words, "--input", f"x={case.folder / 'x.npy'}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "(model " not in done.stdout
    assert done.stdout.endswith(" us\n\n"), done.stdout
