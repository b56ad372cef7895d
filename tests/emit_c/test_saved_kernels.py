"""Kernels as folders: loaded again they are the same, and `main.c` runs them without Python."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import pickle
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import tcpx
from tcpx.emit_c.folder import files
from tcpx.emit_c.folder.files import read_folder
from tests.emit_c.test_state import CELL, calls, given
from tests.optional_tools import CMAKE, GCC_SANITIZERS

Array = npt.NDArray[Any]
ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Sample:
    """A payload, what it is called with, and how it is compiled."""

    text: str
    arguments: tuple[Any, ...]
    options: dict[str, Any]


def floats(*shape: int) -> Array:
    return np.random.default_rng(5).standard_normal(shape).astype(np.float32)


SAMPLES = {
    "product": Sample(
        "func @k(%x: tensor<[M]x[N]xf32>, %w: tensor<[N]x8xf32>) -> tensor<[M]x8xf32>"
        " symbols [M: 1..64, N multiple_of 4] {\n%o = tcp.matmul(%x, %w) : tensor<[M]x8xf32>\n tcp.return(%o) }",
        (floats(5, 12), floats(12, 8)),
        {"target": "x86_avx2"},
    ),
    "names of the program": Sample(
        "func @shape(%file/x.1: tensor<[file]xf32>, %k: tensor<[file + 1]xbf16>)"
        " -> (tensor<[file]xf32>, tensor<[2*file + 1]xbf16>) symbols [file] {\n"
        "%o = tcp.exp(%file/x.1) : tensor<[file]xf32>\n"
        "%t = tcp.cast(%o) : tensor<[file]xbf16>\n"
        "%c = tcp.concat(%t, %k) {dim = 0} : tensor<[2*file + 1]xbf16>\n tcp.return(%o, %c) }",
        (floats(3), floats(4).astype(ml_dtypes.bfloat16)),
        {},
    ),
    "state and functions": Sample(calls(3), tuple(given(6)), {}),
    "a number": Sample(
        "func @count(%x: tensor<[N]xf32>, %n: index as [T]) -> (tensor<[T]xf32>, tensor<i1>) symbols [N, T] {\n"
        "%s = tcp.reduce_max(%x) {dims = [0]} : tensor<f32>\n"
        "%o = tcp.broadcast(%s) {dims = []} : tensor<[T]xf32>\n"
        "%b = tcp.equal(%x, %x) : tensor<[N]xi1>\n"
        "%a = tcp.reduce_all(%b) {dims = [0]} : tensor<i1>\n tcp.return(%o, %a) }",
        (floats(9), 4),
        {},
    ),
    "indices": Sample(
        "func @rows(%x: tensor<[V]x3xf32>, %ix: tensor<[N]xsi64> in 0 to V) -> tensor<[N]x3xf32> symbols [V, N] {\n"
        "%o = tcp.gather(%x, %ix) {dim = 0} : tensor<[N]x3xf32>\n tcp.return(%o) }",
        (floats(7, 3), np.array([6, 0, 3, 3])),
        {},
    ),
    "loops whose variables bound sizes": Sample(
        "func @wrapped(%x: tensor<[V]x3xf32>, %ix: tensor<[N]x[K]xsi64>) -> tensor<[N]x[K]x3xf32> symbols [V, N, K] {\n"
        "%a = tcp.add(%ix, 7) : tensor<[N]x[K]xsi64>\n%n = tcp.less(%ix, 0) : tensor<[N]x[K]xi1>\n"
        "%s = tcp.select(%n, %a, %ix) : tensor<[N]x[K]xsi64>\n"
        '%o = tcp.gather(%x, %s) {dim = 0, out_of_range = "fill"} : tensor<[N]x[K]x3xf32>\n tcp.return(%o) }',
        (floats(7, 3), np.array([[-1, 0, 3], [6, -7, 2]])),
        {"target": "x86_avx2"},
    ),
    "strided on two threads": Sample(
        "func @sum(%x: tensor<[M]x[N]xf64>, %y: tensor<[M]x[N]xf64>) -> tensor<[M]x[N]xf64> symbols [M, N] {\n"
        "%o = tcp.add(%x, %y) : tensor<[M]x[N]xf64>\n tcp.return(%o) }",
        (floats(700, 11).astype(np.float64), floats(700, 11).astype(np.float64)),
        {"strided": True, "threads": 2},
    ),
    "digits": Sample(
        (ROOT / "examples/digits/digits.tcp").read_text(encoding="utf-8"),
        (floats(33, 64),),
        {"schedule": str(ROOT / "schedules/digits.tcps"), "name": "classify"},
    ),
}
NAMES = pytest.mark.parametrize("name", SAMPLES)


def compiled(sample: Sample) -> tcpx.Kernel:
    module = tcpx.parse(sample.text, "sample.tcp", ROOT / "examples/digits")
    options = {"target": "generic", **sample.options}
    schedule = options.pop("schedule", None)
    return tcpx.compile(module, tcpx.load_schedule(schedule) if schedule else None, **options)


def results(kernel: tcpx.Kernel, arguments: tuple[Any, ...]) -> tuple[Array, ...]:
    """Of a call on copies: state is written to."""
    found = kernel(*(a.copy() if isinstance(a, np.ndarray) else a for a in arguments))
    return found if isinstance(found, tuple) else (found,)


def assert_same(found: tuple[Array, ...], expected: tuple[Array, ...]) -> None:
    assert [a.dtype for a in found] == [a.dtype for a in expected]
    assert [a.tobytes() for a in found] == [a.tobytes() for a in expected]


@NAMES
def test_loaded_again_it_is_the_same(name: str, tmp_path: Path) -> None:
    sample = SAMPLES[name]
    kernel = compiled(sample)
    expected = results(kernel, sample.arguments)
    folder = kernel.save(tmp_path / "new" / "folder")
    loaded = tcpx.load_kernel(folder)
    assert loaded.signature == kernel.signature
    assert loaded.sources == kernel.sources
    assert loaded.remarks == kernel.remarks
    assert loaded.trace is None
    assert loaded.library_path.parent == folder
    assert_same(results(loaded, sample.arguments), expected)
    assert_same(results(pickle.loads(pickle.dumps(loaded)), sample.arguments), expected)
    again = loaded.save(tmp_path / "again")
    assert sorted(path.name for path in again.iterdir()) == sorted(path.name for path in folder.iterdir())
    for path in folder.iterdir():
        assert path.read_bytes() == (again / path.name).read_bytes(), path.name


@NAMES
def test_the_program_gives_the_same_numbers(name: str, tmp_path: Path) -> None:
    sample = SAMPLES[name]
    kernel = compiled(sample)
    folder = kernel.save(tmp_path / "kernel")
    strict = ("-Wall", "-Wextra", "-Werror")
    own = (f'-DTCPX_CONSTANTS="{folder / kernel.signature.c_name}.bin"', "-fopenmp")
    for words in (["-c", "-std=c11", "main.c", "-o", "main.o", *strict], ["main.o", *kernel.sources, "-o", "main"]):
        subprocess.run(["cc", *kernel.target.flags, *own, *words, "-lm"], cwd=folder, check=True)
    words = []
    for argument, value in zip(kernel.signature.arguments, sample.arguments, strict=True):
        if isinstance(value, int):
            words.append(f"{argument.name}={value}")
        else:
            np.save(tmp_path / "given.npy", value)
            (tmp_path / "given.npy").rename(tmp_path / f"{len(words)}.npy")
            words.append(f"{argument.name}={tmp_path / f'{len(words)}.npy'}")
    done = subprocess.run([folder / "main", *words, "-o", tmp_path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    expected = results(kernel, sample.arguments)
    for argument, array in zip(kernel.signature.results, expected, strict=True):
        found = np.load(tmp_path / f"{argument.name}.npy")
        assert found.shape == array.shape
        assert found.tobytes() == array.tobytes()
        assert found.dtype == array.dtype or array.dtype == ml_dtypes.bfloat16


def test_the_program_reads_bf16_as_numpy_saves_it(tmp_path: Path) -> None:
    """`<V2` for an array of ml_dtypes, `|V2` for what was read from such a file."""
    kernel = tcpx.compile(tcpx.parse("func @k(%x: tensor<4xbf16>) -> tensor<4xbf16> { tcp.return(%x) }"))
    folder = kernel.save(tmp_path)
    subprocess.run(["cc", *kernel.target.flags, "main.c", "k.c", "-o", "main"], cwd=folder, check=True)
    x = floats(4).astype(ml_dtypes.bfloat16)
    for held, header in ((x, b"'<V2'"), (x.view("V2"), b"'|V2'")):
        np.save(tmp_path / "x.npy", held)
        assert header in (tmp_path / "x.npy").read_bytes()
        subprocess.run([folder / "main", "x=x.npy"], cwd=tmp_path, check=True)
        (written,) = kernel.signature.results
        assert np.load(tmp_path / f"{written.name}.npy").tobytes() == x.tobytes()
    np.save(tmp_path / "x.npy", np.zeros(4, "V3"))
    done = subprocess.run([folder / "main", "x=x.npy"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "required 'descr': '<V2', found {'descr': '|V3'" in done.stderr


@GCC_SANITIZERS.needed
def test_the_program_frees_what_it_takes(tmp_path: Path) -> None:
    """With inputs, outputs, constants and a workspace."""
    kernel = compiled(SAMPLES["digits"])
    assert kernel.signature.has_workspace
    assert kernel.signature.constants_bytes
    folder = kernel.save(tmp_path)
    words = ["-std=c11", "-O1", "-g", "-fsanitize=address", f'-DTCPX_CONSTANTS="{folder / "classify.bin"}"']
    subprocess.run(["gcc", *words, "main.c", *kernel.sources, "-o", "main", "-lm"], cwd=folder, check=True)
    np.save(tmp_path / "x.npy", SAMPLES["digits"].arguments[0])
    given = {**os.environ, "ASAN_OPTIONS": "detect_leaks=1"}
    done = subprocess.run(
        [folder / "main", "x=x.npy"], cwd=tmp_path, env=given, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("target", ["generic", "x86_avx2", "x86_avx512"])
def test_splats_keep_the_sign(target: str, tmp_path: Path) -> None:
    """No conversion that a compiler would warn of."""
    numbers = {"bf16": "3.0", "f16": "3.0", "ui8": "3", "ui16": "3", "ui32": "3", "ui64": "3"}
    types = {dtype: f"tensor<[N]x{dtype}>" for dtype in numbers}
    lines = [
        f"%c{d} = tcp.fill {{value = {n}}} : {types[d]}\n%y{d} = tcp.max(%x{d}, %c{d}) : {types[d]}"
        for d, n in numbers.items()
    ]
    head = f"func @k({', '.join(f'%x{d}: {t}' for d, t in types.items())}) -> ({', '.join(types.values())})"
    end = f"tcp.return({', '.join(f'%y{d}' for d in types)})"
    source = tcpx.emit(tcpx.parse("\n".join([f"{head} symbols [N] {{", *lines, end, "}"])), target=target)
    source.write(tmp_path)
    words = ["-O1", "-Wsign-conversion", "-Werror", "-c", "k.c", "-o", "k.o"]
    subprocess.run(["cc", *tcpx.load_target(target).flags, *words], cwd=tmp_path, check=True)


@CMAKE.needed
@pytest.mark.parametrize("name", ["state and functions", "strided on two threads", "digits"])
def test_cmake_builds_it(name: str, tmp_path: Path) -> None:
    folder = compiled(SAMPLES[name]).save(tmp_path)
    for words in (["-S", ".", "-B", "build", "-DCMAKE_C_COMPILER=cc"], ["--build", "build"]):
        done = subprocess.run(["cmake", *words], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    assert (folder / "build" / "main").is_file()


def test_what_the_program_refuses(tmp_path: Path) -> None:
    kernel = compiled(SAMPLES["product"])
    folder = kernel.save(tmp_path / "kernel")
    subprocess.run(["cc", *kernel.target.flags, "main.c", "k.c", "-o", "main"], cwd=folder, check=True)
    x, w = SAMPLES["product"].arguments
    arrays = {"x": x, "w": w, "f64": w.astype(np.float64), "flat": w.ravel(), "fortran": np.asfortranarray(w)}
    for name, array in {**arrays, "short": floats(8, 8), "odd": floats(5, 13), "tall": floats(65, 12)}.items():
        np.save(tmp_path / name, array)
    (tmp_path / "cut.npy").write_bytes((tmp_path / "w.npy").read_bytes()[:-1])
    (tmp_path / "text.npy").write_text("no array at all")
    tensor = "required tensor<[N]x8xf32>"
    for words, said in {
        "x=x.npy": "k: w: no file is given for it; usage: main [-o FOLDER] x=FILE.npy w=FILE.npy",
        "x=x.npy w=none.npy": "k: none.npy: No such file or directory",
        "x=x.npy w=f64.npy": "k: f64.npy: required 'descr': '<f4', found {'descr': '<f8', 'fortran_order': False,"
        " 'shape': (12, 8), }\n",
        "x=x.npy w=flat.npy": f"k: flat.npy: {tensor}, found an array of 1 dim",
        "x=x.npy w=fortran.npy": "k: fortran.npy: required an array in row-major order",
        "x=x.npy w=short.npy": f"k: short.npy: {tensor}, found 8 x 8",
        "x=odd.npy w=w.npy": "k: odd.npy: required tensor<[M]x[N]xf32>, found 5 x 13",
        "x=tall.npy w=w.npy": "k: tall.npy: required tensor<[M]x[N]xf32>, found 65 x 12",
        "x=x.npy w=cut.npy": "k: cut.npy: the file is cut short",
        "x=x.npy w=text.npy": "k: text.npy: this is no .npy file",
        "y=x.npy": "k: unknown argument y=x.npy",
        "x=x.npy w=w.npy --repeat 0": "k: --repeat: required a number from 1 on\n",
    }.items():
        done = subprocess.run(
            [folder / "main", *words.split()], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode != 0
        assert done.stderr.startswith(said), done.stderr


def test_files_of_results_whose_names_are_paths(tmp_path: Path) -> None:
    text = """func @k(%x: tensor<[N]xf32>) -> (%a/b: tensor<[N]xf32>, %a_b: tensor<[N]xf32>) symbols [N: 1..] {
      %y = tcp.neg(%x) : tensor<[N]xf32>
      %z = tcp.abs(%x) : tensor<[N]xf32>
      tcp.return(%y, %z)
    }"""
    kernel = tcpx.compile(tcpx.parse(text))
    folder = kernel.save(tmp_path / "kernel")
    subprocess.run(["cc", *kernel.target.flags, "main.c", "k.c", "-lm", "-o", "main"], cwd=folder, check=True)
    x = floats(7)
    np.save(tmp_path / "x.npy", x)
    subprocess.run([folder / "main", "x=x.npy"], cwd=tmp_path, check=True)
    for name, wanted in (("a_b_", -x), ("a_b", abs(x))):
        np.testing.assert_array_equal(np.load(tmp_path / f"{name}.npy"), wanted)


def test_without_its_library_or_for_another_machine_it_is_compiled(tmp_path: Path) -> None:
    sample = SAMPLES["product"]
    kernel = compiled(sample)
    folder = kernel.save(tmp_path)
    for content in (b"\x7fELF that is none", None):
        library = folder / "k.so"
        library.unlink() if content is None else library.write_bytes(content)
        loaded = tcpx.load_kernel(folder)
        assert loaded.library_path == kernel.library_path
        assert_same(results(loaded, sample.arguments), results(kernel, sample.arguments))


def test_a_folder_to_which_another_kernel_is_saved(tmp_path: Path) -> None:
    """The loader hands out the library that it opened before under a name; and what was loaded can be saved again."""
    text = "func @k(%x: tensor<4xf32>) -> tensor<4xf32> {{ %y = tcp.{op}(%x) : tensor<4xf32> tcp.return(%y) }}"
    first, second = (tcpx.compile(tcpx.parse(text.format(op=op))) for op in ("neg", "abs"))
    x, folder = floats(4), tmp_path / "kernel"
    first.save(folder)
    loaded = tcpx.load_kernel(folder)
    second.save(folder)
    np.testing.assert_array_equal(tcpx.load_kernel(folder)(x), abs(x))
    np.testing.assert_array_equal(loaded(x), -x)
    np.testing.assert_array_equal(tcpx.load_kernel(loaded.save(tmp_path / "again"))(x), -x)
    for path in folder.iterdir():
        path.unlink()
    np.testing.assert_array_equal(tcpx.load_kernel(loaded.save(tmp_path / "once more"))(x), -x)


def test_another_process_loads_it_without_a_compiler(tmp_path: Path) -> None:
    folder = compiled(SAMPLES["product"]).save(tmp_path / "kernel")
    text = f"import tcpx; print(tcpx.load_kernel({str(folder)!r}).signature)"
    environment = {"PATH": "", "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("@k(%x: tensor<[M]x[N]xf32>")


def test_what_is_emitted_can_be_loaded(tmp_path: Path) -> None:
    sample = SAMPLES["state and functions"]
    source = tcpx.emit(tcpx.parse(sample.text), target="generic")
    assert len(source.c_files) == 2
    folder = source.write(tmp_path)
    assert_same(results(tcpx.load_kernel(folder), sample.arguments), results(compiled(sample), sample.arguments))
    subprocess.run(["sh", "-c", source.compile_command], cwd=folder, check=True)


def change(folder: Path, key: str, value: object, *, is_signed: bool = True) -> None:
    path = folder / "k.json"
    entries = json.loads(path.read_text(encoding="utf-8"))
    entries[key] = value
    if is_signed:
        del entries["digest"]
        entries["digest"] = hashlib.sha256(json.dumps(entries, sort_keys=True).encode()).hexdigest()
    path.write_text(json.dumps(entries), encoding="utf-8")


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("format", 2, "required: a folder of format 1\n  found: format 2"),
        ("threads", "two", "k.json, `threads`\n  required: a number\n  found: str"),
        ("threads", -1, "k.json, `threads`\n  required: a number from 0 on\n  found: -1"),
        ("symbols", {}, "k.json, `symbols`\n  required: a list\n  found: dict"),
        ("inputs", [3], "k.json, `inputs` 0\n  required: a mapping\n  found: int"),
        ("workspace_bytes", "4*Q", "k.json\n  required: sizes over the symbols of the kernel\n  found: `4*Q`"),
        ("files", [], "required: C files in the folder, each with a digest\n  found: none"),
        ("files", ["../k.c"], "required: C files in the folder, each with a digest\n  found: ../k.c"),
        ("target", "mine", "required: the target mine, whose table is a file of its own\n  found: the installed ones"),
        ("name", None, "k.json, `name`\n  required: a text\n  found: none"),
        ("c_name", "../b/k", "k.json, `c_name`\n  required: a name that C may give a function\n  found: ../b/k"),
        ("c_name", "int", "k.json, `c_name`\n  required: a name that C may give a function\n  found: int"),
        ("times_name", "a b", "k.json, `times_name`\n  required: a name that C may give a function\n  found: a b"),
    ],
)
def test_a_manifest_that_cannot_be_read(key: str, value: object, said: str, tmp_path: Path) -> None:
    folder = compiled(SAMPLES["product"]).save(tmp_path)
    change(folder, key, value)
    with pytest.raises(tcpx.ArgumentError) as caught:
        tcpx.load_kernel(folder)
    assert said in str(caught.value)


def test_a_manifest_that_has_changed_is_not_loaded(tmp_path: Path) -> None:
    """A signature that is not that of the C would crash."""
    folder = compiled(SAMPLES["product"]).save(tmp_path)
    change(folder, "outputs", [], is_signed=False)
    with pytest.raises(
        tcpx.ArgumentError, match=r"k\.json\n  required: the file as it was written\n  found: another digest"
    ):
        tcpx.load_kernel(folder)


def test_files_that_have_changed_are_not_loaded(tmp_path: Path) -> None:
    folder = compiled(SAMPLES["digits"]).save(tmp_path)
    for name in ("classify.c", "classify.bin"):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[:-1] + b"?")
        with pytest.raises(tcpx.ArgumentError, match="required: the file as it was written\n  found: another digest"):
            tcpx.load_kernel(folder)
        (folder / name).unlink()
        with pytest.raises(tcpx.ArgumentError, match="required: a file that can be read\n  found: No such file"):
            read_folder(folder)
        (folder / name).write_bytes(content)
    tcpx.load_kernel(folder)
    (folder / "classify.json").write_text("{", encoding="utf-8")
    with pytest.raises(tcpx.ArgumentError, match="required: JSON"):
        tcpx.load_kernel(folder)
    with pytest.raises(tcpx.ArgumentError, match=r"with one NAME\.json in it\n  found: no such folder"):
        tcpx.load_kernel(folder / "none")


def test_a_machine_that_cannot_run_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = compiled(SAMPLES["product"]).save(tmp_path)
    monkeypatch.setenv("TCPX_HIDE_CPU_FLAGS", "fma,bmi*")
    with pytest.raises(tcpx.TargetError, match=r"run code for x86_avx2\n  .*avx2, .*\n  found: one without fma, bmi2 "):
        tcpx.load_kernel(folder)
    with pytest.raises(tcpx.ArgumentError, match="required: the target x86_avx2\n  found: generic"):
        tcpx.load_kernel(folder, target="generic")


def test_a_folder_of_something_else_is_left_as_it_is(tmp_path: Path) -> None:
    kernel = compiled(SAMPLES["product"])
    (tmp_path / "main.c").write_text("int main(void) { return 0; }\n", encoding="utf-8")
    with pytest.raises(tcpx.ArgumentError, match=r"a folder without a main\.c, or with that of the same kernel"):
        kernel.save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["main.c"]
    kernel.save(tmp_path / "k")
    kernel.save(tmp_path / "k")
    with pytest.raises(tcpx.ArgumentError, match="fix: another folder"):
        compiled(SAMPLES["indices"]).save(tmp_path / "k")
    with pytest.raises(tcpx.ArgumentError, match="required: a folder that can be written to\n  found: "):
        kernel.save(tmp_path / "main.c")


def test_a_full_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system names no file when there is no space for what is written."""

    def write(path: Path, content: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files, "write_whole", write)
    with pytest.raises(tcpx.ArgumentError, match="found: No space left on device: ") as error:
        compiled(SAMPLES["product"]).save(tmp_path / "k")
    assert str(error.value.diagnostic.found).endswith(str(tmp_path / "k"))


def test_sanitized_kernels_are_not_saved(tmp_path: Path) -> None:
    kernel = tcpx.compile(tcpx.parse(CELL), target="generic", sanitize=True)
    with pytest.raises(tcpx.ArgumentError, match="a sanitized kernel cannot be saved"):
        kernel.save(tmp_path)


def test_a_target_of_its_own(tmp_path: Path) -> None:
    table = tmp_path / "mine.yaml"
    table.write_text("name: mine\nbase: generic.yaml\nflags: [-O1, -ffp-contract=off]\n", encoding="utf-8")
    target = tcpx.load_target(table, allow_native=True)
    sample = SAMPLES["product"]
    kernel = tcpx.compile(tcpx.parse(sample.text), target=target)
    with pytest.raises(tcpx.ArgumentError, match="required: a kernel for an installed target\n  found: one for mine"):
        pickle.dumps(kernel)
    folder = kernel.save(tmp_path / "kernel")
    with pytest.raises(tcpx.ArgumentError, match="the target mine, whose table is a file of its own"):
        tcpx.load_kernel(folder)
    loaded = tcpx.load_kernel(folder, target=target)
    assert_same(results(loaded, sample.arguments), results(kernel, sample.arguments))
