"""Random assignments: a value is read back as each form writes it, and lookup agrees with a simple model."""

from __future__ import annotations

import random
import re
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

import tcpx
from tcpx.assignment import Assignment, ParamValue
from tcpx.cli.options import add_schedule, params_of
from tcpx.interp import Run, run_schedule
from tcpx.module_copies import copy_module
from tcpx.tuned import read_records, records_of, values_of, write_records

KEYS = ("0123456789abcdef", "fedcba9876543210")
WORDS = "net mlp fc1 fc2 gemm pack".split()
NAMES = "mr nr kc".split()


def modelled(values: Mapping[str, ParamValue], path: str, place: str = "", structure: str = "") -> tuple[str, str]:
    """What reaches a knob best, from the description of the language alone, and the key that does; empty for none."""
    inside = path.rsplit(":", maxsplit=1)[-1]
    words = re.findall(r"[^/.:]+|[/.:]", path)
    ends = {"".join(words[k:]) for k in range(0, len(words), 2)}
    best: tuple[tuple[int, int, int], str, str] | None = None
    for number, key in enumerate(values):
        bare = key.rstrip("!")
        glob = re.escape(bare).replace(r"\*", ".*").replace(r"\?", ".")
        if bare in (path, inside):
            rank, kind = (4, len(bare), number), "path"
        elif bare == words[-1]:
            rank, kind = (1, 0, number), "name"
        elif bare in ends:
            rank, kind = (3, len(bare), number), "end"
        elif re.fullmatch(glob, path if bare.startswith("@") else inside, re.DOTALL):
            rank, kind = (2, 0, number), "glob"
        else:
            continue
        best = max(best, (rank, kind, key)) if best is not None else (rank, kind, key)
    if best is not None:
        return best[1:]
    for form, kind in ((place, "place"), (f"={structure}", "structure")):
        for key in (f"{form}!", form):
            if len(form) > 1 and key in values:
                return kind, key
    return "", ""


def a_path(draw: random.Random) -> str:
    calls = "/".join(draw.choices(WORDS, k=draw.randint(1, 4)))
    return f"{draw.choice(['', '', '@f:', '@g.r0:'])}{calls}.{draw.choice(NAMES)}"


def a_key(draw: random.Random, path: str) -> str:
    """A key that is likely to reach a knob: its name, an end of its path, a glob of it, or the path."""
    words = re.findall(r"[^/.:]+|[/.:]", path)
    match draw.randrange(5):
        case 0:
            key = words[-1]
        case 1:
            key = "".join(words[draw.randrange(0, len(words), 2) :])
        case 2:
            key = f"*{''.join(words[draw.randrange(1, len(words), 2) :])}"
        case 3:
            key = "".join("*" if draw.random() < 0.3 and word not in "@/.:" else word for word in words)
        case _:
            key = path
    return key + "!" * (draw.random() < 0.2)


def test_lookup_is_that_of_the_model() -> None:
    draw, counts = random.Random(43), Counter[str]()
    for _ in range(1500):
        paths = [a_path(draw) for _ in range(4)]
        keys = [a_key(draw, draw.choice(paths)) for _ in range(draw.randrange(6))]
        keys += [f"{draw.choice(KEYS)}:{path}" for path in paths if draw.random() < 0.4]
        keys += [f"={key}{sign}" for key in KEYS for sign in ("", "!") if draw.random() < 0.3]
        draw.shuffle(keys)
        values = {key: draw.randrange(9) for key in keys}
        given = Assignment(values)
        said = {key: value for key, value in values.items() if not key.startswith("=")}
        assert dict(given) == values
        assert dict(Assignment.of(said)) == said
        assert list(given) == list(values)
        assert dict(given.of_functions | given.of_payload) == values
        for path in paths:
            place, structure = f"{draw.choice(KEYS)}:{path}", draw.choice(KEYS)
            kind, key = modelled(values, path, place, structure)
            assert (given.key(path, place, structure) or "") == key, (values, path)
            counts[kind or "none"] += 1
            counts["several"] += len(given.reaching(path)) > 1
        others = {a_key(draw, draw.choice(paths)): draw.randrange(9) for _ in range(2)}
        under = given.under(others)
        for key in [key for key in given if not re.search(r"[*=]", key)]:
            wins = modelled(others, key.rstrip("!"))[1]
            assert (key in under) == (not wins or key in others)
            counts["replaced"] += bool(wins)
    assert min(counts[kind] for kind in ("path", "name", "end", "glob", "place", "structure", "none")) > 100, counts
    assert min(counts["several"], counts["replaced"]) > 500, counts


PAYLOAD = """\
func @layer(%x: tensor<[M]x16xf32>, %w: tensor<16x16xf32>) -> tensor<[M]x16xf32> symbols [M] {
  %p = tcp.matmul(%x, %w) : tensor<[M]x16xf32>
  tcp.return(%p)
}
func @net(%x: tensor<[M]x16xf32>, %u: tensor<16x16xf32>, %v: tensor<16x8xf32>) -> tensor<[M]x8xf32> symbols [M] {
  %a = tcp.call @layer(%x, %u) : tensor<[M]x16xf32>
  %b = tcp.matmul(%a, %u) : tensor<[M]x16xf32>
  %c = tcp.matmul(%b, %v) : tensor<[M]x8xf32>
  tcp.return(%c)
}
"""


