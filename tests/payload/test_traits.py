"""What every operation has is little: the rest are traits, which an operation has or has not (ADR 0053)."""

from __future__ import annotations

import tcpx
from tcpx.payload.fields import OptionalOperand
from tcpx.payload.interfaces import Elementwise, Structured, Tileable
from tcpx.payload.ir import Operation, operation_classes
from tcpx.payload.ops.elementwise import Add
from tcpx.payload.traits.algebra import algebra
from tcpx.payload.traits.positions import Positions
from tcpx.payload.traits.ragged import RaggedDims
from tcpx.payload.traits.reduction import Reduction
from tcpx.payload.traits.scan import Scan
from tcpx.payload.traits.scatter import Scatter

MOST_NAMES = 60
INTERFACES: tuple[type[Operation], ...] = (Operation, Tileable, Structured, Elementwise)
TEXT = """\
func @f(%x: tensor<4x5xf32>, %ix: tensor<4xsi64> in 0 to 3) -> (tensor<4x5xf32>, tensor<4xf32>, tensor<3x5xf32>) {
  %y = tcp.exp(%x) : tensor<4x5xf32>
  %s = tcp.reduce_sum(%x) {dims = [1]} : tensor<4xf32>
  %z = tcp.generic(%x, %ix) {iterators = [["i", "reduction"], ["j", "parallel"]],
    maps = [[i, j], [i], [in1, j]], combiner = "tcp.add"} ({ (%a: f32, %b: si64, %c: f32):
      %d = tcp.add(%c, %a) : f32
      tcp.yield(%d)
    }) : tensor<3x5xf32>
  tcp.return(%y, %s, %z)
}
"""


def public(cls: type) -> list[str]:
    """The names that a class has, with those of its bases, without those that begin with an underscore."""
    return [name for name in dir(cls) if not name.startswith("_")]


def classes() -> set[type[Operation]]:
    """The classes of the operations of the package, and their bases, without the interfaces."""
    bases = {base for cls in operation_classes().values() for base in cls.__mro__ if issubclass(base, Operation)}
    return {cls for cls in bases if cls not in INTERFACES and cls.__module__.startswith("tcpx.")}


def test_an_operation_has_few_public_names() -> None:
    assert len(public(Elementwise)) <= MOST_NAMES


def test_no_name_of_an_interface_is_answered_by_one_class_alone() -> None:
    first = {name: each for each in reversed(INTERFACES) for name in vars(each) if not name.startswith("_")}
    answers = {name: [c for c in classes() if issubclass(c, each) and name in vars(c)] for name, each in first.items()}
    assert {name: found[0].__name__ for name, found in answers.items() if len(found) == 1} == {}


def test_an_operation_has_the_traits_of_its_structure() -> None:
    exp, total, scattered, _ = tcpx.parse(TEXT).main.body.ops
    assert isinstance(exp, Structured)
    assert isinstance(total, Structured)
    assert isinstance(scattered, Structured)
    for trait in (Reduction, Scan, Scatter, RaggedDims, Positions):
        assert trait.of(exp) is None
    found = Reduction.of(total)
    assert found is not None
    assert (found.neutrals(), found.is_commutative, found.has_accumulator(0)) == ((0,), True, True)
    assert Scatter.of(total) is None
    assert Scatter.of(scattered) is not None


def test_a_class_declares_what_a_trait_answers_by_the_name_it_has_there() -> None:
    """A plugin subclasses `Structured`, and defines `neutral` and `combine`: it names no trait."""

    class Plain(Structured):
        __slots__ = ()
        init = OptionalOperand()
        is_commutative = False

        def neutral(self) -> float | int | None:
            return 7

    op = object.__new__(Plain)
    assert (Reduction(op).neutrals(), Reduction(op).is_commutative) == ((7,), False)


def test_laws_of_a_class_are_read_once() -> None:
    assert algebra(Add) is algebra(Add)
    assert (algebra(Add).commutes, algebra(Add).linear, algebra(Add).chooses) == ((0, 1), (), False)
