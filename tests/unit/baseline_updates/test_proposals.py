"""From records to figures that a cluster may accept, and why others are left out."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_gsw.baseline_updates import (
    Find,
    LeftOut,
    Proposal,
    Proposals,
    Rules,
    accepted_text,
    propose,
)
from pytest_gsw.jobs.states import JobState
from pytest_gsw.results.record import Record
from pytest_gsw.tables.bundled import accepted_file
from pytest_gsw.tables.load import load_table
from pytest_gsw.tables.model import Accepted, Baseline, definition_hash
from tests.messages import wording
from tests.unit.results.records import JOB, SLOW, varied
from tests.unit.tables.texts import TINY

ROW = "tiny_1b_bf16[H100x8]"
NEMO = "nvidia+nemo+24.09.sqsh"
FIVE = (1.60, 1.61, 1.62, 1.59, 1.65)
DAY_S = 86400.0


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.yaml"
    path.write_text(TINY)
    return path


@pytest.fixture
def tables(table: Path) -> Find:
    return {"site/tiny.yaml": table}.get


def row_of(table: Path) -> Baseline:
    return load_table(table)[0]


def record(table: Path, seconds: float | None = 1.6, number: int = 0, **changes: Any) -> Record:
    """The record of one run's job of the first row."""
    image = changes.get("image", NEMO)
    job = replace(JOB, id=str(481220 + number), end_s=1795212692.0 + number * DAY_S)
    whole = varied(
        SLOW,
        run_id=f"202611{20 + number}-221000-7f3a",
        row=ROW,
        node_id=f"site/tiny.yaml::{ROW}",
        baseline="site/tiny.yaml:12",
        cluster="eos",
        outcome="passed",
        documented={"step_time_s": 1.5},
        measured={"step_time_s": seconds},
        definition=definition_hash(row_of(table), image),
        image=image,
        job=job,
    )
    return varied(whole, **changes)


def runs(table: Path, seconds: Mapping[int, float] | tuple[float, ...] = FIVE, **changes: Any) -> list[Record]:
    return [record(table, each, number, **changes) for number, each in enumerate(seconds)]  # type: ignore[arg-type]


def why(found: Proposals) -> list[str]:
    assert not found.proposed
    return [str(one) for one in found.left_out]


def test_the_median_of_five_jobs_with_all_that_it_is_made_of(table: Path, tables: Find) -> None:
    row = row_of(table)
    accepted = Accepted(
        cluster="eos",
        judged=1.61,
        jobs=5,
        spread=round(statistics.stdev(FIVE) / 1.61, 4),
        job_ids="481220, 481221, 481222, 481223, 481224",
        date="2026-11-24",
        definition=definition_hash(row, NEMO),
        image=NEMO,
        documented=1.5,
    )
    assert propose(runs(table), tables) == Proposals((Proposal(row, accepted, 1.59, 1.65),))
    assert Proposal(row, accepted, 1.59, 1.65).documented == 1.5


def test_the_order_of_runs_does_not_matter(table: Path, tables: Find) -> None:
    records = runs(table)
    assert propose(reversed(records), tables) == propose(records, tables)


def test_a_row_that_is_judged_by_its_checkpoints(table: Path) -> None:
    table.write_text(TINY.replace("step_time_s: 1.5", "metric: checkpoint_save_time, checkpoint_save_time_s: 17.9"))
    saves = {"documented": {"checkpoint_save_time_s": 17.9}, "measured": {"checkpoint_save_time_s": 18.5}}
    records = runs(table, metric="checkpoint_save_time", **saves)
    (found,) = propose(records, lambda _: table).proposed
    assert (found.accepted.judged, found.accepted.spread) == (18.5, 0.0)


