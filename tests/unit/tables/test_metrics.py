"""Every figure has one entry, and what else spells one agrees with it."""

from __future__ import annotations

import ast
from collections.abc import Collection
from pathlib import Path
from typing import get_args

import pytest_gsw
from pytest_gsw.results.row_text import shown_by
from pytest_gsw.tables import metrics
from pytest_gsw.tables.keys import ACCEPTED_FIELDS, ROW_FIELDS
from pytest_gsw.tables.model import Figures, JudgedMetric

PACKAGE = Path(pytest_gsw.__file__).parent


def test_figures_are_the_metrics() -> None:
    assert {*metrics.BY_KEY} == {*vars(Figures())}
    assert len(metrics.BY_KEY) == len(metrics.METRICS)


def test_a_row_is_judged_by_what_its_type_says() -> None:
    assert tuple(metrics.JUDGED) == get_args(JudgedMetric)
    assert [metric.key for metric in metrics.JUDGED.values()] == [f"{name}_s" for name in metrics.JUDGED]


def test_tables_can_state_every_figure() -> None:
    assert {*metrics.DOCUMENTED} <= {*ROW_FIELDS}
    assert {*metrics.BY_KEY} - {*metrics.DOCUMENTED} == {metrics.CALIBRATED_STEP_TIME.key}
    assert {metric.key for metric in metrics.JUDGED.values()} <= {*ACCEPTED_FIELDS}


def test_what_stands_above_and_behind_numbers() -> None:
    assert [metric.title for metric in metrics.METRICS] == [
        *("step time (s)", "calibrated step time (s)", "checkpoint save (s)", "throughput (tokens/s)"),
        *("samples/s", "MFU", "TFLOP/s per GPU", "days to train 1T tokens"),
    ]
    assert [metric.per_unit for metric in metrics.JUDGED.values()] == ["s/step", "calibrated s/step", "s/save"]
    assert [shown_by(metric)(0.5) for metric in (metrics.STEP_TIME, metrics.MFU)] == ["0.500", "50.0 %"]


def spelling(words: Collection[str]) -> set[str]:
    """The modules that have one of these words."""
    return {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in words
    }


def test_nothing_beside_the_table_spells_what_a_row_is_judged_by() -> None:
    # The type of a row's 'metric', and names of variables in others' scripts.
    assert spelling(metrics.JUDGED) == {"tables/model.py"}


def test_nothing_beside_the_table_spells_a_figure() -> None:
    # Two fields of a log's step have the name of what they give.
    assert spelling({*metrics.BY_KEY, *metrics.DOCUMENTED}) == {"tables/metrics.py", "logs/attempts.py"}
