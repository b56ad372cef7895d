"""The C program round a kernel that is to be run by itself: `main`, which reads its arguments and writes its results.

The request is, in the byte order of the machine: the symbols and strides; per input its bytes as an int64 and its
contents; per output its bytes; the constants like an input, the workspace like an output. The response is the return
code as an int64 and the contents of the inputs that are state and of the outputs. Before the call, one line per block
goes to the standard output: address and bytes.
"""

from typing import Final

from tcpx.emit_c.signature import KernelSignature

BAD_REQUEST: Final = 3
"""The exit status of a program that cannot read its request or write its response."""
ALIGNMENT: Final = 64

_READING: Final = f"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int posix_memalign(void **block, size_t alignment, size_t bytes);

static int64_t tcpx_read_number(FILE *request) {{
  int64_t number;
  if (fread(&number, sizeof number, 1, request) != 1) exit({BAD_REQUEST});
  return number;
}}

/* A block of exactly the bytes that the request says: what it holds, or all bits set. */
static void *tcpx_read_block(FILE *request, int is_given, int is_aligned) {{
  const size_t bytes = (size_t)tcpx_read_number(request);
  void *block = NULL;
  if (!is_aligned) block = malloc(bytes);
  else if (posix_memalign(&block, {ALIGNMENT}, bytes) != 0) exit({BAD_REQUEST});
  if (block == NULL) exit({BAD_REQUEST});
  if (!is_given) memset(block, 0xFF, bytes);
  else if (fread(block, 1, bytes, request) != bytes) exit({BAD_REQUEST});
  printf("%p %zu\\n", block, bytes);
  return block;
}}
"""


def program_source(c_source: str, signature: KernelSignature) -> str:
    """The C of the kernels, at the same lines, and a `main` that calls one of them."""
    inputs = [f"a{k}" for k in range(len(signature.inputs))]
    states = [f"a{k}" for k, argument in enumerate(signature.inputs) if argument.state is not None]
    outputs = [f"o{k}" for k in range(len(signature.outputs))]
    written = [*states, *outputs]
    symbols = [f"s{k}" for k in range(len(signature.symbols) + len(signature.strides))]
    words = ", ".join([*inputs, *outputs, *symbols, "constants", "workspace"])
    body = [
        "if (count != 3) return 2;",
        'FILE *request = fopen(words[1], "rb"), *response = fopen(words[2], "wb");',
        f"if (request == NULL || response == NULL) return {BAD_REQUEST};",
        *(f"const int64_t {name} = tcpx_read_number(request);" for name in symbols),
        *(line for name in inputs for line in (_block(name, True) if name in states else _read(name))),
        *(line for name in outputs for line in _block(name, False)),
        "void *constants = tcpx_read_block(request, 1, 1);",
        "void *workspace = tcpx_read_block(request, 0, 1);",
        "fflush(stdout);",
        f"const int64_t code = {signature.c_name}({words});",
        f"if (fwrite(&code, sizeof code, 1, response) != 1) return {BAD_REQUEST};",
        *(f"if (fwrite({name}, 1, {name}_bytes, response) != {name}_bytes) return {BAD_REQUEST};" for name in written),
        f"return fclose(response) == 0 ? 0 : {BAD_REQUEST};",
    ]
    return "\n".join([c_source, _READING, "int main(int count, char **words) {", *("  " + b for b in body), "}", ""])


def _read(name: str) -> list[str]:
    return [f"void *{name} = tcpx_read_block(request, 1, 0);"]


def _block(name: str, is_given: bool) -> list[str]:
    """An input or output: its bytes are needed again when it is written."""
    return [
        f"const long {name}_at = ftell(request);",
        f"const size_t {name}_bytes = (size_t)tcpx_read_number(request);",
        f"if (fseek(request, {name}_at, SEEK_SET) != 0) return {BAD_REQUEST};",
        f"void *{name} = tcpx_read_block(request, {int(is_given)}, 0);",
    ]
