"""Writes the generated pages of this folder."""

from __future__ import annotations

from pathlib import Path

from tcpx.transform.reference import reference

NOT_PASSING = Path(__file__).parents[1] / "tests/frontends/onnx/not_passing.txt"
NOT_PASSING_MODELS = NOT_PASSING.with_name("not_passing_models.txt")
"""ONNX node tests that do not pass, with reasons."""


def node_tests() -> str:
    """The page of these tests, sorted by reason."""
    nodes, models = _reasons(NOT_PASSING), _reasons(NOT_PASSING_MODELS)
    count = sum(map(len, models.values()))
    return f"""\
# ONNX node tests that do not pass

<!-- Made by `make docs` from tests/frontends/onnx/not_passing.txt and not_passing_models.txt; do not edit. -->

{sum(map(len, nodes.values()))} tests do not pass, of those in the default domain whose tensors have the dtypes of
payloads. All others pass as compiled kernels of the default schedule: `make test` runs 150 of them, `make conformance`
all. A listed test that passes is a failure.

{_table(nodes)}
Of the suites `simple`, `pytorch-converted` and `pytorch-operator`, which are small models, {count} do not pass:

{_table(models)}"""


def _reasons(path: Path) -> dict[str, list[str]]:
    """The names of tests by their reason."""
    reasons: dict[str, list[str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, _, reason = line.partition(": ")
            reasons.setdefault(reason, []).append(name)
    return reasons


def _table(reasons: dict[str, list[str]]) -> str:
    rows = [f"| {reason} | {', '.join(f'`{name}`' for name in names)} |" for reason, names in sorted(reasons.items())]
    return "\n".join(["| operator and reason | tests |", "|---|---|", *rows, ""])


if __name__ == "__main__":
    from api_page import api_page
    from attention_page import attention_page  # beside this file, which tests run from elsewhere
    from gallery_page import FOLDER, gallery_pages

    Path(__file__).with_name("transforms.md").write_text(reference(), encoding="utf-8")
    Path(__file__).with_name("api.md").write_text(api_page(), encoding="utf-8")
    Path(__file__).with_name("attention.md").write_text(attention_page(), encoding="utf-8")
    Path(__file__).with_name("onnx-node-tests.md").write_text(node_tests(), encoding="utf-8")
    for name, text in gallery_pages().items():
        FOLDER.joinpath(name).write_text(text, encoding="utf-8")