def test_too_few_jobs(table: Path, tables: Find) -> None:
    four = runs(table)[:4]
    assert why(propose(four, tables)) == [wording("few jobs", jobs=f"{ROW} on eos: 4 jobs", least=5)]
    assert why(propose(four[:1], tables)) == [wording("few jobs", jobs=f"{ROW} on eos: 1 job", least=5)]
    assert propose(four, tables, Rules(min_jobs=4)).proposed[0].accepted.jobs == 4
    assert propose(four[:1], tables, Rules(min_jobs=1)).proposed[0].accepted.spread == 0


def test_a_tile_shows_its_nodes_and_not_the_row(table: Path, tables: Find) -> None:
    on_tiles = [varied(one, row=f"{ROW}@n{number}", tile=f"n{number}") for number, one in enumerate(runs(table))]
    assert why(propose(on_tiles, tables)) == [f"{ROW} on eos: " + wording("of a tile", runs="5 runs")]
    assert propose([*on_tiles, *runs(table)], tables).proposed[0].accepted.jobs == 5


def test_a_job_id_that_came_back_is_another_job(table: Path, tables: Find) -> None:
    same_id = [varied(one, job=replace(one.jobs.last, id="7")) for one in runs(table) if one.jobs.last]
    assert propose(same_id, tables).proposed[0].accepted.job_ids == "7, 7, 7, 7, 7"


def test_jobs_of_two_states_of_a_cluster_are_told_apart(table: Path, tables: Find) -> None:
    bimodal = runs(table, (1.5, 1.5, 1.5, 1.65, 1.65))
    before = [varied(one, environment={"nccl": "2.21.5"}, variables={"A": "1"}) for one in bimodal[:3]]
    after = [varied(one, environment={"nccl": "2.27.0", "driver": "550"}, variables={}) for one in bimodal[3:]]
    assert why(propose([*before, *after], tables)) == [
        (
            f"{ROW} on eos: "
            + wording("wide spread", jobs="5 jobs", spread="5.5 % (1.5 to 1.65 s)", most="3 %")
            + wording("next other runs", what="A and nccl")
        )
    ]
    assert propose([*before, *after], tables, Rules(max_spread=0.06)).proposed[0].accepted.spread == 0.0548


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"simulated": True}, "is simulated, and its figures are made up"),
        ({"outcome": "profiled", "not_comparable": "NCCL tracing"}, "is not comparable, because of NCCL tracing"),
        ({"outcome": "error", "measured": {}}, "was not measured and judged, but ended as 'error'"),
        ({"outcome": "expected_failure"}, "was not measured and judged, but ended as 'expected_failure'"),
        ({"cluster": "replay"}, "was replayed without its cluster; add --gsw-cluster=NAME to the replay"),
        ({"job": None}, "has only a log; the end of its job is unknown"),
        ({"job": replace(JOB, state=JobState.REPLAYED)}, "has only a log; the end of its job is unknown"),
        ({"job": replace(JOB, id="a\nb")}, "has only a log; the end of its job is unknown"),
        ({"measured": {"step_time_s": None}}, "has no figure"),
        ({"measured": {"step_time_s": 0.0}}, "has no figure"),
        ({"cluster": "a b"}, "has a cluster whose name no table takes"),
        ({"image": "a\nb"}, "has an image whose name no table takes"),
        ({"measured": {"step_time_s": 1e-10}}, "has no figure that a table takes, from 1e-09 to 1e+12 s"),
        ({"measured": {"step_time_s": 1.7e308}}, "has no figure that a table takes, from 1e-09 to 1e+12 s"),
        ({"job": replace(JOB, end_s=1e300)}, "has a job that ended on no day"),
        ({"job": replace(JOB, end_s=-1e18)}, "has a job that ended on no day"),
        ({"job": replace(JOB, end_s=253402300800.0)}, "has a job that ended on no day"),
        ({"definition": "0123456789ab"}, "the row's definition has changed since, from 0123456789ab to {now}"),
        ({"definition": "0123456789ab", "image": "***"}, "has an image that is hidden as a secret, so that nothing can be compared with it"),
        ({"documented": {"step_time_s": 1.4}}, "the documented figure has changed since, from 1.4 s to 1.5 s"),
        ({"row": "tiny_1b_bf16[H100x9]"}, "site/tiny.yaml has no such row any more"),
        ({"baseline": "old/tiny.yaml:3"}, "there is no table old/tiny.yaml here; go to where it is, or name it with --baselines=PATH"),
    ],
)  # fmt: skip
def test_runs_that_are_no_points(table: Path, tables: Find, changes: dict[str, Any], reason: str) -> None:
    other = record(table, 1.6, 9, **changes)
    found = propose([*runs(table), other, varied(other, run_id="20261201-221000-7f3a")], tables)
    assert found.proposed == propose(runs(table), tables).proposed
    reason = reason.format(now=definition_hash(row_of(table), NEMO))
    assert found.left_out == (LeftOut(other.row.id, other.run.cluster, reason, 2),)


