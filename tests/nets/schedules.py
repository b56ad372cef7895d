"""Random schedules, statement by statement."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import tcpx
from tcpx.payload.diagnostics import TcpxError
from tcpx.payload.indexing_maps import map_dim
from tcpx.payload.interfaces import IteratorKind, Structured, Tileable
from tcpx.payload.ir import FuncOp, Operation
from tcpx.payload.ops.composite import AlongDims, Composite
from tcpx.payload.ops.gml_st import If, Loop
from tcpx.payload.ops.reduce import Reduce
from tcpx.payload.sizes import Dim
from tcpx.payload.traits.call import Calling
from tcpx.payload.traits.indices import Indices
from tcpx.payload.traits.positions import positions_read
from tcpx.payload.traits.reduction import Reduction
from tcpx.payload.traits.scan import Scan
from tcpx.payload.traits.tree import Tree
from tcpx.payload.types import shape_of
from tcpx.transform.declaration import Result, Transform, is_own
from tcpx.transform.recognition import lines
from tcpx.transform.vectors.lane_dims import carries
from tests.nets.arguments import TILES, Arguments
from tests.nets.counts import KEY, SPECIALIZE_WHEN, Counts
from tests.nets.messages import message_kind
from tests.nets.session import Session

MOST = 12
LAST = ("bufferize", "lower_vectors", "select_instructions", "plan_memory")
"""After these there is nothing left to tile; they come at the end, in this order."""
DRAWS = 2
"""How often a statement that fails may be drawn again; a failure may stay in the schedule, in a `try`."""
LATE, RARE = 100, 3
"""From so many cases of a group on, transforms that succeeded less often are tried first."""


@dataclass(frozen=True, slots=True)
class Step:
    """A generated statement."""

    transform: str
    text: str
    failure: str | None = None

    @property
    def written(self) -> str:
        """As it stands in the schedule: what fails is tried."""
        return self.text if self.failure is None else f"try {{ {self.text} }}"


Accepts = Callable[[TcpxError | None, str], None]
"""Told of every statement that was run: its error or None, and its text."""


OF_STATE = ("block_steps",)
"""Transforms of loops over state, which the payloads of these nets do not have: `tests/nets/steps.py` has some."""

OF_WINDOWS = ("assign_layout",)
"""Transforms that only large windows are worth: `tests/transform/ops/test_assign_layout.py` draws graphs of them."""
THAT_ROUND = ("winograd",)
"""Transforms whose results are rounded otherwise, within bounds of their own: `tests/transform/ops/test_winograd.py`
draws convolutions."""
LEFT_OUT = (*OF_STATE, *OF_WINDOWS, *THAT_ROUND)


def built_in() -> dict[str, type[Transform]]:
    """The other transforms of the package: what other tests of this process register changes no draw."""
    return {name: cls for name, cls in tcpx.transforms().items() if is_own(name) and name not in LEFT_OUT}


class RandomSchedule:
    """Draws statements and runs them in a session."""

    def __init__(self, seed: int, session: Session, counts: Counts, accepts: Accepts, lowers: bool = False) -> None:
        """With `lowers`, the last statements bring all that there is to buffers and rows."""
        self.lowers = lowers
        self.random = random.Random(seed)
        self.session = session
        self.counts = counts
        self.accepts = accepts
        self.steps: list[Step] = []
        self.prefix: list[str] = []
        self.names = 0
        self.focus = ""
        self.running: list[str] = []
        self.failed: set[str] = set()
        self.transforms = built_in()
        self.first_class = {op.name: op.opcode.partition(".")[2] for op in session.module.main.body.ops}

    # -- the schedule ------------------------------------------------------------------------------------------------

    @property
    def applied(self) -> list[str]:
        """The transforms of the statements that succeeded."""
        return [s.transform for s in self.steps if s.failure is None]

    @property
    def statements(self) -> list[str]:
        """All statements of the schedule, with the one that is being run."""
        return [*self.prefix, *(s.written for s in self.steps), *self.running]

    def make(self) -> None:
        """Draw a schedule."""
        self._bind()
        wanted = self.random.choice((3, 5, 6, 7, 8, 9, 10, 12))
        for led in LED:
            if led.is_due(self.counts):
                led.draw(self)
        for name in self._rare():
            self._step(name)
        for name in self._plan():
            if len(self.steps) < wanted:
                self._step(name)
        for _ in range(2 * wanted):
            if len(self.steps) >= wanted:
                break
            self._step(self._drawn())
        if self.random.random() < 0.3 or self.lowers:
            lasts = self.random.randrange(1, len(LAST) + 1)
            least = LAST.index(min(LAST, key=self.counts.by_transform.__getitem__)) + 1
            for name in LAST if self.lowers else LAST[: max(lasts, least)]:
                if len(self.steps) < MOST or self.lowers:
                    self._step(name)

    def _bind(self) -> None:
        """Name the operations of the payload, and the loops that it has round them."""
        bound: set[Operation] = set()
        for op in self.session.module.main.walk():
            around = list(op.ancestors())
            if not isinstance(op, Tileable) or not all(isinstance(a, FuncOp | Loop | If) for a in around):
                continue
            name = op.name.replace(".", "_")
            texts = [f'let {name} = match one "{op.name}" in root']
            if isinstance(around[0], Loop) and around[0] not in bound:
                bound.add(around[0])
                texts.append(f"let {name}_loop = parent({name})")
            for text in texts:
                self.prefix.append(text)
                self.session.run(text)

    def _plan(self) -> list[str]:
        """The pair of key transforms that has met least, with tile to make room for it, in a sensible order."""
        ranked = sorted(combinations(KEY, 2), key=lambda p: (self.counts.pairs[p], self.random.random()))
        wanted = {"tile", *ranked[0], *(n for n in KEY if self.random.random() < 0.25)}
        names = [n for n in KEY if n in wanted]
        if "specialize" in wanted:
            names[:1] = self.random.choice((["generalize", "specialize"], [SPECIALIZE_WHEN]))
        return names

    def _accumulate_in_registers(self) -> None:
        """The steps that lead to `hoist_accumulator`: chance hardly ever finds them."""
        for name, op in self.session.ops().items():
            if not isinstance(op, Structured) or Reduction(op).neutral() is None:
                continue
            kept = [it.name for it in op.iterators() if not it.is_reduction]
            summed = [it.name for it in op.iterators() if it.is_reduction]
            if kept and summed:
                outer = [self._fresh("t") for _ in kept]
                inner = [self._fresh("t") for _ in summed]
                self._given(
                    "tile", f"let {', '.join(outer)} = tile({name}, [{', '.join(f'{d}: 4' for d in kept)}], tail: pad)"
                )
                self._given("tile", f"let {', '.join(inner)} = tile({name}, [{', '.join(f'{d}: 1' for d in summed)}])")
                self._given("vectorize", f"vectorize({outer[0]})")
                self._given("hoist_accumulator", f"hoist_accumulator({name}, out_of: {inner[-1]})")
                return

    def _siblings(self) -> None:
        """Two operations in tiles of dims of one extent: chance hardly ever finds them."""
        by_extent: dict[Dim, dict[str, str]] = {}
        for name, op in self.session.ops().items():
            if isinstance(op, Tileable):
                for it, extent in zip(op.iterators(), op.domain(), strict=True):
                    by_extent.setdefault(extent, {}).setdefault(name, it.name)
        known = [found for found in by_extent.values() if len(found) > 1]
        if known:
            chosen = self.random.sample(list(self.random.choice(known).items()), 2)
            rest = f": {self.random.choice(TILES)}]{self._tail()})"
            loops = [self._fresh("t") for _ in chosen]
            for loop, (name, dim) in zip(loops, chosen, strict=True):
                self._given("tile", f"let {loop} = tile({name}, [{dim}{rest}")
            self._given("fuse_siblings", f"fuse_siblings({loops[0]}, into: {loops[1]})")

    def _masks(self) -> None:
        """Softmaxes of what may be masked."""
        for name, op in self.session.ops().items():
            if "softmax" in Tree(op).tree_classes():
                self._given("recognize_mask", f"recognize_mask({name})")

    def _constants(self) -> None:
        """What is computed of constants alone."""
        makers = {
            name: [value.defining_op for value in op.operands]
            for name, op in self.session.ops().items()
            if isinstance(op, Structured)
            and op.operands
            and len(op.results) == 1
            and all(isinstance(d, int) for d in shape_of(op.result.type))
        }
        names = [name for name, ops in makers.items() if all(op is not None and not op.operands for op in ops)]
        if names:
            self._given("constant_fold", f"constant_fold({self.random.choice(names)})")

    def _one_form(self) -> None:
        """An operation without its class, and again."""
        names = [name for name, op in self.session.ops().items() if isinstance(op, Structured) and not op.regions]
        if names:
            self._given("generalize", f"generalize({self.random.choice(names)})")
            self._given("normalize", "normalize(root)")

    def _whole_again(self) -> None:
        """An operation by its parts, and what they are."""
        known = {line.opcode for line in lines()}
        names = [name for name, op in self.session.ops().items() if op.opcode in known and isinstance(op, Composite)]
        if names:
            self._given("decompose", f"decompose({self.random.choice(names)})")
            self._given("recognize", "recognize(root)")

    def _alike(self) -> None:
        """Two operations of one class as one: chance hardly ever finds them."""
        known = [(name, op) for name, op in self.session.ops().items() if isinstance(op, Structured) and op.results]
        pairs = [
            (a, b, it.name)
            for (a, first), (b, second) in combinations(known, 2)
            if first.opcode == second.opcode and first.results[0].type == second.results[0].type
            for it in first.iterators()
            if it.kind is IteratorKind.PARALLEL
        ]
        if pairs:
            a, b, dim = self.random.choice(pairs)
            readers = self.random.choice(("", ", readers: true"))
            self._given("merge", f"merge([{a}, {b}], {dim}{readers})")

    def _turned(self) -> None:
        """A result in another order, and a reader that does without the transpose: chance seldom has one."""
        known = self.session.ops()
        read = [
            (name, op.result_map())
            for name, op in known.items()
            if isinstance(op, Structured) and len(op.results) == 1 and len(op.result_map()) > 1
            if map_dim(op.result_map()[-1]) and any(isinstance(user, Structured) for user in op.results[0].users)
        ]
        if not read:
            return
        name, layout = self.random.choice(read)
        self._given("transpose_result", f"transpose_result({name}, [{map_dim(layout[-1])}])")
        found = [
            (reader, op.operand_roles[k])
            for reader, op in self.session.ops().items()
            if isinstance(op, Structured)
            for k, value in enumerate(op.inputs)
            if value.defining_op is not None
            and value.defining_op.opcode == "tcp.transpose"
            and k < len(op.operand_roles)
        ]
        if found:
            self._given("fold_transpose", "fold_transpose({}.{})".format(*self.random.choice(found)))

    def _sums_of_turned(self) -> None:
        """A result in another order, which a reduction reads: it can read it as it is stored."""
        read = [
            (name, op.result_map())
            for name, op in self.session.ops().items()
            if isinstance(op, Structured) and len(op.results) == 1 and len(op.result_map()) > 1 and op.result.uses
            if map_dim(op.result_map()[-1]) and all(isinstance(user, AlongDims | Reduce) for user in op.result.users)
        ]
        if read:
            name, layout = self.random.choice(read)
            self._given("transpose_result", f"transpose_result({name}, [{map_dim(layout[-1])}])")
            self._given("cancel_transposes", "cancel_transposes(root)")

    def _scans(self) -> None:
        """Scans whose elements may be combined in any grouping."""
        for name, op in self.session.ops().items():
            if isinstance(op, Structured) and Scan(op).is_associative and Scan.of(op) is not None:
                dim = next(it.name for it in op.iterators() if it.is_sequential)
                self._given("scan_in_lanes", f"scan_in_lanes({name}, {dim})")

    def _rows(self) -> None:
        """Sums of powers in the loop of the maxima that they need; a quotient by them behind what reads it."""
        known = {op: name for name, op in self.session.ops().items()}
        for total, name in known.items():
            above = [total]
            while above[-1].operands and above[-1].operands[-1].defining_op in known:
                above.append(above[-1].operands[-1].defining_op)
            opcodes = [op.opcode.removeprefix("tcp.") for op in above[:5]]
            if opcodes != ["reduce_sum", "exp", "sub", "broadcast", "reduce_max"]:
                continue
            for spread in total.result.users:
                for quotient in spread.results[0].users if spread.opcode == "tcp.broadcast" else []:
                    if quotient in known and len(quotient.result.users) == 1 and quotient.result.users[0] in known:
                        reader = known[quotient.result.users[0]]
                        self._given("sink", f"sink({known[quotient]}, behind: {reader})")
            rest, loops = f"{self.random.choice(TILES)}]{self._tail()})", [self._fresh("t") for _ in range(2)]
            self._given("tile", f"let {loops[0]} = tile({name}, [d1: {rest}")
            self._given("fuse", f"fuse({known[above[1]]}, into: {loops[0]})")
            self._given("fuse", f"fuse({known[above[2]]}, into: {loops[0]})")
            self._given("tile", f"let {loops[1]} = tile({known[above[4]]}, [d1: {rest}")
            self._given("fuse_dependent", f"fuse_dependent({loops[0]}, into: {loops[1]})")
            return

    def _dims_first(self) -> None:
        """Reductions of several dims of one operand, one dim before the others."""
        for name, op in self.session.ops().items():
            summed = [it.name for it in op.iterators() if it.is_reduction] if isinstance(op, Structured) else []
            if len(summed) > 1 and len(op.operands) == 1:
                self._given("reduce_first", f"reduce_first({name}, [{self.random.choice(summed)}])")

    def _diagonals(self) -> None:
        """Sums of rows up to their diagonal, in a loop that ends there."""
        known = {op: name for name, op in self.session.ops().items()}
        for total, name in known.items():
            kept = total.operands[0].defining_op if total.opcode == "tcp.reduce_sum" else None
            seen = kept.operands[0].defining_op if kept is not None and kept.opcode == "tcp.select" else None
            if kept is None or seen is None or seen.opcode != "tcp.greater_equal":
                continue
            parts = [kept, seen, *(value.defining_op for value in seen.operands)]
            names = [known[op] for op in parts if op in known]
            outer, inner = self._fresh("t"), self._fresh("t")
            sizes = ", ".join(f"{dim}: {self.random.choice(TILES)}" for dim in ("d0", "d1"))
            self._given("fuse_elementwise", f"fuse_elementwise([{', '.join(names)}])")
            self._given("tile", f"let {outer}, {inner} = tile({name}, [{sizes}])")
            self._given("fuse", f"fuse({known[kept]}, into: {inner})")
            self._given("trim", f"trim({inner}, {known[kept]})")
            return

    def _group_for_a_while(self) -> None:
        """A group that is dissolved again: few schedules have one for long enough."""
        names = [name for name, op in self.session.ops().items() if isinstance(op, Structured)]
        if names:
            made = self._fresh("o")
            self._given("group", f"let {made} = group([{self.random.choice(names)}])")
            if 40 * self.counts.by_transform["isolate"] <= self.counts.cases:
                self._given("isolate", f"isolate({made})")
            self._given("dissolve", f"dissolve({made})")

    def _all_versions(self) -> None:
        """Versions of one operation, and of all that has to do with it."""
        text = self._versions()
        if text is not None:
            self._given(SPECIALIZE_WHEN, f"{text.partition(' { ')[0]} {{ }} else {{ }}")
            self._given("unswitch", "unswitch(root)")

    def _call_for_a_while(self) -> None:
        """An operation as a function of its own, and back: chance hardly ever finds the call."""
        names = [name for name, op in self.session.ops().items() if isinstance(op, Structured)]
        if names:
            made = self._fresh("o")
            self._given("outline", f"let {made} = outline([{names[0]}])")
            self._given("inline", f"inline({made})")

    def _one_loop(self) -> None:
        """Two loops over parallel dims of one operation, as one."""
        found = [
            (name, [it.name for it in op.iterators() if it.kind is IteratorKind.PARALLEL][:2])
            for name, op in self.session.ops().items()
            if isinstance(op, Structured)
        ]
        pairs = [(name, dims) for name, dims in found if len(dims) == 2]
        if pairs:
            name, dims = self.random.choice(pairs)
            loops = self._fresh("t"), self._fresh("t")
            sizes = ", ".join(f"{dim}: {self.random.choice(TILES)}" for dim in dims)
            parallel = self.random.choice(("", ", parallel: true"))
            self._given("tile", f"let {', '.join(loops)} = tile({name}, [{sizes}]{parallel})")
            self._given("coalesce", f"coalesce({loops[0]})")

    def _two_parts(self) -> None:
        """A loop that computes an operation and what that reads, as two."""
        known = self.session.ops()
        found = [
            (reader, it.name, maker)
            for reader, op in known.items()
            if isinstance(op, Structured)
            for it in op.iterators()
            if it.kind is IteratorKind.PARALLEL
            for maker, made in known.items()
            if isinstance(made, Structured) and not made.is_movement
            if any(value.defining_op is made and len(value.uses) == 1 for value in op.inputs)
        ]
        if found:
            reader, dim, maker = self.random.choice(found)
            loops = self._fresh("t"), self._fresh("t"), self._fresh("t")
            self._given("tile", f"let {loops[0]} = tile({reader}, [{dim}: {self.random.choice(TILES)}])")
            self._given("fuse", f"fuse({maker}, into: {loops[0]})")
            self._given("fission", f"let {', '.join(loops[1:])} = fission({loops[0]}, after: {maker})")

    def _one_index(self) -> None:
        """An operation index by index of a dim, without the dim: payloads seldom have one of size 1."""
        found = [
            (name, it.name)
            for name, op in self.session.ops().items()
            if isinstance(op, Structured) and not Indices(op).operands and not positions_read(op)
            for it in op.iterators()
            if it.kind is IteratorKind.PARALLEL
        ]
        if found:
            name, dim = self.random.choice(found)
            self._given("tile", f"let {self._fresh('t')} = tile({name}, [{dim}: 1])")
            self._given("fold_unit_dims", f"fold_unit_dims({name})")

    def _two_loops(self) -> None:
        """Two loops of one operation, the outer one of an even number of iterations where there is one."""
        found = [
            (name, outer, inner, extent)
            for name, op in self.session.ops().items()
            if isinstance(op, Structured) and Scan.of(op) is None
            for outer, extent in zip((it.name for it in op.iterators()), op.domain(), strict=True)
            for inner in (it.name for it in op.iterators())
            if outer != inner and op.iterator(outer).kind is IteratorKind.PARALLEL
        ]
        even = [each for each in found if isinstance(each[3], int) and each[3] > 1 and each[3] % 2 == 0]
        if found:
            jams = bool(even) and self.counts.by_transform["unroll_and_jam"] <= self.counts.by_transform["reorder"]
            skews = not jams and self.counts.by_transform["skew"] <= self.counts.by_transform["reorder"]
            name, outer, inner, _ = self.random.choice(even if jams else found)
            loops = self._fresh("t"), self._fresh("t")
            size = self.random.choice(TILES)
            sizes = f"[{outer}: {1 if jams or skews else self.random.choice(TILES)}, {inner}: {size}]"
            self._given("tile", f"let {', '.join(loops)} = tile({name}, {sizes})")
            if jams:
                self._given("unroll_and_jam", f"unroll_and_jam({loops[0]}, factor: 2)")
            else:
                if skews:
                    self._given("skew", f"skew({loops[1]}, factor: {self.random.choice((1, 2))})")
                self._given("reorder", f"reorder([{loops[1]}, {loops[0]}])")

    def _invariants(self) -> None:
        """A loop over a dim that an operand does not have, with what makes the operand: chance seldom finds one."""
        known = self.session.ops()
        found = [
            (reader, it.name, maker)
            for reader, op in known.items()
            if isinstance(op, Structured)
            for it in op.iterators()
            if it.kind is IteratorKind.PARALLEL
            for maker, made in known.items()
            for value, entries in zip(op.inputs, op.maps(), strict=True)
            if value.defining_op is made and not carries(entries, it.name) and len(value.uses) == 1
        ]
        if found:
            reader, dim, maker = self.random.choice(found)
            loop = self._fresh("t")
            self._given("tile", f"let {loop} = tile({reader}, [{dim}: {self.random.choice(TILES)}])")
            self._given("fuse", f"fuse({maker}, into: {loop})")
            name = min(("hoist", "licm"), key=self.counts.by_transform.__getitem__)
            self._given(name, f"licm({loop})" if name == "licm" else f"hoist({maker}, out_of: {loop})")

    def _layers(self) -> None:
        """A function of what is repeated or equal, and a copy of it for one of the calls."""
        called = len(self.session.module.funcs)
        self._given("outline_repeats", "outline_repeats(root, least: 4)")
        self._given("share", "share(match any generic in root)")
        calls = [op.name for op in self.session.module.main.walk() if Calling(op).callee is not None]
        if calls and len(self.session.module.funcs) > called:
            self._given("clone", f'clone(match one "{self.random.choice(calls)}" in root)')

    def _rare(self) -> list[str]:
        """Late in a group, the transforms that hardly ever succeeded: they come before what takes their chance away."""
        late = self.counts.cases >= LATE
        return [n for n in self.transforms if late and n not in LAST and self.counts.by_transform[n] < RARE]

    def _given(self, name: str, text: str) -> None:
        self.counts.attempts += 1
        if self._run(text) is None:
            self.steps.append(Step(name, text))
        else:
            self.counts.failed_attempts += 1

    def _drawn(self) -> str:
        """A transform, those that succeeded least before the others."""
        names = [n for n in (*self.transforms, SPECIALIZE_WHEN) if n not in LAST and self._has_targets(n)]
        weights = [1 / (1 + self.counts.by_transform[n] + 3 * self.applied.count(n)) for n in names]
        return self.random.choices(names, weights)[0]

    def _has_targets(self, name: str) -> bool:
        """Whether there is a group for a transform of groups, and a call for one of calls."""
        parameters = self.transforms[name].parameters if name in self.transforms else ()
        wanted = {p.type.op_class for p in parameters}
        return ("group" not in wanted or bool(self.session.groups())) and (
            "call" not in wanted or bool(self.session.calls())
        )

    def _step(self, name: str) -> None:
        """Draw one statement; a few times if it fails. The last failure may stay, unless many say the same."""
        failed: Step | None = None
        for _ in range(DRAWS):
            text = self._statement(name)
            if text is None or (text.partition("= ")[2] or text) in self.failed:
                continue
            error = self._run(text)
            self.counts.attempts += 1
            if error is None:
                self.failed.clear()
                self.steps.append(Step(name, text))
                return
            self.failed.add(text.partition("= ")[2] or text)
            self.counts.failed_attempts += 1
            failed = failed or Step(name, text, message_kind(error))
        if failed is not None and failed.failure is not None and self._is_fresh(failed.failure):
            self.counts.messages[failed.failure] += 1
            self.steps.append(failed)

    def _is_fresh(self, message: str) -> bool:
        total = sum(self.counts.messages.values())
        return self.counts.messages[message] < max(3, 0.08 * total) and self.random.random() < 0.6

    def _run(self, text: str) -> TcpxError | None:
        self.running = [text]
        failure: TcpxError | None = None
        try:
            self.session.run(text)
        except TcpxError as error:
            failure = error
            self.counts.unproven += error.diagnostic.message.startswith("nothing proves that")
        self.accepts(failure, text)
        self.running = []
        return failure

    # -- one statement -----------------------------------------------------------------------------------------------

    def _fresh(self, letter: str) -> str:
        self.names += 1
        return f"{letter}{self.names}"

    def _statement(self, name: str) -> str | None:
        if name == SPECIALIZE_WHEN:
            return self._versions()
        transform = self.transforms[name]
        drawn = Arguments(self.random, self.session, self.focus, self.first_class, transform)
        written = drawn.draw()
        self.focus = drawn.focus
        if written is None:
            return None
        names = self._results(transform, drawn)
        binding = f"let {', '.join(names)} = " if names else ""
        return f"{binding}{name}({', '.join(written)})"

    def _results(self, transform: type[Transform], drawn: Arguments) -> list[str]:
        names: list[str] = []
        for result in transform.results:
            if result is Result.LOOPS:
                names += [self._fresh("t") for _ in range(drawn.entries)]
            elif result is not Result.VALUE:
                names.append(self._fresh("t" if result is Result.LOOP else "o"))
        return names

    def _versions(self) -> str | None:
        """`specialize x when ... { tile } else { tile }`."""
        symbolic = [
            (name, d)
            for name, op in self.session.ops().items()
            if isinstance(op, Tileable)
            for d, size in zip((it.name for it in op.iterators()), op.domain(), strict=True)
            if not isinstance(size, int)
        ]
        if not symbolic:
            return None
        name, dim = self.random.choice(symbolic)
        number = self.random.choice((2, 3, 4, 5, 8))
        condition = self.random.choice(
            (f"size({name}.{dim}) < {number}", f"size({name}.{dim}) >= {number}", f"size({name}.{dim}) % {number} == 0")
        )
        blocks: list[str] = []
        for _ in range(2):
            inside = f"let {self._fresh('t')} = tile({name}, [{dim}: {self.random.choice(TILES)}]{self._tail()})"
            if self.random.random() < 0.3:
                inside += f"; vectorize(t{self.names})"
            blocks.append(f"{{ {inside} }}" if self.random.random() < 0.8 else "{ }")
        return f"specialize {name} when {condition} {blocks[0]} else {blocks[1]}"

    def _tail(self) -> str:
        return self.random.choice(("", ", tail: pad", ", tail: pad", ", tail: peel"))


@dataclass(frozen=True, slots=True)
class Led:
    """Statements that lead to transforms which chance hardly ever finds."""

    draw: Callable[[RandomSchedule], None]
    transforms: tuple[str, ...]
    every: int = 0
    """One case in so many has each of the transforms."""
    after: int = 0
    """Or: from so many cases of a group on, each succeeds RARE times."""

    def is_due(self, counts: Counts) -> bool:
        """Whether a case begins with these."""
        fewest = min(counts.by_transform[name] for name in self.transforms)
        return self.every * fewest <= counts.cases if self.every else counts.cases >= self.after and fewest < RARE


LED = (
    Led(RandomSchedule._masks, ("recognize_mask",), every=20),
    Led(RandomSchedule._constants, ("constant_fold",), after=LATE),
    Led(RandomSchedule._one_form, ("normalize",), after=LATE + LATE // 2),
    Led(RandomSchedule._whole_again, ("recognize",), every=40),
    Led(RandomSchedule._scans, ("scan_in_lanes",), every=20),
    Led(RandomSchedule._rows, ("fuse_dependent", "sink"), every=20),
    Led(RandomSchedule._diagonals, ("trim",), every=20),
    Led(RandomSchedule._dims_first, ("reduce_first",), every=20),
    Led(RandomSchedule._accumulate_in_registers, ("hoist_accumulator",), every=30),
    Led(RandomSchedule._siblings, ("fuse_siblings",), every=20),
    Led(RandomSchedule._alike, ("merge",), every=40),
    Led(RandomSchedule._turned, ("fold_transpose",), every=40),
    Led(RandomSchedule._sums_of_turned, ("cancel_transposes",), every=40),
    Led(RandomSchedule._layers, ("clone", "outline_repeats", "share"), every=20),
    Led(RandomSchedule._invariants, ("hoist", "licm"), every=40),
    Led(RandomSchedule._two_loops, ("unroll_and_jam", "reorder", "skew"), every=40),
    Led(RandomSchedule._two_parts, ("fission",), every=40),
    Led(RandomSchedule._one_index, ("fold_unit_dims",), every=40),
    Led(RandomSchedule._one_loop, ("coalesce",), every=20),
    Led(RandomSchedule._all_versions, ("unswitch",), every=40),
    Led(RandomSchedule._group_for_a_while, ("dissolve", "isolate"), every=40),
    Led(RandomSchedule._call_for_a_while, ("inline",), after=LATE),
)
