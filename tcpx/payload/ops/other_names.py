"""What other systems call operations, and what to write here in their place: a table, and the advice made of it."""

import json
import re
from collections.abc import Mapping
from dataclasses import field
from difflib import SequenceMatcher
from string import Template
from typing import Final

from tcpx.payload.diagnostics import Direction, statements_to_write
from tcpx.payload.ir import Operation, operation_classes, tree_classes_of
from tcpx.records import frozen

_NO_TYPE: Final = "TYPE"
_NAMES_OF_DIMS: Final = ("dims", "dim", "axis", "axes", "dimension", "dimensions")
_EQUATIONS: Final = ("equation", "subscripts")
_EQUATION: Final = 'lhs = ["m", "k"], rhs = ["k", "n"], out = ["m", "n"]'
_LEAST_LIKENESS: Final = 0.8
"""Of a misspelt name and the one that is meant."""


@frozen
class OtherName:
    """Names of one meaning, without the dialect before the dot, and the statements that compute it.

    In `write`, `$a`, `$b` and `$c` stand for the operands, `$y` for the result and `$type` for its type, `$elements`
    for that type with the dtype of the operand, `$dims` for the dims of a reduction, `$equation` for those of a
    contraction. Without statements no operation computes it: `note` says so, and the operations of `family`, a class
    of the operation tree, are listed.
    """

    names: tuple[str, ...]
    write: tuple[str, ...] = ()
    note: str = ""
    family: str = ""


def _unary(*names: str, opcode: str) -> OtherName:
    return OtherName(names, (f"$y = {opcode}($a) : $type",))


def _binary(*names: str, opcode: str) -> OtherName:
    return OtherName(names, (f"$y = {opcode}($a, $b) : $type",))


def _missing(*names: str, note: str, family: str = "") -> OtherName:
    return OtherName(names, (), note, family)


_DIMS = "`dims` are those that are summed"
_ADD_BIAS = ("%bias = tcp.broadcast($c) {dims = [1]} : $type", "$y = tcp.add(%mm, %bias) : $type")

