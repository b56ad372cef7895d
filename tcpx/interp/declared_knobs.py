"""`knob`, `tune` and parameters of the schedule: defaults, domains, overrides."""

from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256

from tcpx.assignment import BEYOND, ParamValue
from tcpx.interp.arithmetic import checked, size_text
from tcpx.interp.expressions import evaluate, truth
from tcpx.interp.frame import Frame
from tcpx.interp.knobs import KnobUse, OverriddenLaterError
from tcpx.interp.space.formula import up_to
from tcpx.interp.state import State
from tcpx.interp.values import DimHandle, OperandHandle, OpHandle, RuntimeValue, as_dim_value, describe
from tcpx.payload.diagnostics import Direction, Kind
from tcpx.payload.ir import FuncOp
from tcpx.payload.structure import DIGITS, operation_fingerprint
from tcpx.payload.types import SCALARS, ScalarType
from tcpx.transform.language import syntax as ast

SHOWN_ITEMS = 12


def bind_knob(knob: ast.Knob, state: State, frame: Frame) -> None:
    """Give a knob its value: an override, else the default; either must be in the domain."""
    default = _typed(evaluate(knob.default, state, frame), knob.type, knob.name, knob.default, frame)
    domain = evaluate(knob.domain, state, frame) if knob.domain is not None else ()
    items = domain if isinstance(domain, tuple) else (domain,)
    limit = limit_of(knob, state, frame)
    structure = "" if knob.separate else _structure(knob.name, (default, *items), state, frame)

    def typed(given: ParamValue) -> RuntimeValue:
        return _typed(given, knob.type, knob.name, knob, frame)

    use = _use(knob.name, default, structure, typed, knob, state, frame)
    if knob.domain is not None and use.value not in items and not use.beyond:
        shown = [describe(i) for i in items[:SHOWN_ITEMS]] + (["..."] if len(items) > SHOWN_ITEMS else [])
        raise frame.error(
            f"the {'value' if use.overridden else 'default'} of the knob `{knob.name}` is not in its domain",
            knob,
            required=", ".join(shown) or "an item: the domain is empty",
            found=describe(use.value),
            kind=Kind.SILENCEABLE,
        )
    if limit is not None and not use.beyond:
        kept = up_to(tuple(item for item in items if isinstance(item, int | float)), limit)
        items = tuple(item for item in items if item in kept)
        use = replace(use, value=_at_most(use.value, items), default=_at_most(use.default, items))
    frame.names[knob.name] = use.value
    _record(use, items, state, frame)


def limit_of(knob: ast.Knob, state: State, frame: Frame) -> int | None:
    """The largest number that `up_to` can be here; None without one, and where nothing bounds the size."""
    if knob.limit is None:
        return None
    size = as_dim_value(evaluate(knob.limit, state, frame))
    if size is None:
        raise frame.error(
            f"the limit of the knob `{knob.name}` is no size", knob.limit, required="an int or a size such as `size(k)`"
        )
    return state.handles.facts.upper_bound(size)


def _at_most(value: RuntimeValue, items: tuple[RuntimeValue, ...]) -> RuntimeValue:
    """The value, or the largest of the items where it is larger."""
    numbers = [item for item in items if isinstance(item, int | float)]
    return min(value, max(numbers)) if isinstance(value, int | float) and numbers else value


def _record(use: KnobUse, domain: tuple[RuntimeValue, ...], state: State, frame: Frame) -> None:
    place = "" if frame.place.startswith(":") else f"{frame.place}{use.path.removeprefix(frame.use)}"
    state.knobs.record(replace(use, domain=domain, place=place))


def _structure(name: str, defined: tuple[RuntimeValue, ...], state: State, frame: Frame) -> str:
    """What the knobs that share a value have in common: function, sequence, name, default and domain, structure of
    arguments. So the values of a function are its own, and a record of it depends on nothing else.

    A knob of the schedule itself has none: there is one use of it.
    """
    if not frame.calls:
        return ""
    known = state.pure_values
    arguments = [str(known.value(_structure_of, [v], lambda v=v: _structure_of(v, state))) for v in frame.given]
    sequence = f"{frame.unit.file.path}:{frame.calls[0][0]}.{name}"
    function = frame.use.rpartition(":")[0]
    text = " ".join([function, sequence, *arguments, *map(describe, defined)])
    return sha256(text.encode()).hexdigest()[:DIGITS]


def _structure_of(value: RuntimeValue, state: State) -> str:
    match value:
        case OpHandle():
            ops = [op for op in state.handles.live(value) if not isinstance(op, FuncOp)]
            return "+".join(map(operation_fingerprint, ops))
        case OperandHandle():
            return f"{_structure_of(value.base, state)}.{value.name}"
        case DimHandle():
            return f"{_structure_of(value.base, state)}.{value.dim}"
        case tuple():
            return f"[{' '.join(_structure_of(item, state) for item in value)}]"
        case _:
            return describe(value)


