"""A report over 1,000 rows and 200 runs: how long it takes, and how large its pages are.

    python benchmarks/report_scale.py [--rows 1000] [--runs 200] [--keep DIR]

The history is synthetic and goes through pytest_gsw.history as a session's records do: rows of 25 workloads in four
dtypes on ten numbers of GPUs, with 50 steps each and 2 % of noise between jobs. In the last run some rows have
regressed (for one run or for five), some drift, some are noisy, some are faster, and some could not be measured, for
four causes on a few nodes. The report is written several times from a connection of its own, as the command does, and
the slowest counts.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from pytest_gsw.history.location import open_history  # noqa: E402 - found from the checkout
from pytest_gsw.jobs.states import JobState  # noqa: E402
from pytest_gsw.reports.from_records import run_report  # noqa: E402
from pytest_gsw.reports.pages import write_report  # noqa: E402
from pytest_gsw.reports.run_report import ReportedRun  # noqa: E402
from pytest_gsw.results.record import JobFacts, Record  # noqa: E402
from tests.unit.results.records import recorded  # noqa: E402

SEED = 20
DAY_S = 86400.0
LAST_S = 1_795_000_000.0
STEPS = 50
GPUS = (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
DTYPES = ("bf16", "fp8", "mxfp8", "nvfp4")
ERRORS = (
    "job {job} failed with exit code 1: CUDA out of memory",
    "job {job} ended NODE_FAIL",
    "job {job} failed with exit code 1: NCCL error",
    "the log holds 12 steps, 45 of 50 needed",
)
#: The limits that docs/report.md gives.
LIMIT_S, LIMIT_BYTES, TIMES = 10.0, 1_000_000, 3


def record(number: int, runs: int, row: int, noise: random.Random) -> Record:
    """One row's run of one run."""
    workload, dtype = f"model{row // 40 % 25:02}_70b", DTYPES[row // 10 % 4]
    gpus, case = GPUS[row % 10], f"_case{row // 1000}" if row >= 1000 else ""
    name = f"{workload}_{dtype}{case}[H100x{gpus}]"
    documented_s = 2.0 + row // 10 % 4 / 2 + row % 10 / 50
    sigma = 0.07 if row % 97 == 0 else 0.015
    slow = 1.15 if row % 53 == 7 and number >= runs - 1 - 4 * (row % 2) else 1.0
    slow *= 0.85 if row % 89 == 3 and number == runs - 1 else 1.0
    slow *= 1 + 0.01 * max(0, number - runs + 35) / 7 if row % 71 == 11 else 1.0
    judged_s = documented_s * slow * (1 + noise.gauss(0, sigma))
    error = ERRORS[row % 4] if row % 61 == 13 and number >= runs - 1 - row % 3 else ""
    outcome = _outcome(judged_s / documented_s, sigma, error)
    end_s = LAST_S - (runs - 1 - number) * DAY_S + 12 * row
    job_id = f"{number * 10_000 + row}"
    series_s = tuple(round(judged_s * (1 + abs(noise.gauss(0, 0.01))), 3) for _ in range(STEPS - 1))
    tokens = 8192 * gpus**0.95
    tokens_per_s, documented = tokens / judged_s, tokens / documented_s
    loss = (1 - documented_s / judged_s) * 100
    compared = f"{abs(loss):.1f} % {'below' if loss > 0 else 'above'} the documented {documented:,.0f} (allowed 5 %)"
    return recorded(
        run_id=run_id(number, runs),
        row=name,
        node_id=f"baselines/synthetic/{workload}.yaml::{name}",
        baseline=f"baselines/synthetic/{workload}.yaml:{row + 1}",
        document="readme.md",
        document_line=row + 1,
        cluster="eos",
        simulated=False,
        outcome=outcome,
        fact=error.format(job=job_id) or f"throughput {tokens_per_s:,.0f} tokens/s is {compared}",
        tolerance=0.05,
        workload=workload,
        framework="nemo",
        dtype=dtype,
        accelerator="H100",
        gpus=gpus,
        documented={"step_time_s": documented_s, "tokens_per_s": documented, "mfu": 0.4},
        implied={"step_time_s": documented_s, "tokens_per_s": documented, "mfu": 0.4},
        measured={}
        if error
        else {"step_time_s": judged_s, "tokens_per_s": tokens_per_s, "mfu": 0.4 * documented_s / judged_s},
        statistic="last",
        steps=STEPS,
        first_s=round(judged_s * 9, 3),
        last_s=judged_s,
        median_s=judged_s,
        p90_s=judged_s * 1.01,
        warm_up_steps=1,
        series_s=(round(judged_s * 9, 3), *series_s[:-1], judged_s),
        job=JobFacts(
            JobState("NODE_FAIL" if "NODE_FAIL" in error else "FAILED" if "exit code" in error else "COMPLETED"),
            id=job_id,
            launcher="slurm",
            exit_code=1 if error else 0,
            nodes=f"pool0-[{row % 64 * 8:04}-{row % 64 * 8 + 7:04}]",
            submit_s=end_s - 700 - 12.0 * row,
            start_s=end_s - 700,
            end_s=end_s,
        ),
        log=f"/stage/results/25.05/{dtype}/{workload}/{gpus}/log-nemo_{workload}_{gpus}_{job_id}.out",
        definition=f"{row:012x}",
        image="nvcr.io/nvidia/nemo:25.04.01",
        metric="step_time",
        limit=None if error else max(0.05, 1 - 2.718 ** (-3.1 * sigma)),
        sigma=None if error else sigma,
        sigma_jobs=30,
        environment={"driver": "550.90.07" if number < runs - 30 else "560.28.03", "nccl": "2.21.5"},
        recorded_s=end_s + 30,
    )


def _outcome(ratio: float, sigma: float, error: str) -> str:
    if error:
        return "error"
    if ratio > 1.06:
        return "inconclusive" if sigma > 0.05 and ratio < 1.25 else "regressed"
    return "improved" if ratio < 0.92 and sigma < 0.05 else "passed"


def run_id(number: int, runs: int) -> str:
    """The run of a run, named as a session would."""
    return time.strftime("%Y%m%d-%H%M%S", time.gmtime(LAST_S - (runs - 1 - number) * DAY_S)) + "-7f3a"


def measure(place: Path, directory: Path, records: Sequence[Record]) -> tuple[float, float]:
    """The seconds that one report takes, by the clock and of the processor."""
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    with open_history(place) as history:
        report = run_report(records, ReportedRun(directory / "run", exit_status=1), history)
        write_report([report], directory)
    return time.perf_counter() - began_s, time.process_time() - began_cpu_s


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--keep", type=Path, help="write the report there, and keep it")
    asked = parser.parse_args()
    noise = random.Random(SEED)  # noqa: S311 - noise, not cryptography
    home = Path(tempfile.mkdtemp(prefix="gsw-report-"))
    try:
        place = home / "history.sqlite"
        records: list[Record] = []
        with open_history(place) as history:
            for number in range(asked.runs):
                records = [record(number, asked.runs, row, noise) for row in range(asked.rows)]
                history.add(records)
        print(
            f"a history of {asked.rows * asked.runs:,} records, {place.stat().st_size / 1e6:,.0f} MB", file=sys.stderr
        )
        directory = asked.keep or home / "report"
        taken = [measure(place, directory, records) for _ in range(TIMES)]
        files = [path for path in directory.rglob("*") if path.is_file()]
        largest = max(files, key=lambda path: path.stat().st_size)
        facts = {
            "rows": asked.rows,
            "runs": asked.runs,
            "python": platform.python_version(),
            "seconds": [round(time_s, 2) for time_s, _ in taken],
            "processor_seconds": [round(cpu_s, 2) for _, cpu_s in taken],
            "files": len(files),
            "megabytes": round(sum(path.stat().st_size for path in files) / 1e6, 1),
            "largest": {str(largest.relative_to(directory)): largest.stat().st_size},
            "index.html": (directory / "index.html").stat().st_size,
        }
        print(json.dumps(facts, indent=2))
        return 0 if max(taken)[0] < LIMIT_S and largest.stat().st_size < LIMIT_BYTES else 1
    finally:
        shutil.rmtree(home)


if __name__ == "__main__":
    sys.exit(main())
