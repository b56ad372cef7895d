"""Schedules for a drawn program: plausible recipes of statements, each a line of its own.

Every line stands in a `try` when it is drawn. What takes effect is the schedule; it then stands without the `try`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from tests.independent.program import Op, Program

FILE = "drawn.tcps"
SIZES = ["1", "2", "3", "4", "4", "5", "6", "7", "8", "8", "16", "lanes(f32)", "2 * lanes(f32)"]
UNSCHEDULED = {"materialize", "loop", "fill", "const", "reshape"}
CLASSES = {"matmul": ["matmul", "contract"]} | {
    name: [name] for name in ("contract", "reduce_sum", "reduce_max", "softmax", "generic", "transpose", "broadcast")
}
HEAD = {
    "gemm": ['import "lib/gemm.tcps" as gemm'],
    "rows": [
        "sequence rows(x: op, along: dim, height: size = 6) -> loop {",
        "  let i = tile(x, [along: height])",
        "  return i",
        "}",
    ],
}
"""What stands above the schedule where it is used, by the name that is called."""
POLICIES = """
for e in match any elementwise in root where not scheduled { optional tile(e, [dK: STEP], tail: pad) }
for e in match any elementwise in root { try { vectorize(e.loop(dK)) } }
for e in match any elementwise in root where not scheduled { if rank(e) == 1 { try { tile(e, [d0: 8], tail: peel) } } }
for e in match any contract in root where rank(it) == 2 { try { let d = innermost(dims(e.out)); tile(e, [d: 4]) } }
for e in match any op in root { case e { contract => { try { tile(e, [m: 4]) } } elementwise => {} else => {} } }
for e in match any contract in root { try { gemm.packed_gemm(e, epilogue(e)) } }
for e in match any reduce_sum in root where not scheduled { optional tile(e, [d0: 4]) }
for e in match any broadcast in root where len(users(it)) == 1 { try { tile(e, [dK: 2]) } }
for e in match any elementwise in root where len(users(it)) >= 1 { optional rows(e, d0, 4) }
for e in match any op in root where not scheduled and not it.is_a(fill) { try { tile(e, [dK: 4]) } }
""".strip().splitlines()
"""Statements about all operations of a kind, through the constructs of the language."""


@dataclass
class Drawn:
    """A schedule: lines that stand above, lines of the body, and values for its knobs."""

    head: list[str] = field(default_factory=list)
    handles: list[str] = field(default_factory=list)
    body: list[str] = field(default_factory=list)
    params: dict[str, int] = field(default_factory=dict)

    def text(self, attempts: bool) -> str:
        """The schedule, each line of the body in a `try` or as it is."""
        lines = ["language 1", *self.head, "", "schedule drawn(root: func) {", *(f"  {h}" for h in self.handles)]
        lines += [f"  try {{ {line} }}" if attempts else f"  {line}" for line in self.body]
        return "\n".join([*lines, "}"]) + "\n"

    def first_line(self) -> int:
        """The line of the text that the first line of the body stands on."""
        return 4 + len(self.head) + len(self.handles)

    def without(self, dropped: set[int]) -> Drawn:
        """Without these lines of the body, and without the handles that nothing reads then."""
        body = [line for k, line in enumerate(self.body) if k not in dropped]
        words = " ".join(body)
        handles = [h for h in self.handles if h.startswith("knob") or f"{h.split()[1]}" in _words(words)]
        knobs = {name: v for name, v in self.params.items() if name in _words(words)}
        head = [line for name, lines in HEAD.items() if name in _words(words) for line in lines]
        return Drawn(head, [h for h in handles if not h.startswith("knob") or h.split()[1][:-1] in knobs], body, knobs)


def _words(text: str) -> set[str]:
    return set("".join(c if c.isalnum() or c == "_" else " " for c in text).split())


class Drawer:
    """Draws the lines of one schedule."""

    def __init__(self, rng: Random, program: Program) -> None:
        self.rng, self.program = rng, program
        self.names = {id(op): f"a{k}" for k, op in enumerate(program.ops)}
        self.nodes = [op for op in program.ops if op.opcode not in UNSCHEDULED and op.dims]
        self.drawn = Drawn()
        self.tiled: list[tuple[Op, str]] = []

    def handle(self, op: Op) -> str:
        return self.names[id(op)]

    def add(self, *lines: str) -> None:
        self.drawn.body += lines

    # ------------------------------------------------------------ parts of statements

    def size_text(self, op: Op, name: str) -> str:
        draw, h = self.rng.random(), self.handle(op)
        if draw < 0.08:
            return f"max(1, size({h}.{name}) / 2)"
        if draw < 0.14:
            return f"max(1, ceildiv(size({h}.{name}), {self.rng.choice([2, 3, 4])}))"
        if draw < 0.17 and self.drawn.params:
            return next(iter(self.drawn.params))
        return self.rng.choice(SIZES)

    def dims(self, op: Op, kind: str = "") -> list[str]:
        return [n for n, _, k in op.dims if not kind or k == kind]

    def some_dims(self, op: Op, kind: str = "") -> list[str]:
        names = self.dims(op, kind)
        return self.rng.sample(names, self.rng.randint(1, min(3, len(names)))) if names else []

    def tile(
        self, op: Op, names: list[str], tails: list[str], sizes: list[str] | None = None, parallel: bool = False
    ) -> str:
        tail = self.rng.choice(tails)
        entries = ", ".join(
            f"{n}: {s}" for n, s in zip(names, sizes or [self.size_text(op, n) for n in names], strict=True)
        )
        options = (", parallel: true" if parallel else "") + (f", tail: {tail}" if tail != "none" else "")
        self.tiled += [(op, n) for n in names]
        return f"tile({self.handle(op)}, [{entries}]{options})"

    def loop(self) -> tuple[Op, str] | None:
        return self.rng.choice(self.tiled) if self.tiled else None

    def pairs(self) -> list[tuple[Op, Op]]:
        """Producers and their consumers, in order."""
        nodes = {id(op) for op in self.nodes}
        return [(p, c) for p in self.nodes for r in p.results for c in dict.fromkeys(r.users) if id(c) in nodes]

    # ------------------------------------------------------------ recipes

    def fuse_consumer(self) -> None:
        """Tile a producer; its consumer, or the end of its elementwise chain, is computed in its loops."""
        pairs = self.pairs()
        if not pairs:
            return self.start_of_sum()
        p, c = self.rng.choice(pairs)
        vectors = self.rng.random() < 0.5
        names = self.vector_tile(p) if vectors else self.some_dims(p, "parallel")
        if not names:
            return None
        if not vectors:
            self.add(self.tile(p, names, ["none", "none", "none", "pad"], parallel=self.rng.random() < 0.25))
        h, target = self.handle(p), self.handle(c)
        if self.rng.random() < 0.3:
            target = f"epilogue({h})"
        options = self.rng.choice(["", "", "", ", padded: false", ", recompute: true"])
        inner = names[-1] if vectors else self.rng.choice(names)
        self.add(f"fuse({target}, into: {h}.loop({inner}){options})")
        if vectors:
            self.vectors(p, names)
        return None

    def fuse_producer(self) -> None:
        """Tile a consumer; a producer of it is computed in its loops, tile by tile."""
        pairs = self.pairs()
        if not pairs:
            return self.start_of_sum()
        p, c = self.rng.choice(pairs)
        vectors = self.rng.random() < 0.5 and bool(self.dims(c, "parallel"))
        names = self.vector_tile(c) if vectors else self.some_dims(c)
        if not vectors:
            self.add(self.tile(c, names, ["none", "none", "pad"], parallel=self.rng.random() < 0.2))
        h, inner = self.handle(c), names[-1] if vectors else self.rng.choice(names)
        self.add(f"fuse({self.handle(p)}, into: {h}.loop({inner}){self.rng.choice(['', '', ', recompute: true'])})")
        before = [q for q, d in pairs if d is p]
        if before and self.rng.random() < 0.5:
            self.add(f"fuse({self.handle(self.rng.choice(before))}, into: {h}.loop({inner}))")
        for v in c.operands:
            if (
                v.producer
                and v.producer is not p
                and v.producer.opcode in {"fill", "broadcast", "const"}
                and self.rng.random() < 0.6
            ):
                self.add(f"fuse({self.handle(v.producer)}, into: {h}.loop({inner}))")
        if vectors:
            self.vectors(c, names)
        return None

    def start_of_sum(self) -> None:
        """Tile what is summed; the first value of the accumulator is computed in the loop."""
        sums = [op for op in self.nodes if self.dims(op, "reduction")]
        if not sums:
            return
        op = self.rng.choice(sums)
        h = self.handle(op)
        outer = self.some_dims(op, "parallel")
        if outer:
            self.add(self.tile(op, outer, ["none", "none", "pad"]))
        self.add(self.tile(op, self.some_dims(op, "reduction"), ["none", "none", "pad"]))
        if outer and self.rng.random() < 0.7:
            self.add(f"fuse({h}.start, into: {h}.loop({self.rng.choice(outer)}))")
        if outer and self.rng.random() < 0.5:
            self.add(f"promote({h}.out, at: {h}.loop({self.rng.choice(outer)}))")

    def vector_tile(self, op: Op) -> list[str]:
        """Tile all parallel dims to static sizes."""
        names = self.dims(op, "parallel")
        sizes = [self.rng.choice(["1", "1", "2", "3", "4", "6"]) for _ in names]
        if names:
            sizes[-1] = self.rng.choice(["lanes(f32)", "8", "4", "16", "2 * lanes(f32)", "5", "1"])
            if self.rng.random() < 0.3:
                self.rng.shuffle(sizes)
            self.add(self.tile(op, names, ["pad"] * 5 + ["none"], sizes, self.rng.random() < 0.25))
        return names

    def vectors(self, op: Op, names: list[str]) -> None:
        """Tile what is summed, and compute the innermost tile in vectors."""
        h, inner = self.handle(op), self.dims(op, "reduction")
        if inner:
            if self.rng.random() < 0.2:
                self.add(f"fuse({h}.start, into: {h}.loop({names[-1]}))")
            self.add(
                self.tile(op, inner, ["none", "pad"], [self.rng.choice(["1", "1", "1", "2", "4", "8"]) for _ in inner])
            )
        at = self.rng.choice(names) if self.rng.random() < 0.2 else names[-1]
        self.add(f"vectorize({h}.loop({at}))")
        if inner and self.rng.random() < 0.7:
            self.add(f"hoist_accumulator({h}, out_of: {h}.loop({inner[0]}))")

    def register_tile(self) -> None:
        """The recipe of the README: static tiles of all dims, vectors, the accumulator in registers."""
        if not self.nodes:
            return
        op = self.rng.choice(self.nodes)
        h, names = self.handle(op), self.vector_tile(op)
        if not names:
            inner = self.dims(op, "reduction")
            self.add(self.tile(op, inner, ["pad", "none"]), f"vectorize({h}.loop({inner[-1]}))")
            return
        if self.rng.random() < 0.5:
            self.add(f"fuse(epilogue({h}), into: {h}.loop({names[-1]}))")
        if self.rng.random() < 0.15:
            self.add(f"peel({h}.loop({names[0]}))")
        self.vectors(op, names)

    def packing(self) -> None:
        found = [op for op in self.nodes if op.operand_dims]
        if not found:
            return
        op = self.rng.choice(found)
        h = self.handle(op)
        if self.rng.random() < 0.8:
            self.add(self.tile(op, self.some_dims(op), ["none", "none", "pad"]))
        role, names = self.rng.choice(list(op.operand_dims.items()))
        names = list(dict.fromkeys(names))
        order = self.rng.sample(names, len(names))
        layout = [f"{n} pad {self.rng.choice([4, 8, 16])}" if self.rng.random() < 0.1 else n for n in order]
        if order and self.rng.random() < 0.15:
            digit, base = self.rng.choice(order), self.rng.choice([2, 4])
            layout = [f"{digit}/{base}", *[n for n in order if n != digit], f"{digit}%{base}"]
        options = ""
        if (at := self.loop()) and at[0] is op and self.rng.random() < 0.6:
            options += f", at: {h}.loop({at[1]})"
        options += ", parallel: true" if self.rng.random() < 0.2 else ""
        self.add(f"pack({h}.{role}, [{', '.join(layout)}]{options})")

    def loops(self) -> None:
        """A transform of a loop that is there."""
        if not self.tiled and self.nodes:
            op = self.rng.choice(self.nodes)
            self.add(self.tile(op, self.some_dims(op), ["none", "none", "pad"]))
        if not self.tiled:
            return
        op, n = self.rng.choice(self.tiled)
        h = self.handle(op)
        loop = f"{h}.loop({n})"
        roles = [r for r in op.roles if r != "init"] or ["operand"]
        self.add(
            self.rng.choice(
                [
                    f"peel({loop})",
                    f"peel({loop}, scalar: true)",
                    f"peel({loop}, borders: true)",
                    f"split({loop}, at: {self.rng.choice(['4', '8'])})",
                    f"split({loop}, at: {self.rng.choice(['4', '8', '16', '2 * lanes(f32)', f'size({h}.{n}) / 2'])})",
                    f"unroll({loop}, factor: {self.rng.choice([2, 3, 4])})",
                    f"unroll({loop})",
                    f"unroll({loop}, factor: 4, explicit: false)",
                    f"parallelize({loop})",
                    f"parallelize({loop})",
                    f"prefetch({h}.{self.rng.choice(roles)}, at: {loop}, ahead: {self.rng.choice([0, 1, 2])})",
                    f"prefetch({h}.out, at: {loop}, for: write)",
                    f"promote({h}.out, at: {loop})",
                ]
            )
        )

    def peeled(self) -> None:
        """A main loop in vectors and a scalar tail."""
        found = [op for op in self.nodes if self.dims(op, "parallel")]
        if not found:
            return
        op = self.rng.choice(found)
        h, names = self.handle(op), self.dims(op, "parallel")
        last = names[-1]
        if len(names) > 1 or self.dims(op, "reduction"):
            rest = [n for n in self.dims(op) if n != last]
            self.add(self.tile(op, rest, ["none"], ["1" for _ in rest]))
        self.add(self.tile(op, [last], ["none"], [self.rng.choice(["4", "8", "lanes(f32)"])]))
        self.add(f"peel({h}.loop({last}))", f'vectorize({h}.copy("main").loop({last}))')
        if self.rng.random() < 0.3:
            self.add(f'unroll({h}.copy("main").loop({last}), factor: 2)')

    def split_sum(self) -> None:
        sums = [op for op in self.nodes if self.dims(op, "reduction")]
        if not sums:
            return
        op = self.rng.choice(sums)
        h, n = self.handle(op), self.rng.choice(self.dims(op, "reduction"))
        if len(self.dims(op, "reduction")) > 1 and self.rng.random() < 0.3:
            self.add(f"reduce_first({h}, [{n}])")
            return
        how = self.rng.choice(
            ["parts: 2", "parts: 4, parallel: true", "parts: 3", "factor: 4", "factor: 8", "factor: 2"]
        )
        self.add(f"split_reduction({h}, {n}, {how})")
        if self.rng.random() < 0.4:
            self.add(self.tile(op, self.some_dims(op), ["none", "pad"]))

    def rewrite(self) -> None:
        """Another form of an operation."""
        if not self.nodes:
            return
        op = self.rng.choice(self.nodes)
        h, names = self.handle(op), self.dims(op)
        outer = self.dims(op, "parallel")
        lines = [
            f"generalize({h})",
            f"decompose({h})",
            f"interchange({h}, [{', '.join(self.rng.sample(names, len(names)))}])",
        ]
        if len(outer) > 1:
            lines.append(
                f"transpose_result({h}, [{', '.join(self.rng.sample(outer, self.rng.randint(1, len(outer))))}])"
            )
        at = self.rng.choice(names)
        lines.append(f"pad({h}, [{at}: {self.rng.choice([8, 16, 20, 33, 48, 66])}])")
        composite = [o for o in self.nodes if o.opcode in {"softmax", "layer_norm", "gelu", "silu", "sigmoid"}]
        if composite and self.rng.random() < 0.6:
            o = self.rng.choice(composite)
            self.add(f"decompose({self.handle(o)})")
            if self.rng.random() < 0.3:
                self.add("recognize(root)")
            if self.rng.random() < 0.5:
                k = self.rng.randrange(len(o.dims))
                self.add(POLICIES[-1].replace("dK", f"d{k}"))
            return
        line = self.rng.choice(lines)
        self.add(line)
        if line.startswith("transpose_result") and self.rng.random() < 0.5:
            self.add("cancel_transposes(root)")
        if line.startswith("generalize"):
            to = self.rng.choice([op.opcode, "contract", "elementwise"])
            if self.rng.random() < 0.5:
                self.add(f"specialize({h}, to: {to})")

    def casts(self) -> None:
        """Widening, narrowing and zero points of factors; most where there is something of the kind."""
        found = [op for op in self.nodes if op.family == "contract"]
        if not found:
            return
        op = self.rng.choice(found)
        h, wide = self.handle(op), op.results[0].dtype
        for role in self.rng.sample(["lhs", "rhs"], 2):
            factor = op.roles[role]
            before = factor.producer.opcode if factor.producer else ""
            if before == "sub":
                self.add(f"fold_offset({h}.{role})")
            if before in {"cast", "sub"}:
                self.add(f"fold_cast({h}.{role})")
            elif factor.dtype == "si8" and self.rng.random() < 0.6:
                self.add(f"shift_factor({h}.{role}, by: 128, to: {self.rng.choice(['ui8', 'ui8', 'si16'])})")
            elif factor.dtype != wide or self.rng.random() < 0.2:
                self.add(f"unfold_cast({h}.{role}, to: {self.rng.choice([wide, wide, 'f32', 'si16'])})")

    def versions(self) -> None:
        if not self.nodes:
            return
        op = self.rng.choice(self.nodes)
        h, n = self.handle(op), self.rng.choice(self.dims(op))
        condition = self.rng.choice(
            [
                f"size({h}.{n}) < 8",
                f"size({h}.{n}) == 8 or size({h}.{n}) == 17",
                f"size({h}.{n}) % 4 == 0",
                f"size({h}.{n}) >= 16",
            ]
        )
        first = self.tile(op, [n], ["none", "pad"], ["4"])
        second = self.tile(op, [n], ["none", "none", "pad"], ["8"])
        tail = f"; vectorize({h}.loop({n}))" if self.rng.random() < 0.3 else ""
        self.add(f"specialize {h} when {condition} {{ {first}{tail} }} else {{ {second} }}")

    def groups(self) -> None:
        pairs = self.pairs()
        if not pairs:
            return
        p, c = self.rng.choice(pairs)
        g, outer = f"g{len(self.drawn.body)}", self.some_dims(p, "parallel")
        inside = [f"isolate({g})"] if self.rng.random() < 0.4 else []
        if outer and self.rng.random() < 0.7:
            inside.append(self.tile(p, outer, ["none"]))
            inside.append(f"fuse({self.handle(c)}, into: {self.handle(p)}.loop({outer[0]}))")
        if self.rng.random() < 0.3:
            inside.append(f"dissolve({g})")
        self.add("; ".join([f"let {g} = group([{self.handle(p)}, {self.handle(c)}])", *inside]))

    def functions(self) -> None:
        """One operation, or two that follow one another, as a function; it is scheduled there, or put back."""
        pairs = self.pairs()
        if not pairs:
            return
        p, c = self.rng.choice(pairs)
        f, outer = f"f{len(self.drawn.body)}", self.some_dims(c, "parallel")
        ops = self.rng.choice([self.handle(c), self.handle(p), f"[{self.handle(p)}, {self.handle(c)}]"])
        inside: list[str] = []
        if outer and self.rng.random() < 0.4:
            inside.append(self.tile(c, outer, ["none", "pad", "peel"]))
        if self.rng.random() < 0.5:
            inside.append(f"inline({f})")
        self.add("; ".join([f"let {f} = outline({ops})", *inside]))

    def policies(self) -> None:
        step = self.rng.choice(["4", "8", "lanes(f32)"])
        self.add(self.rng.choice(POLICIES).replace("dK", f"d{self.rng.choice([0, 0, 1, 2])}").replace("STEP", step))

    def cleanup(self) -> None:
        h = self.handle(self.rng.choice(self.nodes)) if self.nodes else "root"
        lines = ["cse(root)", "dce(root)", "canonicalize(root)", "evaluate_constants(root)", "assign_layout(root)",
                 "verify(root)", "print(root)",
                 f'annotate({h}, "note", "text")', 'snapshot(root, "there")',
                 f'emit_remark({h}, "is here")', 'assert(1 + 1 == 2, "sums")']  # fmt: skip
        self.add(self.rng.choice(lines))

    def fewer_multiplications(self) -> None:
        """Products of transforms in place of sums over windows: before any other line."""
        op = self.rng.choice([op for op in self.nodes if op.family == "windows"])
        self.add(f"winograd({self.handle(op)}, m: {self.rng.choice([2, 2, 4, 6])})")

    def folding(self) -> None:
        """What reads a stored constant is computed when the kernel is compiled."""
        users = [u for op in self.program.ops if op.opcode == "const" for u in op.results[0].users if u in self.nodes]
        if users:
            op = self.rng.choice(users)
            roles = [role for role, v in op.roles.items() if v.producer and v.producer.opcode == "const"]
            h, role = self.handle(op), self.rng.choice(roles)
            names = list(dict.fromkeys(op.operand_dims.get(role, [])))
            if names and self.rng.random() < 0.6:
                order = ", ".join(self.rng.sample(names, len(names)))
                self.add(
                    f"let p{len(self.drawn.body)} = pack({h}.{role}, [{order}]); constant_fold(p{len(self.drawn.body)})"
                )
            else:
                self.add(f"constant_fold({h})")

    def lowering(self) -> None:
        lines = ["lower_vectors(root)", "bufferize(root)", "plan_memory(root)", "select_instructions(root)"]
        self.add(*lines[: self.rng.randint(1, 4)])

    # ------------------------------------------------------------ all

    def draw(self) -> Drawn:
        drawn, rng = self.drawn, self.rng
        for op in self.program.ops:
            pattern = rng.choice(CLASSES.get(op.opcode, ["op"])) if rng.random() < 0.3 else "op"
            if op.opcode != "materialize":
                drawn.handles.append(f'let {self.handle(op)} = match one {pattern} "{op.name}" in root')
        if rng.random() < 0.2:
            drawn.handles.insert(0, "knob height: int = 6 in 1..14")
            drawn.params["height"] = rng.randint(1, 14)
        recipes: list[tuple[Callable[[], None], int]] = [
            (self.fuse_consumer, 6),
            (self.fuse_producer, 6),
            (self.start_of_sum, 3),
            (self.register_tile, 5),
            (self.packing, 3),
            (self.loops, 6),
            (self.peeled, 2),
            (self.split_sum, 3),
            (self.rewrite, 6),
            (self.casts, 2),
            (self.versions, 3),
            (self.groups, 3),
            (self.functions, 3),
            (self.policies, 2),
        ]
        narrow = any(
            op.family == "contract" and len({v.dtype for v in [*op.operands, *op.results]}) > 1 for op in self.nodes
        )
        if narrow and rng.random() < 0.7:
            self.casts()
        if any(op.family == "windows" for op in self.nodes) and rng.random() < 0.6:
            self.fewer_multiplications()
        if any(op.opcode == "const" for op in self.program.ops) and rng.random() < 0.4:
            self.folding()
        if self.pairs() and rng.random() < 0.75:
            rng.choice([self.fuse_consumer, self.fuse_producer])()
        for _ in range(rng.randint(1, 4)):
            rng.choices([r for r, _ in recipes], [w for _, w in recipes])[0]()
            if rng.random() < 0.4:
                self.cleanup()
        if rng.random() < 0.15:
            self.lowering()
        return drawn


def draw_schedule(rng: Random, program: Program) -> Drawn:
    """A schedule of a few recipes; `fuse` first where there is something to fuse."""
    return Drawer(rng, program).draw().without(set())
