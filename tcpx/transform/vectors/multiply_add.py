"""A product that feeds only a sum becomes one instruction, where the target has it."""

from tcpx.payload.contraction import may_contract
from tcpx.payload.interfaces import Elementwise, Structured
from tcpx.payload.ir import Operation
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.target import Target
from tcpx.transform import new
from tcpx.transform.vectors.literals import lane_type

PRODUCT, SUM, FUSED = "a * b", "a + b", "fma(a, b, c)"


def fuse_multiply_add(rewriter: Rewriter, root: Operation, target: Target) -> None:
    """Fuse every product in `root` that feeds only a sum of its block, unless the payload forbids it."""
    if may_contract(root):
        _fuse_in(rewriter, root, target)


def _fuse_in(rewriter: Rewriter, root: Operation, target: Target) -> None:
    for block in root.regions:
        for op in list(block.ops):
            if _has(op, SUM):
                _fuse(rewriter, op, target)
            elif not isinstance(op, Structured):
                _fuse_in(rewriter, op, target)


def _fuse(rewriter: Rewriter, op: Operation, target: Target) -> None:
    types = lane_type(op.result.type)
    row = target.find("compute", FUSED, types, (types,) * 3) if types is not None else None
    if row is None or row.is_slow:
        return
    for index in (1, 0):
        product = op.operands[index].defining_op
        if product is None or not _has(product, PRODUCT) or product.parent is not op.parent:
            continue
        if len(product.result.uses) != 1:
            continue
        fused = new.fma(*product.operands, op.operands[1 - index])
        fused.stand_for(op)
        rewriter.insert(fused, InsertPoint.before(op), op.result.name)
        rewriter.set_origins(fused, _merged(op, product), op.copy_path)
        rewriter.replace_op(op, [fused.result])
        rewriter.erase(product)
        return


def _merged(op: Operation, product: Operation) -> tuple[int, ...]:
    return tuple(dict.fromkeys((*op.origins, *product.origins)))


def _has(op: Operation, semantics: str) -> bool:
    return isinstance(op, Elementwise) and op.semantics == semantics