def _use(
    name: str,
    default: RuntimeValue,
    structure: str,
    checked: Callable[[ParamValue], RuntimeValue],
    node: ast.Node,
    state: State,
    frame: Frame,
) -> KnobUse:
    """A use of a knob, without its domain: the `checked` value it is given, that of the first use of its structure, or
    the default. Raises OverriddenLaterError where it is given a value that the first use does not have."""
    path = f"{frame.use}.{name}"
    key, shared = state.knobs.key(frame.use, name, frame.place, structure), state.knobs.shared_by(path, structure)
    value = default if key is None else checked(state.knobs.assignment[key])
    if shared is None:
        beyond = key is not None and key.endswith(BEYOND)
        return KnobUse(path, value, default, (), node.location, key is not None, structure, beyond=beyond)
    if key is not None and value != shared.value:
        if not shared.overridden:
            raise OverriddenLaterError(structure, key)
        raise frame.error(
            f"`{name}` of {frame.use} is one value with {shared.path}: the ops are of one structure",
            node,
            required=describe(shared.value),
            found=describe(value),
            fix=Direction(f"give them one value, or declare it `knob separate {name}: ...`"),
        )
    overridden = shared.overridden or key is not None
    return KnobUse(path, shared.value, default, (), node.location, overridden, structure, shared.path, shared.beyond)


def schedule_parameter(param: ast.Param, state: State, frame: Frame) -> RuntimeValue:
    """A parameter of the schedule beside the function: an override, else the default."""
    if param.default is None:
        raise frame.error(f"nothing gives `{param.name}` a value", param, required="a default")
    given = state.knobs.value(frame.use, param.name)
    value = evaluate(param.default, state, frame) if given is None else given
    return _typed(value, param.type, param.name, param, frame)


def chosen_alternative(tune: ast.Tune, state: State, frame: Frame) -> ast.Block:
    """`tune { } or { }`: the knob `tune1`, `tune2`, ... of this use holds the number of the alternative, from 0. With a
    name it holds the word of the alternative."""
    if tune.name:
        return _named_alternative(tune, state, frame)
    frame.tunes.append(tune)
    name = f"tune{list(dict.fromkeys(t.location for t in frame.tunes)).index(tune.location) + 1}"
    count = len(tune.alternatives)
    domain = tuple(range(count))

    def number(given: ParamValue) -> RuntimeValue:
        if isinstance(given, int) and 0 <= given < count:
            return given
        message = f"the knob `{name}` chooses no alternative"
        raise frame.error(message, tune, required=f"0 to {count - 1}", found=describe(given))

    use = _use(name, 0, _structure(name, domain, state, frame), number, tune, state, frame)
    _record(use, domain, state, frame)
    return tune.alternatives[domain.index(use.value)]


def _named_alternative(tune: ast.Tune, state: State, frame: Frame) -> ast.Block:
    words = open_words(tune, state, frame)
    if not words:
        raise frame.error(
            f"no alternative of `{tune.name}` is open",
            tune,
            required=f"one of {', '.join(tune.words)} whose condition holds",
            found="none",
            kind=Kind.SILENCEABLE,
        )
    default = evaluate(tune.default, state, frame) if tune.default is not None else words[0]
    structure = _structure(tune.name, (default, *words), state, frame)
    use = _use(tune.name, default, structure, lambda given: given, tune, state, frame)
    if use.value not in words:
        raise frame.error(
            f"the {'value' if use.overridden else 'default'} of the knob `{tune.name}` is no alternative here",
            tune,
            required=", ".join(words),
            found=describe(use.value),
            kind=Kind.SILENCEABLE,
        )
    _record(use, words, state, frame)
    return tune.alternatives[tune.words.index(str(use.value))]


def open_words(tune: ast.Tune, state: State, frame: Frame) -> tuple[str, ...]:
    """The words of the alternatives whose condition holds."""
    pairs = zip(tune.words, tune.conditions, strict=True)
    return tuple(word for word, c in pairs if c is None or truth(c, f"`{word} where`", state, frame))


def _typed(
    value: RuntimeValue | ParamValue, type_: ast.TypeOf, name: str, node: ast.Node, frame: Frame
) -> RuntimeValue:
    dim = as_dim_value(checked(value, frame, node))
    if type_.name == "float" and isinstance(dim, int):
        return float(dim)
    if type_.name == "dtype" and isinstance(value, str) and value in SCALARS:
        return SCALARS[value]
    fits = {
        "int": isinstance(dim, int),
        "size": dim is not None,
        "float": isinstance(value, float),
        "bool": isinstance(value, bool),
        "string": isinstance(value, str),
        "dtype": isinstance(value, ScalarType),
    }.get(type_.name, True)
    if not fits:
        raise frame.error(
            f"`{name}` is declared `{type_}`", node, required=str(type_), found=size_text(value), kind=Kind.DEFINITE
        )
    return value
