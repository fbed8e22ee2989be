"""What every history does, whatever database it is in: the classes of tests that both databases run."""

from __future__ import annotations

import contextlib
import itertools
import json
import multiprocessing
import os
import random
import sqlite3
import zlib
from contextlib import AbstractContextManager
from dataclasses import replace
from multiprocessing.pool import Pool
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest

from pytest_gsw.history.database import Database, HistoryError, HistoryUnusableError
from pytest_gsw.history.location import open_history
from pytest_gsw.history.model import IMPORTED, ExperimentKey, SeriesKey
from pytest_gsw.history.spool import Spool
from pytest_gsw.history.store import Event, History, read_events
from pytest_gsw.jobs.states import JobState
from pytest_gsw.results.record import Record, of_content
from pytest_gsw.tables.metrics import JUDGED, STEP_TIME
from tests.unit.first_release import BANDWIDTH, STEPS
from tests.unit.history.runs import DAY_S, FIRST_S, KEY, job, points_of, run_record, stored_points
from tests.unit.results.records import SLOW, varied

WRITERS = 4
#: How many runs they write.
RUNS = 24


def everything(history: History) -> object:
    """All that a history has, in one value."""
    runs = history.runs()
    return (
        runs,
        [history.records(run) for run in runs],
        points_of(history, history.series()),
    )


def imported_of(record: Record, later_s: float) -> Record:
    """The record of a job whose log was imported; a file is changed about when its job ends."""
    assert record.jobs.last is not None
    assert record.jobs.last.end_s is not None
    log = replace(
        record.jobs.last,
        launcher=IMPORTED,
        state=JobState.REPLAYED,
        submit_s=None,
        start_s=None,
        end_s=record.jobs.last.end_s + later_s,
    )
    return varied(record, run_id=f"import-{log.id}-deadbeef", job=log, recorded_s=None)


def database_of(history: History) -> Database:
    return history._database


