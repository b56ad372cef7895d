"""`CMakeLists.txt`: the library of a kernel, and the program that runs it."""

from collections.abc import Mapping, Sequence
from typing import Final

from tcpx.emit_c.signature import KernelSignature

_TEMPLATE: Final = """\
# Written by tcpx: the library @NAME@, shared with -DBUILD_SHARED_LIBS=ON, and `main`, a program that runs it.
cmake_minimum_required(VERSION 3.16)
project(@NAME@_kernel LANGUAGES C)

add_library(@NAME@_kernel @FILES@)
set_target_properties(@NAME@_kernel PROPERTIES OUTPUT_NAME @NAME@ POSITION_INDEPENDENT_CODE ON)
target_include_directories(@NAME@_kernel PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
@FLAGS@
target_link_libraries(@NAME@_kernel PUBLIC @LINK@)
@OPENMP@
add_executable(@NAME@_main main.c)
set_target_properties(@NAME@_main PROPERTIES OUTPUT_NAME main C_STANDARD 11)
target_compile_definitions(@NAME@_main PRIVATE TCPX_CONSTANTS="${CMAKE_CURRENT_SOURCE_DIR}/@NAME@.bin")
target_link_libraries(@NAME@_main PRIVATE @NAME@_kernel)
"""

_OPENMP: Final = """\
find_package(OpenMP REQUIRED COMPONENTS C)
target_link_libraries(@NAME@_kernel PUBLIC OpenMP::OpenMP_C)
"""


def cmake_text(signature: KernelSignature, flags: Mapping[str, Sequence[str]], link: Sequence[str]) -> str:
    """The text for these C files, each with the flags it is compiled with, and words for the linker."""
    options = [
        f'set_source_files_properties({name} PROPERTIES COMPILE_OPTIONS "{";".join(words)}")'
        for name, words in flags.items()
    ]
    text = _TEMPLATE.replace("@OPENMP@\n", _OPENMP if signature.threads > 1 else "")
    known = {
        "NAME": signature.c_name,
        "FILES": " ".join(flags),
        "FLAGS": "\n".join(options),
        "LINK": " ".join([*link, "m"]),
    }
    for word, value in known.items():
        text = text.replace(f"@{word}@", value)
    return text
