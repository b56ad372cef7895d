"""How a kernel rounds: whether a product that is added to something may be rounded once, with the sum (`contraction` in
the text), and which transforms round sums otherwise (`rounding`)."""

from typing import Final

from tcpx.payload.ir import FuncOp, Module, Operation
from tcpx.payload.rewriter import Rewriter

CONTRACT: Final = "contraction"
"""The attribute of the function that is compiled: false where products and sums, also in the functions that it calls,
are each rounded."""

ROUNDING: Final = "rounding"
"""The attribute of the function that is compiled: texts of transforms by which sums are rounded otherwise."""


def note_rounding(rewriter: Rewriter, text: str) -> None:
    """Note a transform after which results are rounded otherwise than operations say."""
    main = rewriter.module.main
    known = roundings(main)
    if text not in known:
        rewriter.set_attribute(main, ROUNDING, (*known, text))


def roundings(func: FuncOp) -> tuple[str, ...]:
    """What was noted of a function."""
    held = func.attributes.get(ROUNDING, ())
    return tuple(text for text in held if isinstance(text, str)) if isinstance(held, tuple) else ()


def numerics_of(func: FuncOp) -> tuple[str, ...]:
    """All in which the results of a function that is compiled may differ from those of its operations by default."""
    return (*(("contraction = false",) if func.attributes.get(CONTRACT) is False else ()), *roundings(func))


def may_contract(op: Operation) -> bool:
    """Whether products and sums in an operation, or a function, may be rounded once."""
    func = next((outer for outer in (op, *op.ancestors()) if isinstance(outer, FuncOp)), None)
    main = func.module.main if func is not None and func.module is not None else func
    return main is None or main.attributes.get(CONTRACT) is not False


def forbid_contraction(module: Module) -> None:
    """Round what the module computes as it says."""
    module.main.attributes[CONTRACT] = False


def check_contraction(func: FuncOp) -> None:
    """Raise VerifyError where the attribute is no truth value, or is of a function that others call."""
    said = func.attributes.get(CONTRACT)
    if said is None:
        return
    if not isinstance(said, bool):
        raise func.error(f"`{CONTRACT}` is true or false", required="true or false", found=str(said))
    if func.module is not None and func is not func.module.main:
        raise func.error(
            f"`{CONTRACT}` of a function that others call",
            required=f"the attribute at @{func.module.main.name}, for it and all that it calls",
            found=f"it at @{func.name}",
        )