class StoreBehaviour:
    """Records go in, points and records come out."""

    def test_a_run_is_a_point(self, place: str) -> None:
        with open_history(place) as history:
            told = {"outcome": "regressed", "reason": "slower than allowed", "environment": {"nccl": "2.21"}}
            assert history.add([run_record(0, 5.11, **told)]) == 1
            (point,) = stored_points(history, KEY)
        assert (point.run_id, point.job_id, point.time_s) == ("20261101-210000-7f3a", "481220", FIRST_S)
        assert (point.judged, point.outcome, point.reason) == (5.11, "regressed", "slower than allowed")
        assert (point.nodes, point.image) == ("pool0-[0017-0032]", "nvcr.io/nvidia/jax:24.12")
        assert point.environment == {"nccl": "2.21"}
        assert point.variables is None

    @pytest.mark.parametrize("variables", [{}, {"NCCL_IB_DISABLE": "1", "HF_TOKEN": "*** 5e884898"}])
    def test_a_point_has_the_variables_of_its_job(self, place: str, variables: dict[str, str]) -> None:
        with open_history(place) as history:
            history.add([run_record(0, variables=variables)])
            (point,) = stored_points(history, KEY)
            (record,) = history.records("20261101-210000-7f3a")
        assert point.variables == record.run.variables == variables

    def test_records_come_back_whole(self, place: str) -> None:
        whole = run_record(0, attempts=(job(0),), repeats=(job(1, 5.0),), environment={"driver": "550"}, canary=True)
        with open_history(place) as history:
            history.add([whole, varied(SLOW, node_id="a.yaml::b")])
            assert history.records(whole.run.id) == (whole,)
            assert history.records(SLOW.run.id) == (varied(SLOW, node_id="a.yaml::b"),)
            assert history.records("20200101-000000-0000") == ()

    def test_every_measured_job_is_a_point(self, place: str) -> None:
        with open_history(place) as history:
            history.add([run_record(9, 5.2, repeats=(job(1, 5.1), job(2, 5.3)), job=job(3, 5.2))])
            assert [(point.job_id, point.judged) for point in stored_points(history, KEY)] == [
                ("481221", 5.1),
                ("481222", 5.3),
                ("481223", 5.2),
            ]

    def test_every_job_that_the_infrastructure_failed_is_kept(self, place: str) -> None:
        failed = job(8, state=JobState.NODE_FAIL, nodes="pool0-[0017-0018]", why_repeated="node failure")
        with open_history(place) as history:
            history.add([run_record(0, attempts=(failed,)), run_record(1)])
            (one,) = history.failures("eos")
            assert (one.row, one.run_id, one.job_id) == (KEY.row, "20261101-210000-7f3a", "481228")
            assert (one.time_s, one.nodes, one.why) == (failed.end_s, "pool0-[0017-0018]", "node failure")
            assert history.failures("eos", one.time_s + 1) == history.failures("selene") == ()

    def test_a_failed_job_counts_once_however_often_it_was_recorded(self, place: str) -> None:
        ran = run_record(0, attempts=(job(8, state=JobState.NODE_FAIL, why_repeated="node failure"),))
        replayed = varied(ran, run_id="20261115-090000-aaaa")
        with open_history(place) as history:
            history.add([replayed])
            history.add([ran])
            (one,) = history.failures("eos")
            assert one.run_id == ran.run.id
            later = replace(ran, jobs=replace(ran.jobs, attempts=()), run=replace(ran.run, recorded_s=FIRST_S + 99))
            history.add([later])
            assert [one.run_id for one in history.failures("eos")] == [replayed.run.id]

    def test_a_replayed_job_counts_once_and_is_its_first_run_s(self, place: str) -> None:
        ran = run_record(0, 5.0)
        replayed = varied(ran, run_id="20261115-090000-aaaa", measured={"step_time_s": 5.5})
        for order in itertools.permutations([ran, replayed, run_record(1, 6.0)]):
            with open_history(place) as history:
                for record in order:
                    history.add([record])
                assert [(point.run_id[:8], point.judged) for point in stored_points(history, KEY)] == [
                    ("20261101", 5.0),
                    ("20261102", 6.0),
                ]

    def test_a_replay_stands_in_where_the_first_run_has_no_point_any_more(self, place: str) -> None:
        ran = run_record(0, 5.0)
        replayed = varied(ran, run_id="20261115-090000-aaaa")
        with open_history(place) as history:
            history.add([ran, replayed])
            history.add([replace(ran, outcome="profiled", not_comparable="nsight")])
            assert [point.run_id[:8] for point in stored_points(history, KEY)] == ["20261115"]

    @pytest.mark.parametrize("later_s", [-86400.0, 1.3, 86400.0])
    def test_an_imported_job_counts_once_when_its_session_s_record_arrives(self, place: str, later_s: float) -> None:
        ran = run_record(3, 5.0)
        imported = imported_of(ran, later_s)
        for order in ([imported, ran], [ran, imported]):
            with open_history(place) as history:
                for record in order:
                    history.add([record])
                assert [(point.run_id, point.judged) for point in stored_points(history, KEY)] == [(ran.run.id, 5.0)]

    def test_an_imported_job_of_another_year_counts(self, place: str) -> None:
        with open_history(place) as history:
            history.add([run_record(3), imported_of(run_record(3), -100 * 86400.0), imported_of(run_record(2), 60.0)])
            assert len(stored_points(history, KEY)) == 3

    def test_ids_of_jobs_come_back_in_other_years(self, place: str) -> None:
        with open_history(place) as history:
            history.add([run_record(0), run_record(1, job=job(0, end_s=FIRST_S + 400 * 86400))])
            assert len(stored_points(history, KEY)) == 2

    @pytest.mark.parametrize(
        "unusable",
        [
            run_record(0, outcome="error"),
            run_record(0, outcome="profiled", not_comparable="nsight"),
            run_record(0, not_comparable="nsight"),
            run_record(0, outcome="expected_failure"),
            run_record(0, definition=""),
            run_record(0, cluster="replay"),
            run_record(0, job=None),
            run_record(0, job=job(0, state=JobState.FAILED)),
            run_record(0, job=job(0, state=JobState.REPLAYED)),
        ],
        ids=[
            "error", "profiled", "not comparable", "expected failure", "no definition", "no cluster",
            "no job", "failed job", "log alone",
        ],
    )  # fmt: skip
    def test_what_is_no_point_is_kept_as_a_run(self, place: str, unusable: Record) -> None:
        with open_history(place) as history:
            assert history.add([unusable]) == 1
            assert history.series() == ()
            assert history.records(unusable.run.id) == (unusable,)

    @pytest.mark.parametrize("outcome", ["passed", "improved", "regressed", "inconclusive"])
    def test_what_was_judged_is_a_point(self, place: str, outcome: str) -> None:
        with open_history(place) as history:
            history.add([run_record(0, outcome=outcome)])
            assert [point.outcome for point in stored_points(history, KEY)] == [outcome]

    def test_simulated_runs_are_the_demo_s_whatever_they_were_called(self, place: str) -> None:
        with open_history(place) as history:
            history.add([run_record(0), run_record(1, simulated=True), run_record(2, simulated=True, cluster="demo")])
            assert [(key.cluster, len(stored_points(history, key))) for key in history.series()] == [
                ("demo", 2),
                ("eos", 1),
            ]

    def test_a_new_definition_is_a_new_series(self, place: str) -> None:
        with open_history(place) as history:
            history.add([run_record(0), run_record(1), run_record(2, definition="ffffffffffff")])
            assert history.series() == (replace(KEY, definition="ffffffffffff"), KEY)

    def test_rows_are_chosen_by_patterns_and_clusters(self, place: str) -> None:
        rows = [
            ("grok1_314b_bf16[H100x64]", "eos"),
            ("llama2_70b_fp8[H100x64]", "eos"),
            ("llama2_70b_fp8[H100x64]", "jz"),
            ("llama2_70b_fp8[H100x256]", "eos"),
        ]
        keys = [SeriesKey(row, cluster, "0123456789ab") for row, cluster in rows]
        with open_history(place) as history:
            history.add(
                run_record(number, row=row, node_id=f"x.yaml::{row}{cluster}", cluster=cluster)
                for number, (row, cluster) in enumerate(rows)
            )
            assert history.series() == tuple(keys)
            assert history.series(["llama2*"]) == tuple(keys[1:])
            assert history.series(["x.yaml::grok1_314b_bf16[H100x64]", "*x32]"]) == (keys[0],)
            assert history.series(cluster="jz") == (keys[2],)
            assert history.series(["grok1*"], "jz") == ()

    def test_what_the_last_runs_of_a_cluster_came_to_for_each_row(self, place: str) -> None:
        with open_history(place) as history:
            assert history.outcomes("eos", 2) == {}
            history.add([run_record(0), run_record(1, outcome="error"), run_record(2), imported_of(run_record(3), 0.0)])
            history.add([varied(run_record(2), cluster="selene", run_id="another")])
            (told,) = history.outcomes("eos", 2).values()
            assert [(one.run_id, one.time_s, one.outcome) for one in told] == [
                (run_record(1).run.id, FIRST_S + 86400, "error"),
                (run_record(2).run.id, FIRST_S + 2 * 86400, "passed"),
            ]

    def test_runs_are_in_the_order_of_their_names(self, place: str) -> None:
        with open_history(place) as history:
            assert history.runs() == {}
            history.add([run_record(1), run_record(0, node_id="a"), run_record(0, node_id="b")])
            assert [*history.runs().items()] == [("20261101-210000-7f3a", "eos"), ("20261102-210000-7f3a", "eos")]

    def test_adding_again_changes_nothing(self, place: str) -> None:
        runs = [run_record(number, 5 + number / 100) for number in range(5)]
        with open_history(place) as history:
            history.add(runs)
            once = everything(history)
            assert history.add(runs) == 0
            assert history.add(runs[2:3]) == 0
            assert everything(history) == once

    def test_what_has_changed_anything_is_counted(self, place: str) -> None:
        with open_history(place) as history:
            assert history.add([run_record(0), run_record(1)]) == 2
            assert history.add([run_record(0), run_record(1, recorded_s=3e9), run_record(2)]) == 2
            assert history.add([run_record(1)]) == 0  # an older one

    @pytest.mark.parametrize("judged", ["passed", "regressed", "inconclusive", "profiled"])
    def test_a_clock_that_went_back_loses_no_measurement(self, place: str, judged: str) -> None:
        interrupted = run_record(0, outcome="error", fact="interrupted", measured={}, recorded_s=2e9)
        resumed = run_record(0, 5.0, outcome=judged, recorded_s=1.9e9)
        for order in ([interrupted, resumed], [resumed, interrupted], [[resumed, interrupted]]):
            with open_history(place) as history:
                for some in order:
                    history.add(some if isinstance(some, list) else [some])
                assert history.records(resumed.run.id) == (resumed,)
                ((outcome,),) = history.outcomes("eos", 2).values()
                assert outcome.outcome == judged

    def test_of_two_errors_the_later_one_stands(self, place: str) -> None:
        first = run_record(0, outcome="error", fact="interrupted", measured={}, recorded_s=10.0)
        second = varied(first, fact="job 481220 ended FAILED", recorded_s=20.0)
        for order in ([first, second], [second, first]):
            with open_history(place) as history:
                for record in order:
                    history.add([record])
                assert history.records(first.run.id) == (second,)

    def test_of_one_delivery_the_later_record_stands(self, place: str) -> None:
        with open_history(place) as history:
            assert history.add([run_record(0, 5.0, recorded_s=20.0), run_record(0, 7.0, recorded_s=10.0)]) == 1
            assert [point.judged for point in stored_points(history, KEY)] == [5.0]

    def test_no_record_is_no_question_to_the_database(self, place: str) -> None:
        assert open_history(place).add([]) == 0

    def test_hostile_texts_are_kept(self, place: str) -> None:
        texts = "\x00\ud800'; DROP TABLE gsw_record; -- ? %s \u202e"
        hostile = run_record(
            0, 5.0, run_id=f"r{texts}", node_id=f"n{texts}", row=f"x{texts}", outcome="passed", image=texts, reason=texts,
            environment={"driver": texts}, fact=texts, job=job(0, id=f"1{texts}", nodes=texts),
        )  # fmt: skip
        with open_history(place) as history:
            history.add([hostile])
            history.add([hostile])
            assert history.records(hostile.run.id) == (hostile,)
            (key,) = history.series()
            (point,) = stored_points(history, key)
            assert point.nodes == "\ufffd'; DROP TABLE gsw_record; -- ? %s "
            assert [*history.cluster_points(hostile.run.cluster).values()] == [(point,)]
            assert point.environment == {"driver": texts}

    def test_whole_numbers_that_no_database_has_keep_no_run_out(self, place: str) -> None:
        with open_history(place) as history:
            assert history.add([run_record(1, recorded_s=2**70, job=job(1, 2**63)), run_record(2)]) == 2
            assert sorted(point.judged for point in stored_points(history, KEY)) == [5.0, 2.0**63]

    def test_a_failure_takes_nothing_in(self, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
        with open_history(place) as history:
            history.add([run_record(0)])
            before = everything(history)
            with pytest.raises(ValueError, match="not JSON compliant"):
                history.add([run_record(1), replace(run_record(2), row=replace(SLOW.row, tolerance=float("inf")))])
            assert everything(history) == before
            history.add([run_record(1)])
            assert len(stored_points(history, KEY)) == 2

    def test_whether_a_job_is_known(self, place: str) -> None:
        with open_history(place) as history:
            history.add([run_record(0)])
            assert history.has_job(KEY.row, "eos", "481220")
            assert not history.has_job(KEY.row, "eos", "481221")
            assert not history.has_job(KEY.row, "jz", "481220")
            assert not history.has_job("other", "eos", "481220")

    def test_all_runs_of_a_cluster_by_row_and_experiment(self, place: str) -> None:
        kept = [
            run_record(1, 5.1, experiment="aaaaaaaaaaaa"),
            run_record(2, 5.2, experiment="aaaaaaaaaaaa", definition="ffffffffffff", image="new"),
            run_record(3, 5.3, row="other"),
            run_record(4, 5.4, cluster="jz"),
            varied(run_record(1, 5.1), run_id="20261115-090000-aaaa"),
        ]
        with open_history(place) as history:
            history.add(kept)
            one, other = ExperimentKey(KEY.row, "eos", "aaaaaaaaaaaa"), ExperimentKey("other", "eos", "0123456789ab")
            found = history.cluster_points("eos")
            assert {key: [point.judged for point in points] for key, points in found.items()} == {
                one: [5.1, 5.2],
                other: [5.3],
            }
            assert [point.definition for point in found[one]] == ["0123456789ab", "ffffffffffff"]
            assert [point.image for point in found[one]] == ["nvcr.io/nvidia/jax:24.12", "new"]
            since = history.cluster_points("eos", since_s=FIRST_S + 1.5 * DAY_S)
            assert [len(points) for points in since.values()] == [1, 1]

    def test_an_older_series_has_the_experiment_of_the_first_record_that_says_one(self, place: str) -> None:
        with open_history(place) as history:
            history.add([run_record(0)])
            assert list(history.cluster_points("eos")) == [ExperimentKey(KEY.row, "eos", "0123456789ab")]
            history.add([run_record(1, experiment="aaaaaaaaaaaa")])
            history.add([run_record(2, experiment="bbbbbbbbbbbb")])
            ((key, points),) = history.cluster_points("eos").items()
            assert (key.experiment, len(points)) == ("aaaaaaaaaaaa", 3)

    def test_points_say_when_they_came_and_a_later_record_of_the_same_changes_nothing_of_it(self, place: str) -> None:
        with open_history(place) as history:
            history.add([run_record(3)])
            (first,) = stored_points(history, KEY)
            history.add([run_record(1), run_record(2), run_record(3, 5.5, recorded_s=FIRST_S * 2)])
            one, two, again = stored_points(history, KEY)
            assert again.judged == 5.5
            assert 0 < first.added_s == again.added_s <= one.added_s == two.added_s

    def test_decisions_are_kept_and_taken_back(self, place: str) -> None:
        with open_history(place) as history:
            given = Event("exclude", "20261101-210000-7f3a", "eos", 7.0, {"why": "a switch was down", "owner": "ann"})
            kept = history.decide(given)
            other = history.decide(Event("acknowledge", "abc", "jz", 8.0, {"why": "known", "until_s": 9.0}))
            assert kept == replace(given, id=1)
            assert history.events() == (kept, other)
            assert history.events("eos") == history.events(kind="exclude") == (kept,)
            back = history.decide(Event("revoke", kept.subject, "eos", 9.0, {"why": "it was not"}, revokes=kept.id))
            assert history.events() == (other,)
            assert read_events(database_of(history)) == (kept, other, back)  # nothing is ever lost
            with pytest.raises(HistoryError, match=r"^no event 1 is active in "):
                history.decide(Event("revoke", kept.subject, "eos", 10.0, revokes=1))

    def test_an_event_that_somebody_has_damaged_is_an_error_of_the_history(self, place: str) -> None:
        with open_history(place) as history:
            history.decide(Event("exclude", "run", "eos", 7.0))
            database_of(history).execute("UPDATE gsw_event SET body = 'x'")
            with pytest.raises(HistoryError, match=r"^an event in .* cannot be read: Expecting value"):
                history.events()


class WriterBehaviour:
    """Several processes write at the same time."""

    def test_writers_at_the_same_time_lose_nothing(self, place: str) -> None:
        # They make the schema and the same series, and write each other's records: all that can collide does.
        with at_once() as pool:
            taken = pool.starmap(write_runs, [(place, seed) for seed in range(WRITERS)], chunksize=1)
        assert sum(taken) == RUNS  # each was new to one of them
        with open_history(place) as history:
            assert len(history.series()) == 3
            assert {len(points) for points in points_of(history, history.series()).values()} == {RUNS // 3}
            assert len(history.runs()) == RUNS

    def test_sessions_that_deliver_at_the_same_time_deliver_all(self, place: str, tmp_path: Path) -> None:
        spool = Spool(tmp_path / "spool")
        for number in range(RUNS):
            spool.put(run_record(number))
        with at_once() as pool:
            left = pool.starmap(deliver, [(place, tmp_path / "spool")] * WRITERS, chunksize=1)
        assert left == [0] * WRITERS
        assert list((tmp_path / "spool").iterdir()) == []
        with open_history(place) as history:
            assert len(stored_points(history, KEY)) == RUNS


def at_once() -> Pool:
    """Processes that take up their tasks once all of them are there; what they import is imported once."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context.Pool(WRITERS, begin_together, (context.Barrier(WRITERS),))


def begin_together(barrier: Barrier) -> None:
    without_waiting_for_the_disk(pytest.MonkeyPatch())
    barrier.wait()


def without_waiting_for_the_disk(patch: pytest.MonkeyPatch) -> None:
    """Let files and SQLite not be synced, which takes most of the time of these tests: no power fails here."""
    connect = sqlite3.connect

    def quick(*arguments: Any, **named: Any) -> sqlite3.Connection:
        connection = connect(*arguments, **named)
        with contextlib.suppress(sqlite3.Error):  # of what is no database
            connection.execute("PRAGMA synchronous = OFF")
        return connection

    patch.setattr(os, "fsync", lambda _: None)
    patch.setattr(sqlite3, "connect", quick)


def write_runs(place: str, seed: int) -> int:
    """One of several sessions that write the same records, each in an order of its own; how many were new."""
    numbers = random.Random(seed).sample(range(RUNS), RUNS)  # noqa: S311
    with open_history(place) as history:
        return sum(history.add([run_record(number, row=f"row{number % 3}")]) for number in numbers)


def deliver(place: str, spool: Path) -> int:
    """One of several sessions that deliver the same spool; how many it thinks are left."""
    with open_history(place) as history:
        return Spool(spool).deliver(history).left


_FIRST_TABLES = (
    (
        "CREATE TABLE gsw_record (id {key}, run_id TEXT NOT NULL, node_id TEXT NOT NULL, row_id TEXT NOT NULL,"
        " cluster TEXT NOT NULL, definition TEXT NOT NULL, outcome TEXT NOT NULL, time_s DOUBLE PRECISION NOT NULL,"
        " recorded_s DOUBLE PRECISION NOT NULL, added_s DOUBLE PRECISION NOT NULL DEFAULT 0, UNIQUE (run_id, node_id))"
    ),
    "CREATE TABLE gsw_body (record_id BIGINT PRIMARY KEY REFERENCES gsw_record (id), body {bytes} NOT NULL)",
    (
        "CREATE TABLE gsw_series (id {key}, row_id TEXT NOT NULL, cluster TEXT NOT NULL, definition TEXT NOT NULL,"
        " experiment TEXT NOT NULL DEFAULT '', UNIQUE (row_id, cluster, definition))"
    ),
    (
        "CREATE TABLE gsw_point (record_id BIGINT NOT NULL REFERENCES gsw_record (id),"
        " series_id BIGINT NOT NULL REFERENCES gsw_series (id), job TEXT NOT NULL, run_id TEXT NOT NULL,"
        " job_id TEXT NOT NULL, time_s DOUBLE PRECISION NOT NULL, judged_s DOUBLE PRECISION NOT NULL,"
        " outcome TEXT NOT NULL, reason TEXT NOT NULL DEFAULT '', nodes TEXT NOT NULL, image TEXT,"
        " environment TEXT NOT NULL, variables TEXT NOT NULL DEFAULT 'null', metrics TEXT NOT NULL DEFAULT '{{}}',"
        " PRIMARY KEY (record_id, job))"
    ),
    (
        "CREATE TABLE gsw_failure (record_id BIGINT NOT NULL REFERENCES gsw_record (id), job TEXT NOT NULL,"
        " cluster TEXT NOT NULL, job_id TEXT NOT NULL, time_s DOUBLE PRECISION NOT NULL, nodes TEXT NOT NULL,"
        " why TEXT NOT NULL, PRIMARY KEY (record_id, job))"
    ),
    (
        "CREATE TABLE gsw_event (id {key}, time_s DOUBLE PRECISION NOT NULL, cluster TEXT NOT NULL, kind TEXT NOT NULL,"
        " subject TEXT NOT NULL, body TEXT NOT NULL, revokes BIGINT REFERENCES gsw_event (id))"
    ),
    "CREATE TABLE gsw_schema (version BIGINT NOT NULL)",
    "INSERT INTO gsw_schema (version) VALUES (1)",
)


def plant_first_release(database: Database, *records: dict[str, Any]) -> None:
    """A database as the first release has left it."""
    with database.transaction(write=True):
        for sql in _FIRST_TABLES:
            database.execute(sql.format(key=database.key_sql, bytes=database.bytes_sql))
        for number, record in enumerate(records, 1):
            of_row = (record["row"], record["cluster"], record["definition"])
            database.execute(
                "INSERT INTO gsw_record (run_id, node_id, row_id, cluster, definition, outcome, time_s, recorded_s)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (record["run_id"], record["node_id"], *of_row, record["outcome"], FIRST_S, record["recorded_s"]),
            )
            body = zlib.compress(json.dumps(record).encode())
            database.execute("INSERT INTO gsw_body (record_id, body) VALUES (?, ?)", (number, body))
            sql = "INSERT INTO gsw_series (row_id, cluster, definition, experiment) VALUES (?, ?, ?, ?)"
            database.execute(sql, (*of_row, record["experiment"]))
            for job in (*record.get("repeats", ()), record["job"]) if "job" in record else ():
                facts = (f"{job['id']}@{job['end_s']!r}", record["run_id"], job["id"], job["end_s"], job["judged_s"])
                database.execute(
                    "INSERT INTO gsw_point (record_id, series_id, job, run_id, job_id, time_s, judged_s, outcome,"
                    " nodes, environment) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, '{}')",
                    (number, number, *facts, record["outcome"], job["nodes"]),
                )


class SchemaBehaviour:
    """Databases of other releases."""

    def test_a_database_of_a_later_release_is_refused(self, place: str) -> None:
        with open_history(place) as history:
            history.add([run_record(0)])
            database_of(history).execute("UPDATE gsw_schema SET version = 7")
        with open_history(place) as history:
            for ask in (lambda: history.add([run_record(1)]), lambda: stored_points(history, KEY), history.runs):
                with pytest.raises(HistoryUnusableError) as caught:
                    ask()
                assert str(caught.value) == (
                    f"the history {history.shown} is of version 7, and this pytest-gsw reads version 2\n"
                    "next: name another one, and fill it with pytest-gsw history --add .gsw/runs/*"
                )

    def test_a_database_of_the_first_release_is_converted(self, place: str) -> None:
        with open_history(place) as history:
            plant_first_release(database_of(history), BANDWIDTH, STEPS)
        with open_history(place) as history:
            (bandwidth, step_time) = (stored_points(history, key) for key in history.series())
            assert [(one.job_id, one.judged, one.metric.unit) for one in bandwidth] == [
                ("481221", 77.9, "GB/s"),
                ("481222", 79.02, "GB/s"),
                ("481223", 78.64, "GB/s"),
            ]
            assert {one.metric for one in bandwidth} == {JUDGED["busbw_gbs"]}
            assert [(one.judged, one.metric) for one in step_time] == [(5.11, STEP_TIME)]
            (first, second) = history.records(BANDWIDTH["run_id"])
            assert [first.measured, second.measured] == [78.64, 5.11]
            history.add([run_record(1)])
        with open_history(place) as history:  # once
            assert [one.judged for one in stored_points(history, history.series()[0])] == [77.9, 79.02, 78.64]

    def test_rows_of_the_first_release_that_were_never_measured_keep_their_metric(self, place: str) -> None:
        error = {name: one for name, one in BANDWIDTH.items() if name not in {"job", "repeats", "measured"}}
        first = {**error, "outcome": "error", "verdict": None, "run_id": "20261119-220411-a1b2c3"}
        with open_history(place) as history:
            plant_first_release(database_of(history), first)
        with open_history(place) as history:
            history.add([of_content(BANDWIDTH)])
            (key,) = history.series()
            assert [one.judged for one in stored_points(history, key)] == [77.9, 79.02, 78.64]
            assert {one.metric for one in stored_points(history, key)} == {JUDGED["busbw_gbs"]}

    def test_a_database_of_the_first_release_that_cannot_be_written_says_what_to_do(
        self, place: str, read_only: AbstractContextManager[None]
    ) -> None:
        with open_history(place) as history:
            plant_first_release(database_of(history), BANDWIDTH)
        with read_only, open_history(place) as history:
            for request in (history.runs, lambda: history.add([of_content(BANDWIDTH)])):
                with pytest.raises(HistoryUnusableError) as caught:
                    request()
                fact, step = str(caught.value).splitlines()
                assert fact.startswith(f"the history {history.shown} is of version 1, and cannot be converted")
                assert step.startswith("next: let this user write it, or name another one")
        with open_history(place) as history:
            assert history.runs() == {BANDWIDTH["run_id"]: BANDWIDTH["cluster"]}

    def test_a_database_of_the_first_release_whose_records_cannot_be_read_is_left_alone(self, place: str) -> None:
        with open_history(place) as history:
            plant_first_release(database_of(history), BANDWIDTH)
            database_of(history).execute("UPDATE gsw_body SET body = ?", (b"x",))
        with open_history(place) as history:
            with pytest.raises(HistoryUnusableError, match="a record in it cannot be read"):
                history.runs()
            assert database_of(history).execute("SELECT version FROM gsw_schema") == [(1,)]
            ((cost,),) = database_of(history).execute("SELECT MIN(judged_s) FROM gsw_point")
            assert cost == 1 / 79.02

    def test_a_point_that_somebody_has_damaged_is_an_error_of_the_history(self, place: str) -> None:
        with open_history(place) as history:
            history.add([run_record(0)])
            database_of(history).execute("UPDATE gsw_point SET environment = 'x'")
            with pytest.raises(HistoryError) as caught:
                stored_points(history, KEY)
        assert str(caught.value) == (
            f"a point of {KEY.row} in {history.shown} cannot be read: Expecting value: line 1 column 1 (char 0)"
        )
