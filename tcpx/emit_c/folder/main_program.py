"""`main.c`: a program that runs a kernel on arrays from `.npy` files. It needs a C compiler and nothing else."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from tcpx.emit_c.folder.size_text import MAGNITUDE_FUNCTIONS, SIZE_FUNCTIONS, c_size
from tcpx.emit_c.printer.names import Names, in_comment
from tcpx.emit_c.signature import RETURN_CODES, Argument, KernelSignature
from tcpx.limits import LARGEST_EXTENT
from tcpx.payload.sizes import Symbol, as_symbol, told_symbol
from tcpx.payload.sizes_of_arguments import telling_dims
from tcpx.payload.types import row_major

_LOCAL: Final = frozenset(
    "argc argv folder repeat inputs outputs known value k n constants workspace file best code begin end".split()
)
"""What `main` calls something. What stands outside of it begins with `tcpx_`, which no kernel does."""

_TEMPLATE: Final = """\
/* Runs @NAME@ on arrays from .npy files, without Python. Written by tcpx.
@USAGE@ */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "@NAME@.h"

/* The kernel, whatever variables are called. */
static __typeof__(@NAME@) *const tcpx_run = @NAME@;
@WORKSPACE@

#ifndef TCPX_CONSTANTS
#define TCPX_CONSTANTS "@NAME@.bin"
#endif

typedef struct {
  const char *name, *type; /* as the payload has them */
  const char *descr;       /* NumPy's word for the dtype */
  size_t width;            /* bytes of an element */
  int rank;
  int64_t shape[@RANK@];
  const char *stem; /* of the file that it is written to */
  const char *file;
  void *data;
} tcpx_Array;

static void tcpx_stop(const char *what, const char *why) {
  fprintf(stderr, "@NAME@: %s: %s\\n", what, why);
  exit(1);
}

/* 64-byte aligned. */
static void *tcpx_allocate(size_t bytes) {
  void *made = aligned_alloc(64, bytes / 64 * 64 + 64);
  if (made == NULL) tcpx_stop("memory", "there is not enough");
  return made;
}

/* The bytes of an array with its extents. */
static size_t tcpx_bytes_of(const tcpx_Array *array) {
  size_t bytes = array->width;
  for (int k = 0; k < array->rank; k++)
    if (__builtin_mul_overflow(bytes, (size_t)array->shape[k], &bytes))
      tcpx_stop(array->name, "the array is too large");
  return bytes;
}

static inline void tcpx_wrong_shape(const tcpx_Array *array) {
  fprintf(stderr, "@NAME@: %s: required %s, found", array->file, array->type);
  for (int k = 0; k < array->rank; k++) fprintf(stderr, "%s%lld", k ? " x " : " ", (long long)array->shape[k]);
  fprintf(stderr, "\\n");
  exit(1);
}

/* Whether a header says this dtype. Bytes without a meaning, as which NumPy saves bf16, have no order. */
static int tcpx_has_dtype(const char *header, const char *descr) {
  const char *found = strstr(header, "'descr': '");
  if (found == NULL) return 0;
  found += 10;
  return (*found == *descr || (*found == '|' && descr[1] == 'V')) &&
         strncmp(found + 1, descr + 1, strlen(descr) - 1) == 0 && found[strlen(descr)] == 39; /* a quote */
}

static void tcpx_read_array(tcpx_Array *array) {
  unsigned char head[12];
  int rank = 0;
  FILE *file = fopen(array->file, "rb");
  if (file == NULL) tcpx_stop(array->file, strerror(errno));
  if (fread(head, 1, 10, file) != 10 || memcmp(head, "\\x93NUMPY", 6) != 0)
    tcpx_stop(array->file, "this is no .npy file");
  size_t length = head[8] | (size_t)head[9] << 8;
  if (head[6] > 1) {
    if (fread(head + 10, 1, 2, file) != 2) tcpx_stop(array->file, "the file is cut short");
    length |= (size_t)head[10] << 16 | (size_t)head[11] << 24;
  }
  char *text = tcpx_allocate(length + 1);
  if (fread(text, 1, length, file) != length) tcpx_stop(array->file, "the file is cut short");
  do text[length] = 0; /* spaces and a newline fill it up */
  while (length > 0 && strchr(" \\n", text[--length]) != NULL);
  if (!tcpx_has_dtype(text, array->descr)) {
    fprintf(stderr, "@NAME@: %s: required 'descr': '%s', found %s\\n", array->file, array->descr, text);
    exit(1);
  }
  if (strstr(text, "'fortran_order': False") == NULL) tcpx_stop(array->file, "required an array in row-major order");
  const char *place = strstr(text, "'shape': (");
  for (place = place ? place + 10 : ")"; *place && *place != ')';) {
    char *end;
    const long long extent = strtoll(place, &end, 10);
    if (end != place) {
      if (rank < array->rank) array->shape[rank] = extent;
      if (extent < 0 || extent > INT64_C(@LARGEST@)) tcpx_stop(array->file, "an extent is out of range");
      rank++;
    }
    place = end != place ? end : place + 1;
  }
  if (rank != array->rank) {
    fprintf(stderr, "@NAME@: %s: required %s, found an array of %d dim%s\\n", array->file, array->type, rank,
            rank == 1 ? "" : "s");
    exit(1);
  }
  const size_t bytes = tcpx_bytes_of(array);
  array->data = tcpx_allocate(bytes);
  if (fread(array->data, 1, bytes, file) != bytes) tcpx_stop(array->file, "the file is cut short");
  fclose(file);
  free(text);
}

