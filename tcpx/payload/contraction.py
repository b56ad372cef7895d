"""Whether a product that is added to something may be rounded once, with the sum: `contraction` in the text."""

from typing import Final

from tcpx.payload.ir import FuncOp, Module, Operation

CONTRACT: Final = "contraction"
"""The attribute of the function that is compiled: false where products and sums, also in the functions that it calls,
are each rounded."""


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
