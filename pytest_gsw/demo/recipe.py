"""The training that ``launch.sh`` starts: ``python -m pytest_gsw.demo.recipe``.

Its input is variables: the row to simulate (``GSW_BASELINE_FILE``, ``GSW_ROW``), the launch script's values
(``JOB_TOTAL_GPUS``, ``MODEL_SIZE`` …), and the faults and the speed of the simulation (``GSW_DEMO``,
``GSW_DEMO_SECONDS``, ``GSW_DEMO_SEED``). ``launch.sh`` has them all.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from random import Random
from typing import BinaryIO, NoReturn

from pytest_gsw.common.files import write_whole
from pytest_gsw.common.node_lists import expand
from pytest_gsw.demo.benchmarks import BENCHMARKS
from pytest_gsw.demo.simulation import DemoFault, SimulatedJob, fault_of, parse_faults, simulate
from pytest_gsw.demo.writers import WRITERS, Event, Writer, damage, resume
from pytest_gsw.errors import ConfigurationError
from pytest_gsw.tables.load import load_table
from pytest_gsw.tables.model import Baseline, transferred

DEFAULT_SECONDS = 1.0
#: Steps between two checkpoints of a training that is longer than its row.
_SAVE_STEPS = 50
_WRITERS: Mapping[str, Writer] = {**WRITERS, **BENCHMARKS}


def main(arguments: list[str], environment: Mapping[str, str]) -> int:
    """Simulate one row's training; with the argument ``model-and-framework``, only print its model and framework."""
    try:
        baseline = find_row(environment)
        if arguments == ["model-and-framework"]:
            sys.stdout.write(f"{baseline.workload.model} {baseline.workload.framework}\n")
            return 0
        return train(baseline, environment, sys.stdout.buffer)
    except ConfigurationError as error:
        sys.stderr.write(f"{error}\n")
        return 2


def find_row(environment: Mapping[str, str]) -> Baseline:
    """The job's row.

    Raises:
        ConfigurationError: The variables name no row.
    """
    path, row_id = (_require(environment, name) for name in ("GSW_BASELINE_FILE", "GSW_ROW"))
    rows = load_table(Path(path))
    for baseline in rows:
        if baseline.id == row_id:
            return baseline
    # Or it is one of them on another number of GPUs, as a suite may have it.
    gpus = environment.get("JOB_TOTAL_GPUS", "")
    for other in (transferred(baseline, int(gpus)) for baseline in rows) if gpus.isdecimal() and int(gpus) else ():
        if other is not None and other.id == row_id:
            return other
    raise ConfigurationError(f"GSW_ROW: no row {row_id} in {path}")


def train(
    baseline: Baseline, environment: Mapping[str, str], out: BinaryIO, writers: Mapping[str, Writer] = _WRITERS
) -> int:
    """Write the row's log to ``out``, and end according to its fault.

    Returns:
        The exit code, for the faults that end in one.
    """
    nodes = expand(environment.get("SLURM_JOB_NODELIST", ""))
    fault = fault_of(baseline.id, parse_faults(environment.get("GSW_DEMO", "")), nodes)
    if fault is None and baseline.criterion.expected_failure == "out_of_memory":
        fault = DemoFault(baseline.id, "oom")
    if fault and fault.word == "slow-once" and environment.get("GSW_ATTEMPT"):
        fault = None  # not the row's first job
    word = fault.word if fault else ""
    own_steps, wanted = baseline.recipe.steps, environment.get("MAX_STEPS", "")
    if wanted.isdecimal() and own_steps:
        baseline = replace(baseline, recipe=replace(baseline.recipe, steps=max(own_steps, int(wanted))))
    job, workload = _job(baseline, environment), baseline.workload
    log_format = workload.log_format
    if word == "wrong-identity":
        job = replace(job, size="8b" if job.size != "8b" else "70b")
        # A row without a size accepts any.
        if not workload.size:
            baseline = replace(baseline, workload=replace(workload, model=f"other-{workload.model}"))
    if word == "wrong-settings" and log_format in BENCHMARKS:
        raise ConfigurationError(f"GSW_DEMO: {log_format} logs state no settings that {word} could change")
    if word == "wrong-settings":
        micro, half = baseline.batch.micro_batch_size, (workload.sequence_length or 4096) // 2
        batch = replace(baseline.batch, micro_batch_size=micro and 2 * micro)
        baseline = replace(baseline, workload=replace(workload, sequence_length=half), batch=batch)
    seed = f"{baseline.id} {environment.get('GSW_DEMO_SEED') or job.id}"
    run = simulate(baseline, job, fault, Random(seed), started=datetime.now(timezone.utc))
    if log_format not in writers:
        raise ConfigurationError(f"the demo writes no {log_format} logs, only {', '.join(writers)}")
    healthy = tuple(writers[log_format](run))
    if fault and word == "lost" and fault.argument >= run.logged_steps:
        fault, word = None, ""
    last, node = (int(fault.argument), (*fault.of_nodes(nodes), "")[0]) if fault else (0, "")
    events, checkpoint, times = healthy, None, len(run.steps_s) / (own_steps or len(run.steps_s))
    if times > 1:
        checkpoint = Path(_require(environment, "STAGE_PATH"), "checkpoints", baseline.id)
        checkpoint.parent.mkdir(parents=True, exist_ok=True)
        events = resume(healthy, log_format, int(checkpoint.read_text()) if checkpoint.is_file() else 0, checkpoint)
    pace = times * seconds_of(environment) / healthy[-1].at_s
    play(damage(events, run, word, last, node), pace, out, checkpoint)
    return _end(fault, environment) if fault else 0


