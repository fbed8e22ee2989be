"""How often each rule is wrong: clusters of thirty rows, run by run, by simulation; and on a real series.

    python benchmarks/decisions.py --quick                         # does it work? a minute
    python benchmarks/decisions.py --otava PYTHON -o F.json --images DIR    # all of it
    python benchmarks/decisions.py --figures F.json --images DIR            # the tables and plots again

PYTHON is the interpreter of an environment in which `pip install apache-otava==0.8.0` was run (it pins numpy and scipy,
so it gets one of its own); without it, its lines are missing. All else needs pytest-gsw and `tabulate`.

Each cluster lives through its runs as the package's own sessions do: what is measured goes into a history, and the
next session asks that for the rows' pasts, noise and slow nodes, and judges with `--gsw-confirm=4`. Other rules judge
the same jobs. Then the same runs are gone through again with something changed, from a run on that is drawn at
random. Each cluster has a generator of its own, seeded with its model's name, its number and `--seed`: figures are the
same whatever runs beside them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.simulated import plots, tables  # noqa: E402
from benchmarks.simulated.experiments import PARTS, measure  # noqa: E402
from benchmarks.simulated.models import MODELS  # noqa: E402
from benchmarks.simulated.otava import PYTHON, the_otava  # noqa: E402
from benchmarks.simulated.real import real_series  # noqa: E402
from benchmarks.simulated.tally import Tally  # noqa: E402

#: Runs of a cluster: those of the reference, and those that are watched. Clusters of each model, and how many of
#: them Otava is asked about: it takes ten times as long as all else together.
REFERENCE, WATCHED, CLUSTERS, OTAVA_CLUSTERS = 30, 180, 12, 1


@dataclass(frozen=True)
class Task:
    """One cluster."""

    model: str
    number: int
    seed: int
    rows: int
    runs: int
    parts: tuple[str, ...]

    def run(self) -> Tally:
        """Its figures."""
        parts = [part for part in self.parts if part != "otava" or self.number < OTAVA_CLUSTERS]
        return measure(MODELS[self.model], f"{self.seed} {self.model} {self.number}", self.rows, self.runs, parts)


def tallies(options: argparse.Namespace) -> Iterator[Tally]:
    """The figures of clusters, as they come; in which order they do makes no difference."""
    rows, runs, parts = options.rows, REFERENCE + options.runs, tuple(options.parts)
    numbers = [(model, number) for number in range(options.clusters) for model in options.models]
    tasks = [Task(model, number, options.seed, rows, runs, parts) for model, number in numbers]
    begin_s = time.monotonic()
    with ProcessPoolExecutor(options.processes) as pool:
        for number, done in enumerate(as_completed([pool.submit(task.run) for task in tasks]), 1):
            if number % max(1, len(tasks) // 20) == 0:
                print(f"{time.monotonic() - begin_s:6.0f} s  {number} of {len(tasks)}", file=sys.stderr, flush=True)
            yield done.result()


def run(options: argparse.Namespace) -> dict[str, Any]:
    """All figures, and what they were made of."""
    tally = Tally()
    for one in tallies(options):
        tally.add(one)
    real = real_series(the_otava() if "otava" in options.parts else None)
    size = {name: getattr(options, name) for name in ("seed", "rows", "runs", "clusters")}
    made_of = {**size, "parts": options.parts, "models": options.models, "commit": commit()}
    return {"made of": [made_of], "simulated": tally.plain(), "real": real}


def commit() -> str:
    """What of the package is measured."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude=*"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


def read(files: list[Path]) -> dict[str, Any]:
    """The figures of several runs together: of other parts, or with other seeds."""
    tally, made_of, real = Tally(), [], {}
    for file in files:
        figures = json.loads(file.read_text(encoding="utf-8"))
        tally.add(Tally.of_plain(figures["simulated"]))
        made_of += figures["made of"]
        real |= {name: found for name, found in figures["real"].items() if name not in real}
    return {"made of": made_of, "simulated": tally.plain(), "real": real}


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description="How often each rule is wrong, by simulation and on a real series.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rows", type=int, default=30, help="rows of a cluster (default %(default)s)")
    parser.add_argument("--runs", type=int, default=WATCHED, help=f"nights after {REFERENCE} (default %(default)s)")
    parser.add_argument("--clusters", type=int, default=CLUSTERS, help="clusters of each model (default %(default)s)")
    parser.add_argument("--models", nargs="+", default=[*MODELS], choices=[*MODELS], metavar="NAME", help="some of all")
    parser.add_argument("--parts", nargs="+", choices=[*PARTS], help="default: all, Otava where --otava is given")
    parser.add_argument("--quick", action="store_true", help="one cluster of each model, 90 nights")
    parser.add_argument("--processes", type=int, default=2, help="at once (default %(default)s)")
    parser.add_argument("--otava", metavar="PYTHON", help="interpreter that has apache-otava 0.8.0")
    parser.add_argument("--figures", type=Path, nargs="+", metavar="FILE", help="take figures from there, measure none")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write the figures to this file, as JSON")
    parser.add_argument("--images", type=Path, metavar="DIR", help="write the plots there, as SVG")
    options = parser.parse_args(arguments)
    if options.otava:
        os.environ[PYTHON] = options.otava
    options.parts = options.parts or [part for part in PARTS if part != "otava" or options.otava]
    if options.quick:
        options.clusters, options.runs = 1, min(options.runs, 90)
    return options


def main(arguments: list[str] | None = None) -> int:
    """Measure, and print the tables."""
    options = parsed(arguments)
    figures = read(options.figures) if options.figures else run(options)
    if options.output is not None:
        options.output.write_text(json.dumps(figures, sort_keys=True) + "\n", encoding="utf-8")
    print(tables.text(figures))
    if options.images is not None:
        plots.write(figures, options.images)
    return 0


if __name__ == "__main__":
    sys.exit(main())
