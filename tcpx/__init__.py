"""tcpx: tensor programs to fast, readable, dependency-free C, as a schedule says.

What is public is listed in `tcpx/public.py` and imported when it is first asked for: `import tcpx` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from tcpx import onnx as onnx
    from tcpx.public import *  # noqa: F403 - what is public is listed there alone
    from tcpx.tune.kernels import tune_by_kernel as tune_by_kernel
    from tcpx.tune.tuner import tune as tune


def __getattr__(name: str) -> object:
    if name == "onnx":  # needs an extra
        return import_module("tcpx.onnx")
    public = import_module("tcpx.public")
    if name not in public.__all__:
        raise AttributeError(f"module `tcpx` has no attribute `{name}`")
    found: object = getattr(public, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*import_module("tcpx.public").__all__, "__version__", "onnx"])
