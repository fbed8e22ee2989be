"""What 80 more rows cost a session: every call from the tables to JUnit, on a Slurm whose jobs end at once.

The launcher is the real one; in place of Slurm's processes there are its answers, each job's log is there as soon as
the job is, and time passes only while the session sleeps. This module is the plugin that sees to that.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Generator
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tests.budget.budgets import Figures
from tests.budget.counting import Counted, count
from tests.budget.tables import write_tables

#: A session of so many rows, and one of so many more: what the start costs is in both.
FEW, MORE = 20, 80
_CLUSTERS = """\
clusters:
  ready:
    scheduler: slurm
    accelerator: H100
    gpus_per_node: 8
    stage: {stage}
    recipes: {recipes}
"""
_HEAD = "GSW: MODEL=llama2 FRAMEWORK=maxtext MODEL_SIZE=70b DTYPE=fp8 JOB_NUM_NODES=1 GPUS_PER_NODE=1 JOB_ID={id}\n"
_STEP = "completed step: {step}, seconds: 4.300, TFLOP/s/device: 846.1, Tokens/s/device: 1905.1, loss: 9.021\n"
_USED = "used.json"


def measure(directory: Path) -> Figures:
    """Calls, and files opened and synced, of 80 rows."""
    session(directory / "1", 1)  # rewrites asserts, which neither of the two then does
    few, more = (session(directory / str(rows), rows) for rows in (FEW, FEW + MORE))
    return {
        what: {name: n - few[what][name] for name, n in more[what].items() if n != few[what][name]} for what in more
    }


def session(directory: Path, rows: int) -> dict[str, Counter[str]]:
    """What a session of so many rows does, all of which pass."""
    arguments = prepare(directory, rows)
    done: Counted = count(["-p", "no:cacheprovider", "-p", __name__, *arguments], directory)
    assert done.status == 0, done.output
    assert f"{rows} passed" in done.output, done.output
    return {"calls": done.calls, "files": Counter(json.loads((directory / _USED).read_text()))}


def prepare(directory: Path, rows: int) -> list[str]:
    """Write what such a session needs, and name its arguments."""
    write_tables(directory / "rows", rows)
    (directory / "recipes" / "maxtext").mkdir(parents=True)
    (directory / "recipes" / "maxtext" / "launch.sh").write_text("#!/bin/bash\n")
    stage, recipes = directory / "stage", directory / "recipes"
    (directory / "clusters.yaml").write_text(_CLUSTERS.format(stage=stage, recipes=recipes))
    (directory / "pytest.ini").write_text("[pytest]\n")
    options = ["--gsw-cluster=ready", f"--gsw-baselines={directory}/rows", "--junitxml=junit.xml"]
    return ["-p", "pytest_gsw.plugin", *options]


class Clock:
    """Time that passes only while somebody sleeps, so that as much is asked in each session."""

    def __init__(self) -> None:
        self._now_s = 1000.0

    def __call__(self) -> float:
        return self._now_s

    def sleep(self, seconds: float) -> None:
        self._now_s += seconds


class Inline:
    """Threads that have done their task as soon as they are given it."""

    def __init__(self, *_: object) -> None:
        pass

    def submit(self, task: Callable[..., Any], *arguments: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(task(*arguments))
        return done

    def shutdown(self) -> None:
        pass


class ReadySlurm:
    """Slurm's answers without Slurm: each job has ended well by the time that its submission is answered."""

    def __init__(self, stage: Path) -> None:
        self._logs = stage / "results" / "25.01" / "fp8" / "70b" / "1"
        self._logs.mkdir(parents=True)
        self._names: dict[str, str] = {}

    def __call__(self, command: tuple[str, ...], *_: Any, **__: Any) -> Any:
        """What a command says."""
        from pytest_gsw.jobs.slurm.client import Output

        if command == ("sbatch", "--version"):
            return Output(0, "slurm 22.05.8\n", "")
        if command[0] == "sbatch":
            return Output(0, f"{self._submit(command)}\n", "")
        if command[0] == "scontrol":
            return Output(
                0, "PartitionName=batch Default=YES MaxTime=UNLIMITED TotalNodes=1000 TRES=gres/gpu=8000\n", ""
            )
        if "--me" in command or f"--user={os.getuid()}" in command:  # all of the user's jobs
            ids, at = list(self._names), "|here" if command[0] == "sacct" else ""
            lines = [f"{one}{at}|COMPLETED|0:0|None|n1|1000|1001|1002|{self._names[one]}" for one in ids]
            return Output(0, "\n".join(lines), "")
        ids = command[-1].split(",")
        if command[0] == "squeue":
            lines = [f"{one}|COMPLETED|0|None|n1|1000|1001|1002|{self._names[one]}|" for one in ids]
        else:
            assert command[0] == "sacct", command
            lines = [f"{one}|COMPLETED|0:0|0:0|None|n1|1000|1001|1002|{self._names[one]}" for one in ids]
        return Output(0, "\n".join(lines), "")

    def _submit(self, command: tuple[str, ...]) -> str:
        job_id = str(len(self._names) + 1)
        self._names[job_id] = command[command.index("-J") + 1]
        Path(command[-1]).with_name(f"slurm-{job_id}.out").touch()
        log = self._logs / f"log-maxtext_llama2_70b_1_{job_id}.out"
        log.write_text(_HEAD.format(id=job_id) + "".join(_STEP.format(step=step) for step in range(10)))
        return job_id


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Put Slurm's answers in the place of its processes, and count what the session does with files."""
    from pytest_gsw.executor import executor, submitter
    from pytest_gsw.jobs.slurm import client as slurm
    from pytest_gsw.jobs.slurm import launcher
    from pytest_gsw.session import plan_and_submit

    used = dict.fromkeys(("open", "fsync"), 0)
    fsync = os.fsync

    def synced(descriptor: int) -> None:
        used["fsync"] += 1
        fsync(descriptor)

    def audit(event: str, _arguments: object) -> None:
        if event == "open":
            used["open"] += 1

    sys.addaudithook(audit)
    clock = Clock()
    # For good: it is asked once more when the session ends.
    mock.patch.object(slurm, "_run", ReadySlurm(Path("stage").absolute())).start()
    with (
        mock.patch.object(launcher.shutil, "which", return_value="/usr/bin/sbatch"),
        mock.patch.object(submitter, "ThreadPoolExecutor", Inline),
        mock.patch.object(plan_and_submit, "Executor", partial(executor.Executor, clock=clock, sleep=clock.sleep)),
        mock.patch.object(os, "fsync", synced),
    ):
        done = yield
    Path(_USED).write_text(json.dumps(used))
    return done
