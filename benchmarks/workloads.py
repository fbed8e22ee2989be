"""The workloads of against_base.py: each is one command that runs in the folder of its side.

    python workloads.py prepare FOLDER       # what all of them read, by the Python of the base
    python workloads.py adopt FOLDER OTHER   # a copy of it for the other side, by that one's Python
    python workloads.py WORKLOAD             # one that is a function of the package

Commands and names of functions have to be there in the checkout and in its base. Slurm is made of shell scripts: it
has run each job by the time that its submission is answered.
"""

from __future__ import annotations

import json
import math
import os
import random
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

LOG_BYTES = 256 << 20
ROWS, MANY_ROWS, NIGHTS = 200, 10_000, 300
STEP_S = 4.3
DAY_S = 86400.0
LAST_NIGHT_S = 1_795_000_000.0


@dataclass(frozen=True)
class Workload:
    """One kind of work."""

    name: str
    #: A command of the shell, in the side's folder, with the side's programs and Slurm in PATH.
    command: str


_FUNCTION = f"python {shlex.quote(str(Path(__file__).resolve()))}"
_PYTEST = "pytest --gsw-cluster=ready --gsw-baselines"
_SESSION = (
    f"rm -rf .gsw stage queue && mkdir queue && : >queue/jobs && : >queue/ends && {_PYTEST}=rows --junitxml=junit.xml"
)
WORKLOADS = (
    Workload("series", f"{_FUNCTION} series"),
    Workload("failures", f"{_FUNCTION} failures"),
    Workload("verdict", "pytest-gsw metrics logs/maxtext.log --row 'llama2_70b_fp8[H100x1-r0]' --baselines one"),
    Workload("collect", f"{_PYTEST}=many --collect-only -q"),
    Workload("session", _SESSION),
    Workload("resume", "pytest --gsw-resume=last --junitxml=junit.xml"),
    Workload("start", f"{_PYTEST}=rows -k 'r7]' --gsw-results=started --gsw-history=nights/.gsw/history.sqlite"),
    Workload("report", "cd nights && rm -rf report && pytest-gsw report last -o report"),
    Workload("alone", "cd nights && pytest-gsw"),
    Workload("tile-search", f"{_FUNCTION} tile-search"),
    Workload("slow-nodes", f"{_FUNCTION} slow-nodes"),
)

_CLUSTERS = """\
clusters:
  ready: {scheduler: slurm, accelerator: H100, gpus_per_node: 8, stage: ./stage, recipes: ./recipes, poll_interval: 0.5}
"""
_LOG = "stage/results/25.01/fp8/70b/1"
_HEAD = "GSW: MODEL=llama2 FRAMEWORK=maxtext MODEL_SIZE=70b DTYPE=fp8 JOB_NUM_NODES=1 GPUS_PER_NODE=1 JOB_ID=$$"
_STEPS = "\n".join(
    f"completed step: {step}, seconds: {STEP_S:.3f}, TFLOP/s/device: 846.1, Tokens/s/device: 1905.1, loss: 9.021"
    for step in range(10)
)
#: Slurm's commands, without a process of their own where that is possible.
_SLURM = {
    "sbatch": f"""\
[ "$1" = --version ] && echo "slurm 22.05.8" && exit
while [ $# -gt 1 ]; do [ "$1" = -J ] && name=$2; shift; done
cd "${{0%/*}}/.."
: >"recipes/maxtext/slurm-$$.out"
[ -d {_LOG} ] || mkdir -p {_LOG}
echo "{_HEAD}
{_STEPS}" >{_LOG}/log-maxtext_llama2_70b_1_$$.out
echo "$$|COMPLETED|0:0|None|n1|1000|1001|1002|$name" >>queue/jobs
echo "$$|COMPLETED|0:0|0:0|None|n1|1000|1001|1002|$name" >>queue/ends
echo $$
""",
    "squeue": 'exec cat "${0%/*}/../queue/jobs"\n',
    "sacct": 'case "$*" in *-X*) exec cat "${0%/*}/../queue/jobs" ;; esac\nexec cat "${0%/*}/../queue/ends"\n',
    "scontrol": """\
case "$*" in *partition*) ;; *) exit 1 ;; esac
echo "PartitionName=batch Default=YES MaxTime=UNLIMITED TotalNodes=1000 TRES=gres/gpu=8000"
""",
}


# -- What they read -----------------------------------------------------------------------------------


def prepare(folder: Path) -> None:
    """Write what the workloads read; a session runs once, and its records become those of many nights."""
    from read_logs import LOGS, write_log

    sys.path.append(str(ROOT))
    from tests.budget.tables import write_tables

    (folder / "logs").mkdir(parents=True)
    for name, (_, _, step_line, between) in LOGS.items():
        write_log(folder / "logs" / f"{name}.log", LOG_BYTES, step_line, between)
    for name, rows in (("one", 1), ("rows", ROWS), ("many", MANY_ROWS)):
        write_tables(folder / name, rows)
    (one,) = (folder / "one").iterdir()
    one.write_text(one.read_text().replace("steps: 10", "steps: 50"))
    (folder / "recipes" / "maxtext").mkdir(parents=True)
    (folder / "recipes" / "maxtext" / "launch.sh").write_text("#!/bin/bash\n")
    (folder / "clusters.yaml").write_text(_CLUSTERS)
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "slurm").mkdir()
    for name, script in _SLURM.items():
        (folder / "slurm" / name).write_text(f"#!/bin/sh\n{script}")
        (folder / "slurm" / name).chmod(0o755)
    _run(_SESSION, folder)
    records = [json.loads(path.read_text()) for path in sorted(folder.glob(".gsw/runs/*/records/*.json"))]
    noise = random.Random(43)  # noqa: S311 - noise, not cryptography
    for night in range(NIGHTS):
        _write_night(folder / "nights" / ".gsw" / "runs", night, records, noise)
    (folder / "nights" / "pytest.ini").write_text("[pytest]\n")
    _run("cd nights && pytest-gsw history --add .gsw/runs/*", folder)
    *earlier, _ = sorted((folder / "nights" / ".gsw" / "runs").iterdir())
    for run_directory in earlier:
        shutil.rmtree(run_directory)


