"""What rows are selected by, as ``-m`` and ``-k`` see it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from pytest_gsw.session.collect import facts_of, markers
from pytest_gsw.session.screen import NO_CLUSTER
from pytest_gsw.tables.bundled import bundled_baselines
from pytest_gsw.tables.load import load_tables
from tests.unit.rows import LLAMA2_FP8_X128
from tests.unit.session.sessions import SETTINGS, replay_of

JUDGES = replace(SETTINGS, replay=replay_of("/run"))


@cache
def facts_of_all_rows() -> list[dict[str, Any]]:
    """The facts of each row's mark, and what other marks it has."""
    rows = [
        [marker.mark for marker in markers(row.id, facts_of(row), JUDGES)] for row in load_tables([bundled_baselines()])
    ]
    return [{**marks[0].kwargs, "marks": {mark.name for mark in marks}} for marks in rows]


@pytest.mark.parametrize(
    ("wanted", "count"),
    [
        ({"gpus": 64, "dtype": "fp8"}, 2),
        ({"workload": "llama2_70b"}, 12),
        ({"model": "llama2", "size": "70b", "accelerator": "H100", "nodes": 8}, 2),
        ({"framework": "nemo", "marks": {"gsw"}}, 12),
        ({"marks": {"gsw", "proxy"}}, 18),
        ({"proxy": True, "dtype": "bf16"}, 9),
        ({"tp": 4, "pp": 8}, 27),
        ({"metric": "checkpoint_save_time"}, 7),
        ({"gpus": 65}, 0),
    ],
)
def test_rows_are_selected_by_their_facts(wanted: dict[str, Any], count: int) -> None:
    assert sum(wanted.items() <= facts.items() for facts in facts_of_all_rows()) == count


def test_a_row_without_a_cluster_is_skipped() -> None:
    (skip,) = [marker.mark for marker in markers("a", facts_of(LLAMA2_FP8_X128), SETTINGS) if marker.name == "skip"]
    assert skip.kwargs == {"reason": NO_CLUSTER}
