"""Operands and attributes that a class declares as fields."""

from __future__ import annotations

import pytest

import tcpx
from tcpx.payload.fields import (
    ChoiceAttribute,
    ElementsAttribute,
    FlagAttribute,
    IntAttribute,
    Operand,
    OptionalOperand,
    TextAttribute,
)
from tcpx.payload.ir import Operation, register


class Strong:
    """What classes of any kind may take part in."""

    __slots__ = ()
    strength = IntAttribute(default=1)


@register
class Declared(Operation):
    """One field of each kind."""

    __slots__ = ()
    opcode = "test.declared"
    source, weights, init = Operand(), Operand(), OptionalOperand()
    taps = IntAttribute(example="3")
    sizes = ElementsAttribute(int, "a list of ints", key="lengths", example="[1, 2]")
    mode = ChoiceAttribute("plain", "fancy")
    label = TextAttribute(default="none")
    is_free = FlagAttribute("free")


@register
class Derived(Strong, Declared):
    """Another default, another kind, an operand again, and a field of a class beside."""

    __slots__ = ()
    opcode = "test.derived"
    source = Operand()
    taps = IntAttribute(default=2)


def module(opcode: str, given: str = "", operands: str = "%x, %w") -> tcpx.Module:
    attributes = f"{{{given}}}" if given else ""
    return tcpx.parse(f"""func @f(%x: tensor<4xf32>, %w: tensor<3xf32>) -> tensor<4xf32> {{
  %y = {opcode}({operands}) {attributes} : tensor<4xf32>
  tcp.return(%y)
}}
""")


def test_fields_are_read() -> None:
    op = module("test.declared", 'taps = 5, lengths = [1, 2], mode = "fancy", free = true').main.body.ops[0]
    assert isinstance(op, Declared)
    assert (op.source.name, op.weights.name, op.init) == ("x", "w", None)
    assert (op.taps, op.sizes, op.mode, op.label, op.is_free) == (5, (1, 2), "fancy", "none", True)


def test_a_derived_class_has_the_fields_of_all_its_bases() -> None:
    assert Derived.signature.operand_names == ("source", "weights")
    assert Derived.signature.optional_operand == "init"
    assert set(Derived.signature.attribute_names or ()) == {"taps", "lengths", "mode", "label", "free", "strength"}
    op = module("test.derived", "lengths = [], strength = 4").main.body.ops[0]
    assert isinstance(op, Derived)
    assert (op.taps, op.strength, op.sizes) == (2, 4, ())


@pytest.mark.parametrize(
    ("given", "key", "required", "fix"),
    [
        ("taps = true, lengths = [1]", "taps", "an int", "{taps = 3}"),
        ("taps = 1, lengths = [true]", "lengths", "a list of ints", "{lengths = [1, 2]}"),
        ("taps = 1, lengths = 4", "lengths", "a list of ints", "{lengths = [1, 2]}"),
        ('taps = 1, lengths = [], mode = "odd"', "mode", "plain | fancy", '{mode = "fancy"}'),
        ("taps = 1, lengths = [], free = 1", "free", "true, or false, which is the same as left out", "{free = true}"),
        ("taps = 1, lengths = [], free = 0", "free", "true, or false, which is the same as left out", "{free = false}"),
        ("taps = 1, lengths = [], label = 3", "label", "a text", None),
    ],
)
def test_an_attribute_of_another_kind(given: str, key: str, required: str, fix: str | None) -> None:
    with pytest.raises(tcpx.TcpxError) as caught:
        module("test.declared", given)
    found = caught.value.diagnostic
    assert found.message == f"%y (test.declared): the attribute `{key}` is of another kind"
    assert (found.required, found.fix) == (required, fix)
    assert found.payload is not None


def test_a_flag_that_is_false_is_left_out() -> None:
    text = module("test.declared", "taps = 1, lengths = [1], free = false").text()
    assert text == module("test.declared", "taps = 1, lengths = [1]").text()
    op = tcpx.parse(text).main.body.ops[0]
    assert isinstance(op, Declared)
    assert op.is_free is False


def test_an_attribute_that_is_missing() -> None:
    with pytest.raises(tcpx.TcpxError) as caught:
        module("test.declared", "lengths = [1]")
    found = caught.value.diagnostic
    assert found.message == "%y (test.declared): the attribute `taps` is missing"
    assert (found.required, found.found, found.fix) == ("an int", "no `taps`", "{taps = 3}")


@register
class Many(Operation):
    """One operand that has to be there, and any others."""

    __slots__ = ()
    opcode = "test.many"
    variadic = True
    source = Operand()


def test_a_variadic_class_has_the_operands_it_names() -> None:
    assert len(module("test.many", operands="%x, %w, %x").main.body.ops[0].operands) == 3
    with pytest.raises(tcpx.TcpxError) as caught:
        module("test.many", operands="")
    assert caught.value.diagnostic.message == "%y (test.many): the operation has the wrong number of operands"