def _write_night(runs: Path, night: int, records: list[dict[str, Any]], noise: random.Random) -> None:
    """The records of one night: in the last one some rows are slow, and some others drift."""
    night_s = LAST_NIGHT_S - (NIGHTS - 1 - night) * DAY_S
    run_id = time.strftime("%Y%m%d-%H%M%S", time.gmtime(night_s)) + "-7f3a"
    directory = runs / run_id / "records"
    directory.mkdir(parents=True)
    for number, record in enumerate(records):
        slow = number % 50 == 7 and night == NIGHTS - 1
        factor = 1.2 if slow else 1 + 0.01 * max(0, night - NIGHTS + 35) / 7 if number % 71 == 11 else 1.0
        taken_s = STEP_S * factor * math.exp(noise.gauss(0, 0.015))
        end_s = night_s + 12 * number
        times = {"submit_s": end_s - 700, "start_s": end_s - 600, "end_s": end_s}
        nodes = f"n[{number % 64 * 8:04}-{number % 64 * 8 + 7:04}]"
        tokens_per_s = record["measured"]["tokens_per_s"] * STEP_S / taken_s
        verdict = {**record["verdict"], "measured": taken_s, "jobs": [taken_s], "steady_s": taken_s}
        job = {**record["job"], **times, "id": f"{night * 1000 + number}", "nodes": nodes, "judged": taken_s}
        changed = {
            "run_id": run_id,
            "recorded_s": end_s + 30,
            "measured": {**record["measured"], "step_time_s": taken_s, "tokens_per_s": tokens_per_s},
            **dict.fromkeys(("first_s", "last_s", "median_s", "mean_s", "p90_s"), taken_s),
            "series_s": [round(taken_s, 3)] * 10,
            "job": job,
            "verdict": verdict,
        }
        if slow:
            verdict |= {"outcome": "regressed", "given_reason": None}
            changed |= {"outcome": "regressed", "fact": f"throughput {tokens_per_s:,.0f} tokens/s is too low"}
        (directory / f"{number:04}.json").write_text(json.dumps({**record, **changed}))


def adopt(folder: Path, other: Path) -> None:
    """Give another side the same, with the history that its base has written and a run of its own."""
    shutil.copytree(folder, other, ignore=shutil.ignore_patterns("logs"))
    (other / "logs").symlink_to(folder / "logs")
    _run(_SESSION, other)


def _run(command: str, folder: Path) -> None:
    """Run a command as a side does, unmeasured."""
    path = f"{sys.prefix}/bin:{folder}/slurm:{os.environ['PATH']}"
    subprocess.run(["bash", "-c", command], cwd=folder, env={**os.environ, "PATH": path}, check=True)


# -- Those that are a function of the package -------------------------------------------------------------


def series() -> None:
    """The steps of each log, five times: more than the start of Python."""
    from read_logs import FORMATS, LOGS, read_log

    for name, (log_format, *_) in [*LOGS.items()] * 5:
        assert read_log(Path("logs", f"{name}.log"), FORMATS[log_format]).steps


def failures() -> None:
    """Signs of failure in each log, in which there are none."""
    from read_logs import FORMATS, LOGS, read_log

    from pytest_gsw.logs.failure_scan import find_fatal

    for name, (log_format, *_) in LOGS.items():
        path = Path("logs", f"{name}.log")
        assert find_fatal(path, read_log(path, FORMATS[log_format]), FORMATS[log_format]) is None


def tile_search() -> None:
    """Sweeps of 2,048 nodes, three of which are slow."""
    from tile_search import Cell, figures

    figures(Cell(1, 2048, 1, 0.0165, "three at -10 %", 12, 20))


def slow_nodes() -> None:
    """Slow nodes of a year."""
    from nodes import scale

    scale("random")


FUNCTIONS: dict[str, Callable[..., None]] = {
    "prepare": lambda folder: prepare(Path(folder).resolve()),
    "adopt": lambda folder, other: adopt(Path(folder).resolve(), Path(other).resolve()),
    "series": series,
    "failures": failures,
    "tile-search": tile_search,
    "slow-nodes": slow_nodes,
}

if __name__ == "__main__":
    # First of all: other benchmarks prefer the checkout that they are in.
    import pytest_gsw

    assert Path(pytest_gsw.__file__).is_relative_to(sys.prefix), f"{pytest_gsw.__file__} is not of {sys.prefix}"
    FUNCTIONS[sys.argv[1]](*sys.argv[2:])
