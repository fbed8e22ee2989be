"""Real logs of DeepSpeed, which trains on the CPU, read unedited, against a clock that it knows nothing of.

pip install -r tests/frameworks/requirements-deepspeed.txt
GSW_REQUIRE_FRAMEWORKS=1 python -m pytest tests/frameworks
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import pytest

from pytest_gsw.logs.model import Step
from pytest_gsw.logs.reader import detect_format, read_log
from tests.requirements import require

_HERE = Path(__file__).parent

#: Steps that every script trains.
STEPS = 12
#: By how much the mean step of the log may differ from that of the script's own clock. Both look at the same steps, a
#: few lines apart: in quiet, the log's is 0 to 2 % less.
WITHIN = 0.05


def _seconds(step: Step) -> float:
    assert step.seconds is not None
    return step.seconds


def _seconds_of_samples(batch: int) -> Callable[[Step], float]:
    def seconds(step: Step) -> float:
        assert step.samples_per_s is not None
        return batch / step.samples_per_s

    return seconds


@dataclass(frozen=True)
class Kind:
    """A way to train, and what its log is to hold."""

    argument: str
    #: The numbers that the log gives its steps.
    indexes: tuple[int, ...]
    #: A step of the log in seconds.
    seconds: Callable[[Step], float]


KINDS = (
    # Its timer says nothing of the first two steps.
    Kind("engine", tuple(range(3, STEPS + 1)), _seconds_of_samples(128)),
    Kind("pipeline", tuple(range(1, STEPS + 1)), _seconds),
    Kind("further-losses", tuple(range(1, STEPS + 1)), _seconds),
)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.argument)
def test_a_real_log(kind: Kind, tmp_path: Path) -> None:
    missing = importlib.util.find_spec("deepspeed") is None
    problem = "there is no deepspeed: pip install -r tests/frameworks/requirements-deepspeed.txt" if missing else None
    require("GSW_REQUIRE_FRAMEWORKS", problem)

    log, clock = tmp_path / "train.log", tmp_path / "clock.json"
    with log.open("wb") as file:
        ended = subprocess.run(
            [sys.executable, str(_HERE / "deepspeed_train.py"), str(clock), kind.argument],
            cwd=tmp_path,
            # Some leave files in the home directory.
            env=os.environ | {"HOME": str(tmp_path), "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"},
            stdout=file,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=300,
        )
    assert ended.returncode == 0, log.read_text(errors="replace")[-4000:]

    log_format = detect_format(log)
    assert log_format.name == "deepspeed"
    read = read_log(log, log_format)
    assert tuple(step.index for step in read.steps) == kind.indexes
    assert (read.attempts, read.not_finite) == (1, None)

    adjusted_seconds: list[float] = json.loads(clock.read_text())
    assert len(adjusted_seconds) == STEPS
    found_s = [kind.seconds(step) for step in read.steps][1:]  # the first one's time holds more than the step
    ratio = mean(found_s) / mean(adjusted_seconds[-len(found_s) :])
    assert ratio == pytest.approx(1, abs=WITHIN), (found_s, adjusted_seconds)
