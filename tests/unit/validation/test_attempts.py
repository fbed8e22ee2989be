"""Attempts of a training by the logs of its jobs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest

from pytest_gsw.errors import LogError
from pytest_gsw.logs.formats.registry import FORMATS
from pytest_gsw.stats.goodput import PROGRAM, TrainingAttempt, endurance
from pytest_gsw.validation.attempts import read_attempt
from tests.unit.logs import lines
from tests.unit.rows import LLAMA2_FP8_X128
from tests.unit.validation.ended import raised

#: When the jobs began, in UTC.
BEGAN_S = datetime(2031, 2, 3, 4, 0, 0, tzinfo=timezone.utc).timestamp()


@pytest.fixture(autouse=True, params=["UTC", "Asia/Tokyo"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The zone of the machine that reads; containers are in UTC."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def read(tmp_path: Path, log_format: str, log: bytes, takes_s: float = 600, cause: str = "") -> TrainingAttempt:
    path = tmp_path / "run.log"
    path.write_bytes(log)
    return read_attempt(LLAMA2_FP8_X128, FORMATS[log_format], path, BEGAN_S, BEGAN_S + takes_s, cause)


def clock(after_s: float) -> str:
    return f"[{datetime.fromtimestamp(BEGAN_S + after_s, timezone.utc):%Y-%m-%d %H:%M:%S.%f}]"


def numbers(attempt: TrainingAttempt) -> list[tuple[int, float, int]]:
    return [(step.number, round(step.seconds, 6), step.count) for step in attempt.steps]


def test_a_log_with_clocks_and_saves(tmp_path: Path) -> None:
    save = b"(min, max) time across ranks (ms):\n    save-checkpoint ....: (17900.0, 18000.0)\n"
    done = [lines.megatron(n, "10000.0", head=clock(30 + 10 * n)) for n in range(1, 11)]
    more = [lines.megatron(n, "10000.0", head=clock(48 + 10 * n)) for n in range(11, 21)]
    attempt = read(tmp_path, "megatron", b"".join([*done, save, *more]), 300, PROGRAM)
    assert numbers(attempt) == [(n, 10.0, 1) for n in range(1, 21)]
    found = endurance([attempt])
    # 30 s of start, 100 s, a save of 18 s, 100 s, and 52 s until the job's end.
    assert (found.start_s, found.productive_s, found.checkpoint_s, found.lost_s) == (30, 200, 18, 52)
    assert found.other_s == 0
    assert found.goodput == 200 / 300


def test_lines_of_ten_steps_after_a_checkpoint(tmp_path: Path) -> None:
    def log(*of: int) -> bytes:
        return b"".join(lines.megatron(n, "2000.0", total=90) for n in of)

    assert numbers(read(tmp_path, "megatron", log(10, 20, 30, 40))) == [(n, 2.0, 10) for n in (10, 20, 30, 40)]
    # The first step has a line, too; and of a run that began again at step 26, and at step 31.
    first = [(1, 2.0, 1), (10, 2.0, 9), (20, 2.0, 10), (30, 2.0, 10)]
    assert numbers(read(tmp_path, "megatron", log(1, 10, 20, 30))) == first
    assert numbers(read(tmp_path, "megatron", log(26, 30, 40, 50, 60)))[:3] == [
        (26, 2.0, 1),
        (30, 2.0, 4),
        (40, 2.0, 10),
    ]
    assert numbers(read(tmp_path, "megatron", log(40, 50, 60)))[0] == (40, 2.0, 10)
    # A lost line is no step.
    assert numbers(read(tmp_path, "megatron", log(10, 20, 40, 50, 60)))[2] == (40, 2.0, 10)


@pytest.mark.parametrize(
    ("log_format", "step", "first"),
    [
        ("megatron", lambda n: lines.megatron(n, "4000.0"), 1),
        ("nemo", lambda n: lines.printer(n, n, "4.0"), 0),
        ("maxtext", lambda n: lines.maxtext(n, "4.000"), 0),
        ("nanotron", lambda n: lines.nanotron(n, "4.0K"), 1),
        ("automodel", lambda n: lines.automodel(n, "4.000000"), 0),
        ("deepspeed", lambda n: lines.pipe(n, "4.000"), 1),
    ],
)
def test_a_restart_inside_a_job(log_format: str, step: object, first: int, tmp_path: Path) -> None:
    assert callable(step)
    done = [*range(first, first + 16), *range(first + 10, first + 20), *range(first + 15, first + 30)]
    attempt = read(tmp_path, log_format, b"".join(map(step, done)))
    assert numbers(attempt) == [(n, 4.0, 1) for n in done]
    found = endurance([attempt])
    assert (found.steps, found.steps_lost, found.productive_s, found.restarts) == (30, 11, 120, 2)


def test_the_run_that_profiles_before_is_no_attempt(tmp_path: Path) -> None:
    log = b"".join(lines.maxtext(n, "4.000") for n in (*range(15), *range(50)))
    row = replace(LLAMA2_FP8_X128, recipe=replace(LLAMA2_FP8_X128.recipe, steps_before=15))
    for baseline, kept, restarts in ((row, 0, 0), (replace(row, recipe=replace(row.recipe, steps_before=0)), 15, 1)):
        (tmp_path / "run.log").write_bytes(log)
        attempt = read_attempt(baseline, FORMATS["maxtext"], tmp_path / "run.log", BEGAN_S, BEGAN_S + 600)
        found = endurance([attempt])
        assert (found.steps, found.steps_lost, found.restarts) == (50, kept, restarts)


@pytest.mark.parametrize(
    ("log_format", "step"),
    [
        ("torchtitan", lambda n: lines.titan(n, "1500")),
        ("olmo-core", lambda n: lines.olmo_core(n, "1,500")),
        ("composer", lambda n: lines.composer(n, "1500.0000")),
        ("deepspeed", lambda n: lines.throughput(n, "23.4375")),
    ],
)
def test_rates_are_seconds_by_the_row(log_format: str, step: object, tmp_path: Path) -> None:
    assert callable(step)
    batch, length = LLAMA2_FP8_X128.batch.global_batch_size, LLAMA2_FP8_X128.workload.sequence_length
    assert batch is not None
    assert length is not None
    wanted = batch * length / 128 / 1500 if log_format != "deepspeed" else batch / 23.4375
    attempt = read(tmp_path, log_format, b"".join(map(step, (1, 2, 3, 2, 3, 4))))
    assert [(step.number, step.seconds) for step in attempt.steps] == [
        (number, pytest.approx(wanted)) for number in (1, 2, 3, 2, 3, 4)
    ]
    row = replace(LLAMA2_FP8_X128, batch=replace(LLAMA2_FP8_X128.batch, global_batch_size=None))
    error = raised(LogError, read_attempt, row, FORMATS[log_format], tmp_path / "run.log", 0.0, 9.0)
    assert "no seconds that the row knows" in error.fact


def test_jobs_without_steps(tmp_path: Path) -> None:
    nothing = (tmp_path / "none.log", None)
    for path in nothing:
        assert not read_attempt(LLAMA2_FP8_X128, FORMATS["nemo"], path, 1.0, 9.0).steps
    for log in (b"", b"starting\n"):
        assert not read(tmp_path, "megatron", log).steps
    bridge = b"Step Time : 4.25s GPU utilization: 663.5MODEL_TFLOP/s/GPU\n"
    error = raised(LogError, read, tmp_path, "megatron", 20 * bridge)
    assert "have no numbers" in error.fact


@pytest.mark.parametrize(
    ("line", "second"),
    [
        (b"[2031-02-03 04:00:40.123456] ", 40.123456),
        (b"I0203 04:00:40.123456 1 metric_logger.py:214] ", None),
        (b"[titan] 2031-02-03 04:00:40,106 - root - INFO - ", 40.106),
        (b"2031-02-03T04:00:40+00:00 n1 ", 40),
        (b"2031-02-30 04:00:40 ", None),
        (b"2031-02-04 04:00:40 ", None),  # another day's
        (b"", None),
    ],
)
def test_the_clock_of_a_line(line: bytes, second: float | None, tmp_path: Path) -> None:
    log = b"".join(line + lines.maxtext(n, "4.000") for n in range(3))
    found = [step.ended_s for step in read(tmp_path, "maxtext", log).steps]
    assert found == [None if second is None else BEGAN_S + second, None, None if second is None else BEGAN_S + second]


def test_one_zone_for_all_clocks_of_a_job(tmp_path: Path) -> None:
    # By the zone of the reader, the last of these is within the job, too.
    log = b"".join(lines.megatron(n, "10000.0", head=clock(10 + n * 3600)) for n in range(24))
    found = [step.ended_s for step in read(tmp_path, "megatron", log, 24 * 3600).steps]
    assert (found[0], found[-1]) == (BEGAN_S + 10, BEGAN_S + 10 + 23 * 3600)


def test_steps_that_took_longer_than_any_job(tmp_path: Path) -> None:
    done = [lines.maxtext(n, seconds) for n, seconds in enumerate(("4.0", "1e308", "9e307", "596.0"))]
    attempt = read(tmp_path, "maxtext", b"".join(done))
    assert [step.number for step in attempt.steps] == [0, 3]
    assert endurance([attempt]).goodput == 1
    save = b"    save-checkpoint ....: (1.0, 9e307)\n"
    saved = read(tmp_path, "megatron", lines.megatron(1, "4000.0") + 2 * save + lines.megatron(2, "4000.0"))
    assert endurance([saved]).checkpoint_s == 592


def test_a_log_of_endless_restarts_is_read_in_bounds(tmp_path: Path) -> None:
    log = b"".join(lines.megatron(n % 2 + 1, "4000.0") for n in range(6000))
    assert len(read(tmp_path, "megatron", log).steps) <= 2002
