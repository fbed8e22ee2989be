"""A session of up to 100,000 rows over weeks, against a model of Slurm and of its limits.

    python benchmarks/simulate_fleet.py [--rows 100000] [--look-s 10] [-o FILE.json] [--markdown]

The fleet and its journal are the real ones; time is virtual, and the cluster is a model
(`tests/unit/fleet/slurm_model.py`): 576 nodes of 8 GPUs, first come first served with backfill, jobs of 10 to 40
minutes on 8 to 2,048 GPUs, one in a hundred of which fails, loses a node or hangs; slurmctld restarts once
a day, forgets ended jobs after 300 s, holds 10,000 jobs at most and answers two requests a second (`rl_enable`
at its defaults: 30 at once). Two scenarios:

- *full*: other users hold 9,700 of the 10,000 jobs; the session has no limit of its own, so that slurmctld
  refuses jobs all the time,
- *limited*: no other users, and at most 200 jobs pending (`-ogsw_max_pending=200`),
- *alone* (only with `--scenario alone`): no other users, no limit; the queue holds 10,000 jobs, and each question is
  about all of them. Its processor time grows with the queue, that is with the rows until there are 10,000.

Each size runs in a process of its own. Processor time is that of the process without the model's; memory is what the
fleet's objects take at the end, with the specs of all rows. Running jobs' logs are looked at every 10 s
instead of 2: that costs the same for every row, and the benchmark less time (`--look-s 2`). On a slow disk,
`--no-fsync` saves its time for each line of the journal. Ends with 1 if a row was lost or submitted twice, if more
questions were asked than budgeted, or if anything grows faster than linearly.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tabulate import tabulate

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from pytest_gsw.fleet.limits import Limits  # noqa: E402
from tests.unit.fleet.slurm_model import DAY_S, Scenario, simulate  # noqa: E402

SIZES = (1000, 3000, 10_000, 30_000, 100_000)
SCENARIOS = {
    "full": Scenario("full", max_job_count=10_000, others=9700),
    "limited": Scenario("limited", Limits(pending=200)),
    "alone": Scenario("alone"),
}
DEFAULT = ("full", "limited")
#: The steepest growth that counts as linear: the slope of a line through the logarithms.
LINEAR = 1.1
#: What must grow no faster than linearly with the number of rows.
GROWTH = {
    "cpu_s": "processor time",
    "held_bytes": "memory",
    "journal_bytes": "journal",
    "questions": "questions",
    "requests": "requests",
}


def measure(rows: int, scenario: str, seed: int, look_s: float, fsync: bool) -> dict[str, Any]:
    """One session's figures."""
    begin_s = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        session = simulate(rows, Path(directory), SCENARIOS[scenario], seed=seed, look_s=look_s, fsync=fsync)
    tally = session.tally
    return {
        "scenario": scenario,
        "rows": rows,
        "virtual_s": session.virtual_s,
        "cpu_s": session.cpu_s,
        "model_cpu_s": session.model_s,
        "wall_s": time.monotonic() - begin_s,
        "held_bytes": session.held,
        "standings_s": session.standings_s,
        "journal_bytes": session.journal,
        "questions": tally.questions,
        "budget": session.budget,
        "shortest_pause_s": tally.shortest_pause_s,
        "ids": tally.ids,
        "most_ids": tally.most_ids,
        "requests": sum(tally.requests.values()),
        "by_command": dict(tally.requests),
        "most_in_a_second": tally.most_in_a_second,
        "delayed": tally.delayed,
        "delay_s": tally.delay_s,
        "longest_delay_s": tally.longest_delay_s,
        "submissions": sum(tally.taken.values()),
        "repeats": session.repeats,
        "refused_full": tally.refused_full,
        "refused_away": tally.refused_away,
        "most_records": tally.most_records,
        "most_running": tally.most_running,
        "looks": tally.looks,
        "outcomes": dict(session.outcomes),
        "problems": session.problems(),
    }


def slope(points: Sequence[tuple[float, float]]) -> float:
    """The exponent of growth: of the line through the logarithms, by least squares."""
    logs = [(math.log(x), math.log(y)) for x, y in points if x > 0 and y > 0]
    mean_x, mean_y = (sum(values) / len(logs) for values in zip(*logs, strict=True))
    spread = sum((x - mean_x) ** 2 for x, _ in logs)
    return sum((x - mean_x) * (y - mean_y) for x, y in logs) / spread if spread else math.nan


