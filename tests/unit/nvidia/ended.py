"""Ended jobs with what is written beside their logs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pytest_gsw.logs.formats.registry import FORMATS
from pytest_gsw.nvidia.evidence import evidence_of_log
from pytest_gsw.stats.measurement import Measurement
from pytest_gsw.tables.model import Baseline
from pytest_gsw.validation.checks import read_steps
from pytest_gsw.validation.run import Run
from tests.unit.rows import LLAMA2_FP8_X128
from tests.unit.validation import ended
from tests.unit.validation.ended import measure_as_documented


def run(log: Path) -> Run:
    return replace(ended.run(log), evidence=tuple(evidence_of_log(log, "481221")))


def measured(log: Path, row: Baseline = LLAMA2_FP8_X128) -> Measurement:
    of, log_format = run(log), FORMATS[row.workload.log_format]
    return measure_as_documented(row, of, read_steps(row, of, log_format)[0], log_format)
