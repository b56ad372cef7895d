"""Masks of scores, in the form that later steps recognize: conditions on positions, and for the rest the data they
read, along the dims on which the data depend."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isinf

from tcpx.payload.contexts import context_at
from tcpx.payload.diagnostics import Direction
from tcpx.payload.indexing_maps import dims, map_dim
from tcpx.payload.interfaces import Build, Elementwise, Iterator, IteratorKind, Structured, Tileable
from tcpx.payload.ir import Attribute, Block, Operation, Value
from tcpx.payload.ops.constant import least_number
from tcpx.payload.sizes import Dim, is_equal, is_less_equal, substitute
from tcpx.payload.sizes.questions import KnownSymbols
from tcpx.payload.traits.algebra import algebra
from tcpx.payload.types import TensorType, dtype_of, i1, shape_of, si64
from tcpx.records import frozen
from tcpx.transform import new
from tcpx.transform.arguments import TransformContext
from tcpx.transform.bodies import pointwise
from tcpx.transform.editing import builder_at, erase_dead, rename_inside, source_name
from tcpx.transform.elementwise import repeats
from tcpx.transform.position_values import Cases, Condition, Data, Form, Forms, place

_FINITE = 0.5
"""A mask value counts as infinite from this fraction of the lowest number of a dtype."""


@frozen
class Link:
    """An operation on the path to a softmax; operand `scores` has the scores. The mask keeps them if `kept` holds, or
    if it does not (`opposite`); otherwise the operation returns, or adds, `number`."""

    op: Elementwise
    scores: int
    kept: Condition | None = None
    opposite: bool = False
    number: float = 0.0

    @property
    def positions(self) -> tuple[Dim, ...]:
        """Sizes that are 0 or more where it keeps scores, as far as that follows from positions."""
        return self.kept.bounds if self.kept is not None else ()

    @property
    def data(self) -> tuple[Data, ...]:
        """The other conditions that hold there."""
        return self.kept.data if self.kept is not None else ()


def recognize_mask(ctx: TransformContext, weights: Operation, assume: bool) -> None:
    """Rewrite the masks of the operand of a softmax. Raises ScheduleError if there is none that can be rewritten, or if
    the result is not known to be the same."""
    links, scores = _links(ctx, weights)
    bounds = tuple(dict.fromkeys(bound for link in links for bound in link.positions))
    if not bounds and not any(_is_wide(link) for link in links):
        above = weights.operands[0].defining_op
        raise ctx.fail(
            f"what %{weights.name} reads has no mask that follows from positions or is repeated",
            op=weights,
            required="scores, and a mask that is added to them or chooses between them and a number",
            found=f"%{weights.operands[0].name}: {above.opcode if above is not None else 'an argument'}",
        )
    rank = len(shape_of(scores.type))
    for link in links:
        if any(_coefficients(bound, rank) is None for bound in link.positions):
            raise ctx.fail(
                f"the condition of %{link.op.name} is not linear in positions",
                op=link.op,
                required="sums and differences of positions and sizes",
                found=", ".join(map(str, link.positions)),
            )
    is_kept = assume or _keeps_rows(weights, links)
    for link in links if bounds else ():
        if link.kept is not None and not isinf(link.number) and not assume:
            _check_finite(ctx, link, is_kept)
    insert = builder_at(ctx.rewriter, weights, source_name(links[0].op))

    def build(op: Operation) -> Value:
        rename_inside(ctx.rewriter, op, weights)
        return insert(op)

    read = weights.operands[0]
    value = scores
    for link in reversed(links):
        value = _rebuilt(build, link, value)
    if bounds:
        value = build(_chosen(value, bounds))
    ctx.rewriter.set_operand(weights, 0, value)
    if is_kept and bounds:
        _drop_guard(ctx, weights)
    erase_dead(ctx.rewriter, [read])


def _links(ctx: TransformContext, weights: Operation) -> tuple[list[Link], Value]:
    """The operations between scores and a softmax up to the first mask, the last one first, and the mask's operand."""
    forms, value = Forms(ctx.rewriter.module.constants), weights.operands[0]
    links: list[Link] = []
    masks = 0
    while isinstance(op := value.defining_op, Elementwise) and len(value.uses) == 1:
        link = _link(op, forms)
        if link is None:
            break
        links.append(link)
        value = op.operands[link.scores]
        masks = len(links) if link.kept is not None else masks
    links = links[:masks]
    return links, links[-1].op.operands[links[-1].scores] if links else weights.operands[0]