OTHER_NAMES: Final = (
    _binary("addf", "addi", "plus", "addition", opcode="tcp.add"),
    _binary("subtract", "subf", "subi", "minus", opcode="tcp.sub"),
    _binary("multiply", "mulf", "muli", "times", "mult", opcode="tcp.mul"),
    _binary("divide", "divf", "truediv", "true_divide", "quotient", opcode="tcp.div"),
    _binary("maximum", "maximumf", "maxnumf", "maxf", "fmax", opcode="tcp.max"),
    _binary("minimum", "minimumf", "minnumf", "minf", "fmin", opcode="tcp.min"),
    _binary("lt", "cmp", "cmpf", "cmpi", "compare", "less_than", opcode="tcp.less"),
    _binary("gt", "greater_than", opcode="tcp.greater"),
    _binary("le", "less_than_or_equal", "less_or_equal", opcode="tcp.less_equal"),
    _binary("ge", "greater_than_or_equal", "greater_or_equal", opcode="tcp.greater_equal"),
    _binary("eq", "equals", opcode="tcp.equal"),
    _binary("ne", "neq", "not_equals", opcode="tcp.not_equal"),
    _unary("is_nan", opcode="tcp.isnan"),
    _unary("is_inf", opcode="tcp.isinf"),
    _unary("signum", "sgn", opcode="tcp.sign"),
    _unary("recip", "inv", opcode="tcp.reciprocal"),
    _unary("inverse_sqrt", "inv_sqrt", opcode="tcp.rsqrt"),
    _unary("ceiling", opcode="tcp.ceil"),
    _unary("truncate", "fix", opcode="tcp.trunc"),
    _unary("round_nearest_afz", "round_half_away", opcode="tcp.round_away"),
    _binary("floor_divide", "floordivsi", "floor_div", opcode="tcp.floordiv"),
    _binary("modulo", "floormod", "floor_mod", "remainder", opcode="tcp.mod"),
    _binary("remf", "remsi", "remui", "fmod", opcode="tcp.rem"),
    OtherName(("clip", "clampf", "clip_by_value"), ("$y = tcp.clamp($a, $b, $c) : $type",)),
    OtherName(("where", "ifelse", "if_then_else", "choose"), ("$y = tcp.select($a, $b, $c) : $type",)),
    OtherName(("mad", "fmadd", "muladd", "addcmul"), ("$y = tcp.multiply_add($a, $b, $c) : $type",)),
    _unary("swish", opcode="tcp.silu"),
    _unary("logistic", "expit", opcode="tcp.sigmoid"),
    _unary("rint", "roundeven", "round_nearest_even", opcode="tcp.round"),
    _unary("exponential", opcode="tcp.exp"),
    _unary("hard_swish", "hardsilu", opcode="tcp.hardswish"),
    _unary("ln", "logarithm", opcode="tcp.log"),
    _unary(
        "astype", "convert", "to", "extf", "truncf", "sitofp", "uitofp", "fptosi", "fptoui", "extsi", "extui", "trunci",
        "convert_element_type", opcode="tcp.cast",
    ),
    _unary(
        "view", "flatten", "squeeze", "unsqueeze", "expand_dims", "collapse_shape", "expand_shape", "ravel",
        opcode="tcp.reshape",
    ),
    OtherName(("permute", "permute_dims", "swapaxes", "t"), ("$y = tcp.transpose($a) {permutation = [1, 0]} : $type",)),
    OtherName(
        ("broadcast_to", "broadcast_in_dim"),
        ("$y = tcp.broadcast($a) {dims = [1]} : $type",),
        "dim k of the operand is dim `dims[k]` of the result",
    ),
    OtherName(
        ("dynamic_broadcast_in_dim", "expand_as", "broadcast_like"),
        ("$y = tcp.expand($a) {dims = [1]} : $type",),
        "dim k of the operand is 1, or dim `dims[k]` of the result",
    ),
    OtherName(("constant", "full", "splat", "full_like"), ("$y = tcp.fill {value = 1} : $type",)),
    OtherName(("zeros", "zeros_like", "zero"), ("$y = tcp.fill {value = 0} : $type",)),
    OtherName(("ones", "ones_like"), ("$y = tcp.fill {value = 1} : $type",)),
    OtherName(
        ("relu6",),
        (
            "%low = tcp.fill {value = 0} : $type",
            "%high = tcp.fill {value = 6} : $type",
            "$y = tcp.clamp($a, %low, %high) : $type",
        ),
    ),
    OtherName(
        ("leaky_relu", "leakyrelu", "prelu"),
        (
            "%slope = tcp.fill {value = 0.01} : $type",
            "%scaled = tcp.mul($a, %slope) : $type",
            "$y = tcp.max($a, %scaled) : $type",
        ),
        "for slopes below 1",
    ),
    OtherName(("square", "sqr"), ("$y = tcp.mul($a, $a) : $type",)),
    _unary("negate", "negf", "negative", opcode="tcp.neg"),
    _unary("absf", "absi", "absolute", "fabs", opcode="tcp.abs"),
    _unary("square_root", opcode="tcp.sqrt"),
    _unary("invert", "bitwise_not", "logical_not", "lnot", opcode="tcp.not"),
    _binary("andi", "bitwise_and", "logical_and", "land", opcode="tcp.and"),
    _binary("ori", "bitwise_or", "logical_or", "lor", opcode="tcp.or"),
    _binary("xori", "bitwise_xor", "logical_xor", "lxor", opcode="tcp.xor"),
    _binary("shl", "shli", "left_shift", "bitwise_left_shift", opcode="tcp.shift_left"),
    _binary("shr", "shrsi", "shrui", "right_shift", "bitwise_right_shift", opcode="tcp.shift_right"),
    _unary("bitcast_convert", "bitcast_convert_type", "reinterpret_cast", opcode="tcp.bitcast"),
    OtherName(("sum", "reduce_add", "reduce"), ("$y = tcp.reduce_sum($a) {dims = $dims} : $type",), _DIMS),
    OtherName(
        ("amax", "reduce_maximum"), ("$y = tcp.reduce_max($a) {dims = $dims} : $type",), "over the dims `dims`"
    ),
    OtherName(("amin", "reduce_minimum"), ("$y = tcp.reduce_min($a) {dims = $dims} : $type",), "over the dims `dims`"),
    OtherName(
        ("prod", "product", "reduce_mul"), ("$y = tcp.reduce_prod($a) {dims = $dims} : $type",), "over the dims `dims`"
    ),
    OtherName(("any", "reduce_or"), ("$y = tcp.reduce_any($a) {dims = $dims} : $type",),
              "over the dims `dims`, to i1"),
    OtherName(("all", "reduce_and"), ("$y = tcp.reduce_all($a) {dims = $dims} : $type",),
              "over the dims `dims`, to i1"),
    OtherName(("mean", "average", "avg"), ("$y = tcp.reduce_mean($a) {dims = $dims} : $type",), _DIMS),
    OtherName(("var", "variance", "reduce_var"), ("$y = tcp.reduce_variance($a) {dims = $dims} : $type",),
              "{correction = 1} for samples"),
    OtherName(("std", "stddev", "reduce_std"),
              ("%var = tcp.reduce_variance($a) {dims = $dims} : $type", "$y = tcp.sqrt(%var) : $type")),
    OtherName(("norm", "l2", "l2_norm", "vector_norm"), ("$y = tcp.reduce_l2($a) {dims = $dims} : $type",), _DIMS),
    OtherName(("mm", "matrix_multiply", "dot_general_2d"), ("$y = tcp.matmul($a, $b) : $type",)),
    OtherName(("gemm", "matmul_acc"), ("$y = tcp.matmul($a, $b, init = $c) : $type",)),
    OtherName(("addmm",), ("$y = tcp.matmul($b, $c, init = $a) : $type",)),
    OtherName(
        ("linear",),
        ('%mm = tcp.contract($a, $b) {lhs = ["m", "k"], rhs = ["n", "k"], out = ["m", "n"]} : $type', *_ADD_BIAS),
        "of weights [n, k]; those of [k, n] go into a tcp.matmul",
    ),
    OtherName(
        ("dense", "fully_connected", "inner_product", "fc"),
        ("%mm = tcp.matmul($a, $b) : $type", *_ADD_BIAS),
    ),
    _binary("bmm", "batched_matmul", "batch_mm", opcode="tcp.batch_matmul"),
    OtherName(
        ("einsum", "tensordot", "dot_general"),
        ("$y = tcp.contract($a, $b) {$equation} : $type",),
        "one name per dim of each; what is not in `out` is summed",
    ),
    _binary("mv", "gemv", opcode="tcp.matvec"),
    _binary("vm", "gevm", opcode="tcp.vecmat"),
    _binary("vdot", "inner", opcode="tcp.dot"),
    OtherName(
        ("outer", "ger"), ('$y = tcp.contract($a, $b) {lhs = ["m"], rhs = ["n"], out = ["m", "n"]} : $type',)
    ),
    OtherName(
        ("conv2d", "conv", "conv1d", "conv3d", "conv_2d", "conv_2d_nchw_fchw"),
        ("$y = tcp.convolution($a, $b) : $type",),
        "of NCHW and FCHW, without padding",
    ),
    OtherName(
        ("depthwise_conv2d", "depthwise_conv", "depthwise_convolution"),
        (
            '$y = tcp.convolution($a, $b) {input = ["n", "c", "h+p", "w+q"], filter = ["c", "p", "q"], '
            'out = ["n", "c", "h", "w"]} : $type',
        ),
        "of NCHW, without padding",
    ),
    OtherName(
        ("global_average_pool", "global_avg_pool", "adaptive_avg_pool2d"),
        ("$y = tcp.reduce_mean($a) {dims = [2, 3]} : $type",),
        "of NCHW",
    ),
    OtherName(
        ("extract_slice", "narrow", "strided_slice"),
        ("$y = tcp.slice($a) {offsets = [0, 0]} : $type",),
        "its size is that of the result",
    ),
    OtherName(
        ("chunk", "array_split", "tensor_split", "split_with_sizes"),
        ("%first, $y = tcp.split($a) {dim = 0} : $type, $type",),
        "a result for each part, as long as its type says",
    ),
    OtherName(("ret", "func_return"), ("tcp.return($a)",)),
    _missing("break", "continue",
             note="a loop that ends early is a gml_st.while; what an iteration may leave out stands in a gml_st.if"),
    _missing("cbrt", note="tcp.sqrt is the only root", family="elementwise"),
    _binary("powf", "power", "powi", "fpowi", "ipowi", opcode="tcp.pow"),
    _unary("arctan", "arctangent", opcode="tcp.atan"),
    _unary("arcsin", "arcsine", opcode="tcp.asin"),
    _unary("arccos", "arccosine", opcode="tcp.acos"),
    _binary("arctan2", opcode="tcp.atan2"),
    _unary("arcsinh", opcode="tcp.asinh"),
    _unary("arccosh", opcode="tcp.acosh"),
    _unary("arctanh", opcode="tcp.atanh"),
    OtherName(("logsumexp", "log_sum_exp"), ("$y = tcp.reduce_logsumexp($a) {dims = $dims} : $type",), _DIMS),
    OtherName(("layernorm", "layer_normalization"),
              ("$y = tcp.layer_norm($a, scale = $b, bias = $c) {dims = $dims} : $type",)),
    OtherName(("rmsnorm", "rms_normalization"), ("$y = tcp.rms_norm($a, scale = $b) {dims = $dims} : $type",)),
    OtherName(("scaled_dot_product_attention", "sdpa", "flash_attention", "multi_head_attention"),
              ("$y = tcp.attention($a, $b, $c) : $type",)),
    OtherName(("rotary_embedding", "rotary", "apply_rotary_pos_emb"),
              ("$y = tcp.rope($a, $b, $c) {dims = [0]} : $type",),
              "the tables have the dims `dims` of the operand, and half the last one"),
    _binary("silu_and_mul", opcode="tcp.swiglu"),
    _missing("batch_norm", "group_norm", "instance_norm",
             note="of one batch, it is a tcp.layer_norm along the other dims; of groups, one with `parts`"),
    OtherName(("argmax", "arg_max"), ("$y.values, $y = tcp.reduce_argmax($a) {dims = $dims} : $elements, $type",)),
    OtherName(("argmin", "arg_min"), ("$y.values, $y = tcp.reduce_argmin($a) {dims = $dims} : $elements, $type",)),
    _missing("scan", "accumulate", note="tcp.cumsum goes along a dim, as products and maxima do", family="scan"),
    _missing("take", "embedding", "index_select", "index",
             note="tcp.gather(%x, %indices) {dim = 0} reads rows by number; the argument %indices declares a range"),
    _missing("take_along_axis", "take_along_dim",
             note="tcp.gather_elements(%x, %indices) {dim = 1} does; the argument %indices declares a range"),
    OtherName(("arange", "indices"), ("$y = tcp.iota {dim = 0} : $type",)),
    OtherName(("repeat_interleave",), ("$y = tcp.repeat($a) {dim = 0, repeats = 2} : $type",)),
    _missing("dynamic_slice", "slice_in_dim",
             note="offsets of a tcp.slice may be symbols, of an argument `%n: index as [T]` with a range of T"),
    _missing("index_add", "segment_sum", note="tcp.scatter_add adds along a dim to where indices say"),
    _missing("scatter",
             note="gml_st.yield(%v, %indices, %d) filter [0] writes rows by number, combine tcp.add adds to them"),
    OtherName(("cat", "concatenate"), ("$y = tcp.concat($a, $b) {dim = 0} : $type",)),
    OtherName(("flip", "rev", "flipud", "fliplr"), ("$y = tcp.reverse($a) {dims = [0]} : $type",)),
    _missing("stack", note="tcp.concat joins along a dim that is there: tcp.reshape gives each one more"),
    _missing("insert_slice", note="nothing writes into a tensor: tcp.pad and tcp.concat make a larger one"),
    _missing("let", "val", "auto", note="remove it: `%y = ..` defines a value, once"),
    _missing("dropout", "rand", "randn", "uniform", "normal", note="there are no random numbers: pass them in"),
    OtherName(("max_pool", "maxpool", "max_pool2d", "pooling_max"),
              ("$y = tcp.pooling($a) {window = [2, 2], strides = [2, 2]} : $type",), "of NCHW, by 2x2"),
    OtherName(("sum_pool", "sumpool", "pooling_sum", "reduce_window"),
              ('$y = tcp.pooling($a) {window = [2, 2], strides = [2, 2], kind = "sum"} : $type',), "of NCHW, by 2x2"),
    OtherName(("avg_pool", "average_pool", "avg_pool2d", "pooling_average"),
              ('$y = tcp.pooling($a) {window = [2, 2], strides = [2, 2], kind = "average"} : $type',),
              "of NCHW, by 2x2"),
    OtherName(("lp_pool", "lp_pool2d"),
              ('$y = tcp.pooling($a) {window = [2, 2], strides = [2, 2], kind = "lp"} : $type',), "of NCHW, by 2x2"),
)  # fmt: skip
_BY_NAME: Final = {name: other for other in OTHER_NAMES for name in other.names}


