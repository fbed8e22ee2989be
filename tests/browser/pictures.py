"""Make the pictures of the documentation again: ``python -m tests.browser.pictures docs/images``.

It runs a run on a Slurm of its own, so it needs root, Slurm's packages and Chromium.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.slurm.cluster import SlurmCluster

from .chromium import DARK, PHONE, Chromium
from .conftest import write_report
from .night import run_everything
from .server import Served

_LARGEST_BYTES = 200_000


class _Picture(NamedTuple):
    """What is taken of which page."""

    page: str
    options: Mapping[str, Any]
    #: What is in its upper left corner, and how large it is.
    selector: str
    width: int
    height: int


def _screen(width: int) -> dict[str, Any]:
    return {"viewport": {"width": width, "height": 800}}


_PICTURES = {
    "report": _Picture("index.html", _screen(1300), "body", 1300, 960),
    "report-dark": _Picture("index.html", {**_screen(1300), **DARK}, "body", 1300, 960),
    "report-phone": _Picture("index.html", PHONE, "body", 360, 740),
    "report-matrix": _Picture("index.html", _screen(1300), "#matrix", 1000, 760),
    "report-row": _Picture("runs/*/rows/llama2_70b_fp8_H100x128.html", _screen(1100), "body", 1100, 1500),
}


def main(target: Path) -> None:
    """Put the pictures into a directory."""
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        with SlurmCluster(288) as cluster:
            run = run_everything(cluster, Path(scratch), hostile=False, seconds=4)
        report = Path(scratch) / "report"
        write_report(run.run, report)
        with Served(report) as served, Chromium() as chromium:
            for name, picture in _PICTURES.items():
                (path,) = report.glob(picture.page)
                page = path.relative_to(report).as_posix()
                _take(chromium, served, picture._replace(page=page), target / f"{name}.png")


def _take(chromium: Chromium, served: Served, picture: _Picture, path: Path) -> None:
    with chromium.tab(served.url, **picture.options) as tab:
        page = tab.goto(picture.page)
        box = page.locator(picture.selector).first.bounding_box()
        assert box is not None, picture
        top = 0 if picture.selector == "body" else box["y"] - 8
        page.screenshot(
            path=path,
            full_page=True,
            clip={"x": 0, "y": top, "width": picture.width, "height": picture.height},
        )
        assert tab.complaints == []
    size = path.stat().st_size
    if size > _LARGEST_BYTES:
        sys.exit(f"{path} has {size} bytes, wanted {_LARGEST_BYTES} at most")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
