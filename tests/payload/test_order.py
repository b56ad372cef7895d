"""Order numbers and use lists: found, removed and put back as a list would, without walking it."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from tcpx.payload import order
from tcpx.payload.ir import Block
from tcpx.payload.ops.gml_st import If
from tcpx.payload.sizes.predicates import Predicate
from tcpx.payload.uses import Use, Uses


def op() -> If:
    return If([], [], {"predicate": Predicate()}, [Block(), Block()])


def test_numbers_rise_wherever_operations_are_inserted() -> None:
    for seed, place in enumerate(("start", "end", "middle", "behind the last", "anywhere")):
        chosen = random.Random(seed)
        block, last = Block(), 0
        for count in range(400):
            last = {
                "start": 0,
                "end": count,
                "middle": count // 2,
                "behind the last": last + 1 if count else 0,
                "anywhere": chosen.randint(0, count),
            }[place]
            block.insert(last, op())
        numbers = [o.order for o in block.ops]
        assert numbers == sorted(set(numbers))
        assert [block.index(o) for o in block.ops] == list(range(400))
        gone = block.ops[7]
        assert block.remove(gone) == 7
        assert not block.holds(gone)


def test_a_crowded_place_is_renumbered_locally() -> None:
    block = Block()
    for _ in range(1000):
        block.append(op())
    far = [o.order for o in (*block.ops[:100], *block.ops[900:])]
    for _ in range(200):
        block.insert(500, op())
    assert [o.order for o in (*block.ops[:100], *block.ops[1100:])] == far
    numbers = [o.order for o in block.ops]
    assert numbers == sorted(set(numbers))
    assert order.place_of(op(), block.ops) is None


@given(st.lists(st.integers(0, 9), max_size=30))
def test_removed_uses_go_back_to_where_they_were(removals: list[int]) -> None:
    user = op()
    uses, plain = Uses(), [(user, k) for k in range(10)]
    for use in plain:
        uses.append(use)
    removed: list[tuple[Use, int]] = []
    for k in removals:
        if (user, k) in uses:
            removed.append(((user, k), uses.remove((user, k))))
            plain.remove((user, k))
        assert list(uses) == plain
    for use, ticket in reversed(removed):
        uses.put_back(use, ticket)
    assert list(uses) == [(user, k) for k in range(10)]
    assert not uses.has_repetitions
    assert uses[0] == (user, 0)
    assert uses[1:3] == [(user, 1), (user, 2)]
