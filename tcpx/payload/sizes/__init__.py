"""Size arithmetic; most callers import from here.

A dim is an int or a `Size`: a normal form over symbols and loop variables. Expressions as data live in
`expressions.py`, simplifying constructors in `arithmetic.py`, replacement in `substitution.py`, proofs in `bounds.py`
(with `proof_form.py` and `monotone.py`), bounds as expressions in `limits.py`, conditions on sizes in `predicates.py`.

No module of this folder knows an operation, a value or a function: sizes are all that it is about.
"""

from tcpx.payload.sizes.arithmetic import align_up, ceildiv, floordiv, maximum, minimum, mod
from tcpx.payload.sizes.bounds import (
    arguments_of_minimum,
    is_equal,
    is_less,
    is_less_equal,
    known_divisor,
    lower_bound,
    upper_bound,
)
from tcpx.payload.sizes.expressions import (
    Atom,
    CeilDiv,
    Dim,
    Division,
    ElementOf,
    Extremum,
    FloorDiv,
    Max,
    Min,
    Mod,
    Operand,
    Size,
    Symbol,
    Var,
    as_dim,
    product,
    to_text,
)
from tcpx.payload.sizes.limits import last_value, lower_expression, not_negative, upper_expression
from tcpx.payload.sizes.substitution import Substitution, redeclare, simplify, substitute
from tcpx.payload.sizes.traversal import as_symbol, at_least_one, evaluate, symbols, told_symbol, variables

__all__ = [
    "Atom",
    "CeilDiv",
    "Dim",
    "Division",
    "ElementOf",
    "Extremum",
    "FloorDiv",
    "Max",
    "Min",
    "Mod",
    "Operand",
    "Size",
    "Substitution",
    "Symbol",
    "Var",
    "align_up",
    "arguments_of_minimum",
    "as_dim",
    "as_symbol",
    "at_least_one",
    "ceildiv",
    "evaluate",
    "floordiv",
    "is_equal",
    "is_less",
    "is_less_equal",
    "known_divisor",
    "last_value",
    "lower_bound",
    "lower_expression",
    "maximum",
    "minimum",
    "mod",
    "not_negative",
    "product",
    "redeclare",
    "simplify",
    "substitute",
    "symbols",
    "to_text",
    "told_symbol",
    "upper_bound",
    "upper_expression",
    "variables",
]
