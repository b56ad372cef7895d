"""Writes the generated pages of this folder."""

from __future__ import annotations

from pathlib import Path

from tcpx.transform.reference import reference

NOT_PASSING = Path(__file__).parents[1] / "tests/frontends/onnx/not_passing.txt"
"""ONNX node tests that do not pass, with reasons."""


def node_tests() -> str:
    """The page of these tests, sorted by reason."""
    reasons: dict[str, list[str]] = {}
    for line in NOT_PASSING.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, _, reason = line.partition(": ")
            reasons.setdefault(reason, []).append(name)
    rows = [f"| {reason} | {', '.join(f'`{name}`' for name in names)} |" for reason, names in sorted(reasons.items())]
    head = f"""\
# ONNX node tests that do not pass

<!-- Made by `make docs` from tests/frontends/onnx/not_passing.txt; do not edit. -->

{sum(map(len, reasons.values()))} tests do not pass, of those in the default domain whose tensors have the dtypes of
payloads. All others pass as compiled kernels of the default schedule: `make test` runs 150 of them, `make conformance`
all. A listed test that passes is a failure.

| operator and reason | tests |
|---|---|
"""
    return head + "\n".join([*rows, ""])


if __name__ == "__main__":
    from attention_page import attention_page  # beside this file, which tests run from elsewhere

    Path(__file__).with_name("transforms.md").write_text(reference(), encoding="utf-8")
    Path(__file__).with_name("attention.md").write_text(attention_page(), encoding="utf-8")
    Path(__file__).with_name("onnx-node-tests.md").write_text(node_tests(), encoding="utf-8")
