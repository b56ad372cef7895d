"""Models of ONNX as payloads (docs/onnx.md). Needs the extra `onnx`."""

from importlib.util import find_spec

from tcpx.payload.diagnostics import ArgumentError, Diagnostic

if find_spec("onnx") is None:
    raise ArgumentError(
        Diagnostic(
            "models of ONNX need a package that is not installed",
            required="the extra `onnx`",
            found="no package onnx",
            fix="pip install 'tcpx[onnx]'",
        )
    )

from tcpx.frontends.onnx.errors import Finding, OnnxError, UnsupportedError
from tcpx.frontends.onnx.model import Model, Port, load

__all__ = ["Finding", "Model", "OnnxError", "Port", "UnsupportedError", "load"]