def table(measured: Sequence[dict[str, Any]], markdown: bool) -> str:
    """The figures of one scenario, a line for each size."""
    lines = []
    for one in measured:
        rows, hours = one["rows"], one["virtual_s"] / 3600
        lines.append(
            {
                "rows": f"{rows:,}",
                "virtual days": f"{one['virtual_s'] / DAY_S:.1f}",
                "CPU s / 1,000 rows": f"{one['cpu_s'] / rows * 1000:.2f}",
                "KiB / row": f"{one['held_bytes'] / rows / 1024:.2f}",
                "journal B / row": f"{one['journal_bytes'] / rows:.0f}",
                "questions": f"{one['questions']:,}",
                "budget": f"{one['budget']:,.0f}",
                "/ hour": f"{one['questions'] / hours:.0f}",
                "ids each: mean, most": f"{one['ids'] / one['questions']:.0f}, {one['most_ids']:,}",
                "jobs": f"{one['submissions']:,} ({one['repeats']} again)",
                "refused": f"{one['refused_full'] + one['refused_away']:,}",
                "requests / hour": f"{one['requests'] / hours:.0f}",
                "peak / s": one["most_in_a_second"],
                "delayed": f"{one['delayed'] / one['requests']:.1%}, {one['longest_delay_s']:.1f} s at most",
                "rows lost": sum(count for text, count in one["outcomes"].items() if text.startswith("error")),
            }
        )
    return tabulate(lines, headers="keys", tablefmt="pipe" if markdown else "simple", disable_numparse=True)


def growth(measured: Sequence[dict[str, Any]]) -> dict[str, float]:
    """The exponent of each figure."""
    return {name: slope([(one["rows"], one[name]) for one in measured]) for name in GROWTH}


def in_own_process(rows: int, scenario: str, options: argparse.Namespace) -> dict[str, Any]:
    """The figures of one session that has a process to itself."""
    command = [sys.executable, __file__, "--one", scenario, "--rows", str(rows), "--seed", str(options.seed)]
    command += ["--look-s", str(options.look_s), *(["--no-fsync"] if options.no_fsync else [])]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description="A session of many rows over weeks, against a model of Slurm.")
    parser.add_argument("--rows", type=int, default=SIZES[-1], help="the largest session (default %(default)s)")
    parser.add_argument(
        "--scenario", choices=SCENARIOS, action="append", help="only this one (default: full and limited)"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--look-s", type=float, default=10.0, help="seconds between two looks at running jobs' logs")
    parser.add_argument("--no-fsync", action="store_true", help="do not sync each line of the journal to the disk")
    parser.add_argument("-o", "--output", type=Path, help="write the figures to this file, as JSON")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--one", choices=SCENARIOS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.rows, options.one, options.seed, options.look_s, not options.no_fsync)))
        return 0
    sizes = [*(size for size in SIZES if size < options.rows), options.rows]
    figures: list[dict[str, Any]] = []
    problems: list[str] = []
    for scenario in options.scenario or DEFAULT:
        measured = []
        for rows in sizes:
            one = in_own_process(rows, scenario, options)
            measured.append(one)
            print(f"{scenario}: {rows:,} rows in {one['wall_s']:.0f} s", file=sys.stderr)
            problems += [f"{scenario}, {rows:,} rows: {problem}" for problem in one["problems"]]
        print(f"\n{scenario}\n\n{table(measured, options.markdown)}\n")
        if len(sizes) > 1:
            for name, exponent in growth(measured).items():
                linear = exponent <= LINEAR
                print(f"{GROWTH[name]} grows with the rows to the power of {exponent:.2f}; ", end="")
                print(f"linear or better: {'yes' if linear else 'NO'}")
                if not linear:
                    problems.append(f"{scenario}: {GROWTH[name]} grows with the rows to the power of {exponent:.2f}")
        figures += measured
    print(
        "\nevery row over once, none lost, none submitted twice, questions within the budget, growth linear or better:"
    )
    print("\n".join(f"NO: {problem}" for problem in problems) or "yes")
    if options.output is not None:
        options.output.write_text(json.dumps({"seed": options.seed, "sessions": figures}, indent=1) + "\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
