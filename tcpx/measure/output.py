"""Where rows go: a JSON file, and a picture beside it."""

from collections.abc import Sequence
from pathlib import Path

import tcpx
from tcpx.measure.limits import Limits
from tcpx.measure.picture import points_of, roofline_svg
from tcpx.measure.rows import Row, write_rows
from tcpx.measure.session import MACHINE


def write_results(rows: Sequence[Row], path: str | None) -> list[Path]:
    """Write `path`, and a roofline per number of threads as `NAME-1.svg`; nothing for None.

    Gives the files that were written. Raises ArgumentError.
    """
    if path is None:
        return []
    place = Path(path)
    checked_output(path)
    write_rows(place, rows)
    written = [place]
    for row in rows:
        if row.peer == MACHINE:
            limits = Limits(row.threads, row.facts["limits"], row.facts["caches"])
            picture = place.with_name(f"{place.stem}-{row.threads}.svg")
            measured = [each for each in rows if each.threads == row.threads]
            picture.write_text(roofline_svg(points_of(measured), limits), encoding="utf-8")
            written.append(picture)
    return written


def checked_output(path: str | None) -> None:
    """Found out before anything is measured: the file is JSON, in a folder that is there. Raises ArgumentError."""
    if path is None:
        return
    if Path(path).suffix != ".json" or not Path(path).absolute().parent.is_dir():
        raise tcpx.ArgumentError(
            tcpx.Diagnostic("cannot write the rows", required="FILE.json in a folder that is there", found=path)
        )
