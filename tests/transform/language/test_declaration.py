"""Declaring a transform: one place, checked on registration; typed access to arguments."""

from __future__ import annotations

import pytest

from tcpx.payload.diagnostics import Kind, ScheduleError
from tcpx.transform.declaration import (
    BOOL,
    DIM_SIZES,
    INT,
    OP,
    Arguments,
    Category,
    Digit,
    Parameter,
    Result,
    Transform,
    enum,
    find,
    op_of,
    register,
    transforms,
)


class Sample(Transform):
    """A sample."""

    name = "sample"
    category = Category.LOOPS
    parameters = (
        Parameter("target", op_of("contract")),
        Parameter("sizes", DIM_SIZES),
        Parameter("factor", INT, None),
        Parameter("parallel", BOOL, False),
        Parameter("tail", enum("pad", "peel"), "pad"),
    )
    results = (Result.LOOPS,)


def test_signature() -> None:
    assert Sample.signature() == (
        "sample(target: op<contract>, sizes: map from dim to size, factor?: int, parallel: bool = false, "
        "tail: pad | peel = pad) -> loops"
    )


def test_every_transform_is_documented_and_named_once() -> None:
    known = transforms()
    assert list(known) == sorted(known)
    for name, transform in known.items():
        assert transform.__doc__, name
        assert transform.name == name
        assert all(p.doc for p in transform.parameters), name


def test_a_name_is_taken_once() -> None:
    class Tile(Transform):
        """Another."""

        name = "tile"
        category = Category.LOOPS

    transforms()
    with pytest.raises(ScheduleError, match="two transforms are called `tile`"):
        register(Tile)


def test_parameters_have_different_names() -> None:
    class Twice(Transform):
        """Twice."""

        name = "twice"
        category = Category.LOOPS
        parameters = (Parameter("a", OP), Parameter("a", OP))

    with pytest.raises(ScheduleError, match="two parameters of one name"):
        register(Twice)


def test_find_offers_the_nearest() -> None:
    with pytest.raises(ScheduleError) as caught:
        find("tlie")
    assert caught.value.diagnostic.fix == "did you mean `tile`?"


def test_arguments() -> None:
    args = Arguments("sample", {"sizes": {"n": 4, "m": 2}, "factor": None, "layout": (Digit("k", pad=16),), "f": 2})
    assert list(args.sizes("sizes").items()) == [("n", 4), ("m", 2)]
    assert args.optional_int("factor") is None
    assert not args.given("factor")
    assert str(args.layout("layout")[0]) == "k pad 16"
    assert args.float("f") == 2
    with pytest.raises(ScheduleError) as caught:
        args.op("sizes")
    assert caught.value.diagnostic.kind is Kind.INTERNAL
