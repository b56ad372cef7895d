"""What ONNX declares of its operators: their versions, attributes, and the bodies that define some by others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol, cast

import onnx

from tcpx.frontends.onnx.errors import Unsupported
from tcpx.frontends.onnx.values import Tensor


class _Bodies(Protocol):
    """What the annotations of `onnx.defs.OpSchema` leave out."""

    function_opset_versions: Sequence[int]
    context_dependent_function_opset_versions: Sequence[int]

    def get_function_with_opset_version(self, version: int, /) -> bytes: ...

    def get_context_dependent_function_with_opset_version(
        self, version: int, node: bytes, types: Sequence[bytes], /
    ) -> bytes: ...


class _Kind(Protocol):
    value: int
    name: str


Default = int | float | str | tuple[int, ...] | type[int]
"""What an attribute is where a node leaves it out, or `int` where it may not."""
_DECLARED: Final[dict[tuple[str, str], onnx.defs.OpSchema]] = {}
"""By domain and operator."""
_PYTHON: Final = {
    "INT": int,
    "FLOAT": (int, float),
    "STRING": (bytes, str),
    "TENSOR": onnx.TensorProto,
    "GRAPH": onnx.GraphProto,
}


def schema_of(operator: str, version: int, domain: str = "") -> onnx.defs.OpSchema | None:
    """What ONNX declares of an operator in a version of a domain, or what is declared here, None if nothing."""
    try:
        return onnx.defs.get_schema(operator, version, domain)
    except onnx.defs.SchemaError:
        return _DECLARED.get((domain, operator))


def declare(operator: str, operands: Sequence[str], results: Sequence[str], attributes: Mapping[str, Default]) -> None:
    """Declare version 1 of an operator, of another domain than the default one by `DOMAIN.OPERATOR`."""
    domain, _, name = operator.rpartition(".")
    schema = onnx.defs.OpSchema
    _DECLARED[domain, name] = schema(
        name,
        domain,
        1,
        inputs=[_parameter(operand) for operand in operands],
        outputs=[_parameter(result) for result in results],
        type_constraints=[("T", ["tensor(float)"], "any: rules look at dtypes")],
        attributes=[
            schema.Attribute(key, schema.AttrType.INT, required=True)
            if isinstance(default, type)
            else schema.Attribute(key, onnx.helper.make_attribute(key, default, attr_type=_kind_of(default)))
            for key, default in attributes.items()
        ],
    )


def _parameter(name: str) -> onnx.defs.OpSchema.FormalParameter:
    schema, bare = onnx.defs.OpSchema, name.strip("[]")
    option = schema.FormalParameterOption.Single if bare == name else schema.FormalParameterOption.Optional
    return schema.FormalParameter(bare, "T", param_option=option)


def _kind_of(default: float | str | tuple[int, ...]) -> int | None:
    """The type of an attribute that is a list, of which an empty one says none."""
    return onnx.AttributeProto.INTS if isinstance(default, tuple) else None


def fits(schema: onnx.defs.OpSchema, name: str, value: object) -> str | None:
    """The kind that an attribute has to be of, None where it is."""
    kind = cast("_Kind", schema.attributes[name].type).name
    wanted = _PYTHON.get(kind.removesuffix("S"))
    if wanted is None:
        return None
    if kind in _PYTHON:
        return None if isinstance(value, wanted) else kind
    held = cast("list[object]", value) if isinstance(value, list) else [None]
    return None if all(isinstance(element, wanted) for element in held) else kind


def with_defaults(schema: onnx.defs.OpSchema, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of a node, and those that stand for what it leaves out."""
    declared = schema.attributes.items()
    found = {k: onnx.helper.get_attribute_value(a.default_value) for k, a in declared if a.default_value.name}
    return {**found, **attributes}


def body_of(
    schema: onnx.defs.OpSchema,
    proto: onnx.NodeProto,
    attributes: Mapping[str, Any],
    inputs: Sequence[Tensor | None],
    version: int,
) -> onnx.FunctionProto | None:
    """The body by which ONNX defines an operator, of these operands; None where it has none."""
    bodies, held = cast("_Bodies", schema), onnx.FunctionProto()
    versions = [v for v in bodies.function_opset_versions if v <= version]
    if versions:
        held.ParseFromString(bodies.get_function_with_opset_version(max(versions)))
        return held
    versions = [v for v in bodies.context_dependent_function_opset_versions if v <= version]
    if not versions:
        return None
    node = _resolved(proto, schema, attributes).SerializeToString()
    types = [_type_of(t).SerializeToString() if t is not None else b"" for t in inputs]
    try:
        made = bodies.get_context_dependent_function_with_opset_version(max(versions), node, types)
    except RuntimeError as error:  # what the library says of operands that it cannot write a body for
        raise Unsupported(f"the body of the operator cannot be written: {error}") from error
    held.ParseFromString(made)
    return held if made else None


def _resolved(proto: onnx.NodeProto, schema: onnx.defs.OpSchema, attributes: Mapping[str, Any]) -> onnx.NodeProto:
    """A node whose attributes are what they stand for."""
    copy = onnx.NodeProto()
    copy.CopyFrom(proto)
    del copy.attribute[:]
    for key, held in attributes.items():
        kind = cast("_Kind", schema.attributes[key].type)
        copy.attribute.append(onnx.helper.make_attribute(key, held, attr_type=kind.value))
    return copy


def _type_of(tensor: Tensor) -> onnx.TypeProto:
    number = onnx.helper.np_dtype_to_tensor_dtype(tensor.dtype.numpy)
    shape = [n if isinstance(n, int) else str(n) for n in tensor.shape]
    return onnx.helper.make_tensor_type_proto(number, shape)
