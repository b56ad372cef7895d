"""A graph of ONNX, node by node, as the function of a payload."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import onnx

from tcpx.frontends.onnx.checks import check_node, check_whole
from tcpx.frontends.onnx.errors import BoundedSize, Finding, NotConstant, OnnxError, Unsupported, with_numbers
from tcpx.frontends.onnx.node import Node, identifier
from tcpx.frontends.onnx.old_opsets import as_of_opset_7
from tcpx.frontends.onnx.operators import REFUSED, RULES
from tcpx.frontends.onnx.reading import DEFAULT_DOMAINS, versions_of
from tcpx.frontends.onnx.schemas import body_of, schema_of, with_defaults
from tcpx.frontends.onnx.shape_arithmetic import folded
from tcpx.frontends.onnx.table import Result
from tcpx.frontends.onnx.tidying import rename
from tcpx.frontends.onnx.values import MOST_ELEMENTS, Tensor, of_array, of_value
from tcpx.frontends.onnx.writing import Writer
from tcpx.payload.builder import Builder
from tcpx.payload.diagnostics import Diagnostic, Kind, Location, TcpxError, VerifyError
from tcpx.payload.evaluator import Array, evaluate_func
from tcpx.payload.ir import Value
from tcpx.payload.types import TensorType

DEEPEST: Final = 16
"""Functions and branches within one another."""
_DEEPEST: Final = f"{DEEPEST} functions and branches within one another at most"
MOST_NODES: Final = 100_000
MOST_CALLED: Final = 1 << 15
"""Nodes of the bodies of functions, each as often as it is called."""
MOST_UNROLLED: Final = 20_000
"""Nodes in loops and operations that they become, for each iteration."""
Reads = Callable[[onnx.TensorProto], Array]


@dataclass(eq=False, slots=True)
class Scope:
    """The values by name in a graph, branch or function; versions of the operators there, and what attributes of nodes
    in a function stand for."""

    values: dict[str, Tensor | None]
    versions: Mapping[str, int]
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    prefix: str = ""
    depth: int = 0
    own: set[str] = field(default_factory=set[str])
    """The names of values that are of this graph, and not of one around it."""
    loop: Unrolled | None = None
    """The outermost loop around it."""
    is_called: bool = False
    """Whether it is, or is in, the body of a function."""


@dataclass(frozen=True, slots=True)
class Unrolled:
    """A loop by its operator, name and place."""

    operator: str
    name: str
    place: Location


class Importer:
    """Adds the nodes of a graph to the open function of a writer. `reads` gives the array of a tensor of the file,
    `functions` are those that the model declares."""

    def __init__(
        self, writer: Writer, file: str, reads: Reads, functions: Mapping[tuple[str, str], onnx.FunctionProto]
    ) -> None:
        self.writer = writer
        self.file, self.reads, self.functions = file, reads, functions
        self.findings: list[Finding] = []
        self.unknown: NotConstant | None = None
        """The first value that has to be known and is not."""
        self.count = self.called = self.unrolled = 0

    def run(self, nodes: Iterable[onnx.NodeProto], scope: Scope) -> None:
        """Import nodes in their order. Those that are not supported are noted, and those that need their results are
        left out, as are those that need a value to be known that is not. Raises OnnxError."""
        for proto in nodes:
            self.count += 1
            if self.count > MOST_NODES:
                most = f"{MOST_NODES} at most, those of functions included"
                raise OnnxError.at(self.file, "the graph has too many nodes", most, "more")
            self.called += scope.is_called
            if self.called > MOST_CALLED:
                most = f"{MOST_CALLED} nodes at most, each as often as it is called"
                raise OnnxError.at(self.file, "the bodies of functions have too many nodes", most, "more")
            self._unroll(scope.loop, 1)
            self._node(proto, scope)

    def _unroll(self, loop: Unrolled | None, count: int) -> None:
        """Count nodes or operations in a loop. Raises OnnxError."""
        if loop is None:
            return
        self.unrolled += count
        if self.unrolled > MOST_UNROLLED:
            most = f"{MOST_UNROLLED} nodes and operations in all loops at most, for each iteration"
            raise OnnxError.at(loop.place, f"{loop.operator} `{loop.name}` is too long when unrolled", most, "more")

    def _node(self, proto: onnx.NodeProto, scope: Scope) -> None:
        name = proto.name or next((output for output in proto.output if output), proto.op_type)
        place = self._place(proto, name)
        inputs: list[Tensor | None] = []
        for given in proto.input:
            if given and given not in scope.values:
                message = f"{proto.op_type} `{name}` reads a value that nothing has computed"
                raise OnnxError.at(place, message, "a value that stands before the node", f"`{given}`")
            inputs.append(scope.values[given] if given else None)
        while inputs and inputs[-1] is None and not proto.input[len(inputs) - 1]:
            inputs.pop()
        outputs = list(proto.output)
        lost = [given for given, held in zip(proto.input, inputs, strict=False) if given and held is None]
        made: Sequence[Tensor | None] = ()
        if not lost:
            try:
                made = self._import(proto, name, place, inputs, outputs, scope)
            except Unsupported as error:
                self.findings.append(Finding(name, proto.op_type, str(error), place, error.dims))
            except NotConstant as error:
                self.unknown = self.unknown or error
            except TcpxError as error:
                if not self.writer.equations.new:  # else sizes may differ that are equal in the next import
                    sizes = [d for t in inputs if t is not None for d in t.shape]
                    known = with_numbers(error, sizes) if isinstance(error, VerifyError) else error
                    raise known.with_places(payload=place) from error
        for index, output in enumerate(outputs):
            if output in scope.own:
                message = f"{proto.op_type} `{name}` computes a value that is there already"
                raise OnnxError.at(place, message, "a name for each value", f"`{output}`")
            if output:
                scope.own.add(output)
                scope.values[output] = made[index] if index < len(made) else None

    def _place(self, proto: onnx.NodeProto, name: str) -> Location:
        """The node as a line of the graph: there is no text."""
        text = f"{', '.join(proto.output)} = {proto.op_type}({', '.join(proto.input)})"
        shown = text if text.startswith(f"{name} = ") else f"{name}: {text}"
        return Location(self.file, self.count, 1, text=shown[:400].replace("\n", " "))

    def _import(
        self,
        proto: onnx.NodeProto,
        name: str,
        place: Location,
        inputs: Sequence[Tensor | None],
        outputs: Sequence[str],
        scope: Scope,
    ) -> Sequence[Tensor | None]:
        domain = "" if proto.domain in DEFAULT_DOMAINS else proto.domain
        local = self.functions.get((proto.domain, proto.op_type))
        attributes = self._attributes(proto, scope)
        version = scope.versions.get(domain)
        if local is not None:
            return self._body(local, inputs, attributes, scope, name)
        operator = f"{domain}.{proto.op_type}" if domain else proto.op_type
        if version is None:
            raise Unsupported(f"no opset of the {f'domain {domain}' if domain else 'default domain'}")
        schema = schema_of(proto.op_type, version, domain)
        node = Node(
            name,
            proto.op_type,
            schema.since_version if schema is not None else version,
            inputs,
            outputs,
            with_defaults(schema, attributes) if domain and schema is not None else attributes,
            self.writer,
            place,
            self.reads,
            lambda graph, given: self._subgraph(graph, given, _within(proto, name, place, scope)),
            self._attempt,
        )
        if schema is None:
            raise Unsupported(
                f"no operator {operator} that is known here" if domain else f"no operator of opset {version}"
            )
        check_node(node, schema)
        if operator in REFUSED:
            raise Unsupported(REFUSED[operator])
        self.writer.place, self.writer.prefix = place, scope.prefix + identifier(next(filter(None, outputs), name))
        self.writer.node = f"{proto.op_type} `{name}`"
        node, schema = as_of_opset_7(node, schema, version)
        if node.operator == "CastLike":  # of the other operand only the dtype is read
            to = onnx.helper.np_dtype_to_tensor_dtype(node.dtype(1).numpy)
            node = replace(node, operator="Cast", inputs=inputs[:1], attributes={"to": to})
        known = None if domain else folded(node)
        if known is not None:
            return known
        rule = RULES.get(operator if domain else node.operator)
        if rule is None:
            body = body_of(schema, proto, attributes, inputs, version)
            if body is None:
                raise Unsupported("an operator that is not there yet")
            return self._body(body, inputs, with_defaults(schema, attributes), scope, name)
        if proto.op_type not in _WITH_GRAPHS and all(t is None or t.is_known for t in node.inputs):
            constant = self._folded(rule, node, schema)
            if constant is not None:
                return constant
        self.writer.made = {}
        results = _applied(rule, node)
        check_whole(node, schema, results)
        self._unroll(scope.loop, 0 if proto.op_type in _WITH_GRAPHS else len(self.writer.made))
        around = [scope.values.get(read) for read in _reads_of(proto)] if proto.op_type in _WITH_GRAPHS else []
        return self._named(results, node, [*node.inputs, *around], scope)

    def _named(
        self, results: Sequence[Result], node: Node, reads: Sequence[Tensor | None], scope: Scope
    ) -> list[Tensor]:
        """Results with the names of the outputs, and what of the model their elements depend on."""
        sources = frozenset[str]().union(*(t.sources for t in reads if t is not None))
        made: list[Tensor] = []
        for index, result in enumerate(results):
            shown = node.outputs[index] if index < len(node.outputs) else ""
            if isinstance(result, Tensor):
                made.append(result)
                continue
            op = result.defining_op
            if op is not None and op in self.writer.made and shown:
                own = identifier(node.name) if len(results) == 1 else ""
                rename(self.writer.builder, result, scope.prefix + identifier(shown), own, self.writer.made)
            made.append(of_value(shown, result, sources))
        return made

    def _attributes(self, proto: onnx.NodeProto, scope: Scope) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for attribute in proto.attribute:
            if attribute.ref_attr_name:
                if attribute.ref_attr_name in scope.attributes:
                    found[attribute.name] = scope.attributes[attribute.ref_attr_name]
                continue
            found[attribute.name] = onnx.helper.get_attribute_value(attribute)
        return found

    def _body(
        self,
        body: onnx.FunctionProto,
        inputs: Sequence[Tensor | None],
        attributes: Mapping[str, Any],
        scope: Scope,
        name: str,
    ) -> Sequence[Tensor | None]:
        """The nodes of a function in place of a node that calls it."""
        if scope.depth >= DEEPEST:
            raise OnnxError.at(
                self.file, f"`{name}` stands too deep", _DEEPEST, "more, or a function that calls itself"
            )
        defaults = {a.name: onnx.helper.get_attribute_value(a) for a in body.attribute_proto}
        versions = versions_of(body.opset_import, self.file) or scope.versions
        versions = {"": onnx.defs.onnx_opset_version(), **versions}  # a body that ONNX defines may say nothing of it
        values = dict(zip(body.input, [*inputs, *[None] * len(body.input)], strict=False))
        absent = {given for given, held in values.items() if held is None}
        inner = Scope(
            dict(values),
            versions,
            {**defaults, **attributes},
            f"{scope.prefix}{identifier(name)}.",
            scope.depth + 1,
            set(values),
            scope.loop,
            is_called=True,
        )
        nodes = [_without(node, absent) for node in body.node]
        before = len(self.findings)
        self.run(nodes, inner)
        for k, finding in enumerate(self.findings[before:], before):
            if finding.node != name:
                self.findings[k] = replace(finding, node=name, operator=f"{finding.operator} in the body of")
        return [inner.values.get(output) for output in body.output]

    def _subgraph(self, graph: onnx.GraphProto, given: Sequence[Tensor], scope: Scope) -> Sequence[Tensor]:
        """A branch or the body of a loop, which reads the values around it."""
        if scope.depth >= DEEPEST:
            raise OnnxError.at(self.file, "a branch stands too deep", _DEEPEST, "more")
        own: dict[str, Tensor | None] = {t.name: of_array(t.name, self.reads(t)) for t in graph.initializer}
        own.update(zip((i.name for i in graph.input), given, strict=False))
        values = {**scope.values, **own}
        inner = replace(scope, values=values, depth=scope.depth + 1, own=set(own))
        self.run(graph.node, inner)
        found = [inner.values.get(output.name) for output in graph.output]
        held = [f for f in found if f is not None]
        if len(held) != len(found):
            if self.unknown is not None:
                raise self.unknown
            raise Unsupported("a branch with nodes that are not supported")
        return held

    def _attempt(self, write: Callable[[], Sequence[Result]]) -> Sequence[Result] | None:
        """What is written by a function; None, without its findings, where it has any, or an error. What it wrote
        outside of blocks of its own is left to the end, where what nothing reads is taken out."""
        findings, unknown, counts = len(self.findings), self.unknown, (self.unrolled, self.writer.iterations)
        try:
            written = write()
        except (Unsupported, NotConstant, TcpxError):
            written = None
        if len(self.findings) > findings or self.unknown is not unknown:
            written = None
        if written is None:
            del self.findings[findings:]
            self.unknown = unknown
            self.unrolled, self.writer.iterations = counts
        return written

    def _folded(self, rule: Callable[[Node], Any], node: Node, schema: onnx.defs.OpSchema) -> list[Tensor] | None:
        """The results of a rule whose operands are all known, by the meaning of the operations that it writes."""
        builder = Builder()
        w = Writer(builder)
        w.place = node.place
        copies = [
            None if t is None else Tensor(t.name, t.shape, t.dtype, t.array, t.sizes, None, t.sources)
            for t in node.inputs
        ]
        inner = replace(node, inputs=copies, w=w)
        values: list[Value | Tensor] = []
        with builder.func("folded", {}):
            results = _applied(rule, inner)
            check_whole(inner, schema, results)
            for result in results:
                if isinstance(result, Tensor) and result.value is None and result.array is not None:
                    values.append(result)
                    continue
                value = result if isinstance(result, Value) else inner.value_of(result)
                if _count(value) > MOST_ELEMENTS:
                    return None
                values.append(value)
            known = [value for value in values if isinstance(value, Tensor)]
            if len(known) == len(values):
                return known
            builder.returns(*(v for v in values if isinstance(v, Value)))
        module = builder.finish()
        arrays = iter(evaluate_func(module, module.main, []))
        sources = frozenset[str]().union(*(t.sources for t in node.inputs if t is not None))
        made: list[Tensor] = []
        for index, value in enumerate(values):
            name = node.outputs[index] if index < len(node.outputs) else ""
            if isinstance(value, Tensor):
                made.append(value)
                continue
            held = of_array(name, np.asarray(next(arrays)), sources)
            if held is None:
                return None
            made.append(held)
        return made


_LOOPS: Final = frozenset(("Loop", "Scan"))
_WITH_GRAPHS: Final = _LOOPS | {"If"}


def _reads_of(proto: onnx.NodeProto) -> set[str]:
    """The names that the nodes of a node's graphs read, values around it among them."""
    graphs = [g for a in proto.attribute for g in (a.g, *a.graphs)]
    return {name for g in graphs for node in g.node for name in (*node.input, *_reads_of(node))}


