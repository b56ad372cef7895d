"""The Python functions behind a kernel: straight-line checks and one foreign call, generated per signature.

The text is built from the templates below and from numbers; names of the payload never get into it.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from tcpx.emit_c.signature import OVERFLOW, Argument, KernelSignature
from tcpx.limits import LARGEST_EXTENT
from tcpx.payload.diagnostics import Diagnostic, VerifyError
from tcpx.payload.sizes import (
    Atom,
    CeilDiv,
    Dim,
    FloorDiv,
    Max,
    Min,
    Mod,
    Symbol,
    as_symbol,
    lower_bound,
    to_text,
    told_symbol,
)
from tcpx.payload.sizes_of_arguments import telling_dims
from tcpx.payload.types import row_major

_CONTIGUOUS: Final = 0x1
"""NumPy's C_CONTIGUOUS."""
_ALIGNED: Final = 0x100
_IN_FLAGS: Final = 0x101
"""C_CONTIGUOUS and ALIGNED."""
_OUT_FLAGS: Final = 0x501
"""The same and WRITEABLE."""


def wrapper_source(signature: KernelSignature) -> str:
    """Python text that defines `call(arrays, out)`, which checks, runs the kernel and returns the results, and
    `bind(arrays, out)`, which checks and returns a function that runs it on these arrays, the inputs and the results.

    It refers to `ndarray`, `empty`, `may_share_memory`, `check`, `from_buffer`, `kernel`, `bound`, `packed`,
    `constants`, `null`, `take`, `give_back`, `team`, to the dtypes `t0, t1, ..` of the inputs and `u0, u1, ..` of the
    outputs, and for strided arrays to `from_rows`, `outer_strides`, `is_writable_in_rows` and `overlap`.
    """
    symbols = {symbol.name: f"s{k}" for k, symbol in enumerate(signature.symbols)}
    inputs = {f"a{k}": argument for k, argument in enumerate(signature.inputs)}
    outputs = {f"o{k}": argument for k, argument in enumerate(signature.outputs)}
    sizes = _tuple(symbols.values())
    names = {argument: name for name, argument in (inputs | outputs).items()}
    given = [names[argument] for argument in signature.results]
    results = given[0] if len(given) == 1 else _tuple(given)
    rows, words = _words(signature, inputs | outputs, symbols)
    own = "w" if signature.has_workspace else "null"
    workspace_bytes = python_text(signature.workspace_bytes, symbols)
    bound_words = "words, w" if signature.has_workspace else "words"
    call = [
        *_checks(signature, inputs, outputs, symbols, "adapt"),
        *rows,
        *_prepared(signature, 3),
        *_run(signature, f"kernel({', '.join([*words, own])})", workspace_bytes, sizes, results),
    ]
    bind = [
        *_checks(signature, inputs, outputs, symbols, "as_it_is"),
        *rows,
        f"held, size, results = {_tuple(words)}, {workspace_bytes}, {results}",
        "words = packed(held)",
        *_function(
            "run()", [*_prepared(signature, 2), *_run(signature, f"bound({bound_words})", "size", sizes, "results")]
        ),
        "run.held = held",
        f"return run, {_tuple(inputs)}, results",
    ]
    return "\n".join([*_function("call(arrays, out)", call), *_function("bind(arrays, out)", bind), ""])


def _function(head: str, body: Iterable[str]) -> list[str]:
    return [f"def {head}:", *("    " + line for line in body)]


