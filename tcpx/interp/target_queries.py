"""`target.l1`, `target.has("avx2")`: what a schedule asks of the target."""

from tcpx.interp.frame import Frame
from tcpx.interp.values import RuntimeValue
from tcpx.suggestions import did_you_mean
from tcpx.target import Target, known_features
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.builtins import TARGET_SIZES


def target_attribute(target: Target, expression: ast.Attribute, frame: Frame) -> RuntimeValue:
    """`target.l1` and its like."""
    if expression.name == "name":
        return target.name
    sizes: dict[str, int] = {
        "vector_registers": target.vector_registers,
        "vector_bits": target.vector_bits,
        "l1": target.l1,
        "l2": target.l2,
        "l3": target.l3,
        "l3_rate": target.l3_rate,
        "page": target.page,
        "parallel_threshold": target.parallel_threshold,
    }
    if expression.name not in sizes:
        raise frame.error(f"the target has no `{expression.name}`", expression, required=", ".join(TARGET_SIZES))
    return sizes[expression.name]


def has_feature(target: Target, feature: str, argument: ast.Expression, frame: Frame) -> bool:
    """`target.has("feature")`; a feature that no target has is an error."""
    known = dict.fromkeys((*known_features(), *target.features))
    if feature not in known:
        raise frame.error(
            f'no target has a feature "{feature}"',
            argument,
            required=", ".join(known),
            fix=did_you_mean(feature, known),
        )
    return target.has(feature)
