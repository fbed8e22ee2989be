"""Real logs of frameworks that train on the CPU, read unedited, against a clock that the frameworks know nothing of.

Each framework has its own requirements, which contradict one another: install those of one, and select it.

    pip install -r tests/frameworks/requirements-deepspeed.txt
    GSW_REQUIRE_FRAMEWORKS=1 python -m pytest tests/frameworks -k deepspeed
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
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


def _seconds_of_tokens(tokens: int) -> Callable[[Step], float]:
    def seconds(step: Step) -> float:
        assert step.tokens_per_s_per_gpu is not None
        return tokens / step.tokens_per_s_per_gpu

    return seconds


@dataclass(frozen=True)
class Framework:
    """A framework, and what its log is to hold."""

    package: str
    script: str
    log_format: str
    #: The numbers that the log gives its steps.
    indexes: tuple[int | None, ...]
    #: A step of the log in seconds.
    seconds: Callable[[Step], float]
    arguments: tuple[str, ...] = ()
    #: Steps at the beginning of the log whose time holds more than the step: compilation, the building of the model.
    warm_up: int = 1


_PIPELINE = Framework(
    "deepspeed",
    "deepspeed_train.py",
    "deepspeed",
    tuple(range(1, STEPS + 1)),
    _seconds,
    arguments=("pipeline",),
)

FRAMEWORKS = {
    # Its timer says nothing of the first two steps.
    "deepspeed": Framework(
        "deepspeed",
        "deepspeed_train.py",
        "deepspeed",
        tuple(range(3, STEPS + 1)),
        _seconds_of_samples(128),
        arguments=("engine",),
    ),
    "deepspeed-pipeline": _PIPELINE,
    "deepspeed-further-losses": replace(_PIPELINE, arguments=("further-losses",)),
    "torchtitan": Framework(
        "torchtitan",
        "torchtitan_train.py",
        "torchtitan",
        tuple(range(1, STEPS + 1)),
        _seconds_of_tokens(2 * 256),
    ),
    "maxtext": Framework("maxtext", "maxtext_train.py", "maxtext", tuple(range(STEPS)), _seconds),
    "paxml": Framework("paxml", "paxml_train.py", "paxml", (None,) * STEPS, _seconds),
}


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_real_log(name: str, tmp_path: Path) -> None:
    framework = FRAMEWORKS[name]
    missing = importlib.util.find_spec(framework.package) is None
    requirements = f"tests/frameworks/requirements-{framework.package}.txt"
    problem = f"there is no {framework.package}: pip install -r {requirements}" if missing else None
    require("GSW_REQUIRE_FRAMEWORKS", problem)

    log, clock = tmp_path / "train.log", tmp_path / "clock.json"
    with log.open("wb") as file:
        ended = subprocess.run(
            [sys.executable, str(_HERE / framework.script), str(clock), *framework.arguments],
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
    assert log_format.name == framework.log_format
    read = read_log(log, log_format)
    assert tuple(step.index for step in read.steps) == framework.indexes
    assert (read.attempts, read.not_finite) == (1, None)

    own_s: list[float] = json.loads(clock.read_text())
    assert len(own_s) == STEPS
    found_s = [framework.seconds(step) for step in read.steps][framework.warm_up :]
    ratio = mean(found_s) / mean(own_s[-len(found_s) :])
    assert ratio == pytest.approx(1, abs=WITHIN), (found_s, own_s)
