"""tcpx ops: what payloads and schedules may say."""

import argparse
from difflib import get_close_matches
from inspect import cleandoc
from textwrap import indent

import tcpx
from tcpx.cli.options import Subcommand


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name", metavar="NAME", nargs="?", help="an operation (tcp.matmul, matmul) or a transform (tile)"
    )
    parser.add_argument("--transforms", action="store_true", help="transforms with their signatures, not operations")


def _execute(options: argparse.Namespace) -> int:
    name: str | None = options.name
    if name is not None:
        print(_page(name, only_transforms=options.transforms))
    elif options.transforms:
        _list_transforms()
    else:
        _list_operations()
    return 0


def _list_operations() -> None:
    known = tcpx.ops()
    width = max(map(len, known))
    for opcode, operation in known.items():
        print(f"{opcode:<{width}}  {_first_line(operation)}")


def _list_transforms() -> None:
    known = tcpx.transforms().values()
    for category in sorted({transform.category.value for transform in known}):
        print(f"{category}:")
        for transform in known:
            if transform.category.value == category:
                print(f"  {transform.signature()}")
                print(f"      {_first_line(transform)}")
    for problem in tcpx.transform.plugin_problems():
        print(problem.render())


def _page(name: str, only_transforms: bool) -> str:
    """All there is to say about one name."""
    operations = {} if only_transforms else tcpx.ops()
    transforms = tcpx.transforms()
    opcode = name if name in operations else f"tcp.{name}"
    pages: list[str] = []
    if opcode in operations:
        pages.append(_operation_page(opcode))
    if name in transforms:
        pages.append(tcpx.transform.terminal_page(transforms[name]))
    if pages:
        return "\n\n".join(pages)
    known = [*operations, *(o.removeprefix("tcp.") for o in operations), *transforms]
    close = get_close_matches(name, known, n=1)
    what = "transform" if only_transforms else "operation or transform"
    raise tcpx.ArgumentError(
        tcpx.Diagnostic(
            f"there is no {what} `{name}`",
            required=f"a name that `tcpx ops{' --transforms' if only_transforms else ''}` lists",
            found=name,
            fix=f"did you mean `{close[0]}`?" if close else None,
        )
    )


def _operation_page(opcode: str) -> str:
    operation = tcpx.ops()[opcode]
    names = [f"%{name}" for name in operation.signature.operand_names]
    names += [f"[{name} = %{name}]" for name in operation.signature.named_operands]
    if operation.signature.optional_operand:
        names.append(f"[%{operation.signature.optional_operand}]")
    if operation.signature.variadic:
        names.append("..")
    lines = [f"{opcode}({', '.join(names)})", indent(_doc(operation), "  ")]
    for field in operation.signature.attribute_fields:
        lines.append(f"  {field.key}: {field.required}" + ("" if not field.default else f" (else {field.default})"))
    if operation.class_name:
        lines.append(f"  in the operation tree: {operation.class_name}")
    return "\n".join(lines)


def _doc(declared: type) -> str:
    return cleandoc(declared.__doc__ or "")


def _first_line(declared: type) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join(_doc(declared).split("\n\n")[0].split())


OPS = Subcommand(
    name="ops",
    summary="list operations and transforms",
    description="List the operations of payloads, or the transforms of schedules with their signatures; or show the\n"
    "reference page of one of them.",
    example="tcpx ops matmul",
    add_arguments=_add_arguments,
    execute=_execute,
)