def _checks(
    signature: KernelSignature,
    inputs: Mapping[str, Argument],
    outputs: Mapping[str, Argument],
    symbols: Mapping[str, str],
    convert: str,
) -> list[str]:
    """The inputs and symbols from `arrays`, the outputs from `out`; `check.<convert>` gets what is no plain array."""
    sizes = _tuple(symbols.values())
    given = [*inputs]
    for k, number in enumerate(signature.numbers):
        given.insert(number.position, f"n{k}")
    lines = [f"if len(arrays) != {len(given)}: check.fail(arrays)"]
    if given:
        lines.append(f"{_tuple(given)} = arrays")
    for k in range(len(signature.numbers)):
        lines.append(f"if type(n{k}) is not int: n{k} = check.number({k}, n{k})")
    for k, argument in enumerate(signature.inputs):
        flags = _IN_FLAGS if argument.state is None else _OUT_FLAGS
        lies_badly = f"a{k}.flags.num & {flags} != {flags}"
        if argument.is_strided and argument.state is None:
            lies_badly += f" and (not a{k}.flags.num & {_ALIGNED} or outer_strides(a{k}) is None)"
        change = convert if argument.state is None else "state"
        lines.append(
            f"if type(a{k}) is not ndarray or a{k}.dtype is not t{k} or {lies_badly}: a{k} = check.{change}({k}, a{k})"
        )
    lines += _bind_symbols(signature, symbols)
    overlaps = [
        _overlap(inputs, name, other)
        for name, argument in inputs.items()
        for other in inputs
        if argument.state is not None and name != other
    ]
    if overlaps:
        lines.append(f"if {' or '.join(overlaps)}: check.fail_state({_tuple(inputs)})")
    if signature.wide_sizes:
        lines.append(f"if {sizes} not in check.fitting: check.check_sizes({sizes})")
    shapes = [_tuple([python_text(d, symbols) for d in output.shape]) for output in signature.outputs]
    lines += ["if out is None:", "    try:"]
    lines += [f"        o{k} = empty({shape}, u{k})" for k, shape in enumerate(shapes)] or ["        pass"]
    lines.append(f"    except ValueError: check.fail_code({OVERFLOW}, {sizes})  # NumPy's word for an overflow")
    lines.append(f"    except MemoryError as error: check.fail_memory(error, {sizes})")
    lines += ["else:", f"    {_tuple(outputs) if outputs else 'ignored'} = given = check.outputs(out)"]
    arrays = {**inputs, **outputs}
    names = list(arrays)
    for k, (name, shape) in enumerate(zip(outputs, shapes, strict=True)):
        is_apart = f"{name}.flags.num & {_OUT_FLAGS} != {_OUT_FLAGS}"
        terms = [
            f"type({name}) is not ndarray",
            f"{name}.dtype is not u{k} and {name}.dtype != u{k}",
            f"{is_apart} and not is_writable_in_rows({name})" if arrays[name].is_strided else is_apart,
            f"{name}.shape != {shape}",
            *(_overlap(arrays, name, other) for other in names[: len(inputs) + k]),
        ]
        lines.append(f"    if {' or '.join(terms)}: check.fail_output(given, {_tuple(inputs)}, {sizes})")
    return lines


def _words(
    signature: KernelSignature, arrays: Mapping[str, Argument], symbols: Mapping[str, str]
) -> tuple[list[str], list[str]]:
    """The lines before a call of the kernel, and what it is called with, up to the workspace."""
    lines: list[str] = []
    pointers: list[str] = []
    strides: list[str] = []
    for name, argument in arrays.items():
        if argument.is_strided:
            lines += _rows(name, argument, symbols)
            strides.append(f"*l{name}")
        pointers.append(f"p{name}" if argument.is_strided else f"from_buffer({name})")
    return lines, [*pointers, *symbols.values(), *strides, "constants"]


def _prepared(signature: KernelSignature, stacklevel: int) -> list[str]:
    """See that the calling thread can enter parallel loops; the caller of the kernel is so many frames outwards."""
    return [f"if not team.is_ready: team.prepare({stacklevel})"] if signature.threads > 1 else []


def _run(signature: KernelSignature, call: str, workspace_bytes: str, sizes: str, results: str) -> list[str]:
    """Run the kernel by this call, in a workspace `w` if it needs one, and return the results."""
    lines = [f"code = {call}"]
    if signature.has_workspace:
        lines = [f"w = take({workspace_bytes})", "try:", f"    {lines[0]}", "finally:", "    give_back(w)"]
    inputs = _tuple(f"a{k}" for k in range(len(signature.inputs)))
    return [*lines, f"if code: check.fail_code(code, {sizes}, {inputs})", f"return {results}"]


def _overlap(arrays: Mapping[str, Argument], one: str, other: str) -> str:
    """Whether two arrays overlap; of contiguous ones the bounds tell."""
    test = "overlap" if arrays[one].is_strided or arrays[other].is_strided else "may_share_memory"
    return f"{test}({one}, {other})"


def _rows(name: str, argument: Argument, symbols: Mapping[str, str]) -> list[str]:
    """Pointer and strides of an array that need not be contiguous; cffi takes the buffers of contiguous ones only."""
    contiguous = [python_text(stride, symbols) for stride in row_major(argument.shape)[:-1]]
    return [
        f"if {name}.flags.num & {_CONTIGUOUS}: p{name} = from_buffer({name}); l{name} = {_tuple(contiguous)}",
        f"else: p{name} = from_rows({name}); l{name} = outer_strides({name})",
    ]


