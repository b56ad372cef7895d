"""Whether two attributes are the same."""

from tcpx.payload.ir import Attribute
from tcpx.payload.sizes import Symbol, Var


def same_attribute(a: Attribute, b: Attribute) -> bool:
    """Equal, of one kind; NaN equals itself, -0.0 differs from 0.0, the facts of a loop variable count."""
    if isinstance(a, Var) and isinstance(b, Var):
        return (a.name, a.lower, a.upper, a.step) == (b.name, b.lower, b.upper, b.step)
    a, b = _plain(a), _plain(b)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(same_attribute(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, float) and isinstance(b, float):
        return float.__repr__(a) == float.__repr__(b)
    return type(a) is type(b) and a == b


def _plain(attribute: Attribute) -> Attribute:
    """Symbols and loop variables as the expressions they are."""
    return attribute.size() if isinstance(attribute, Symbol | Var) else attribute
