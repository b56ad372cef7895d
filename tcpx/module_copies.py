"""Copies of payloads: as they are, or with what `compile` lets a caller ask for."""

from tcpx.loading import PayloadLike, module_of
from tcpx.payload.boundary_layouts import Layouts, transpose_boundary
from tcpx.payload.contraction import forbid_contraction
from tcpx.payload.ir import CloneMap, FuncOp, Module
from tcpx.payload.strided import mark_strided


def copy_module(module: PayloadLike) -> Module:
    """A module of its own with the same functions; the arrays of constants are shared, they never change."""
    module = module_of(module)
    made = Module(module.constants.copy())
    made.entry = module.entry
    for name, func in module.funcs.items():
        copy = FuncOp(name, [(a.name, a.type) for a in func.args], func.symbols)
        copy.location = func.location
        copy.attributes = dict(func.attributes)
        mapping = CloneMap(dict(zip(func.args, copy.args, strict=True)))
        for op in func.body.ops:
            copy.body.append(op.clone(mapping, lambda known: known))
        for op in copy.walk():
            op.origins = ()
        made.add(copy)
    return made


def copy_with(module: PayloadLike, layouts: Layouts | None, *, strided: bool, contract: bool) -> Module:
    """A copy of a payload as a caller of `compile` asks for it: with arrays in other orders, with every argument and
    result of its function `strided` that has rows, and without `contract` with products and sums that are rounded as it
    says. Raises ArgumentError as `with_layouts` does."""
    copy = copy_module(module) if layouts is None else with_layouts(module, layouts)
    if strided:
        mark_strided(copy.main)
    if not contract:
        forbid_contraction(copy)
    return copy


def with_layouts(module: PayloadLike, layouts: Layouts) -> Module:
    """A copy of a payload whose function takes arguments, and gives results, with their dims in other orders.

    `layouts` has an order for each of some names of arguments and results: dim k of the array is dim `order[k]` of the
    tensor in the payload. `{"x": [0, 2, 3, 1]}` takes an image [N, C, H, W] as an array [N, H, W, C]. The function
    transposes them; the default schedule computes in the orders that cost least. State is taken and given in one order.
    Raises ArgumentError for a name that no argument and no result has, and for what is no order of its dims.
    """
    copy = copy_module(module)
    transpose_boundary(copy, layouts)
    return copy
