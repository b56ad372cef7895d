"""Seeded faults in transforms and lowering: each a change of one place in the source, and tests that must notice it.

A test is a path below tests/, or a node id; they are run in order until one fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Mutant:
    """`old` stands exactly once in `file`, which is below tcpx/."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def mutated(self, root: Path) -> str:
        """The file below `root` with the fault. Raises ValueError where `old` is not there, or is there twice."""
        text = (root / "tcpx" / self.file).read_text(encoding="utf-8")
        if (count := text.count(self.old)) != 1:
            raise ValueError(f"{self.name}: {self.file} has {count} times {self.old!r}, required once")
        return text.replace(self.old, self.new)


NUMBERS: Final = "end_to_end/test_numbers.py"


def _op(*names: str) -> tuple[str, ...]:
    """The tests of these transforms, then whole kernels, then random payloads."""
    return (*(f"transform/ops/test_{name}.py" for name in names), NUMBERS)


MUTANTS: Final = (
    Mutant(
        "split_reduction: the combination forgets the first value",
        "transform/reduction_splitting.py",
        "regions, [*partial, *op.inits], [r.type",
        "regions, [*partial], [r.type",
        _op("split_reduction"),
    ),
    Mutant(
        "split_reduction: a shorter last round is padded with what changes the result",
        "transform/reduction_splitting.py",
        "Padding(op).pad_value(position, True)",
        "Padding(op).pad_value(position, False)",
        _op("split_reduction"),
    ),
    Mutant(
        "specialize: a branch that is not known to be reached is left out",
        "payload/sizes/context.py",
        "return not any(Context([both.without(c)])._excludes(c) for c in",
        "return all(Context([both.without(c)])._decide(c) is True for c in",
        ("transform/ops/test_specialize_when.py", "end_to_end/test_versions.py"),
    ),
    Mutant(
        "unfold_cast: a dtype that does not hold every number of the factor",
        "transform/ops/unfold_cast.py",
        "dtype == stored or not holds(dtype, stored)",
        "dtype == stored",
        _op("fold_factor"),
    ),
    Mutant(
        "grid: a range that depends on the outer loop",
        "emit_c/printer/control.py",
        "if {outer.var for outer in grid} & {v for bound in bounds for v in variables(bound)}:",
        "if not bounds:",
        ("emit_c/test_worksharing.py",),
    ),
    Mutant(
        "tile: the tail is one element short",
        "transform/tiling.py",
        "return first, minimum(size, extent - first, known=known)",
        "return first, minimum(size, extent - first - 1, known=known)",
        _op("tile"),
    ),
    Mutant(
        "tile: every iteration reads the first tile",
        "transform/tiling.py",
        "return first, minimum(size, extent - first, known=known)",
        "return var.lower, minimum(size, extent - first, known=known)",
        _op("tile"),
    ),
    Mutant(
        "tile: the reduction starts at 1",
        "transform/tiling.py",
        "new.fill(number, result.type)",
        "new.fill(1, result.type)",
        _op("tile"),
    ),
    Mutant(
        "pad: a padded reduction dim is filled as any other",
        "transform/tiling.py",
        "fill = Padding(op).pad_value(index, reduced)",
        "fill = Padding(op).pad_value(index, False)",
        _op("pad"),
    ),
    Mutant(
        "pad: what a padded reduction dim holds is said not to matter",
        "transform/tiling.py",
        "read, shape, fill, not reduced and pads_freely(op, index), op)",
        "read, shape, fill, True, op)",
        _op("pad"),
    ),
    Mutant(
        "fuse: a producer computes the tile at the origin",
        "transform/fusion.py",
        "tile = op.operand_tile(k, box)\n        wanted",
        "tile = op.operand_tile(k, Box.at_origin(box.sizes))\n        wanted",
        _op("fuse"),
    ),
    Mutant(
        "fuse: a producer that is read elsewhere is moved",
        "transform/fusion.py",
        "if outside and not (again.always or is_kept):",
        "if not outside and (again.always or is_kept):",
        _op("fuse"),
    ),
    Mutant(
        "pack: the buffer has a slot too few",
        "transform/packing.py",
        "here.ceildiv(loop.var.upper - loop.var.lower, loop.var.step)",
        "here.floordiv(loop.var.upper - loop.var.lower, loop.var.step)",
        _op("pack"),
    ),
    Mutant(
        "pack: a transposed operand is stored in the wrong order",
        "transform/packing.py",
        "in_source = tuple(held_by[current.permutation.index(k)] for k in range(len(held_by)))",
        "in_source = held_by",
        _op("pack"),
    ),
    Mutant(
        "pack: padding of a tile is not 0",
        "transform/filling.py",
        "tile = made(new.pad(tile, shape, rest, free=ViewLike(current.pad).is_free))",
        "tile = made(new.pad(tile, shape, 1, free=ViewLike(current.pad).is_free))",
        _op("pack"),
    ),
    Mutant(
        "pack: all iterations but the first fill the buffer",
        "transform/filling.py",
        '{"predicate": first((filled_by,))}, [then, orelse])',
        '{"predicate": first((filled_by,))}, [orelse, then])',
        _op("pack"),
    ),
    Mutant(
        "pack: the first iteration stores what it reads in the first slot",
        "transform/filling.py",
        "slot = slot_tile(slots_of(depends), shape_of(tile.type))",
        "slot = slot_tile(tuple(0 for _ in slots_of(depends)), shape_of(tile.type))",
        _op("pack"),
    ),
    Mutant(
        "peel: the tail begins one too late",
        "transform/peeling.py",
        "replace(var, lower=middle), f",
        "replace(var, lower=middle + 1), f",
        _op("peel", "split"),
    ),
    Mutant(
        "peel: a scalar tail computes two elements per step",
        "transform/peeling.py",
        "last: dict[Symbol | Var, Dim] = {old: old.upper - 1}",
        "last: dict[Symbol | Var, Dim] = {old: old.upper - 2}",
        _op("peel"),
    ),
    Mutant(
        "unroll: copies are one apart, not one step",
        "transform/unrolling.py",
        "mapping = CloneMap(sizes={var: Size.of(widened) + copy * var.step})",
        "mapping = CloneMap(sizes={var: Size.of(widened) + copy})",
        _op("unroll"),
    ),
    Mutant(
        "unroll: every copy takes the value the step began with",
        "transform/unrolling.py",
        "current = {k: mapping.value(_yielded(loop, k)) for k in current}",
        "current = {k: held for k, held in current.items()}",
        _op("unroll"),
    ),
    Mutant(
        "vectorize: the fill of masked lanes is lost",
        "transform/vectorization.py",
        "self._read(op, self.stored(source.operands[0]), source.subset, op.value, ViewLike(op).is_free)",
        "self._read(op, self.stored(source.operands[0]), source.subset, 0, ViewLike(op).is_free)",
        _op("vectorize"),
    ),
    Mutant(
        "vectorize: all padding may hold anything",
        "transform/vectorization.py",
        "self._read(op, self.stored(source.operands[0]), source.subset, op.value, ViewLike(op).is_free)",
        "self._read(op, self.stored(source.operands[0]), source.subset, op.value, True)",
        _op("vectorize"),
    ),
    Mutant(
        "hoist_accumulator: a part is taken for the whole",
        "transform/vectorization.py",
        "whole = static is not None and all(",
        "whole = static is not None or all(",
        _op("hoist_accumulator"),
    ),
    Mutant(
        "masks: the lanes before a piece are not subtracted",
        "transform/vectors/accesses.py",
        "_without_bounds(size, start + step * width, here) - start)",
        "_without_bounds(size, start + step * width, here))",
        _op("lower_vectors"),
    ),
    Mutant(
        "masks: the last lane of a strided piece is lost",
        "transform/vectors/accesses.py",
        "return min(width, max(0, -((start - size) // step)))",
        "return min(width, max(0, (size - start) // step))",
        _op("lower_vectors"),
    ),
    Mutant(
        "masks: every access is taken for a full one",
        "transform/vectors/memory_rows.py",
        'full = kind != "load_from" and are_equal_at(op, lanes, op.subset.sizes[dim])',
        "full = lanes > 1",
        _op("select_instructions"),
    ),
    Mutant(
        "rows: a read outside gives 0, whatever was asked for",
        "transform/vectors/memory_rows.py",
        "    elif op.value != 0 and (",
        "    elif op.value != 0 and not type_.lanes and (",
        _op("select_instructions", "lower_vectors"),
    ),
    Mutant(
        "rows: subtraction with its operands swapped",
        "target/shared/scalar.yaml",
        'semantics: a - b, c: "{a} - {b}"',
        'semantics: a - b, c: "{b} - {a}"',
        ("target/test_rows.py", NUMBERS),
    ),
    Mutant(
        "rows: division is done by the instruction of the product",
        "target/x86_avx2.yaml",
        "_mm256_div_$s({a}, {b})",
        "_mm256_mul_$s({a}, {b})",
        ("target/test_rows.py", NUMBERS),
    ),
    Mutant(
        "rows: a fused multiply-add adds the product itself",
        "transform/vectors/multiply_add.py",
        "op.operands[1 - index])",
        "op.operands[index])",
        _op("select_instructions"),
    ),
    Mutant(
        "fma: a sum that lies between two numbers is rounded twice",
        "payload/fused.py",
        "if is_undecided.any():",
        "if False:",
        ("payload/test_fused.py",),
    ),
    Mutant(
        "rows: a reduction tree takes every second lane twice",
        "transform/vectors/compute_rows.py",
        "zip(level[::2], level[1::2], strict=False)",
        "zip(level[::2], level[::2], strict=False)",
        _op("select_instructions"),
    ),
    Mutant(
        "bufferize: a value is overwritten while it is still read",
        "transform/bufferization/conflicts.py",
        "found = self._siblings(storage, memory) or self._value(storage, memories)",
        "found = self._siblings(storage, memory)",
        _op("bufferize", "bufferize_places"),
    ),
    Mutant(
        "bufferize: what a memory holds already is not compared with what moves there",
        "transform/bufferization/conflicts.py",
        "*self._held_meanwhile(memory, writes)}",
        "}",
        _op("bufferize", "bufferize_places"),
    ),
    Mutant(
        "bufferize: a memory forgets the writes to what became part of it",
        "transform/bufferization/occupancy.py",
        "insort(joined.writes, rank)",
        "insort([], rank)",
        _op("bufferize", "bufferize_places"),
    ),
    Mutant(
        "bufferize: a destination is written before it is read",
        "transform/bufferization/conflicts.py",
        "if found is None and storage.destination is not None:",
        "if found is not None and storage.destination is not None:",
        _op("bufferize", "bufferize_places"),
    ),
    Mutant(
        "bufferize: a loop is taken to run once",
        "transform/bufferization/program_order.py",
        "if isinstance(around, Loop):\n            return Order.MAYBE",
        "if isinstance(around, Loop):\n            return Order.NEVER",
        _op("bufferize", "bufferize_places"),
    ),
    Mutant(
        "plan_memory: a slot is free while its buffer is live",
        "transform/bufferization/workspace.py",
        "live = [k for k in live if items[k].last >= item.first]",
        "live = [k for k in live if items[k].last > item.first]",
        _op("plan_memory"),
    ),
    Mutant(
        "plan_memory: a buffer ends where the next one may overlap it",
        "transform/bufferization/workspace.py",
        "ends[here] = [start + sizes[here] for start in _alternatives(offsets[here])]",
        "ends[here] = [start + sizes[here] - 64 for start in _alternatives(offsets[here])]",
        _op("plan_memory"),
    ),
    Mutant(
        "plan_memory: threads have one slot",
        "transform/bufferization/workspace.py",
        "places = {inner: Place(place.offset, step) for inner, place in places.items()}",
        "places = {inner: Place(place.offset, 0) for inner, place in places.items()}",
        _op("plan_memory"),
    ),
    Mutant(
        "sizes: ceildiv of ints rounds down",
        "payload/sizes/arithmetic.py",
        "return -(-a // b)\n    quotient",
        "return a // b\n    quotient",
        ("payload/test_sizes.py", NUMBERS),
    ),
    Mutant(
        "sizes: ceildiv of a symbolic size goes the wrong way",
        "payload/sizes/arithmetic.py",
        "return quotient - constant",
        "return quotient + constant",
        ("payload/test_sizes.py", NUMBERS),
    ),
    Mutant(
        "sizes: mod forgets whole multiples",
        "payload/sizes/arithmetic.py",
        "return rest - constant * b",
        "return rest",
        ("payload/test_sizes.py", NUMBERS),
    ),
    Mutant(
        "specialize when: the rest is thought to satisfy the condition",
        "payload/sizes/predicates.py",
        "return Comparison(NEGATED[self.op], self.lhs, self.rhs)",
        "return Comparison(self.op, self.lhs, self.rhs)",
        ("payload/test_predicates.py", *_op("specialize_when")),
    ),
    Mutant(
        "specialize when: the condition is inverted in C",
        "emit_c/printer/control.py",
        "return context.sizes.condition(op.predicate, scope)",
        'return f"!({context.sizes.condition(op.predicate, scope)})"',
        ("end_to_end/test_versions.py", NUMBERS),
    ),
    Mutant(
        "assert: what does not hold is passed over",
        "transform/ops/assert.py",
        'if args.bool("condition"):',
        'if args.bool("condition") or True:',
        _op("inspection"),
    ),
    Mutant(
        "cse: operations with different attributes are merged",
        "transform/cleanup.py",
        "tuple(sorted((k, str(a)) for k, a in op.attributes.items())),",
        "(),",
        _op("cleanup"),
    ),
    Mutant(
        "canonicalize: a decided branch is folded to the other one",
        "transform/simplification.py",
        "taken = op.then if decided else op.orelse",
        "taken = op.orelse if decided else op.then",
        _op("cleanup"),
    ),
    Mutant(
        "bufferize: strided arguments are contiguous",
        "transform/bufferization/buffers.py",
        "strides = (*(symbol.size() for symbol in made), 1)",
        "strides = buffer.type.strides",
        ("transform/ops/test_bufferize.py",),
    ),
    Mutant(
        "bufferize: strided memory is seen under another shape",
        "transform/bufferization/placement.py",
        "            if memory.strided:\n",
        "            if memory.strided and False:\n",
        ("end_to_end/test_strided_arguments.py",),
    ),
    Mutant(
        "strides: rows of an output may meet",
        "emit_c/strides.py",
        "if stride < reached:",
        "if stride < array.itemsize:",
        ("end_to_end/test_strided_arguments.py",),
    ),
    Mutant(
        "emit_c: what is bound may be a copy",
        "emit_c/wrapper.py",
        '"as_it_is"',
        '"adapt"',
        ("emit_c/test_bound_calls.py",),
    ),
    Mutant(
        "emit_c: a bound call has outputs of its own",
        "emit_c/kernel.py",
        "self._bind(given, out)",
        "self._bind(given, None)",
        ("emit_c/test_bound_calls.py",),
    ),
    Mutant(
        "emit_c: a constant offset is not multiplied by its stride",
        "emit_c/printer/memory_access.py",
        "constant += ahead * stride",
        "constant += ahead",
        ("emit_c/test_kernels.py", NUMBERS),
    ),
    Mutant(
        "emit_c: a loop runs once more",
        "emit_c/printer/control.py",
        'ends = f"{name} < {upper}',
        'ends = f"{name} <= {upper}',
        ("emit_c/test_kernels.py", NUMBERS),
    ),
    Mutant(
        "emit_c: ceildiv rounds down",
        "emit_c/printer/expressions.py",
        "{ return a / b + (a % b > 0); }",
        "{ return a / b + (b < 0); }",
        ("emit_c/test_expressions.py", NUMBERS),
    ),
    Mutant(
        "transposition: columns come in the order of the vectors",
        "transform/vectors/transposition.py",
        "return [found[column] for column in range(len(held))]",
        "return [*found.values()]",
        ("end_to_end/test_transposes.py",),
    ),
    Mutant(
        "transposition: half of the lanes are combined twice",
        "transform/vectors/transposition.py",
        "for lanes in (stage.low, stage.high))",
        "for lanes in (stage.low, stage.low))",
        ("transform/ops/test_lower_vectors.py",),
    ),
    Mutant(
        "pieces: rows beyond a value are those before them",
        "transform/vectors/pieces.py",
        "for row in range(index[lanes.dim], index[lanes.dim] + width):",
        "for row in range(width):",
        ("end_to_end/test_transposes.py",),
    ),
    Mutant(
        "tile: a shifted tile begins where it would without",
        "transform/tiling.py",
        "return begin, minimum(size, extent, known=known)",
        "return first, minimum(size, extent, known=known)",
        ("transform/ops/test_tile_shift.py",),
    ),
    Mutant(
        "fission: the second loop reads the slot of the first iteration",
        "transform/loop_fission.py",
        "index = floordiv(Size.of(var) - var.lower, self.step)",
        "index = 0",
        ("transform/ops/test_fission.py",),
    ),
    Mutant(
        "reorder: the inner loop starts from nothing where it goes on",
        "transform/loop_order.py",
        "start = Materialize.of(dest, each.whole) if each.is_read else empty",
        "start = empty",
        ("transform/ops/test_reorder.py",),
    ),
    Mutant(
        "licm: what a loop goes on from in place is moved, too",
        "transform/invariants.py",
        "if why_not(op, loop, found) is not None or _is_changed_in_place(op, found)]",
        "if why_not(op, loop, found) is not None]",
        ("transform/ops/test_licm.py",),
    ),
    Mutant(
        "coalesce: the extent of dims that are one is that of the last",
        "transform/coalescing.py",
        "found[-1] = found[-1] * extent",
        "found[-1] = extent",
        ("transform/ops/test_coalesce.py",),
    ),
    Mutant(
        "coalesce: a position may count the dims in any order",
        "transform/coalescing.py",
        "if factors is None or not is_row_major:",
        "if factors is None:",
        ("transform/ops/test_coalesce.py",),
    ),
)