@frozen
class Statement:
    """A statement with an operation that is not there, as it is written; `dtype` is that of its first operand."""

    operands: tuple[str, ...] = ()
    result: str = "%y"
    type: str = _NO_TYPE
    dtype: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict[str, str])

    def dims(self) -> str | None:
        """The list of the dims that it goes over."""
        given = next((self.attributes[name] for name in _NAMES_OF_DIMS if name in self.attributes), None)
        return given if given is None or given.startswith("[") else f"[{given}]"

    def elements(self) -> str:
        """The type of the result, with the dtype of the operand."""
        return re.sub(r"(?:bf|f|si|ui|i)\d+(?=>?$)", self.dtype or "DTYPE", self.type)


_NO_STATEMENT: Final = Statement()


def advice(name: str, statement: Statement = _NO_STATEMENT) -> str | None:
    """What to write in place of an operation that is not there; None where nothing is near.

    In this order: the operation of the same name in another dialect, a name that other systems use, a misspelling.
    """
    dialect, _, word = name.rpartition(".")
    word = word.lower()
    known = _words(dialect)
    if word in known:
        return f"write {known[word]}"
    if word in _BY_NAME:
        return _spelt_out(_BY_NAME[word], statement)
    near = max(known, key=lambda candidate: _likeness(word, candidate))
    return f"did you mean {known[near]}?" if _likeness(word, near) >= _LEAST_LIKENESS else None