def test_a_table_that_is_wrong_by_now(table: Path, tables: Find) -> None:
    records = runs(table)
    table.write_text(TINY.replace("gpus: 8,", "gpus: x,"))
    fault = f"{table} is wrong: 12:16   tables[0].rows[0].gpus: got 'x', wanted a whole number above 0, such as 64"
    assert why(propose(records, tables)) == [f"{ROW} on eos: {fault} (5 runs)"]


def test_a_row_that_runs_out_of_memory_by_now(table: Path, tables: Find) -> None:
    records = runs(table)
    table.write_text(TINY.replace("step_time_s: 1.5", "expected_failure: out_of_memory"))
    assert why(propose(records, tables)) == [
        f"{ROW} on eos: " + wording("figure has changed", then="1.5 s", now="none (5 runs)")
    ]


def test_the_newest_image_counts(table: Path, tables: Find) -> None:
    newer = [record(table, seconds, 10 + number, image="x.sqsh") for number, seconds in enumerate(FIVE)]
    found = propose([*newer, *runs(table)], tables)
    assert [one.accepted.image for one in found.proposed] == ["x.sqsh"]
    assert [str(one) for one in found.left_out] == [
        f"{ROW} on eos: ran another image than the newest run, x.sqsh (5 runs)"
    ]
    few = propose([*newer[:1], *runs(table)], tables)
    assert why(few) == [
        f"{ROW} on eos: ran another image than the newest run, x.sqsh (5 runs)",
        wording("few jobs", jobs=f"{ROW} on eos: 1 job", least=5),
    ]
    unknown = record(table, 1.6, 20, image=None)
    assert why(propose([*runs(table), unknown], tables))[0] == (
        f"{ROW} on eos: ran another image than the newest run, an image that is not known (5 runs)"
    )


def test_the_day_of_a_job_without_times_is_that_of_its_session(table: Path, tables: Find) -> None:
    timeless = [
        varied(one, job=replace(one.jobs.last, end_s=None, start_s=None, submit_s=None))
        for one in runs(table)
        if one.jobs.last
    ]
    assert propose(timeless, tables).proposed[0].accepted.date == "2026-11-24"
    nameless = [varied(one, run_id="night") for one in timeless]
    assert why(propose(nameless, tables)) == [f"{ROW} on eos: " + wording("no end time")]


def test_a_job_counts_on_the_cluster_that_recorded_it_first(table: Path, tables: Find) -> None:
    pool0 = runs(table, cluster="pool0")
    taken = [varied(one, run_id="20261201-090000-0000", cluster="eos") for one in pool0]
    found = propose([*taken, *pool0], tables)
    assert [one.accepted.cluster for one in found.proposed] == ["pool0"]
    assert [str(one) for one in found.left_out] == [
        f"{ROW} on eos: " + wording("recorded elsewhere", cluster="pool0", runs="5 runs")
    ]


