"""The schedules of `schedules/models/` fit a model however it is exported, with the same recipes, or say where not."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np
import onnx.reference
import pytest

import tcpx
from tcpx.installed import LIBRARY
from tests.frontends.onnx.families import EXPORTS, FAMILIES, Export, exported

TARGET = "x86_avx2"
CONVOLUTIONAL = ("resnet50", "mobilenetv2", "efficientnet", "unet")
"""All exports of these are the same operations."""
OF_BATCHES = ("elementwise.tcps", "gemm.tcps", "panel_gemm.tcps", "movement.tcps", "default.tcps")
"""Files whose recipes depend on whether the batch is known, or on whether a function is one operation or its parts."""


def schedule(name: str) -> Any:
    return tcpx.load_schedule(LIBRARY / "models" / f"{name}.tcps")


def recipes(family: str, export: Export) -> Counter[str]:
    """How many loops of the C each line of the library made."""
    module = tcpx.onnx.load(exported(family, export)).module
    source = tcpx.emit(module, schedule(family), target=TARGET).c_source
    assert source is not None
    return Counter(re.findall(r"/\* [^*]*? \((\w+\.tcps:\d+)\) \*/", source))


@pytest.mark.parametrize("family", FAMILIES)
def test_every_export_has_the_same_recipes(family: str) -> None:
    found = [recipes(family, export) for export in EXPORTS]
    of_one, of_any = found[0::2], found[1::2]
    if family in CONVOLUTIONAL:
        assert of_one[0] == of_one[1]
        assert of_any[0] == of_any[1]
    files = [{line for line in lines if line.split(":")[0] not in OF_BATCHES} for lines in found]
    assert files[0]
    assert all(other == files[0] for other in files)


@pytest.mark.parametrize("family", FAMILIES)
def test_numbers(family: str) -> None:
    model = exported(family, EXPORTS[-1])
    kernel: Any = tcpx.compile(tcpx.onnx.load(model).module, schedule(family), target=TARGET)
    for batch in (1, 3):
        x = np.random.default_rng(batch).standard_normal((batch, 3, 32, 32), np.float32)
        wanted: Any = onnx.reference.ReferenceEvaluator(model).run(None, {"x": x})
        np.testing.assert_allclose(kernel(x), wanted[0], rtol=1e-3, atol=1e-4)


def test_a_line_that_finds_nothing_is_named() -> None:
    module = tcpx.onnx.load(exported("resnet50", EXPORTS[0])).module
    with pytest.raises(tcpx.ScheduleError) as refused:
        tcpx.apply_schedule(module, schedule("mobilenetv2"), target=TARGET)
    text = refused.value.diagnostic.render()
    assert "nothing matches convolutions.depthwise" in text
    assert "(tcp.convolution): the channels are not innermost" in text
    assert "in depthwise, called from" in text
    assert "mobilenetv2.tcps:" in text


def test_a_name_of_another_export_is_replaced_by_a_class(tmp_path: Any) -> None:
    """The fix, written as it stands, finds the operation."""
    module = tcpx.onnx.load(exported("resnet50", EXPORTS[2])).module
    text = 'language 2\nschedule s(root: func) {{\n  let x = match one {} in root\n  annotate(x, "of", "pooling")\n}}\n'
    file = tmp_path / "s.tcps"
    file.write_text(text.format('pooling "layers/MaxPool.2/out"'))
    with pytest.raises(tcpx.ScheduleError) as refused:
        tcpx.apply_schedule(module, tcpx.load_schedule(file), target=TARGET)
    fix = refused.value.diagnostic.fix
    assert fix == "match by class, since names change with each export: `match one pooling` finds %val_2_MaxPool"
    file.write_text(text.format("pooling"))
    tcpx.apply_schedule(module, tcpx.load_schedule(file), target=TARGET)