static void tcpx_write_array(const tcpx_Array *array, const char *folder) {
  char path[4096], shape[1024] = "", text[2048];
  size_t used = 0;
  for (int k = 0; k < array->rank; k++)
    used += (size_t)snprintf(shape + used, sizeof shape - used, "%lld, ", (long long)array->shape[k]);
  snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", array->descr, shape);
  const size_t length = (strlen(text) + 11 + 63) / 64 * 64 - 10;
  snprintf(path, sizeof path, "%s/%s.npy", folder, array->stem);
  FILE *file = fopen(path, "wb");
  if (file == NULL) tcpx_stop(path, strerror(errno));
  fwrite("\\x93NUMPY\\x01", 1, 8, file);
  fputc((int)(length & 255), file);
  fputc((int)(length >> 8), file);
  fprintf(file, "%-*s\\n", (int)length - 1, text);
  const size_t bytes = tcpx_bytes_of(array);
  if (fwrite(array->data, 1, bytes, file) != bytes || fclose(file) != 0) tcpx_stop(path, strerror(errno));
  printf("wrote %s: %s\\n", path, array->type);
}

/* Whether an argument is `name=..`. */
static int tcpx_is_for(const char *argument, const char *name) {
  return strncmp(argument, name, strlen(name)) == 0 && argument[strlen(name)] == '=';
}

