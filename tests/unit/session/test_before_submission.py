"""What a session finds before it submits anything: rows that cannot be submitted, and whose findings are the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_gsw.errors import AS_OF, RunError, SubmissionError
from pytest_gsw.executor.limits import Limits
from pytest_gsw.jobs.model import JobSpec
from pytest_gsw.session import preflight
from pytest_gsw.session.preflight import Planned, check_rows, other_clusters, without_repetition
from tests.unit.jobs.test_spec import spec
from tests.unit.rows import LLAMA2_FP8_X128
from tests.unit.session.sessions import EOS, SETTINGS, replay_of

LAUNCHER: Any = SimpleNamespace()
NONE = SubmissionError("the recipe is missing", (("script", "a.sh"),), advice="stage it")


def item(row_id: str, **changes: Any) -> Any:
    """A row's item."""
    return SimpleNamespace(baseline=replace(LLAMA2_FP8_X128, id=row_id, **changes))


def of(row_id: str, **changes: Any) -> JobSpec:
    return replace(spec(), row_id=row_id, **changes)


def planned(row_id: str, **changes: Any) -> Planned:
    return Planned(item(row_id).baseline, of(row_id, **changes))


def test_rows_with_one_finding_refer_to_the_first() -> None:
    other = SubmissionError("the stage is full")
    found = without_repetition({"a": NONE, "b": other, "c": NONE, "d": NONE})
    assert list(found) == ["a", "b", "c", "d"]
    assert found["a"].evidence == (("script", "a.sh"), ("rows", "a and 2 more rows"))
    assert (found["b"].fact, found["b"].evidence) == ("the stage is full", ())
    for row_id in ("c", "d"):
        assert (found[row_id].fact, found[row_id].advice) == ("the recipe is missing", f"{AS_OF}a")


def test_a_finding_of_one_row_is_whole() -> None:
    (found,) = without_repetition({"a": NONE}).values()
    assert (found.fact, found.evidence, found.advice) == (NONE.fact, NONE.evidence, NONE.advice)


def test_a_second_finding_is_evidence_of_the_first() -> None:
    second = SubmissionError("the stage is full", advice="make room")
    found = preflight._joined(NONE, second)
    assert (found.fact, found.advice) == (NONE.fact, NONE.advice)
    assert found.evidence[-1] == ("also", "the stage is full; next: make room")
    assert preflight._joined(None, second) is second


def test_rows_with_the_same_recipe_are_checked_once() -> None:
    checked: list[str] = []

    def check(one: Planned) -> SubmissionError:
        checked.append(one.spec.row_id)
        return NONE

    rows = [planned("a"), planned("b"), planned("c", script=Path("other.sh"))]
    assert preflight._once(rows, preflight._recipe_key, check) == {"a": NONE, "b": NONE, "c": NONE}
    assert checked == ["a", "c"]


def test_a_row_larger_than_the_limit_is_an_error_in_a_replay_too() -> None:
    limits = Limits(jobs=1, gpus=64, pending=1, queue_s=1)
    settings = replace(SETTINGS, replay=replay_of("/run"), jobs=replace(SETTINGS.jobs, limits=limits))
    specs: dict[str, JobSpec | RunError] = {"a": of("a", gpus=128), "b": of("b", gpus=64)}
    assert list(check_rows([item("a"), item("b")], specs, LAUNCHER, settings, {})) == ["a"]


def test_a_sites_own_launcher_checks_its_jobs_itself() -> None:
    settings = replace(SETTINGS, cluster=EOS)
    assert check_rows([item("a")], {"a": of("a")}, LAUNCHER, settings, {}) == {}


def test_rows_that_have_no_spec_are_not_checked() -> None:
    specs: dict[str, JobSpec | RunError] = {"a": NONE}
    assert check_rows([item("a")], specs, LAUNCHER, replace(SETTINGS, cluster=EOS), {}) == {}


def test_a_session_polls_one_cluster_of_slurm() -> None:
    specs = [of("a"), of("b", options=("--clusters=other",)), of("c")]
    assert list(other_clusters(specs, replace(SETTINGS, cluster=EOS))) == ["b"]


@pytest.mark.parametrize(
    "settings",
    [SETTINGS, replace(SETTINGS, cluster=replace(EOS, scheduler="local")), replace(SETTINGS, replay=replay_of("/run"))],
    ids=["none", "local", "replay"],
)
def test_clusters_of_slurm_are_nothing_to_other_sessions(settings: Any) -> None:
    assert other_clusters([of("a"), of("b", options=("--clusters=other",))], settings) == {}


@pytest.mark.parametrize(
    ("nodes", "tile", "options", "is_wrong"),
    [
        (18, "n[01-18]", ("--segment=18",), False),  # a rack, which is a block
        (18, "n[01-18]", ("--segment=9",), False),
        (18, "n[01-18]", ("--segment=16",), True),
        (18, "n[01-18]", (), False),
        (16, "", ("--segment=12",), False),  # Slurm's own business
    ],
)
def test_a_tile_is_a_whole_number_of_segments(nodes: int, tile: str, options: tuple[str, ...], is_wrong: bool) -> None:
    row = planned("rack", nodes=nodes, node_list=tile, options=options)
    problem = preflight._segment_problem(row)
    assert (problem is not None) == is_wrong
    if problem is not None:
        assert problem.fact == "its tile has 18 nodes, and its segment 16: a segment lies in one block"