def test_two_tables_with_a_row_of_the_same_id(table: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(TINY)
    theirs = [
        varied(
            one,
            node_id=f"site/other.yaml::{ROW}",
            baseline="site/other.yaml:12",
            job=replace(one.jobs.last, id=f"9{one.jobs.last.id}"),
        )
        for one in runs(table, (2.0,) * 5)
        if one.jobs.last
    ]
    both = {"site/tiny.yaml": table, "site/other.yaml": other}.get
    found = propose([*runs(table), *theirs], both)
    assert [(one.row.location.path, one.accepted.judged, one.accepted.jobs) for one in found.proposed] == [
        (other, 2.0, 5),
        (table, 1.61, 5),
    ]


@pytest.mark.parametrize("image_from", ["table", ""])
def test_an_image_that_the_table_does_not_name_any_more(table: Path, tables: Find, image_from: str) -> None:
    records = runs(table, image_from=image_from)
    table.write_text(TINY.replace("steps: 20", "steps: 20, image: /new/y.sqsh"))
    assert why(propose(records, tables)) == [
        f"{ROW} on eos: " + wording("image of a run", image=NEMO, other="y.sqsh") + " (5 runs)"
    ]
    # What logs and environments name, the next run may name as well.
    said = runs(table, image_from="log")
    assert propose(said, lambda _: table).proposed[0].accepted.image == NEMO


def test_a_spread_is_told_with_the_digits_that_tell_it_from_the_limit(table: Path, tables: Find) -> None:
    values = (1.0, 1.0, 1.0, 1.0, 1.0671)
    assert why(propose(runs(table, values), tables)) == [
        f"{ROW} on eos: " + wording("wide spread", jobs="5 jobs", spread="3.001 % (1 to 1.067 s)", most="3 %")
    ]


def test_each_job_of_a_row_that_ran_several_times_counts(table: Path, tables: Find) -> None:
    jobs = [replace(JOB, id=str(481220 + n), end_s=JOB.end_s, judged=seconds) for n, seconds in enumerate(FIVE)]
    several = record(table, statistics.median(FIVE), job=jobs[-1], repeats=tuple(jobs[:-1]))
    (proposal,) = propose([several], tables).proposed
    assert (proposal.accepted.judged, proposal.accepted.jobs) == (1.61, 5)
    assert proposal.accepted.job_ids == "481220, 481221, 481222, 481223, 481224"
    assert (proposal.low, proposal.high) == (1.59, 1.65)
    # Those of other runs come to it, and one that was replayed counts once.
    (again,) = propose([several, varied(several, run_id="r2"), record(table, 1.63, 9)], tables).proposed
    assert (again.accepted.judged, again.accepted.jobs) == (1.615, 6)


def accept(table: Path, tables: Find, **changes: Any) -> None:
    """Put what the runs give into the file beside the table, changed."""
    accepted = replace(propose(runs(table), tables).proposed[0].accepted, **changes)
    accepted_file(table).write_text(accepted_text(table, [(row_of(table), accepted)]))


def test_what_is_accepted_already_is_not_proposed_again(table: Path, tables: Find) -> None:
    accept(table, tables)
    assert why(propose(runs(table), tables)) == [f"{ROW} on eos: " + wording("accepted already", jobs="5 jobs")]
    assert propose([*runs(table), record(table, 1.6, 9)], tables).proposed[0].accepted.jobs == 6
    assert propose(runs(table), tables, Rules(documented=True)).proposed


def test_older_runs_do_not_replace_a_newer_figure(table: Path, tables: Find) -> None:
    accept(table, tables, date="2026-11-25")
    assert why(propose(runs(table), tables)) == [
        f"{ROW} on eos: " + wording("figure's date", jobs="5 jobs", date="2026-11-24", accepted="2026-11-25")
    ]
    newest = replace(row_of(table).accepted["eos"], date="2026-11-24", jobs=4)
    accepted_file(table).write_text(accepted_text(table, [(row_of(table), newest)]))
    assert propose(runs(table), tables).proposed