def operation_with(attribute: str, cls: type[Operation]) -> str | None:
    """The reduction over dims of the name of an elementwise operation, where it is given the dims to reduce."""
    if attribute not in _NAMES_OF_DIMS or cls.signature.attribute_names:
        return None
    found = f"tcp.reduce_{cls.opcode.rpartition('.')[2]}"
    return found if found in operation_classes() else None


def contracted(equation: str) -> str | None:
    """The attributes of a contraction of two operands, as an equation `mk,kn->mn` says it."""
    match = re.fullmatch(r'"?\s*([A-Za-z]+)\s*,\s*([A-Za-z]+)\s*(?:->\s*([A-Za-z]*)\s*)?"?', equation)
    if match is None:
        return None
    lhs, rhs, out = match.groups()
    if out is None:
        out = "".join(sorted(name for name in lhs + rhs if (lhs + rhs).count(name) == 1))
    return ", ".join(
        f"{role} = {json.dumps(list(names))}" for role, names in (("lhs", lhs), ("rhs", rhs), ("out", out))
    )


def _spelt_out(other: OtherName, statement: Statement) -> str:
    if not other.write:
        members = [opcode for opcode, cls in operation_classes().items() if other.family in tree_classes_of(cls)]
        listed = [opcode for opcode in members if opcode.startswith("tcp.")]
        return Direction(f"{other.note}; of its kind there are {', '.join(listed)}" if listed else other.note)
    given = dict(zip("abc", statement.operands, strict=False))
    write = [line if "c" in given else line.replace(", init = $c", "") for line in other.write]
    equation = next((statement.attributes[key] for key in _EQUATIONS if key in statement.attributes), "")
    known = {
        **given,
        **{key: text for key, text in (("dims", statement.dims()), ("equation", contracted(equation))) if text},
        **({"type": statement.type} if statement.type != _NO_TYPE else {}),
        **({"elements": statement.elements()} if statement.dtype else {}),
        "y": statement.result,
    }
    names = {**{letter: f"%{letter}" for letter in "abc"}, "dims": "[1]", "equation": _EQUATION, "type": _NO_TYPE}
    lines = [Template(line).substitute({**names, "elements": _NO_TYPE, **known}) for line in write]
    asked = {name for line in write for name in Template(line).get_identifiers()}
    note = "" if "equation" in known else other.note
    text = statements_to_write(lines, note)
    return text if not note and asked <= known.keys() else Direction(text)


def _words(dialect: str) -> Mapping[str, str]:
    """The operations of `dialect` and those a person writes, by their names without it; `dialect` has precedence."""
    rank = {"gml_st": 1, "tcp": 2} | {dialect: 3}
    ranked = [(rank.get(opcode.rpartition(".")[0]), opcode) for opcode in operation_classes()]
    return {opcode.rpartition(".")[2]: opcode for _, opcode in sorted((r, o) for r, o in ranked if r is not None)}


def _likeness(word: str, candidate: str) -> float:
    """From 0 to 1; letters that changed places count for nothing."""
    return 1.0 if sorted(word) == sorted(candidate) else SequenceMatcher(None, word, candidate).ratio()