def _within(proto: onnx.NodeProto, name: str, place: Location, scope: Scope) -> Scope:
    """Where the graphs of a node stand: in the outermost loop, which may be the node."""
    is_outermost = scope.loop is None and proto.op_type in _LOOPS
    return replace(scope, loop=Unrolled(proto.op_type, name, place)) if is_outermost else scope


def _applied(rule: Callable[[Node], Any], node: Node) -> list[Result]:
    """What a rule writes for a node. An exception that explains nothing is a bug of the rule, reported at the node."""
    try:
        return _several(rule(node))
    except (TcpxError, Unsupported, NotConstant, BoundedSize):
        raise
    except Exception as error:
        raise OnnxError(
            Diagnostic(
                f"the rule of {node.operator} failed in a way it does not explain, at `{node.name}`",
                Kind.INTERNAL,
                payload=node.place,
                required="operations, or an error that says what is missing",
                found=f"{type(error).__name__}: {error}",
            )
        ) from error


def _several(result: Result | Sequence[Result]) -> list[Result]:
    return [result] if isinstance(result, Value | Tensor) else list(result)


def _count(value: Value) -> int:
    shape = value.type.shape if isinstance(value.type, TensorType) else ()
    count = 1
    for extent in shape:
        if not isinstance(extent, int):
            return MOST_ELEMENTS + 1
        count *= extent
    return count


def _without(proto: onnx.NodeProto, absent: set[str]) -> onnx.NodeProto:
    """A node of a body without the operands that the call leaves out."""
    if not any(given in absent for given in proto.input):
        return proto
    copy = onnx.NodeProto()
    copy.CopyFrom(proto)
    del copy.input[:]
    copy.input.extend("" if given in absent else given for given in proto.input)
    return copy


__all__ = ["Importer", "NotConstant", "Scope"]