def _link(op: Elementwise, forms: Forms) -> Link | None:
    """A select or a sum with a mask, or another sum with a broadcast; None for anything else."""
    if algebra(op).chooses:
        truth = forms.of(op.operands[0])
        if isinstance(truth, Data):
            truth = Cases(Condition((), (truth,)), 1.0, 0.0)
        number = [_number(forms.of(v)) for v in op.operands[1:]]
        for scores in (1, 2):
            other = number[2 - scores]
            if isinstance(truth, Cases) and other is not None and number[scores - 1] is None and other < 0:
                return _mask(op, scores, truth.condition, bool(truth.yes) != (scores == 1), other)
        return None
    if op.semantics != "a + b" or not dtype_of(op.result.type).is_float:
        return None
    for scores in (0, 1):
        mask = forms.of(op.operands[1 - scores])
        if isinstance(mask, Cases) and 0.0 in (mask.yes, mask.no) and min(mask.yes, mask.no) < 0:
            return _mask(op, scores, mask.condition, mask.yes != 0, min(mask.yes, mask.no))
    for scores in (0, 1):
        if repeats(op.operands[1 - scores].defining_op) and not repeats(op.operands[scores].defining_op):
            return Link(op, scores)
    return None


def _number(form: Form) -> float | None:
    return form if isinstance(form, int | float) else None


def _mask(op: Elementwise, scores: int, kept: Condition, opposite: bool, number: float) -> Link | None:
    if opposite and kept.bounds:
        negated = kept.opposite
        return None if negated is None else Link(op, scores, negated, False, number)
    return Link(op, scores, kept, opposite, number)


def _is_wide(link: Link) -> bool:
    """Whether the mask is an array with more dims than it depends on."""
    along = _along(link.data)
    if link.kept is None or along is None or not link.data:
        return False
    value = link.op.operands[0] if algebra(link.op).chooses else link.op.operands[1 - link.scores]
    made = value.defining_op
    have = [size for size in shape_of(made.inputs[0].type if repeats(made) else value.type) if size != 1]
    return len(along) < len(have)


def _along(data: Sequence[Data]) -> list[int] | None:
    """The dims of the scores that index the data; None if data are read in another way."""
    axes: set[int] = set()
    for each in data:
        for entry in each.index:
            at = map_dim(entry) if not isinstance(entry, int) else ""
            if at is None or (at and entry != place(int(at.rpartition(" ")[2])).size()):
                return None
            if at:
                axes.add(int(at.rpartition(" ")[2]))
    return sorted(axes)


def _coefficients(bound: Dim, rank: int) -> tuple[list[int], Dim] | None:
    """The coefficients of positions in a bound, and the constant; None if it is not linear."""
    steps: list[int] = []
    for k in range(rank):
        at = [substitute(bound, {place(k): n}) for n in (0, 1, 2)]
        step = at[1] - at[0]
        if not isinstance(step, int) or at[2] - at[1] != step:
            return None
        steps.append(step)
        bound = at[0]
    return steps, bound


def _keeps_rows(weights: Operation, links: Sequence[Link]) -> bool:
    """Whether positions alone imply that each row keeps its first element, or that on a diagonal."""
    shape = shape_of(weights.results[0].type)
    if any(link.kept is None or link.data for link in links) or not isinstance(weights, Tileable):
        return False
    linear = [_coefficients(bound, len(shape)) for link in links for bound in link.positions]
    rows = [k for k, it in enumerate(weights.iterators()) if it.kind is IteratorKind.PARALLEL]
    along = [k for k in range(len(shape)) if k not in rows]
    known = context_at(weights).names
    if not all(is_less_equal(1, shape[k], known) is True for k in along):
        return False
    for partner in (None, *(k for k in rows if len(along) == 1 and is_equal(shape[k], shape[along[0]], known) is True)):
        if all(bound is not None and _is_kept(*bound, rows, along, partner, known) for bound in linear):
            return True
    return False


def _is_kept(
    steps: list[int], added: Dim, rows: list[int], along: list[int], partner: int | None, known: KnownSymbols
) -> bool:
    """Whether a bound is 0 or more at the first elements of all rows, or where two positions are equal."""
    by = [steps[k] + (steps[along[0]] if k == partner else 0) for k in rows]
    return all(step >= 0 for step in by) and is_less_equal(0, added, known) is True


def _check_finite(ctx: TransformContext, link: Link, is_kept: bool) -> None:
    """Raise ScheduleError if a number that is not -inf may leave a score with a weight."""
    least = _FINITE * least_number(dtype_of(link.op.result.type))
    if link.number > least:
        raise ctx.fail(
            f"what %{link.op.name} masks may count beside other scores",
            op=link.op,
            required=f"-inf, or at most {least:.3g}",
            found=str(link.number),
            fix=Direction("`assume: true`, if scores of a row differ by less"),
        )
    if not is_kept:
        raise ctx.fail(
            f"%{link.op.name} may mask all of a row, whose weights are then equal",
            op=link.op,
            required="a mask that leaves each row an element by positions alone, or one of -inf",
            found=str(link.number),
            fix=Direction("`assume: true`, if no row is masked whole"),
        )


