"""A history of a million records: how long its questions take, in a SQLite file and in PostgreSQL.

    python benchmarks/history_scale.py [--records 1000000] [--runs 1000] [-o FILE.json]

Needs root or a user who may run PostgreSQL's server, and its packages (as tests/postgresql do). The history is of
1,000 rows and 1,000 runs by default; every record is whole, with 50 steps, two of a hundred are errors, and each
run's records are added in one delivery, as a session does. Questions are asked of rows and runs that are drawn
from a seed, each through a connection of its own, as a command does: the figure is the median and the slowest of
them. The machine's file cache is warm, because all of it was just written.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shutil
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tabulate import tabulate

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from pytest_gsw.history.cluster_series import histories_of_records  # noqa: E402
from pytest_gsw.history.comparison import compare_runs  # noqa: E402
from pytest_gsw.history.location import open_history  # noqa: E402 - found from the checkout
from pytest_gsw.history.store import History  # noqa: E402 - found from the checkout
from pytest_gsw.jobs.states import JobState  # noqa: E402
from pytest_gsw.results.record import JobFacts, Record  # noqa: E402
from tests.postgresql.server import PostgresqlServer, missing_requirements  # noqa: E402
from tests.unit.results.records import recorded, varied  # noqa: E402

SEED = 20
DAY_S = 86400.0
FIRST_S = 1_700_000_000.0
STEPS = 50
#: Limits on the figures.
LIMITS_S = {"last 200 nights of one row": 0.050, "comparison of two nights": 1.0}


@dataclass(frozen=True)
class Figure:
    """How long one question took, asked several times."""

    question: str
    median_s: float
    slowest_s: float
    rows: int


def record(number: int, row: int, noise: random.Random) -> Record:
    """One row's run of one run."""
    judged = (2.0 + row / 100) * (1 + noise.gauss(0, 0.02))
    end_s = FIRST_S + number * DAY_S + row
    is_error = noise.random() < 0.02
    series_s = tuple(round(judged * (1 + noise.gauss(0, 0.01)), 3) for _ in range(STEPS))
    return recorded(
        run_id=run_id(number),
        row=row_id(row),
        node_id=f"baselines/synthetic/model_{row % 40}.yaml::{row_id(row)}",
        baseline=f"baselines/synthetic/model_{row % 40}.yaml:{row}",
        document="readme.md",
        document_line=row + 1,
        cluster="eos",
        simulated=False,
        outcome="error" if is_error else "passed",
        fact="job 1 timed out" if is_error else "throughput is as documented",
        tolerance=0.05,
        workload=f"model_{row % 40}",
        framework="nemo",
        dtype="bf16",
        accelerator="H100",
        gpus=64,
        documented={"step_time_s": 2.0 + row / 100, "tokens_per_s": 1e6, "mfu": 0.4},
        implied={"step_time_s": 2.0 + row / 100, "tokens_per_s": 1e6, "mfu": 0.4},
        measured={} if is_error else {"step_time_s": judged, "tokens_per_s": 2e6 / judged, "mfu": 0.8 / judged},
        statistic="median",
        steps=STEPS,
        first_s=series_s[0],
        last_s=series_s[-1],
        median_s=judged,
        p90_s=judged,
        series_s=series_s,
        job=JobFacts(
            JobState.TIMEOUT if is_error else JobState.COMPLETED,
            id=str(number * 1000 + row),
            launcher="slurm",
            exit_code=0,
            nodes=f"pool0-[{row:04}-{row + 7:04}]",
            submit_s=end_s - 900,
            start_s=end_s - 700,
            end_s=end_s,
        ),
        log=f"/stage/results/25.05/bf16/model/64/log-nemo_model_{row}_64_{number * 1000 + row}.out",
        definition=f"{row:012x}",
        image="nvcr.io/nvidia/nemo:25.04.01",
        metric="step_time",
        environment={"driver": "550.90.07", "nccl": "2.21.5", "slurm": "24.05.2"},
        recorded_s=end_s + 30,
    )


def run_id(number: int) -> str:
    """The run of a run, named as a session would."""
    return time.strftime("%Y%m%d-%H%M%S", time.gmtime(FIRST_S + number * DAY_S)) + "-7f3a"


def row_id(row: int) -> str:
    """The id of a row."""
    return f"model_{row % 40}_bf16_case{row}[H100x64]"


def fill(history: History, runs: int, rows: int) -> Sequence[float]:
    """The seconds that each run's delivery took."""
    noise = random.Random(SEED)  # noqa: S311
    took_s = []
    for number in range(runs):
        records = [record(number, row, noise) for row in range(rows)]
        began_s = time.perf_counter()
        history.add(records)
        took_s.append(time.perf_counter() - began_s)
        if number % 100 == 99:
            print(f"  {number + 1} nights, the last in {took_s[-1]:.2f} s", file=sys.stderr)
    return took_s


