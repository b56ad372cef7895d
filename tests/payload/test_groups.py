"""What operations declare about sums and products of their operands holds for numbers, up to rounding."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from tcpx.payload.constants import Constants
from tcpx.payload.evaluator import Evaluation
from tcpx.payload.interfaces import Elementwise
from tcpx.payload.ir import Block, Operation, operation_classes
from tcpx.payload.traits.algebra import Group, algebra
from tcpx.payload.types import f64

Array = npt.NDArray[np.float64]
DECLARED = 8
"""So many operations say something, at least."""


def _classes(attribute: str) -> list[type[Elementwise]]:
    found = operation_classes().values()
    return [cls for cls in found if issubclass(cls, Elementwise) and getattr(algebra(cls), attribute)]


def _value(cls: type[Operation], *args: Array) -> Array:
    op = cls(Block([("", f64) for _ in args]).args, [f64])
    return np.asarray(op.evaluate(args, Evaluation(Constants(), {}))[0], np.float64)


def _combined(group: Group | str, a: Array, b: Array) -> Array:
    return _value(operation_classes()[group.value if isinstance(group, Group) else group], a, b)


def _numbers(count: int) -> list[Array]:
    """Positive and negative, away from 0."""
    random = np.random.default_rng(0)
    return [random.uniform(0.5, 2.0, 100) * random.choice((-1.0, 1.0), 100) for _ in range(count)]


def _arity(cls: type[Elementwise]) -> int:
    return len(cls.signature.operand_names)


@pytest.mark.parametrize("cls", _classes("homomorphism"), ids=lambda cls: cls.opcode)
def test_homomorphisms(cls: type[Elementwise]) -> None:
    homomorphism = algebra(cls).homomorphism
    assert homomorphism is not None
    first, second = homomorphism
    a, b = _numbers(_arity(cls)), _numbers(2 * _arity(cls))[_arity(cls) :]
    together = _value(cls, *(_combined(first, x, y) for x, y in zip(a, b, strict=True)))
    np.testing.assert_allclose(together, _combined(second, _value(cls, *a), _value(cls, *b)), rtol=1e-13)
    for group in (first, second):
        np.testing.assert_array_equal(_combined(group, a[0], np.full(100, group.identity)), a[0])


@pytest.mark.parametrize("cls", _classes("linear"), ids=lambda cls: cls.opcode)
def test_linear_operands(cls: type[Elementwise]) -> None:
    for k in algebra(cls).linear:
        a, (b, c) = _numbers(_arity(cls)), _numbers(7)[5:]

        def value(x: Array, given: list[Array] = a, place: int = k) -> Array:
            return _value(cls, *(x if at == place else y for at, y in enumerate(given)))

        np.testing.assert_allclose(value(a[k] + b), value(a[k]) + value(b), rtol=1e-13, atol=1e-15)
        np.testing.assert_allclose(value(c * a[k]), c * value(a[k]), rtol=1e-13)
        assert not value(np.zeros(100)).any()


@pytest.mark.parametrize("cls", _classes("distributes_over"), ids=lambda cls: cls.opcode)
def test_what_distributes(cls: type[Elementwise]) -> None:
    a, b, c = _numbers(3)
    for combiner in algebra(cls).distributes_over:
        found = _value(cls, _combined(combiner, a, b), c)
        np.testing.assert_allclose(
            found, _combined(combiner, _value(cls, a, c), _value(cls, b, c)), rtol=1e-13, atol=1e-15
        )


@pytest.mark.parametrize("cls", _classes("direction"), ids=lambda cls: cls.opcode)
def test_directions(cls: type[Elementwise]) -> None:
    a, b = _numbers(2)
    found = algebra(cls).direction * _value(cls, a, b)
    assert (found >= algebra(cls).direction * a).all()
    assert (found >= algebra(cls).direction * b).all()


def test_something_is_declared() -> None:
    assert len({*_classes("homomorphism"), *_classes("linear"), *_classes("distributes_over")}) >= DECLARED