def play(
    events: Iterable[Event], seconds_per_virtual_second: float, out: BinaryIO, checkpoint: Path | None = None
) -> None:
    """Write each event at its time, flush it for readers, and note every fiftieth step in the checkpoint."""
    start_s = time.monotonic()
    for event in events:
        wait_s = start_s + event.at_s * seconds_per_virtual_second - time.monotonic()
        if wait_s > 0:
            time.sleep(wait_s)
        out.write(event.data)
        out.flush()
        if checkpoint is not None and event.step and event.step % _SAVE_STEPS == 0:
            write_whole(checkpoint, str(event.step))


def seconds_of(environment: Mapping[str, str]) -> float:
    """Duration of a simulated run, seconds.

    Raises:
        ConfigurationError: The environment has something else than a number of seconds.
    """
    text = environment.get("GSW_DEMO_SECONDS") or str(DEFAULT_SECONDS)
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise ConfigurationError(f"GSW_DEMO_SECONDS: got '{text}', wanted a number of seconds, 0 or more")
    return seconds


def _end(fault: DemoFault, environment: Mapping[str, str]) -> int:
    match fault.word:
        case "fail" | "oom" | "lost":
            return 1
        case "exit":
            return int(fault.argument)
        case "oom-kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "stall":
            _sleep_without_end()
        case "cancel":
            _cancel_own_job(environment)
        case "no-log":
            # The shell or srun has opened it already.
            Path(environment["GSW_DEMO_LOG"]).unlink(missing_ok=True)
    return 0


def _sleep_without_end() -> NoReturn:
    while True:
        time.sleep(3600)


def _cancel_own_job(environment: Mapping[str, str]) -> NoReturn:
    if environment.get("GSW_LOCAL"):
        os.killpg(os.getpgrp(), signal.SIGTERM)
    else:
        subprocess.run(["scancel", _require(environment, "SLURM_JOB_ID")], check=True)  # noqa: S607 - on every PATH of a Slurm node
    _sleep_without_end()


def _job(baseline: Baseline, environment: Mapping[str, str]) -> SimulatedJob:
    def number(name: str) -> int:
        text = _require(environment, name)
        if not text.isdecimal():
            raise ConfigurationError(f"{name}: got '{text}', wanted a whole number")
        return int(text)

    return SimulatedJob(
        id=_require(environment, "SLURM_JOB_ID"),
        nodes=number("SLURM_JOB_NUM_NODES"),
        gpus=number("JOB_TOTAL_GPUS"),
        gpus_per_node=number("GPUS_PER_NODE"),
        size=environment.get("MODEL_SIZE", baseline.workload.size or ""),
        dtype=environment.get("DTYPE", baseline.workload.dtype),
        version=environment.get("GSW_VERSION", "demo"),
        nccl_trace=environment.get("ENABLE_NCCL_TRACE") == "true",
    )


def _require(environment: Mapping[str, str], name: str) -> str:
    value = environment.get(name, "")
    if not value:
        raise ConfigurationError(f"{name} is not set; launch.sh and pytest-gsw set it for every job")
    return value


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