def _rebuilt(build: Build, link: Link, scores: Value) -> Value:
    """The operation applied to scores, without the part of its mask that follows from positions."""
    op, along = link.op, _along(link.data)
    operands = list(op.operands)
    operands[link.scores] = scores
    if link.kept is not None and not link.data:
        return scores
    if link.kept is not None and along is not None:
        shape = shape_of(op.result.type)
        whole = TensorType(shape, i1 if algebra(op).chooses else dtype_of(op.result.type))
        numbers = (1, 0) if algebra(op).chooses else (0.0, link.number)
        part = TensorType(tuple(shape[k] for k in along), whole.dtype)
        mask = build(new.broadcast(build(_of_data(build, link, part, along, numbers)), along, whole))
        if algebra(op).chooses:
            return build(new.select(mask, scores, operands[3 - link.scores]))
        operands = [scores, mask]
    elif not algebra(op).chooses:
        operands = [scores, operands[1 - link.scores]]
    return build(type(op)(operands, [op.result.type], op.attributes))


def _of_data(build: Build, link: Link, type_: TensorType, along: list[int], numbers: tuple[float, float]) -> Structured:
    """One number where a mask keeps scores, by its data alone, and another elsewhere, along some dims of the scores."""
    inputs: list[tuple[Value, list[int]]] = []
    for each in link.data:
        lies = [_along([Data(each.value, (entry,))]) or [] for entry in each.index]
        value, order = each.value, [along.index(k) for axes in lies for k in axes]
        if len(order) < len(lies):
            shape = shape_of(value.type)
            value = build(new.reshape(value, [size for size, axes in zip(shape, lies, strict=True) if axes]))
        inputs.append((value, order))

    def compute(inner: Build, elements: Sequence[Value]) -> Value:
        kept, rest = (inner(new.literal(n, type_.dtype)) for n in numbers)
        if link.opposite:
            kept, rest = rest, kept
        for element in reversed(elements):
            kept = inner(new.select(element, kept, rest))
        return kept

    return pointwise(inputs, type_, compute)


def _chosen(scores: Value, bounds: Sequence[Dim]) -> Structured:
    """The scores where each bound is 0 or more, else -inf."""
    dtype, rank = dtype_of(scores.type), len(shape_of(scores.type))
    own = dims(*(f"d{k}" for k in range(rank)))
    positions: list[Dim] = []
    origins: list[Dim] = []
    for bound in bounds:
        steps, added = _coefficients(bound, rank) or ([], 0)
        for sign in (1, -1):
            positions.append(sum((sign * n * at for n, at in zip(steps, own, strict=True) if sign * n > 0), start=0))
        origins += [added, 0]
    block = Block([("score", dtype), *(("at", si64) for _ in positions)])

    def build(op: Operation, name: str) -> Value:
        block.append(op)
        op.result.name = op.name = name
        return op.result

    value, masked = block.args[0], build(new.literal(-inf, dtype), "masked")
    for k in range(1, len(block.args), 2):
        holds = build(new.greater_equal(block.args[k], block.args[k + 1]), "holds")
        value = build(new.select(holds, value, masked), "kept")
    block.append(new.yielded([value]))
    attributes: dict[str, Attribute] = {
        "iterators": tuple(Iterator(f"d{k}", IteratorKind.PARALLEL).entry for k in range(rank)),
        "maps": (own, own),
        "positions": tuple(positions),
        "origins": tuple(origins),
    }
    return new.generic([scores], [scores.type], attributes, [block])


def _drop_guard(ctx: TransformContext, weights: Operation) -> None:
    """Remove the select of 0 for NaN after a softmax: a row that keeps a finite score has no NaN."""
    value = weights.results[0]
    for op in dict.fromkeys(value.users):
        if not isinstance(op, Elementwise) or not algebra(op).chooses or op.operands[2] is not value:
            continue
        test = op.operands[0].defining_op
        if not isinstance(test, Elementwise) or test.semantics != "isnan(a)" or test.operands[0] is not value:
            continue
        if Forms(ctx.rewriter.module.constants).of(op.operands[1]) == 0:
            read = list(op.operands)
            ctx.rewriter.replace_uses(op.result, value)
            ctx.rewriter.erase(op)
            erase_dead(ctx.rewriter, read)
