"""`NAME.h`: the prototypes of a kernel."""

import re

from tcpx.emit_c.printer.names import in_comment
from tcpx.emit_c.signature import KernelSignature
from tcpx.payload.diagnostics import Diagnostic, VerifyError


def header(source: str, signature: KernelSignature) -> str:
    """Prototypes, without `restrict`, which C++ does not have."""
    guard = f"TCPX_{signature.c_name}_H"
    offsets = [f"   {slot.name}: {slot.bytes} bytes at {slot.offset}" for slot in signature.constants]
    said = [f"   Rounded otherwise than by default: {in_comment(text)}." for text in signature.numerics]
    said += [f"   Order of dims that is not that of the payload: {in_comment(text)}." for text in signature.layouts]
    strides = [f"   {text}" for text in signature.stride_texts]
    size = signature.constants_bytes
    constants = f"{size} bytes from {signature.c_name}.bin" if size else "nothing, NULL"
    return "\n".join(
        [
            "/* Written by tcpx.",
            f"   `constants`: {constants}; `workspace`: as many bytes as {signature.c_name}_workspace says;",
            "   both 64-byte aligned. Returns 0 when done, else nothing has been written.",
            *offsets,
            *strides,
            *said,
            "*/",
            f"#ifndef {guard}",
            f"#define {guard}",
            "#include <stddef.h>",
            "#include <stdint.h>",
            "#ifdef __cplusplus",
            'extern "C" {',
            "#endif",
            _prototype(source, f"size_t {signature.c_name}_workspace"),
            _prototype(source, f"int {signature.c_name}"),
            "#ifdef __cplusplus",
            "}",
            "#endif",
            "#endif",
            "",
        ]
    )


def _prototype(source: str, start: str) -> str:
    """The declaration of the function whose definition begins so: its parameters have names that C allows."""
    found = re.search(rf"^{re.escape(start)}\(([^)]*)\) \{{", source, re.MULTILINE)
    if found is None:
        raise VerifyError(Diagnostic("the emitted C lacks a function", required=f"{start}(..)", found="none"))
    parameters = [" ".join(p.replace("restrict ", "").split()) for p in found[1].split(",")]
    return f"{start}({', '.join(parameters)});"
