"""RNN, GRU and LSTM: a loop that carries the state, or the steps one after the other where they are few."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from tcpx.frontends.onnx.broadcasting import shown
from tcpx.frontends.onnx.errors import Unsupported
from tcpx.frontends.onnx.node import Node
from tcpx.frontends.onnx.regions import MOST_IN_TURN
from tcpx.frontends.onnx.table import Result, rule
from tcpx.payload.builder import tile
from tcpx.payload.ir import Value
from tcpx.payload.ops.gml_st import For, Materialize
from tcpx.payload.sizes import Dim
from tcpx.payload.types import dtype_of, i1, shape_of, si64

_GATES: Final = {"RNN": 1, "GRU": 3, "LSTM": 4}
_FUNCTIONS: Final = {"Sigmoid": "sigmoid", "Tanh": "tanh", "Relu": "relu"}
_USUAL: Final = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}
Function = Callable[[Value], Value]
State = tuple[Value, ...]


@rule("RNN", "GRU", "LSTM")
def recurrent(n: Node) -> Sequence[Result]:
    """All states, the last one, and of an LSTM the last cell; of one direction or both."""
    w, hidden = n.w, n.int("hidden_size")
    x = n.value(0)
    if n.int("layout", 0):
        x = w.transpose(x, (1, 0, 2))
    length = n.ranked(0, 3, 3).shape[1 if n.int("layout", 0) else 0]
    if length == 0:
        raise Unsupported("a sequence of no steps")
    given = [name for name in ("clip", "activation_alpha", "activation_beta") if n.raw(name) is not None]
    if given:
        raise Unsupported(f"functions with bounds or parameters: {', '.join(f'`{name}`' for name in given)}")
    directions = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}.get(
        n.text("direction", "forward")
    )
    if directions is None:
        raise n.error("the direction", "forward, reverse or bidirectional", n.text("direction"))
    cells = [_Direction(n, x, k, hidden, length, turned) for k, turned in enumerate(directions)]
    is_short = isinstance(length, int) and length <= MOST_IN_TURN
    states = [cell.unrolled(length) if isinstance(length, int) and is_short else cell.in_loop() for cell in cells]
    every = [y for y, _ in states]
    whole = _joined(n, [w.reshape(y, (length, 1, *shape_of(y.type)[1:])) for y in every], 1)
    last = [
        _joined(n, [w.reshape(end[k], (1, *shape_of(end[k].type))) for _, end in states], 0)
        for k in range(len(states[0][1]))
    ]
    if n.int("layout", 0):
        return [w.transpose(whole, (2, 0, 1, 3)), *(w.transpose(value, (1, 0, 2)) for value in last)]
    return [whole, *last]


def _joined(n: Node, parts: Sequence[Value], axis: int) -> Value:
    return n.w.concat(list(parts), axis)


class _Direction:
    """One direction: its weights, and the products of all steps of the input with them."""

    def __init__(self, n: Node, x: Value, number: int, hidden: int, length: Dim, turned: bool) -> None:
        self.n, self.hidden, self.length, self.turned, self.number = n, hidden, length, turned, number
        w, gates = n.w, _GATES[n.operator]
        rows = gates * hidden
        weights = self._own(n.value(1), 2)
        self.recurrence = self._own(n.value(2), 2)
        if shape_of(weights.type)[0] != rows or shape_of(self.recurrence.type) != (rows, hidden):
            raise n.error("the weights of the gates", f"{rows} rows", f"{n.input(1)} and {n.input(2)}")
        steps, self.batch, features = shape_of(x.type)
        rows_of_x = w.reshape(x, (steps * self.batch, features))
        made = w.contract(rows_of_x, weights, ["m", "k"], ["g", "k"], ["m", "g"])
        self.rest: Value | None = None
        if n.has(3):
            both = self._own(n.value(3), 1)
            made = w.op("add", made, w.expand(w.part(both, 0, 0, rows), shape_of(made.type)))
            self.rest = w.part(both, 0, rows, rows)
        self.inputs = w.reshape(made, (steps, self.batch, rows))
        names = [name.decode() if isinstance(name, bytes) else str(name) for name in n.raw("activations") or ()]
        count = len(_USUAL[n.operator])
        chosen = names[number * count : (number + 1) * count] or _USUAL[n.operator]
        if any(name not in _FUNCTIONS for name in chosen) or len(chosen) != count:
            raise Unsupported(f"the functions {', '.join(chosen)}")
        self.functions = [self._function(_FUNCTIONS[name]) for name in chosen]

    def _function(self, word: str) -> Function:
        return lambda value: self.n.w.unary(word, value)

    def _own(self, value: Value, rank: int) -> Value:
        """The part of this direction of weights for all."""
        shape = shape_of(value.type)
        if len(shape) != rank + 1 or not isinstance(shape[0], int) or self.number >= shape[0]:
            raise self.n.error("weights for each direction", f"{rank + 1} dims", str(value.type))
        return self.n.w.reshape(self.n.w.part(value, 0, self.number, 1), shape[1:])

    def _start(self, index: int) -> Value:
        shape = (self.batch, self.hidden)
        if not self.n.has(index):
            return self.n.w.fill(0, shape, self.n.dtype())
        given = self.n.value(index)
        if self.n.int("layout", 0):
            given = self.n.w.transpose(given, (1, 0, 2))
        own = self._own(given, 2)
        batch = shape_of(own.type)[0]
        if not self.n.equal(self.batch, batch):
            message = "a state has the batch of the sequences"
            raise self.n.error(message, shown([self.batch]), shown([batch]), equal=(self.batch, batch))
        return self.n.w.as_equal(own, shape)

    def unrolled(self, length: int) -> tuple[Value, State]:
        """The states after all steps, in the order of time, and the last one."""
        w, state = self.n.w, self._first()
        steps: list[Value] = []
        for t in range(length - 1, -1, -1) if self.turned else range(length):
            x = w.reshape(w.part(self.inputs, 0, t, 1), shape_of(self.inputs.type)[1:])
            shown, state = self._step(x, state, t)
            steps.append(w.reshape(shown, (1, *shape_of(shown.type))))
        return w.concat(steps[::-1] if self.turned else steps, 0), state

    def in_loop(self) -> tuple[Value, State]:
        """The same by a loop, from which the state goes to its next iteration."""
        w, state = self.n.w, self._first()
        for index in (4, 7):  # what is stored, and read in the loop, stands before it
            self.n.optional(index)
        own, shape = shape_of(self.inputs.type)[1:], shape_of(state[0].type)
        inits = dict[str, Value](zip(("state", "cell"), state, strict=False))
        inits["all"] = w.op("empty", shape=(self.length, *shape), dtype=dtype_of(state[0].type))
        with w.builder.loop(For, "step", (0, self.length, 1), inits, [f"{w.prefix}.{name}" for name in inits]) as loop:
            t = self.length - 1 - loop.var if self.turned else loop.var.size()
            x = w.insert(Materialize.of(self.inputs, tile([t, *[0] * len(own)], [1, *own], drop=[0])))
            *before, every = loop.destinations
            shown, after = self._step(x, tuple(before), t)
            for new, old in zip(after, before, strict=True):
                w.builder.yields(new, old)
            w.builder.yields(shown, every, tile([t, *[0] * len(shape)], [1, *shape], drop=[0]))
        loop.location = w.place
        *last, every = loop.results
        return every, tuple(last)

    def _first(self) -> State:
        return (self._start(5), self._start(6)) if self.n.operator == "LSTM" else (self._start(5),)

    def _step(self, x: Value, state: State, t: Dim) -> tuple[Value, State]:
        """The result of step `t`, and the state after it. Past the end of a sequence these are 0 and the state before:
        in reverse, the initial one."""
        n, w = self.n, self.n.w
        after = {"RNN": self._rnn, "GRU": self._gru, "LSTM": self._lstm}[n.operator](x, state)
        if not n.has(4):
            return after[0], after
        shape, counts = shape_of(after[0].type), w.cast(n.value(4), si64)
        goes_on = w.op("broadcast", w.with_number("greater", counts, t, dtype=i1), shape=shape, dims=(0,))
        held = tuple(w.select(goes_on, new, old) for new, old in zip(after, state, strict=True))
        return w.select(goes_on, after[0], w.fill(0, shape, dtype_of(after[0].type))), held

    def _recurrent(self, state: Value, begin: int, count: int, with_rest: bool = True) -> Value:
        """The product of a state with the weights of some gates, and what is added to it."""
        w, first, rows = self.n.w, begin * self.hidden, count * self.hidden
        made = w.contract(state, w.part(self.recurrence, 0, first, rows), ["b", "k"], ["g", "k"], ["b", "g"])
        if self.rest is None or not with_rest:
            return made
        return w.op("add", made, w.expand(w.part(self.rest, 0, first, rows), shape_of(made.type)))

    def _gate(self, value: Value, number: int) -> Value:
        return self.n.w.part(value, 1, number * self.hidden, self.hidden)

    def _rnn(self, x: Value, state: State) -> State:
        return (self.functions[0](self.n.w.op("add", x, self._recurrent(state[0], 0, 1))),)

    def _gru(self, x: Value, state: State) -> State:
        w, h = self.n.w, state[0]
        both = w.op("add", w.part(x, 1, 0, 2 * self.hidden), self._recurrent(h, 0, 2))
        update, reset = (self.functions[0](self._gate(both, k)) for k in range(2))
        if self.n.int("linear_before_reset", 0):
            inner = w.op("mul", reset, self._recurrent(h, 2, 1))
        else:
            inner = self._recurrent(w.op("mul", reset, h), 2, 1)
        new = self.functions[1](w.op("add", self._gate(x, 2), inner))
        kept = w.op("mul", w.with_number("sub", update, 1, first=True), new)
        return (w.op("add", kept, w.op("mul", update, h)),)

    def _lstm(self, x: Value, state: State) -> State:
        n, w, (h, c) = self.n, self.n.w, state
        if n.int("input_forget", 0):
            raise Unsupported("a gate for input and forgetting")
        whole = w.op("add", x, self._recurrent(h, 0, 4))
        enters, leaves, forgets, cell = (self._gate(whole, k) for k in range(4))
        f, g, last = self.functions
        enters, forgets = f(self._peeped(enters, c, 0)), f(self._peeped(forgets, c, 2))
        c = w.op("add", w.op("mul", forgets, c), w.op("mul", enters, g(cell)))
        return w.op("mul", f(self._peeped(leaves, c, 1)), last(c)), c

    def _peeped(self, gate: Value, cell: Value, number: int) -> Value:
        """A gate that sees the cell, where there are weights for it."""
        if not self.n.has(7):
            return gate
        w = self.n.w
        own = w.part(self._own(self.n.value(7), 1), 0, number * self.hidden, self.hidden)
        return w.op("add", gate, w.op("mul", cell, w.expand(own, shape_of(cell.type))))
