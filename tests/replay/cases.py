"""The shipped schedules on payloads that fit them: what of the emitted C is kept as a hash.

`python -m tests.replay.cases FOLDER` writes the C of every case into a folder.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import tcpx

ROOT = Path(__file__).parents[2]
SCHEDULES = ROOT / "schedules"
TARGETS = ("generic", "x86_avx2", "x86_avx512")
THREADS = (1, 2)

DIGITS = (ROOT / "examples" / "digits" / "digits.tcp").read_text(encoding="utf-8")
STATIC = """\
func @product(%x: tensor<37x70xf32>, %w: tensor<70x129xf32>) -> tensor<37x129xf32> {
  %mm = tcp.matmul(%x, %w) : tensor<37x129xf32>
  tcp.return(%mm)
}
"""
SYMBOLIC = """\
func @product(%x: tensor<[M]x[K]xf32>, %w: tensor<[K]x[N]xf32>) -> tensor<[M]x[N]xf32> symbols [K, M, N] {
  %mm = tcp.matmul(%x, %w) : tensor<[M]x[N]xf32>
  tcp.return(%mm)
}
"""
EPILOGUE = """\
func @linear(%x: tensor<[M]x70xf32>, %w: tensor<70x129xf32>, %b: tensor<129xf32>) -> tensor<[M]x129xf32> symbols [M] {
  %zero = tcp.const {value = 0.0} : f32
  %mm = tcp.matmul(%x, %w) : tensor<[M]x129xf32>
  %bb = tcp.broadcast(%b) {dims = [1]} : tensor<[M]x129xf32>
  %s = tcp.add(%mm, %bb) : tensor<[M]x129xf32>
  %zb = tcp.broadcast(%zero) {dims = []} : tensor<[M]x129xf32>
  %r = tcp.max(%s, %zb) : tensor<[M]x129xf32>
  tcp.return(%r)
}
"""
TRANSPOSED = """\
func @product(%x: tensor<[M]x[K]xf32>, %w: tensor<[N]x[K]xf32>) -> tensor<[M]x[N]xf32> symbols [K, M, N] {
  %mm = tcp.contract(%x, %w) {lhs = ["m", "k"], rhs = ["n", "k"], out = ["m", "n"]} : tensor<[M]x[N]xf32>
  tcp.return(%mm)
}
"""
INTEGER = SYMBOLIC.replace("xf32", "xsi32")
BYTES = SYMBOLIC.replace("[K]xf32>,", "[K]xui8>,").replace("[N]xf32>) ->", "[N]xsi8>) ->").replace("xf32", "xsi32")
SOFTMAX_STATIC = """\
func @rows(%x: tensor<5x10xf32>) -> tensor<5x10xf32> {
  %y = tcp.softmax(%x) {dim = 1} : tensor<5x10xf32>
  tcp.return(%y)
}
"""
SOFTMAX_LONGER = SOFTMAX_STATIC.replace("5x10x", "21x200x")
ARGMAX = """\
func @places(%x: tensor<[B]x100xf32>) -> tensor<[B]xsi64> symbols [B] {
  %v, %at = tcp.reduce_argmax(%x) {dims = [1]} : tensor<[B]xf32>, tensor<[B]xsi64>
  tcp.return(%at)
}
"""
SCAN = """\
func @running(%x: tensor<[B]x100xsi32>) -> tensor<[B]x100xsi32> symbols [B] {
  %y, %total = tcp.cumsum(%x) {dim = 1} : tensor<[B]x100xsi32>, tensor<[B]xsi32>
  tcp.return(%y)
}
"""
SOFTMAX_SYMBOLIC = SOFTMAX_STATIC.replace("5x", "[B]x").replace("xf32> {", "xf32> symbols [B] {")

BATCH = """\
func @products(%x: tensor<[B]x[M]x[K]xf32>, %w: tensor<[B]x[K]x[N]xf32>) -> tensor<[B]x[M]x[N]xf32>
    symbols [B, K, M, N] {
  %mm = tcp.contract(%x, %w) {lhs = ["b", "m", "k"], rhs = ["b", "k", "n"], out = ["b", "m", "n"]}
    : tensor<[B]x[M]x[N]xf32>
  tcp.return(%mm)
}
"""
BATCH_TRANSPOSED = BATCH.replace("%w: tensor<[B]x[K]x[N]", "%w: tensor<[B]x[N]x[K]").replace(
    'rhs = ["b", "k", "n"]', 'rhs = ["b", "n", "k"]'
)
POOL = """\
func @pool(%x: tensor<[N]x[2*H + 1]x[2*W + 1]x37xf32>) -> tensor<[N]x[H]x[W]x37xf32> symbols [N, H, W] {
  %y = tcp.generic(%x) {iterators = [["n", "parallel"], ["h", "parallel"], ["w", "parallel"], ["c", "parallel"],
      ["k", "reduction", 3], ["l", "reduction", 3]], maps = [[n, 2*h + k, 2*w + l, c], [n, h, w, c]],
      combiner = "tcp.max"} ({ (%e: f32, %acc: f32):
    %r = tcp.max(%acc, %e) : f32
    tcp.yield(%r)
  }) : tensor<[N]x[H]x[W]x37xf32>
  tcp.return(%y)
}
"""
VECMAT = """\
func @row(%x: tensor<[K]xf32>, %w: tensor<[K]x[N]xf32>) -> tensor<[N]xf32> symbols [K, N] {
  %mm = tcp.contract(%x, %w) {lhs = ["k"], rhs = ["k", "n"], out = ["n"]} : tensor<[N]xf32>
  tcp.return(%mm)
}
"""
MATVEC = VECMAT.replace("[K]x[N]", "[N]x[K]").replace('"k", "n"', '"n", "k"')
DOT = """\
func @dot(%x: tensor<[K]xf32>, %y: tensor<[K]xf32>) -> tensor<f32> symbols [K] {
  %mm = tcp.contract(%x, %y) {lhs = ["k"], rhs = ["k"], out = []} : tensor<f32>
  tcp.return(%mm)
}
"""

CHAIN = """\
func @chain(%x: tensor<[M]x[N]xf32>, %b: tensor<[N]xf32>) -> (tensor<[M]x[N]xf32>, tensor<[M]x[N]xf32>) symbols [M, N] {
  %bb = tcp.broadcast(%b) {dims = [1]} : tensor<[M]x[N]xf32>
  %p = tcp.mul(%x, %bb) : tensor<[M]x[N]xf32>
  %z = tcp.fill {value = 0.0} : tensor<[M]x[N]xf32>
  %q = tcp.max(%p, %z) : tensor<[M]x[N]xf32>
  %r = tcp.exp(%q) : tensor<[M]x[N]xf32>
  tcp.return(%q, %r)
}
"""


def heads(lhs: str, rhs: str, out: str) -> str:
    """A product of several dims, in any order."""
    types = ["x".join(f"[{dim.upper()}]" for dim in dims) for dims in (lhs, rhs, out)]
    names = [str(list(dims)).replace("'", '"') for dims in (lhs, rhs, out)]
    return (
        f"func @heads(%x: tensor<{types[0]}xf32>, %w: tensor<{types[1]}xf32>) -> tensor<{types[2]}xf32>"
        f" symbols [{', '.join(sorted(set((lhs + rhs).upper())))}] {{\n"
        f"  %mm = tcp.contract(%x, %w) {{lhs = {names[0]}, rhs = {names[1]}, out = {names[2]}}}"
        f" : tensor<{types[2]}xf32>\n  tcp.return(%mm)\n}}\n"
    )


def transpose(dims: str, permutation: tuple[int, ...]) -> str:
    """A transpose of a tensor with these dims."""
    types = ["x".join(f"[{dim}]" for dim in order) for order in (dims, [dims[k] for k in permutation])]
    return (
        f"func @turned(%x: tensor<{types[0]}xf32>) -> tensor<{types[1]}xf32> symbols [{', '.join(sorted(dims))}] {{\n"
        f"  %y = tcp.transpose(%x) {{permutation = {list(permutation)}}} : tensor<{types[1]}xf32>\n"
        "  tcp.return(%y)\n}\n"
    )


ATTENTION = """\
func @heads(%q: tensor<[H]x[T]x64xf32>, %k: tensor<[H]x[U]x64xf32>, %v: tensor<[H]x[U]x64xf32>)
    -> tensor<[H]x[T]x64xf32> symbols [H, T: 4.., U] {
  %o = tcp.attention(%q, %k, %v) {causal = true} : tensor<[H]x[T]x64xf32>
  tcp.return(%o)
}
"""

SORT = """\
func @sorted(%x: tensor<[M]x1000xf32>) -> tensor<[M]x1000xf32> symbols [M] {
  %y = tcp.sort(%x) {dim = 1} : tensor<[M]x1000xf32>
  tcp.return(%y)
}
"""
DENSE = """\
func @convolution(%x: tensor<[H]x14x20xf32>, %w: tensor<48x20x3x3xf32>) -> tensor<[H]x14x48xf32> symbols [H] {
  %p = tcp.pad(%x) {value = 0.0, low = [1, 1, 0]} : tensor<[H + 2]x16x20xf32>
  %r = tcp.generic(%p, %w) {iterators = [["y", "parallel"], ["x", "parallel"], ["f", "parallel"], ["c", "reduction"],
      ["i", "reduction"], ["j", "reduction"]], maps = [[y + i, x + j, c], [f, c, i, j], [y, x, f]],
      combiner = "tcp.add"} ({ (%e: f32, %u: f32, %acc: f32):
    %s = tcp.multiply_add(%e, %u, %acc) : f32
    tcp.yield(%s)
  }) : tensor<[H]x14x48xf32>
  tcp.return(%r)
}
"""
DEPTHWISE = """\
func @depthwise(%x: tensor<[H]x16x[C]xf32>, %w: tensor<3x3x[C]xf32>) -> tensor<[H - 2]x14x[C]xf32> symbols [C, H: 3..] {
  %r = tcp.generic(%x, %w) {iterators = [["y", "parallel"], ["x", "parallel"], ["c", "parallel"], ["i", "reduction"],
      ["j", "reduction"]], maps = [[y + i, x + j, c], [i, j, c], [y, x, c]],
      combiner = "tcp.add"} ({ (%e: f32, %u: f32, %acc: f32):
    %s = tcp.multiply_add(%e, %u, %acc) : f32
    tcp.yield(%s)
  }) : tensor<[H - 2]x14x[C]xf32>
  tcp.return(%r)
}
"""
POOLED = """\
func @pooled(%x: tensor<9x13x3xf32>, %w: tensor<3x3x3x40xf32>) -> tensor<4x6x40xf32> {
  %y = tcp.convolution(%x, %w) {input = ["h+p", "w+q", "c"], filter = ["p", "q", "c", "f"], out = ["h", "w", "f"],
      low = [1, 1], high = [1, 1]} : tensor<9x13x40xf32>
  %a = tcp.relu(%y) : tensor<9x13x40xf32>
  %r = tcp.pooling(%a) {window = [2, 2], strides = [2, 2], dims = [0, 1]} : tensor<4x6x40xf32>
  tcp.return(%r)
}
"""
BLEND = """\
func @blend(%x: tensor<[H]x37xf32>, %p: tensor<[N]xsi32> in 0 to H, %q: tensor<[N]xsi32> in 0 to H, %w: tensor<[N]xf32>)
    -> tensor<[N]x37xf32> symbols [H: 1.., N] {
  %a = tcp.gather(%x, %p) {dim = 0} : tensor<[N]x37xf32>
  %b = tcp.gather(%x, %q) {dim = 0} : tensor<[N]x37xf32>
  %s = tcp.mul(%b, broadcast(%w, [0])) : tensor<[N]x37xf32>
  %r = tcp.add(%a, %s) : tensor<[N]x37xf32>
  tcp.return(%r)
}
"""
NETWORK = """\
func @network(%x: tensor<1x12x12x8xf32>, %w: tensor<3x3x8x16xf32>, %d: tensor<3x3x16xf32>, %p: tensor<16x24xf32>)
    -> tensor<1x8x8x24xf32> {
  %a = tcp.convolution(%x, %w) {input = ["n", "h+p", "w+q", "c"], filter = ["p", "q", "c", "f"],
      out = ["n", "h", "w", "f"]} : tensor<1x10x10x16xf32>
  %b = tcp.relu(%a) : tensor<1x10x10x16xf32>
  %c = tcp.convolution(%b, %d) {input = ["n", "h+p", "w+q", "c"], filter = ["p", "q", "c"], out = ["n", "h", "w", "c"]}
      : tensor<1x8x8x16xf32>
  %e = tcp.contract(%c, %p) {lhs = ["n", "h", "w", "c"], rhs = ["c", "f"], out = ["n", "h", "w", "f"]}
      : tensor<1x8x8x24xf32>
  tcp.return(%e)
}
"""
CONVOLUTIONAL = ("audio", "convnext", "efficientnet", "mobilenetv2", "resnet50", "unet")
"""Schedules of models that require a convolution."""
LIBRARY_CALLS = {
    "lib/gemm.tcps:packed_gemm": ("contract", "packed_gemm(it, epilogue(it))"),
    "lib/panel_gemm.tcps:panel_gemm": ("contract", "panel_gemm(it, epilogue(it))"),
    "lib/panel_gemm.tcps:column_panel_gemm": ("contract", "column_panel_gemm(it, epilogue(it))"),
    "lib/panel_gemm.tcps:tile_gemm": ("contract", "tile_gemm(it, epilogue(it))"),
    "lib/panel_gemm.tcps:large_gemm": ("contract", "large_gemm(it, epilogue(it))"),
    "lib/small_gemm.tcps:direct_gemm": ("contract", "direct_gemm(it, epilogue(it))"),
    "lib/small_gemm.tcps:dot_gemm": ("transposed", "dot_gemm(it, epilogue(it))"),
    "lib/small_gemm.tcps:dot_gemm:columns": ("contract", "dot_gemm(it, epilogue(it), true, it.n)"),
    "lib/narrow_gemm.tcps:product": ("narrow", "product(it)"),
    "lib/batch_gemm.tcps:batch_gemm": ("batch", "batch_gemm(it, epilogue(it))"),
    "lib/gemv.tcps:matvec": ("matvec", "matvec(it, epilogue(it))"),
    "lib/gemv.tcps:dot": ("dot", "dot(it)"),
    "lib/gemv.tcps:stream_gemm": ("streamed", "stream_gemm(it, epilogue(it))"),
    "lib/split_k.tcps:split_gemm": ("split", "split_gemm(it, epilogue(it))"),
    "lib/shared_dims.tcps:lane_gemm": ("lanes", "lane_gemm(it, epilogue(it))"),
    "lib/shared_dims.tcps:product_of_vectors": ("vectors", "product_of_vectors(it, epilogue(it))"),
    "lib/attention.tcps:of_composite": ("attention", "of_composite(it)"),
    "lib/contractions.tcps:with_epilogue": ("lanes", "with_epilogue(it)"),
    "lib/elementwise.tcps:nest": ("chain", "nest([producer(producer(it.operand).lhs), it])"),
    "lib/gathered.tcps:nest": (
        "blend",
        "nest([producer(it.rhs), it], [producer(it.lhs), producer(producer(it.rhs).lhs)])",
    ),
    "lib/rows.tcps:scan_rows": ("scan", "scan_rows(it)"),
    "lib/movement.tcps:transposed": ("transpose", "transposed(it)"),
    "lib/sorting.tcps:ordered": ("order", "ordered(it, root)"),
    "lib/convolutions.tcps:by_role": ("convolutions", "by_role(it)"),
    "lib/convolutions.tcps:in_windows": ("pooled", "in_windows(it, outermost(users(epilogue(it))))"),
    "lib/windows.tcps:windows": ("windows", "windows(it)"),
    "lib/winograd.tcps:filtered": ("dense", "filtered(it)"),
    "models/convolutional.tcps:channels_innermost": ("network", "channels_innermost(root)"),
    "models/transformer.tcps:transformer": ("softmax", "transformer(root)"),
}
"""For every sequence of the library: what it is for, and its call."""
PRODUCTS = {
    "static": STATIC,
    "symbolic": SYMBOLIC,
    "epilogue": EPILOGUE,
    "transposed": TRANSPOSED,
    "integer": INTEGER,
}
SOFTMAXES = {"static": SOFTMAX_STATIC, "symbolic": SOFTMAX_SYMBOLIC}
PAYLOADS = {
    "order": {"static": SORT},
    "contract": PRODUCTS,
    "transposed": {"symbolic": TRANSPOSED},
    "narrow": {
        "bytes": BYTES,
        "bf16": SYMBOLIC.replace("[K]xf32>,", "[K]xbf16>,").replace("[N]xf32>) ->", "[N]xbf16>) ->"),
    },
    "batch": {"plain": BATCH, "transposed": BATCH_TRANSPOSED},
    "streamed": {**PRODUCTS, "vecmat": VECMAT},
    "split": {**PRODUCTS, "vecmat": VECMAT, "matvec": MATVEC},
    "matvec": {"symbolic": MATVEC},
    "dot": {"symbolic": DOT},
    "lanes": {"heads": heads("mkh", "knh", "mnh")},
    "vectors": {
        "lanes": heads("hk", "nkh", "hn"),
        "rows": heads("kh", "nhk", "nh"),
        "columns": heads("hk", "hkn", "nh"),
    },
    "chain": {"symbolic": CHAIN},
    "blend": {"rows": BLEND},
    "attention": {"causal": ATTENTION},
    "softmax": SOFTMAXES,
    "network": {"static": NETWORK},
    "scan": {"symbolic": SCAN},
    "windows": {"pool": POOL},
    "convolutions": {"dense": DENSE, "depthwise": DEPTHWISE},
    "dense": {"dense": DENSE},
    "pooled": {"static": POOLED},
    "transpose": {"blocks": transpose("NKM", (2, 0, 1)), "rows": transpose("NKM", (1, 0, 2))},
}
ROWS = {"places": ARGMAX, "softmax": SOFTMAX_LONGER}
MATCHED = {
    "attention": "attention",
    "softmax": "softmax",
    "network": "relu",
    "scan": "scan",
    "chain": "exp",
    "blend": "add",
    "transpose": "transpose",
    "windows": "generic",
    "convolutions": "generic",
    "dense": "generic",
    "pooled": 'generic "y"',
    "order": "ordering",
}
"""What a call is for, where that is no contraction."""

COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Case:
    """One schedule on one payload for one target: `file` is under schedules/, `sequence` empty for a whole schedule."""

    file: str
    sequence: str
    payload: str
    text: str
    target: str
    threads: int

    @property
    def subject(self) -> str:
        """What is looked at: `default.tcps`, `lib/gemm.tcps:packed_gemm`."""
        return f"{self.file}:{self.sequence}" if self.sequence else self.file

    @property
    def name(self) -> str:
        """A word without blanks, unique."""
        return f"{self.subject}/{self.payload}/{self.target}/{self.threads}"

    def schedule(self) -> tcpx.Schedule:
        """The schedule itself, or one that calls the sequence."""
        if not self.sequence:
            return tcpx.load_schedule(SCHEDULES / self.file)
        kind, call = LIBRARY_CALLS[self.subject]
        wanted = MATCHED.get(kind, "contract")
        return tcpx.parse_schedule(
            f'language 1\nimport "{self.file}" as library\n'
            f"schedule main(root: func) {{\n  let it = match one {wanted} in root\n  library.{call}\n}}\n"
        )

    def c_source(self) -> str:
        """The C that the schedule gives."""
        module = tcpx.load(ROOT / "examples/digits/digits.tcp") if self.payload == "digits" else tcpx.parse(self.text)
        return tcpx.emit(module, self.schedule(), target=self.target, threads=self.threads).c_source


def cases() -> Iterator[Case]:
    """All of them, in the order of the files of hashes."""
    wanted = [("default.tcps", "", name, text) for name, text in {"digits": DIGITS, **PRODUCTS, **ROWS}.items()]
    wanted.append(("default.tcps", "", "interleaved", heads("hmk", "hkn", "mnh")))
    wanted.append(("digits.tcps", "", "digits", DIGITS))
    wanted += [
        (f"models/{name}.tcps", "", "softmax", SOFTMAX_SYMBOLIC) for name in ("bert", "gpt2", "minilm", "llama", "vit")
    ]
    wanted += [(f"models/{name}.tcps", "", "network", NETWORK) for name in CONVOLUTIONAL]
    for key, (kind, _) in LIBRARY_CALLS.items():
        file, _, sequence = key.partition(":")
        wanted += [(file, sequence, name, text) for name, text in PAYLOADS[kind].items()]
    for file, sequence, name, text in wanted:
        for target in TARGETS:
            for threads in THREADS:
                yield Case(file, sequence, name, text, target, threads)


def digest(text: str) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def without_comments(source: str) -> str:
    """The C that a compiler sees: no comments, no empty lines."""
    lines = COMMENT.sub("", source).splitlines()
    return "\n".join(line.rstrip() for line in lines if line.strip())


def file_name(name: str) -> str:
    """The name of a case or a subject as that of a file."""
    return name.replace("/", "_").replace(":", "_")


def write_all(folder: Path) -> None:
    """The C of every case, one file each."""
    folder.mkdir(parents=True, exist_ok=True)
    for case in cases():
        (folder / f"{file_name(case.name)}.c").write_text(case.c_source(), encoding="utf-8")


if __name__ == "__main__":
    write_all(Path(sys.argv[1]))
