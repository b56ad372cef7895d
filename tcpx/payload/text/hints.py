"""The fix of a syntax error in a payload written as in another system, from the line it stands in."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from tcpx.payload.diagnostics import Direction, statements_to_write
from tcpx.payload.ops.other_names import contracted
from tcpx.payload.text.habits import AT, QUOTES, Recognized, habits, recognize

_VALUE: Final = r"%[\w./~]+"
_TYPE: Final = r"(?P<type>(?:tensor|vector)<[^<>]*>|\w+)"
_OPERANDS: Final = rf"\((?:\s*{_VALUE}\s*,)*\s*"
_NUMBER: Final = r"-?(?:[0-9][\w.]*|inf\b|nan\b)"
_COMPARED: Final = rf"{_VALUE}|-?[0-9][\w.{AT}]*"
_NO_OPERATORS: Final = "each computation is an operation: there are no operators"
_ATTRIBUTES_LAST: Final = "attributes stand in braces, after the operands"
_BRACES: Final = "`{` before the attributes, `}` after them"
_NAMED_SIZE: Final = Direction("name the size: tensor<[N]x4xf32>, and declare symbols [N] after the results")
_COMPUTED_SIZE: Final = Direction(
    "a size that is computed stands in brackets: [2*N], [N + 1]; declare symbols [N] after the results"
)
_TYPE_ALONE: Final = "the type of the result stands alone after the colon"
_RESULT_TYPE: Final = Direction("write the type of the result alone after the colon")
_OPERATIONS: Final[Mapping[str, str]] = {
    "+": "add", "-": "sub", "*": "mul", "/": "div", "**": "pow", "@": "matmul", "//": "floordiv", "%": "mod",
    "<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal", "==": "equal", "!=": "not_equal",
    "&": "and", "&&": "and", "|": "or", "||": "or", "^": "xor", "<<": "shift_left", ">>": "shift_right",
}  # fmt: skip


def _operation_of(match: re.Match[str]) -> str | None:
    name = _OPERATIONS.get(match["sign"].replace(AT, "").strip())
    return f"write tcp.{name}({match['a']}, {match['b']})" if name is not None else None


def _computed_before(match: re.Match[str]) -> str | None:
    computed = _operation_of(match)
    return Direction(f"{computed.replace('write', 'compute it before: %t =')} : TYPE, and use %t") if computed else None


def compared(lhs: str, rhs: str, relation: str) -> str:
    """How a branch is on a comparison of values that are computed."""
    test = f"%holds = tcp.{_OPERATIONS[relation]}({lhs}, {rhs}) : i1"
    test += ", where %size = tcp.index_value {value = ..} : si64" if "%size" in (lhs, rhs) else ""
    return Direction(f"compare them before it: {test}, then gml_st.if %holds {{")


def _as_attributes(match: re.Match[str]) -> str:
    given = re.sub(r"(\w+)\s*[:=]\s*", r"\1 = ", match["attributes"].replace(AT, "").strip())
    return f"write {match['operation']}({match['operands'].strip()}) {{{given}}}"


def _one_operation(match: re.Match[str]) -> Direction:
    """The two statements of an operation in another; both have the type of the result, as elementwise ones do."""
    inner = match["here"].replace(AT, "")
    opcode = inner if inner.startswith("tcp.") else f"tcp.{inner}"
    first = f"{opcode}{' {dims = [1]}' if re.match(rf'tcp.(?:broadcast|expand)[(]{_VALUE}[)]', opcode) else ''}"
    statement = re.search(rf"[^\n]*{AT}[^\n]*", match.string)
    second = statement[0].replace(AT, "").replace(inner, "%t", 1).strip() if statement is not None else ""
    type_ = re.search(rf":\s*{_TYPE}\s*$", second)
    return Direction(statements_to_write([f"%t = {first} : {type_['type'] if type_ is not None else 'TYPE'}", second]))


def _affine_map(match: re.Match[str]) -> str:
    return f"write [{', '.join(index.strip() for index in match['results'].replace(AT, '').split(','))}]"


def _constant(match: re.Match[str]) -> str:
    return f"write tcp.const {{value = {match['a'].replace(AT, '').strip()}}}"


def _operands_in_list(match: re.Match[str]) -> str:
    return f"write {match['a'].replace(AT, '')}"


def _sizes_first(match: re.Match[str]) -> str:
    sizes = [size.strip() for size in match["sizes"].split(",") if size.strip()]
    shape = [size if size.isdigit() else f"[{size}]" for size in sizes]
    return f"write tensor<{'x'.join([*shape, match['dtype']])}>"


def _without_types(match: re.Match[str]) -> str:
    operands = re.sub(rf"\s*{AT}?\s*:\s*(?:\w+<[^<>]*>|\w+)", "", match["operands"])
    return f"write {match['operation']}({operands})"


def _quoted(match: re.Match[str]) -> str:
    return f"write {re.sub(f'[{QUOTES}]', chr(34), match['quoted'])}"


def _range_of(match: re.Match[str]) -> str:
    bound = int(match["bound"])
    ends = {">=": f"{bound}..", ">": f"{bound + 1}..", "<=": f"0..{bound}", "<": f"0..{max(0, bound - 1)}"}
    return f"write {match['size']}: {ends[match['sign'].replace(AT, '')]}"


_RANGE: Final = Direction("write the range of a loop so: %i in 0 to N step 1")

_HABITS: Final = habits(
    # what begins a comment
    (
        rf"\[\s*(?P<here>(?P<a>[\w*+ -]+?)\s*//\s*(?P<b>\w+))\s*\][^\n]*\n[^\n]*{AT}",
        r"write floordiv(\g<a>, \g<b>)", "`//` begins a comment", "a size that is divided with a rounding",
    ),
    # MLIR
    (
        rf"(?P<here>affine_map\s*{AT}?<\s*\([^()]*\)\s*{AT}?-{AT}?>\s*{AT}?\((?P<results>[^()]*)\)\s*{AT}?>)",
        _affine_map,
        "a map lists the index of each dim", "names of dims in brackets",
    ),
    (
        rf"(?P<here>(?:\w+\.)?const(?:ant)?\s*{AT}(?P<a>{_NUMBER}))\s*(?:$|:\s*[a-z]+[0-9]+\s*$)", _constant,
        _ATTRIBUTES_LAST, _BRACES,
    ),
    (rf"\(\s*(?P<here>{AT}\[(?P<a>\s*{_VALUE}(?:\s*,\s*{_VALUE})*\s*)\])", _operands_in_list,
     "operands are no list", "values, separated by commas"),
    # loops and branches
    (rf"gml_st\.(?:for|parallel|while)\s+{_VALUE}\s*{AT}=", _RANGE),
    (rf"\bin\s+range\s*{AT}\(", _RANGE),
    (rf"gml_st\.(?:for|parallel|while)\s+{_VALUE}\s+in\b[^{{]*{AT}\.\.", _RANGE),
    (
        rf"^\s*(?:{_VALUE}\s*=\s*)?(?P<here>(?:(?:scf\.|stablehlo\.)?while\b.*|gml_st\.while\s+{_VALUE}\s*){AT})",
        Direction("write a loop on a condition so: gml_st.while (%go = %first, %d = %init) { .. } : i1, TYPE"),
    ),
    (rf"gml_st\.if\s*(?P<here>\(\s*(?P<a>{_VALUE})\s*\))\s*{AT}", r"write \g<a>", "a condition has no parentheses"),
    (
        rf"gml_st\.if\s*(?P<here>\(?\s*(?P<a>{_COMPARED})\s*{AT}?(?P<sign>[<>=!]=|[<>])"
        rf"\s*(?P<b>{_COMPARED})\s*\)?)",
        lambda match: compared(match["a"].replace(AT, ""), match["b"].replace(AT, ""), match["sign"]),
        "a condition compares sizes and loop variables",
        "values to be compared by an operation, whose result is the condition",
    ),
    (
        rf"gml_st\.if\s+(?P<here>(?P<a>tcp\.\w+{AT}\([^()]*\)))",
        Direction(r"compute it before: %holds = \g<a> : i1, then gml_st.if %holds {"),
        "a condition is no operation", "a value that an operation before it gives, or a comparison of sizes",
    ),
    (
        rf"gml_st\.if\s+(?P<here>(?P<a>[A-Za-z0-9_ +*()-]+?))\s*{AT}\{{", r"write \g<a> != 0",
        "a size is no condition", "a comparison of sizes",
    ),
    (rf"gml_st\.if\s+{_VALUE}\s*(?P<here>{AT}:\s*\w+)", "remove it: a condition has no type"),
    (
        rf"gml_st\.if\s+(?:not\s+|!\s*)?{AT}[!%]",
        Direction("compute the opposite before it: %other = tcp.not(%c) : i1"),
    ),
    (
        rf"gml_st\.if\s+{_VALUE}\s*{AT}(?:and|or|&|\|)",
        Direction("combine the truth values before it: %both = tcp.and(%a, %b) : i1"),
    ),
    (
        rf"tcp\.\w+\s*\([^()]*\)\s*\{{.*\}}\s*{AT}\{{",
        Direction("a region stands in parentheses: tcp.generic(%x) {..} ({ (%e: f32): .. }) : TYPE"),
    ),
    (rf"tensor<(?:[^<>]*x)?\w+\s*{AT}[-+*/]\s*\w", _COMPUTED_SIZE),
    (rf"tensor<(?:[^<>]*x)?[0-9]+{AT}[A-Za-z_]", _COMPUTED_SIZE),
    (rf"tensor<(?:[^<>]*x)?[A-Za-z_]\w*\s+{AT}x", _NAMED_SIZE),
    (
        rf"tensor<[^<>]*\[[^\[\]]*{AT}/",
        Direction("sizes are divided with a rounding: floordiv(N, 2) or ceildiv(N, 2)"),
    ),
    (rf"[:>,(]\s*(?P<here>(?P<dtype>[a-z]+[0-9]+){AT}\[(?P<sizes>[^\[\]]*)\])", _sizes_first),
    (rf"(?P<here>tensor<(?P<dtype>\w+){AT},\s*[\[(](?P<sizes>[^\[\]()]*)[\])]\s*>)", _sizes_first),
    (rf"tensor<[^<>]*{AT}(?:\?|\*|-)", _NAMED_SIZE),
    (rf"tensor<[^<>]*\[{AT}\?", _NAMED_SIZE),
    (rf"tensor<[^<>]*{AT},", Direction("join sizes and dtype by x: tensor<4x8xf32>")),
    (rf"[:>,(]\s*(?P<here>(?:memref|array|Tensor|ndarray|RankedTensor))\s*{AT}<", "write tensor"),
    # values
    (
        rf"^\s*(?P<here>[A-Za-z_]\w*)\s*=\s*[a-z][\w.]*\s*{AT}[({{]", r"write %\g<here>",
        r"`\g<here>` is no value: names of values begin with %", "a value such as %x",
    ),
    (
        rf"\b(?:broadcast|expand)\(\s*{AT}(?P<here>[A-Za-z_]\w*)", r"write %\g<here>",
        r"`\g<here>` is no value: names of values begin with %", "a value such as %x",
    ),
    (rf"\([^()]*{AT}(?P<here>[A-Za-z_]\w*)\s*:", r"write %\g<here>", "names of values begin with %"),
    # operators
    (
        rf"=\s*(?P<here>{AT}(?P<a>{_VALUE}|{_NUMBER})\s*(?P<sign>\*\*|//|<<|>>|[<>=!]=|&&|\|\||[-+*/@%<>&|^])"
        rf"\s*(?P<b>{_VALUE}|{_NUMBER}))\s*(?::|$)",
        _operation_of, _NO_OPERATORS,
    ),
    (rf"=\s*(?P<here>{AT}-\s*(?P<a>{_VALUE}))\s*(?::|$)", r"write tcp.neg(\g<a>)", _NO_OPERATORS),
    (rf"=\s*(?P<here>{AT}[!~]\s*(?P<a>{_VALUE}))\s*(?::|$)", r"write tcp.not(\g<a>)", _NO_OPERATORS),
    (
        rf"=\s*(?P<here>{AT}(?P<a>%[\w/~]+)\.T)\s*(?::|$)", r"write tcp.transpose(\g<a>) {permutation = [1, 0]}",
        "each computation is an operation: values have no methods",
    ),
    (
        rf"=\s*(?P<here>{AT}(?P<a>{_VALUE})\[[^\]]*\])",
        Direction(r"write tcp.slice(\g<a>) {offsets = [0, 0]}, which reads as many elements as its result has"),
        "each computation is an operation: values have no indices",
    ),
    (
        rf"=\s*(?P<here>{AT}{_VALUE}(?:\s*[-+*/@<>&|%].*?)?)\s*:",
        Direction("write one operation in each statement: %t = tcp.mul(%a, %b) : TYPE, then tcp.add(%t, %c)"),
        _NO_OPERATORS,
    ),
    (
        rf"\([^()]*?(?P<here>(?P<a>{_VALUE}|{_NUMBER})\s*{AT}(?P<sign>\*\*|//|<<|>>|[<>=!]=|&&|\|\||[-+*/@%<>&|^])"
        rf"\s*(?P<b>{_VALUE}|{_NUMBER}))\s*[,)]",
        _computed_before, _NO_OPERATORS,
    ),
    # operands and attributes
    (
        rf"(?P<here>(?P<operation>[a-z]\w*(?:\.\w+)*)\((?P<operands>[^()=]*?),\s*"
        rf"(?P<attributes>\w+\s*(?:=\s*{AT}[^%()]|{AT}:\s*[^%\s()])[^()]*)\))",
        _as_attributes, _ATTRIBUTES_LAST, _BRACES,
    ),
    (
        rf"\)\s*(?P<here>\(\s*{AT}(?P<a>\w+\s*=[^()]*)\))", r"write {\g<a>}",
        _ATTRIBUTES_LAST, _BRACES,
    ),
    (
        rf"\)\s*(?P<here>{AT}\[\s*(?P<a>\w+\s*=[^\[\]]*(?:\[[^\]]*\][^\[\]]*)*)\])", r"write {\g<a>}",
        _ATTRIBUTES_LAST, _BRACES,
    ),
    (
        rf"\{{(?:[^{{}}]*,)?\s*(?P<here>(?P<a>\w+)\s*{AT}:)", r"write \g<a> =",
        "an attribute and its value are separated by =",
    ),
    (
        rf"\([^()]*?(?P<here>(?:\w+\.)?[a-z]\w*\([^()]*{AT}[^()]*\))", _one_operation,
        "an operand is a value: each operation has a statement of its own", "a value such as %x",
    ),
    (
        rf"(?P<here>{_OPERANDS}{_VALUE}\s*{AT}:)(?!.*\))", r"a `)` is missing: write `) :` in place of `:`",
        "`(` is not closed",
    ),
    (
        rf"(?P<here>(?P<operation>[a-z][\w.]*)\((?P<operands>[^()]*{AT}:\s*\w[^()]*)\))", _without_types,
        "operands have no types here",
    ),
    (rf"{_OPERANDS}{_VALUE}\s*{AT}:", Direction("operands have no types here: write the names alone")),
    (
        rf"(?:=|^)\s*(?P<here>(?P<operation>(?!(?:if|for|while|let|var)\b)[A-Za-z][\w.]*)\s+"
        rf"(?P<a>{_VALUE}(?:\s*,\s*{_VALUE})*))\s*{AT}",
        lambda match: f"write {_returned(match['operation'])}({match['a']})", "operands stand in parentheses",
        "`(` before the operands, `)` after them",
    ),
    (
        rf"(?P<here>tcp\.const\s*{AT}(?P<a>{_NUMBER}))", r"write tcp.const {value = \g<a>}",
        _ATTRIBUTES_LAST, _BRACES,
    ),
    (
        rf"(?P<here>tcp\.const\s*dense\s*{AT}<\s*(?P<a>{_NUMBER})\s*>)", r"write tcp.fill {value = \g<a>}",
        _ATTRIBUTES_LAST, _BRACES,
    ),
    # types
    (rf":\s*(?P<here>{AT}\([^()]*\)\s*->\s*(?P<type>[^()\s]+))\s*$", r"write \g<type>", _TYPE_ALONE),
    (rf":\s*(?P<here>{_TYPE}\s*{AT}->\s*(?P<result>[^()\s]+))\s*$", r"write \g<result>", _TYPE_ALONE),
    (
        rf"(?P<here>:\s*{_TYPE}\s*{AT}(?P<attributes>\{{[^{{}}]*\}}))\s*$", r"write \g<attributes> : \g<type>",
        "attributes stand before the type",
    ),
    (rf":\s*{AT}\(", _RESULT_TYPE),
    (rf":\s*{_TYPE}\s*{AT}->", _RESULT_TYPE),
    (rf"[)}}]\s*(?P<here>{AT}->)\s*{_TYPE}\s*$", "write `:`", "the type of the result stands after a colon"),
    (rf":\s*{_TYPE}\s*{AT}\{{", Direction("attributes stand before the colon: tcp.fill {value = 0.0} : TYPE")),
    (rf'(?P<here>{AT}"(?P<a>[\w.]+)")\s*\(', r"write \g<a>", "names of operations have no quotes"),
    # files and functions
    (rf"^\s*{AT}module\b", Direction("a file is a list of functions, without a module around them")),
    (rf"^\s*(?P<here>{AT}(?:def|fn|function|fun|define)\b)", "write func"),
    (
        rf"\bsymbols\s*\[[^\]]*?(?P<here>(?P<size>[A-Za-z_]\w*)\s*(?P<sign>{AT}[<>]=?)\s*(?P<bound>[0-9]+))", _range_of,
    ),
    (
        rf"\bsymbols\s*\[[^\]]*?(?P<here>(?P<size>\w+)\s*{AT}in\s+(?P<a>[0-9]+\.\.[0-9]*))", r"write \g<size>: \g<a>",
    ),
    (
        rf"\bsymbols\s*\[[^\]]*{AT}[<>=]",
        Direction("a range is written N: 1.., or N: 0..4096; a factor, N multiple_of 16"),
    ),
    (
        rf"(?P<here>\b(?P<a>symbols\s*\[[^\]]*\])\s*{AT}(?P<b>->\s*[^{{]*?))\s*\{{", r"write \g<b> \g<a>",
        "the results go before the symbols",
    ),
    (rf"\bfunc\s+(?P<here>{AT}[A-Za-z_][\w.]*)", r"write @\g<here>"),
    (rf"(?P<here>\bfunc{AT}\.func)\b", "write func"),
    # tokens
    (rf"(?P<here>{AT}(?P<quoted>[{QUOTES}][^{QUOTES}]*[{QUOTES}]))", _quoted, 'text is quoted with "'),
    (rf"(?P<here>{AT};)", "remove it: nothing ends a statement"),
    (rf"(?P<here>{AT}(?:#|/\*))", "write `//`: a comment begins with it"),
    (
        rf"^\s*(?:{_VALUE}\s*=\s*)?(?P<here>(?:scf\.|affine\.)?(?:for|forall|parallel)\b).*{AT}",
        Direction("write a loop so: %y = gml_st.for %i in 0 to N step 1 (%d = %init) { .. } : TYPE"),
    ),
    (
        rf"^\s*(?:{_VALUE}\s*=\s*)?(?P<here>(?:scf\.|affine\.)?if)\b.*{AT}",
        Direction(
            "tcp.select(%c, %a, %b) chooses element by element; gml_st.if %c { .. } else { .. }, or gml_st.if N == 1, "
            "runs one branch"
        ),
    ),
)  # fmt: skip


def _returned(operation: str) -> str:
    return "tcp.return" if operation in ("return", "func.return") else operation


_DTYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "f64": ("double", "float64", "fp64"),
    "f32": ("float", "float32", "fp32"),
    "f16": ("half", "float16", "fp16"),
    "bf16": ("bfloat16", "bfloat"),
    "si64": ("i64", "int64", "s64", "long"),
    "si32": ("i32", "int32", "s32", "int"),
    "si16": ("i16", "int16", "s16", "short"),
    "si8": ("i8", "int8", "s8", "char"),
    "ui64": ("u64", "uint64"),
    "ui32": ("u32", "uint32"),
    "ui16": ("u16", "uint16"),
    "ui8": ("u8", "uint8", "byte"),
    "i1": ("bool", "pred"),
}
"""The names that other systems give to dtypes."""
_DTYPE_OF: Final = {name: dtype for dtype, names in _DTYPES.items() for name in names}

_ATTRIBUTES: Final = (
    (
        ("axis", "axes", "dim", "dims", "dimension", "dimensions"),
        ("dim", "dims"),
        None,
    ),
    (("perm", "order", "axes", "dims"), ("permutation",), "permutation = [1, 0]"),
    (
        ("equation", "subscripts", "spec", "indexing_maps"),
        ("lhs", "rhs", "out"),
        'lhs = ["m", "k"], rhs = ["k", "n"], out = ["m", "n"]',
    ),
    (("indexing_maps",), ("maps",), "maps = [[i, j], [i]]"),
    (("iterator_types",), ("iterators",), 'iterators = [["i", "parallel"], ["j", "reduction"]]'),
    (("start", "starts", "begin", "start_indices", "offset"), ("offsets",), None),
    (("step", "steps", "stride"), ("strides",), None),
    (("val", "fill_value", "constant", "v"), ("value",), "value = 0.0"),
    (
        ("high", "pad", "pads", "padding", "pad_width", "edge_padding_low", "edge_padding_high"),
        ("value", "free"),
        "value = 0.0, low = [1, 1]: what is before; the type of the result says how much is behind",
    ),
)
"""Names that other systems give to attributes, those that an operation may have in their place, and what to write."""


_LEFT_OUT: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("keepdims", "keepdim", "keep_dims"),
        "leave it out: the result has no dim where it reduces; a tcp.reshape of it gives it one of 1",
    ),
    **dict.fromkeys(
        ("dtype", "to", "shape", "new_shape", "newshape", "out_shape", "sizes"),
        "leave it out: the type of the result says it",
    ),
    **dict.fromkeys(
        ("k", "stop", "end", "ends", "limit_indices", "size"), "leave it out: the type of the result says it"
    ),
    **dict.fromkeys(
        ("transpose_a", "transpose_b", "trans_a", "trans_b", "transA", "transB", "adj_x", "adj_y"),
        'write tcp.contract, which names the dims: {lhs = ["m", "k"], rhs = ["n", "k"], out = ["m", "n"]}',
    ),
}
"""Attributes of other systems that say what is said in another way here."""


def attribute_fix(key: str, names: Sequence[str], value: str = "") -> str | None:
    """What to write for an attribute that another system calls `key`, of an operation with attributes of `names`."""
    lists = contracted(value) if {"lhs", "rhs", "out"} <= {*names} else None
    if lists is not None:
        return f"write {{{lists}}}"
    for others, own, write in _ATTRIBUTES:
        here = [name for name in own if name in names]
        if key in others and here:
            return Direction(f"write {write}") if write is not None else f"write {here[0]}"
    return Direction(_LEFT_OUT[key]) if key in _LEFT_OUT else None


def syntax_habit(line: str, column: int, before: str = "") -> Recognized | None:
    """What was meant where the grammar was left, if it is known; `before` is the line before."""
    return recognize(_HABITS, before, line, column)


def dtype_fix(name: str) -> str | None:
    """The dtype that another system calls so."""
    dtype = _DTYPE_OF.get(name.lower())
    return f"write {dtype}" if dtype is not None else None