@FUNCTIONS@
int main(int argc, char **argv) {
  const char *folder = ".";
  long repeat = 1;
  tcpx_Array inputs[] = {@INPUTS@};
  tcpx_Array outputs[] = {@OUTPUTS@};
@NUMBERS@
  for (int k = 1; k < argc; k++) {
    int known = 0;
    const char *value = strchr(argv[k], '=');
    if (strcmp(argv[k], "-o") == 0 && k + 1 < argc) {
      folder = argv[++k];
      continue;
    }
    if (strcmp(argv[k], "--repeat") == 0 && k + 1 < argc) {
      repeat = strtol(argv[++k], NULL, 10);
      if (repeat < 1) tcpx_stop("--repeat", "required a number from 1 on");
      continue;
    }
    for (int n = 0; value && n < @INPUT_COUNT@; n++)
      if (tcpx_is_for(argv[k], inputs[n].name)) {
        inputs[n].file = value + 1;
        known = 1;
      }
@READ_NUMBERS@
    if (!known) {
      fprintf(stderr, "@NAME@: unknown argument %s\\nusage: main [-o FOLDER] [--repeat TIMES]@ARGUMENTS@\\n", argv[k]);
      return 2;
    }
  }
  for (int n = 0; n < @INPUT_COUNT@; n++) {
    if (inputs[n].file == NULL)
      tcpx_stop(inputs[n].name, "no file is given for it; usage: main [-o FOLDER]@ARGUMENTS@");
    tcpx_read_array(&inputs[n]);
  }
@SIZES@
  for (int n = 0; n < @OUTPUT_COUNT@; n++) outputs[n].data = tcpx_allocate(tcpx_bytes_of(&outputs[n]));
@CONSTANTS@
  double best = 1e300;
  int code = 0;
  for (long k = 0; k < repeat && code == 0; k++) {
    struct timespec begin, end;
    timespec_get(&begin, TIME_UTC);
    code = @CALL@;
    timespec_get(&end, TIME_UTC);
    const double seconds = (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
    if (seconds < best) best = seconds;
  }
  if (code != 0) {
    static const char *const texts[] = {@TEXTS@};
    tcpx_stop("the kernel wrote nothing", texts[code < @TEXT_COUNT@ ? code : 0]);
  }
  printf("%.1f us, the least of %ld\\n", 1e6 * best, repeat);
@WRITE@
@FREE@
  return 0;
}
"""


def main_program(signature: KernelSignature) -> str:
    """The text of the program."""
    names = Names(_LOCAL)
    numbers = [names.fresh(f"number_{k}") for k in range(len(signature.numbers))]
    symbols = {symbol.name: names.fresh(symbol.name) for symbol in signature.symbols}
    arguments = "".join(f" {in_comment(a.name)}={_value(a)}" for a in signature.arguments)
    texts = list(RETURN_CODES.values())
    texts += [assertion.message for assertion in signature.assertions]
    for _, argument in signature.ranged:
        texts.append(f"{argument.name} has an element outside of its range: {argument.range}")
        texts += (
            [f"{argument.name} is not in the order of its declaration"]
            if argument.range and argument.range.order
            else []
        )
    stems = stems_of([argument.name for argument in signature.results])
    workspace = f"{signature.c_name}_workspace"
    known = {
        "NAME": signature.c_name,
        "WORKSPACE": f"static __typeof__({workspace}) *const tcpx_workspace = {workspace};"
        if signature.has_workspace
        else _NOTHING,
        "USAGE": f"     main [-o FOLDER] [--repeat TIMES]{arguments}",
        "RANK": str(max([1, *(len(a.shape) for a in (*signature.inputs, *signature.outputs))])),
        "LARGEST": str(LARGEST_EXTENT),
        "FUNCTIONS": f"{SIZE_FUNCTIONS}\n{MAGNITUDE_FUNCTIONS}\n",
        "INPUTS": _table(signature.inputs, stems),
        "OUTPUTS": _table(signature.outputs, stems),
        "INPUT_COUNT": str(len(signature.inputs)),
        "OUTPUT_COUNT": str(len(signature.outputs)),
        "NUMBERS": _lines(f"  int64_t {name} = -1;" for name in numbers),
        "READ_NUMBERS": _lines(_read_numbers(signature, numbers)),
        "ARGUMENTS": arguments.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%"),
        "SIZES": _lines(f"  {line}" for line in _sizes(signature, symbols, numbers)),
        "CONSTANTS": _lines(_memory(signature, symbols)),
        "CALL": _call(signature, symbols),
        "TEXTS": ", ".join(map(_quoted, texts)),
        "TEXT_COUNT": str(len(texts)),
        "WRITE": _lines(_write(signature)),
        "FREE": _lines(_free(signature)),
    }
    text = _WORD.sub(lambda found: known[found[1]], _TEMPLATE)
    return "\n".join(line for line in text.split("\n") if line != _NOTHING)


_WORD: Final = re.compile("@([A-Z_]+)@")
"""What the template leaves to say."""
_NOTHING: Final = "  ;"
"""What stands for no line."""


def _lines(lines: Iterator[str]) -> str:
    return "\n".join(lines) or _NOTHING


def _value(argument: object) -> str:
    return "FILE.npy" if isinstance(argument, Argument) else "N"


def _quoted(text: str) -> str:
    """A C string; the escapes of JSON's ASCII for these characters are those of C."""
    return json.dumps("".join(c if " " <= c <= "~" else "_" for c in text))


def stems_of(names: Sequence[str]) -> dict[str, str]:
    """What files of results are called: like the results, whose `/` are no folders."""
    stems: dict[str, str] = {}
    for name in names:
        stem = name.replace("/", "_")
        while stem in stems.values() or (stem != name and stem in names):
            stem = f"{stem}_"
        stems[name] = stem
    return stems


def _table(arguments: tuple[Argument, ...], stems: Mapping[str, str]) -> str:
    entries: list[str] = []
    for argument in arguments:
        dtype = argument.dtype.numpy
        kind = str(argument).partition(": ")[2].replace("inout ", "")
        descr = np.lib.format.dtype_to_descr(dtype)
        words = (_quoted(argument.name), _quoted(kind), _quoted(str(descr)))
        stem = _quoted(stems[argument.name]) if argument.name in stems else "NULL"
        entries.append(f"{{{', '.join(words)}, {dtype.itemsize}, {len(argument.shape)}, {{0}}, {stem}, NULL, NULL}}")
    return ",\n    ".join(entries) if entries else "{0}"


def _sizes(signature: KernelSignature, symbols: Mapping[str, str], numbers: list[str]) -> Iterator[str]:
    """The symbols from where they first stand alone, then all that has to agree, then the extents of the outputs."""
    told = telling_dims(argument.shape for argument in signature.inputs)
    bound, checks = set(told), list[str]()
    for k, argument in enumerate(signature.inputs):
        for position, dim in enumerate(argument.shape):
            entry, place = told_symbol(dim), f"inputs[{k}].shape[{position}]"
            tells = entry is not None and told[entry[0].name] == (k, position)
            if entry is not None and tells:
                symbol, factor, offset = entry
                own = place if (factor, offset) == (1, 0) else f"({place} - {offset}) / {factor}"
                yield f"const int64_t {symbols[symbol.name]} = {own};"
                tests = [f"{symbols[symbol.name]} < 0"] if offset > 0 and symbol.lower == 0 else []
                checks += [
                    f"if ({test}) tcpx_wrong_shape(&inputs[{k}]);" for test in (*tests, *_outside(symbol, symbols))
                ]
            if not tells or as_symbol(dim) is None:
                checks.append(f"if ({place} != {c_size(dim, symbols)}) tcpx_wrong_shape(&inputs[{k}]);")
    for number, name in zip(signature.numbers, numbers, strict=True):
        variable = symbols[number.symbol.name]
        message = f'tcpx_stop({_quoted(number.name)}, "the size is missing, or not what the arrays say");'
        if number.symbol.name in bound:
            checks.append(f"if ({name} != {variable}) {message}")
        else:
            bound.add(number.symbol.name)
            yield f"const int64_t {variable} = {name};"
            tests = (f"{name} < 0", *_outside(number.symbol, symbols))
            checks += [f"if ({' || '.join(tests)}) {message}"]
    yield from checks
    if any(argument.state is not None for argument in signature.inputs):
        yield 'if (repeat != 1) tcpx_stop("--repeat", "each run would go on with what the one before has changed");'
    variables = {name: f"(double){variable}" for name, variable in symbols.items()}
    for dim in signature.wide_sizes:
        text = c_size(dim, variables, "tcpx_magnitude")
        yield f'if ({text} > 9e18) tcpx_stop("sizes", "a size in bytes overflows");'
    for k, argument in enumerate(signature.outputs):
        for position, dim in enumerate(argument.shape):
            yield f"outputs[{k}].shape[{position}] = {c_size(dim, symbols)};"


def _outside(symbol: Symbol, symbols: Mapping[str, str]) -> list[str]:
    """What holds where a symbol is not what it is declared to be."""
    name = symbols[symbol.name]
    tests = [f"{name} < {symbol.lower}"] if symbol.lower > 0 else []
    tests += [f"{name} > {symbol.upper}"] if symbol.upper is not None else []
    return [*tests, *([f"{name} % {symbol.multiple_of} != 0"] if symbol.multiple_of > 1 else [])]


def _read_numbers(signature: KernelSignature, numbers: list[str]) -> Iterator[str]:
    for number, name in zip(signature.numbers, numbers, strict=True):
        yield f"    if (tcpx_is_for(argv[k], {_quoted(number.name)})) {{"
        yield f"      {name} = strtoll(value + 1, NULL, 10);"
        yield "      known = 1;"
        yield "    }"


def _memory(signature: KernelSignature, symbols: Mapping[str, str]) -> Iterator[str]:
    size = signature.constants_bytes
    if size:
        yield f"  void *constants = tcpx_allocate({size});"
        yield '  FILE *file = fopen(TCPX_CONSTANTS, "rb");'
        yield "  if (file == NULL) tcpx_stop(TCPX_CONSTANTS, strerror(errno));"
        yield f'  if (fread(constants, 1, {size}, file) != {size}) tcpx_stop(TCPX_CONSTANTS, "the file is cut short");'
        yield "  fclose(file);"
    if signature.has_workspace:
        yield f"  void *workspace = tcpx_allocate(tcpx_workspace({', '.join(symbols.values())}));"


def _call(signature: KernelSignature, symbols: Mapping[str, str]) -> str:
    arrays = [f"inputs[{k}].data" for k in range(len(signature.inputs))]
    arrays += [f"outputs[{k}].data" for k in range(len(signature.outputs))]
    strides = [
        c_size(stride, symbols)
        for argument in (*signature.inputs, *signature.outputs)
        if argument.is_strided
        for stride in row_major(argument.shape)[:-1]
    ]
    constants = "constants" if signature.constants_bytes else "NULL"
    workspace = "workspace" if signature.has_workspace else "NULL"
    return f"tcpx_run({', '.join([*arrays, *symbols.values(), *strides, constants, workspace])})"


def _write(signature: KernelSignature) -> Iterator[str]:
    places = {argument: f"&inputs[{k}]" for k, argument in enumerate(signature.inputs) if argument.state is not None}
    places |= {argument: f"&outputs[{k}]" for k, argument in enumerate(signature.outputs)}
    for argument in signature.results:
        yield f"  tcpx_write_array({places[argument]}, folder);"


def _free(signature: KernelSignature) -> Iterator[str]:
    if signature.inputs:
        yield f"  for (int n = 0; n < {len(signature.inputs)}; n++) free(inputs[n].data);"
    if signature.outputs:
        yield f"  for (int n = 0; n < {len(signature.outputs)}; n++) free(outputs[n].data);"
    if signature.constants_bytes:
        yield "  free(constants);"
    if signature.has_workspace:
        yield "  free(workspace);"