def a_schedule(draw: random.Random) -> str:
    """Sequences that call one another, each with knobs of its own; some products become functions."""
    depth = draw.randint(1, 3)
    knobs = [draw.sample(NAMES, draw.randint(1, 2)) for _ in range(depth)]
    lines = ["language 1"]
    for level in range(depth):
        lines.append(f"sequence s{level}(mm: op<contract>) {{")
        lines += [f"  knob separate {name}: int = 4 in 1..8" for name in knobs[level]]
        lines += [f'  require {name} > 0 "a tile"' for name in knobs[level]]
        lines.append(f"  s{level + 1}(mm)" if level + 1 < depth else f"  tile(mm, [m: {knobs[level][0]}])")
        lines.append("}")
    lines.append("schedule main(root: func) {")
    if draw.random() < 0.5:
        lines.append('  let b = match one op in root where name == "b"\n  outline([b])')
    return "\n".join([*lines, "  for mm in match some contract in root { s0(mm) }", "}", ""])


def used(run: Run) -> dict[str, object]:
    return {use.path: use.value for use in run.knobs}


def recorded_values(
    module: tcpx.Module,
    program: tcpx.Schedule,
    target: tcpx.Target,
    given: Mapping[str, ParamValue],
    path: Path,
) -> Assignment:
    """The values of functions in records of what was given, which are read as they were written."""
    written = records_of(module, program, target, 1, given, {})
    write_records(path, written)
    read = read_records(path)
    assert [values_of([held]) for held in read] == [values_of([held]) for held in written]
    functions = values_of(read[1:])
    assert functions == functions.of_functions
    return functions


def test_runs_give_knobs_the_values_of_the_model(tmp_path: Path) -> None:
    draw, counts, target = random.Random(44), Counter[str](), tcpx.load_target("generic")
    module, parser = tcpx.parse(PAYLOAD), ArgumentParser()
    add_schedule(parser)

    def run(program: tcpx.Schedule, params: Mapping[str, ParamValue], by_function: bool = False) -> Run:
        copy = copy_module(module)
        return run_schedule(copy, program, target, params=params, by_function=by_function)

    for number in range(40):
        program = tcpx.parse_schedule(a_schedule(draw))
        paths = list(used(run(program, {})))
        given = {a_key(draw, draw.choice([*paths, "main/zz/s0.mr"])): draw.randint(1, 8) for _ in range(3)}
        keys = [key for key in given if not any(modelled({key: 0}, path)[0] for path in paths)]
        if keys:
            with pytest.raises(tcpx.ScheduleError, match=rf"the parameter `{re.escape(keys[0])}` .* matches no knob"):
                run(program, given)
            given = {key: value for key, value in given.items() if key not in keys}
        counts["unread"] += bool(keys)
        found = run(program, given, by_function=True)
        for use in found.knobs:
            kind, key = modelled(given, use.path)
            assert use.value == (given[key] if kind else 4)
            assert (use.overridden, use.beyond) == (bool(kind), key.endswith("!"))
            counts[kind] += 1
        counts["in functions"] += sum(use.is_recorded for use in found.knobs)
        recorded = recorded_values(module, program, target, given, tmp_path / f"{number}.yaml")
        again = {use.path: use.value for use in run(program, recorded, by_function=True).knobs if use.place}
        assert again == {use.path: use.value for use in found.knobs if use.place}
        values = {**given, "flag": True, "word": "wide"}
        words = [f"--param={key}={str(value).lower()}" for key, value in values.items()]
        assert params_of(parser.parse_args(words)) == values
    assert min(counts[kind] for kind in ("path", "name", "end", "glob", "", "unread")) > 10, counts
    assert counts["in functions"] > 30, counts


def test_a_key_of_a_function_is_of_no_knob_where_nobody_asks_for_functions() -> None:
    program = tcpx.parse_schedule(a_schedule(random.Random(1)))
    module, target, key = tcpx.parse(PAYLOAD), tcpx.load_target("generic"), f"{KEYS[0]}:main/s0.mr"
    with pytest.raises(tcpx.ScheduleError, match=f"the parameter `{key}` .* matches no knob"):
        run_schedule(copy_module(module), program, target, params={key: 3})
    found = run_schedule(copy_module(module), program, target, params={key: 3}, by_function=True)
    assert not any(use.overridden for use in found.knobs)


def test_params_go_before_values_outside_of_their_domains() -> None:
    recorded = Assignment({"main/fc1/gemm.mr!": 40, "main/fc1/gemm.nr": 8})
    assert recorded.under({"mr": 3}) == {"main/fc1/gemm.nr": 8, "mr": 3}
    assert recorded.under(None) == recorded


def test_the_key_of_a_structure_is_no_name() -> None:
    """Inside a run knobs of one structure share a value by such a key; none is given from outside."""
    with pytest.raises(tcpx.ScheduleError, match="cannot set =0123456789abcdef to 3") as caught:
        Assignment.of({"=0123456789abcdef": 3})
    assert caught.value.diagnostic.found == "`=0123456789abcdef`, which is no name"