def _bind_symbols(signature: KernelSignature, symbols: Mapping[str, str]) -> list[str]:
    """Ranks, then symbols from where shapes tell them, then everything that must agree."""
    lines: list[str] = []
    told = telling_dims(argument.shape for argument in signature.inputs)
    bound, places = set(told), set(told.values())
    derived: list[str] = []
    conditions: list[str] = []
    for k, argument in enumerate(signature.inputs):
        targets: list[str] = []
        wanted: list[str] = []
        for position, dim in enumerate(argument.shape):
            symbol, tells = as_symbol(dim), (k, position) in places
            if symbol is not None and tells:
                targets.append(symbols[symbol.name])
                wanted.append("")
            else:
                targets.append(f"d{k}_{position}")
                wanted.append(python_text(dim, symbols))
            if symbol is None and tells:
                line, condition = _derived(dim, targets[-1], symbols)
                derived.append(line)
                conditions.append(condition)
        lines += [f"h = a{k}.shape", f"if len(h) != {len(targets)}: check.fail(arrays)"]
        if targets:
            lines.append(f"{_tuple(targets)} = h")
        conditions += [f"{target} != {text}" for target, text in zip(targets, wanted, strict=True) if text]
    lines += derived
    numbers = {number.symbol.name: f"n{k}" for k, number in enumerate(signature.numbers)}
    lines += [f"{symbols[name]} = {number}" for name, number in numbers.items() if name not in bound]
    conditions += [f"not 0 <= {number} <= {LARGEST_EXTENT}" for number in numbers.values()]
    conditions += [f"{number} != {symbols[name]}" for name, number in numbers.items() if name in bound]
    bound |= set(numbers)
    for symbol in signature.symbols:
        if symbol.name not in bound:
            raise VerifyError(
                Diagnostic(
                    f"the size `{symbol.name}` follows from no argument",
                    required=f"an argument with a dimension [{symbol.name}]",
                    found=", ".join(map(str, signature.inputs)) or "no arguments",
                    fix=f"make the whole dim a symbol: [{symbol.name}]",
                )
            )
        name = symbols[symbol.name]
        if symbol.lower > 0:
            conditions.append(f"{name} < {symbol.lower}")
        if symbol.upper is not None:
            conditions.append(f"{name} > {symbol.upper}")
        if symbol.multiple_of > 1:
            conditions.append(f"{name} % {symbol.multiple_of}")
    if conditions:
        lines.append(f"if {' or '.join(conditions)}: check.fail(arrays)")
    return lines


def _derived(dim: Dim, extent: str, symbols: Mapping[str, str]) -> tuple[str, str]:
    """The symbol of `2*N + 1` from an extent, which is compared with it afterwards, and what it must not be."""
    told = told_symbol(dim)
    if told is None:
        raise AssertionError(f"{to_text(dim)} tells no symbol")
    symbol, factor, offset = told
    name = symbols[symbol.name]
    return f"{name} = ({extent} - {offset}) // {factor}", f"{name} < 0"


def python_text(dim: Dim, symbols: Mapping[str, str]) -> str:
    """A size over symbols as a Python expression; `symbols` gives the variable of each symbol."""
    if isinstance(dim, int):
        return str(dim)
    terms = ["*".join([str(c), *(_atom(a, symbols) for a in monomial)]) for monomial, c in dim.terms]
    terms = [term.removeprefix("1*") for term in terms]
    text = " + ".join([*terms, *([str(dim.constant)] if dim.constant else [])])
    return text if text.isidentifier() else f"({text})"


def _atom(atom: Atom, symbols: Mapping[str, str]) -> str:
    def text(dim: Dim) -> str:
        return python_text(dim, symbols)

    def divisor(dim: Dim) -> str:
        """What a size is divided by; below 1 it counts as 1, as everywhere."""
        low = lower_bound(dim)
        return text(dim) if low is not None and low >= 1 else f"max(1, {text(dim)})"

    match atom:
        case Symbol(name=name):
            return symbols[name]
        case FloorDiv(lhs=lhs, rhs=rhs):
            return f"({text(lhs)} // {divisor(rhs)})"
        case CeilDiv(lhs=lhs, rhs=rhs):
            return f"(-(-{text(lhs)} // {divisor(rhs)}))"
        case Mod(lhs=lhs, rhs=rhs):
            return f"({text(lhs)} % {divisor(rhs)})"
        case Min(args=args):
            return f"min({', '.join(map(text, args))})"
        case Max(args=args):
            return f"max({', '.join(map(text, args))})"
        case _:
            raise VerifyError(
                Diagnostic(
                    f"the size `{atom.text}` of a kernel is not known when it is called",
                    required="sizes over the symbols of the function",
                    found=atom.text,
                )
            )


def _tuple(names: Iterable[str]) -> str:
    held = list(names)
    return f"({', '.join(held)}{',' if len(held) == 1 else ''})"