def questions(place: str, runs: int) -> Iterator[Figure]:
    """Every question of a session and of the commands, timed."""
    chosen = random.Random(SEED)  # noqa: S311
    some_runs = [chosen.randrange(1, runs) for _ in range(5)]
    yield timed(
        "all runs of all rows", place, [lambda history: sum(map(len, history.cluster_points("eos").values()))] * 5
    )
    yield timed(
        "comparison of two nights", place, [lambda history, n=n: compared(history, n - 1, n) for n in some_runs]
    )
    yield timed("list of all series", place, [lambda history: len(history.series())] * 5)


def compared(history: History, before: int, after: int) -> int:
    """How many rows a comparison of two runs has, all that ``pytest-gsw compare`` does included."""
    first, second = history.records(run_id(before)), history.records(run_id(after))
    histories = histories_of_records(history, (*first, *second))
    noises = {key: noise for key, past in histories.items() if (noise := past.noise()) is not None}
    comparison = compare_runs(first, second, noises)
    return len(comparison.rows) + len(comparison.others)


def timed(question: str, place: str, asked: Sequence[Callable[[History], int]]) -> Figure:
    """A question that is asked several times, each time through a new connection."""
    took_s, rows = [], 0
    for ask in asked:
        began_s = time.perf_counter()
        with open_history(place) as history:
            rows = ask(history)
        took_s.append(time.perf_counter() - began_s)
    return Figure(question, statistics.median(took_s), max(took_s), rows)


def measured(name: str, place: str, runs: int, rows: int, size: Callable[[], int]) -> dict[str, Any]:
    """One database, filled and asked."""
    print(f"{name}: {runs * rows:,} records", file=sys.stderr)
    with open_history(place) as history:
        began_s = time.perf_counter()
        took_s = fill(history, runs, rows)
        whole_s = time.perf_counter() - began_s
        one = varied(record(0, 0, random.Random(1)), run_id="29990101-000000-7f3a", node_id="x::y", recorded_s=1.0)  # noqa: S311
        began_s = time.perf_counter()
        history.add([one])
        one_s = time.perf_counter() - began_s
    figures = list(questions(place, runs))
    return {
        "database": name,
        "records": runs * rows,
        "bytes": size(),
        "filled_s": whole_s,
        "night_median_s": statistics.median(took_s),
        "night_last_s": statistics.median(took_s[-20:]),
        "one_record_s": one_s,
        "questions": [vars(figure) for figure in figures],
    }


def table(results: Sequence[dict[str, Any]]) -> str:
    """The figures, with their limits."""
    names = [result["database"] for result in results]
    lines = [
        ["size on disk", *(f"{result['bytes'] / 1e9:.2f} GB" for result in results), ""],
        ["delivery of one night", *(f"{result['night_last_s']:.2f} s" for result in results), ""],
        ["delivery of one record", *(f"{result['one_record_s'] * 1000:.0f} ms" for result in results), ""],
    ]
    for index, figure in enumerate(results[0]["questions"]):
        limit_s = LIMITS_S.get(figure["question"])
        cells = [result["questions"][index] for result in results]
        lines.append(
            [
                figure["question"],
                *(f"{cell['median_s'] * 1000:.0f} ms (slowest {cell['slowest_s'] * 1000:.0f})" for cell in cells),
                "" if limit_s is None else f"{limit_s * 1000:.0f} ms",
            ]
        )
    return tabulate(lines, headers=[f"{results[0]['records']:,} records", *names, "limit"], tablefmt="github")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--only", choices=("sqlite", "postgresql"))
    parser.add_argument("-o", "--output", type=Path)
    asked = parser.parse_args()
    rows = asked.records // asked.runs
    results = []
    place = Path(tempfile.mkdtemp(prefix="gsw-history-", dir="/tmp"))
    try:
        if asked.only != "postgresql":
            path = place / "history.sqlite"
            results.append(measured("SQLite", str(path), asked.runs, rows, lambda: path.stat().st_size))
            path.unlink()
    finally:
        shutil.rmtree(place)
    if asked.only != "sqlite":
        problem = missing_requirements()
        if problem is not None:
            raise SystemExit(problem)
        with PostgresqlServer("max_wal_size=512MB") as server:
            results.append(measured("PostgreSQL", server.url, asked.runs, rows, lambda: postgresql_bytes(server.url)))
    print(table(results))
    print(f"\n{machine()}")
    if asked.output:
        asked.output.write_text(json.dumps(results, indent=2) + "\n")


def postgresql_bytes(url: str) -> int:
    """How large the database is."""
    import psycopg

    with closing(psycopg.connect(url)) as connection:
        row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
    assert row is not None
    return int(row[0])


def machine() -> str:
    """What it was measured on."""
    return (
        f"{os.cpu_count()} cores, Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, "
        "PostgreSQL over a Unix socket with fsync off; new connection for each question, warm file cache"
    )


if __name__ == "__main__":
    main()
