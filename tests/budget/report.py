"""What 20 more rows of 46 runs cost ``pytest-gsw report``: every call from the history to the pages.

So many runs have all that a report asks of them: noise, levels, drift, what rows have in common, nodes and alarms.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from pathlib import Path

from tests.budget.budgets import Figures
from tests.budget.counting import count
from tests.unit.history.runs import job
from tests.unit.reports.records_of_runs import CURRENT_RUN, RUN_ID, history_of, row

#: A report of so many rows, and one of so many more: what the start costs is in both.
FEW, MORE = 10, 20


def measure(directory: Path) -> Figures:
    """Calls for 20 rows."""
    few, more = (calls(directory / str(rows), rows) for rows in (FEW, FEW + MORE))
    return {"calls": {name: number - few[name] for name, number in more.items() if number != few[name]}}


def calls(directory: Path, rows: int) -> Counter[str]:
    """What a report of so many rows calls: one of them drifts, one has regressed, and the others are as they were."""
    directory.mkdir()
    noise = random.Random(20)  # noqa: S311 - noise, not cryptography
    records = []
    for number in range(CURRENT_RUN + 1):
        for each in range(rows):
            slower = 1.08 if each == FEW and number > 32 else 1.2 if each == FEW + 1 and number == CURRENT_RUN else 1.0
            ran = job(number, id=f"{number * 1000 + each}", nodes=f"n[{each % 8}-{each % 8 + 3}]")
            outcome = "regressed" if slower > 1.1 else "passed"
            judged = 4.5 * slower * math.exp(noise.gauss(0, 0.015))
            records.append(row(f"llama2_70b_fp8[H100x{8 + each}]", number, judged, outcome=outcome, job=ran))
    history_of(directory, *records).close()
    done = count(["report", RUN_ID, "-o", "report", "--history=history.sqlite"], directory, program="pytest_gsw.cli")
    assert done.status == 0, done.output
    shared = (path.read_text() for path in (directory / "report" / "workloads").iterdir())
    assert sum(text.count('<h2 id="row-') for text in shared) == rows, done.output
    return done.calls
