"""What one more row costs a session: every call from its table to JUnit, on a Slurm whose jobs end at once.

    python -m tests.budget.rows 100

runs a session of 100 rows in this process and prints its calls as JSON. The launcher is the real one; in place of
Slurm's processes there are its answers, and each job's log is there as soon as the job is.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any
from unittest import mock

import pytest

from pytest_gsw.jobs import slurm
from pytest_gsw.jobs.slurm_answers import Output

ROWS_PER_TABLE = 50
_TABLE = """\
model: llama2
size: 70b
framework: maxtext
accelerator: H100
gpus_per_node: 8
document: benchmark.md
recipe: {{directory: maxtext, steps: 10}}
sequence_length: 4096
model_flops: 1.82e+15
tables:
  - title: Rows {first} to {last}
    dtype: fp8
    rows:
{rows}
"""
_ROW = (
    "      - {{gpus: 1, case: r{number}, global_batch_size: 2, step_time_s: 4.3, tokens_per_s: 1905.12, line: {line}}}"
)
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

#: A function or a built-in, as a table names it.
Calls = Counter[str]


def write_tables(directory: Path, rows: int) -> None:
    """Tables with so many rows, fifty in each."""
    directory.mkdir(parents=True)
    for first in range(0, rows, ROWS_PER_TABLE):
        numbers = range(first, min(rows, first + ROWS_PER_TABLE))
        lines = "\n".join(_ROW.format(number=number, line=number + 1) for number in numbers)
        text = _TABLE.format(first=numbers[0], last=numbers[-1], rows=lines)
        (directory / f"rows-{first:05}.yaml").write_text(text)


class ReadySlurm:
    """Slurm's answers without Slurm: each job has ended well by the time that its submission is answered."""

    def __init__(self, stage: Path) -> None:
        self._logs = stage / "results" / "25.01" / "fp8" / "70b" / "1"
        self._logs.mkdir(parents=True)
        self._names: dict[str, str] = {}

    def __call__(self, command: tuple[str, ...], *_: Any, **__: Any) -> Output:
        """What a command says."""
        if command == ("sbatch", "--version"):
            return Output(0, "slurm 22.05.8\n", "")
        if command[0] == "sbatch":
            return Output(0, f"{self._submit(command)}\n", "")
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


class ReadyCluster:
    """The plugin that gives a session its launcher: the real one, which submits in the session's own thread."""

    @staticmethod
    def pytest_gsw_make_launcher() -> slurm.SlurmLauncher:
        launcher = slurm.SlurmLauncher()
        launcher.parallel_submissions = 1
        return launcher


@contextlib.contextmanager
def counted(calls: Calls) -> Iterator[None]:
    """Count each call in this thread: of Python's functions by where they are, of built-ins by their names."""
    functions: Counter[CodeType] = Counter()
    builtins: Counter[Any] = Counter()

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            functions[frame.f_code] += 1
        elif event == "c_call":
            builtins[f"{argument.__module__ or type(argument.__self__).__name__}.{argument.__name__}"] += 1

    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(None)
    calls.update(builtins)
    for code, count in functions.items():
        calls[named(code)] += count


def named(code: CodeType) -> str:
    """A function by its module's path from the package on, and its name: no line, which edits move."""
    path = code.co_filename.replace(os.sep, "/")
    for place in ("/site-packages/", "/lib/python3.11/"):
        path = path.rpartition(place)[2]
    package = path.rfind("/pytest_gsw/")
    return f"{path[package + 1 :]}:{code.co_qualname if sys.version_info >= (3, 11) else code.co_name}"


@contextlib.contextmanager
def prepared(rows: int) -> Iterator[tuple[Path, list[str]]]:
    """A directory with so many rows, and the session's arguments."""
    with tempfile.TemporaryDirectory(prefix="gsw-budget-") as name, contextlib.ExitStack() as stack:
        directory = Path(name)
        stage, recipes = directory / "stage", directory / "recipes"
        write_tables(directory / "rows", rows)
        (recipes / "maxtext").mkdir(parents=True)
        (recipes / "maxtext" / "launch.sh").write_text("#!/bin/bash\n")
        (directory / "clusters.yaml").write_text(_CLUSTERS.format(stage=stage, recipes=recipes))
        (directory / "pytest.ini").write_text("[pytest]\n")
        stack.enter_context(mock.patch.object(slurm, "_run", ReadySlurm(stage)))
        stack.enter_context(contextlib.chdir(directory))
        options = ["--gsw-cluster=ready", f"--gsw-baselines={directory}/rows", "--junitxml=junit.xml"]
        yield directory, ["-p", "no:cacheprovider", *options]


def session(rows: int) -> Calls:
    """The calls of one session of so many rows, all of which pass."""
    calls: Calls = Counter()
    with prepared(rows) as (_, arguments):
        said = io.StringIO()
        with contextlib.redirect_stdout(said), counted(calls):
            code = pytest.main(arguments, plugins=[ReadyCluster()])
        assert code == 0, said.getvalue()[-3000:]
        assert f"{rows} passed" in said.getvalue(), said.getvalue()[-3000:]
    return calls


if __name__ == "__main__":
    json.dump(session(int(sys.argv[1])), sys.stdout)
