"""Metrics as Prometheus and the node exporter read them, by the two parsers of Prometheus' own client."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from prometheus_client import Metric as Family
from prometheus_client.openmetrics.parser import text_string_to_metric_families as strictly
from prometheus_client.parser import text_string_to_metric_families as leniently

from pytest_gsw.history.alarms import Alarm, Occurrence, State
from pytest_gsw.history.comparison import ClusterText
from pytest_gsw.history.node_search import FailingNode, SlowNode
from pytest_gsw.reports.ci import openmetrics
from pytest_gsw.reports.run_report import RunReport
from pytest_gsw.stats.decision import Outcome
from pytest_gsw.stats.verdict import MetricVerdict
from pytest_gsw.tables.metrics import Direction, Metric
from tests.unit.history.runs import period
from tests.unit.reports.ci.nights import DRIFTING, ERROR, PASSED, REGRESSED, RUN, hostile_run, run_of, texts
from tests.unit.results.records import varied
from tests.unit.results.sweeps import ROW, slow_finding, sweep_of, tile, tiles
from tests.unit.results.test_incident import run_records


def families(run: RunReport) -> dict[str, Family]:
    """What both parsers read: the strict one of OpenMetrics, and that of the text format for textfile collectors."""
    text = f"{openmetrics(run)}\n"
    strict, lenient = ({family.name: family for family in parse(text)} for parse in (strictly, leniently))
    assert {name: family.samples for name, family in strict.items()} == {
        name: family.samples for name, family in lenient.items()
    }
    assert all(family.documentation == lenient[name].documentation for name, family in strict.items())
    return strict


def values(run: RunReport, name: str) -> dict[str, float]:
    return {sample.labels["row"]: sample.value for sample in families(run)[name].samples}


def test_an_incident_is_a_sample_of_the_cluster() -> None:
    slow = families(run_of(run_records([0.06] * 9 + [-0.01])))
    usual = families(run_of(run_records([0.01, -0.01] * 5)))

    (effect,) = slow["gsw_cluster_effect_ratio"].samples
    assert effect.labels == {"cluster": "eos"}
    assert effect.value == pytest.approx(math.expm1(-0.06))
    assert [found["gsw_cluster_incident"].samples[0].value for found in (slow, usual)] == [1, 0]
    assert "gsw_cluster_incident" not in families(run_of(run_records([0.06] * 7)))


@pytest.mark.parametrize(("drift", "value"), [("creeps", [1.0]), ("", [0.0]), (None, [])])
def test_a_cluster_that_creeps_is_a_sample_where_that_is_known(drift: str | None, value: list[float]) -> None:
    told = replace(run_of((PASSED,)), cluster_texts={"eos": ClusterText(drift=drift)})
    found = families(told).get("gsw_cluster_drift")
    assert [sample.value for sample in (found.samples if found else ())] == value


def test_a_value_is_rounded_as_on_other_screens() -> None:
    slow = varied(PASSED, measured={**PASSED.figures.measured, "step_time_s": 5.0649999999999995})
    assert " 5.065\n" in openmetrics(run_of((slow,)))


def test_a_sample() -> None:
    labels = (
        '{row="llama2_70b_fp8[H100x128]",table="baselines/maxtext/llama2_70b.yaml",cluster="eos",workload="llama2_70b",'
        'framework="maxtext",dtype="fp8",accelerator="H100",gpus="128"}'
    )
    lines = openmetrics(run_of((REGRESSED,))).splitlines()
    assert lines[:4] == [
        "# HELP gsw_step_time_seconds Measured time of a training step.",
        "# TYPE gsw_step_time_seconds gauge",
        f"gsw_step_time_seconds{labels} 5.11",
        "# HELP gsw_documented_step_time_seconds Documented time of a training step.",
    ]
    assert f"gsw_mfu_ratio{labels} 0.36025" in lines
    assert lines[-2:] == ['gsw_run_timestamp_seconds{cluster="eos"} 1795212692.0', "# EOF"]


def test_units_are_base_units() -> None:
    found = families(RUN)
    assert set(found) == {
        "gsw_step_time_seconds",
        "gsw_documented_step_time_seconds",
        "gsw_tokens_per_second",
        "gsw_mfu_ratio",
        "gsw_throughput_change_ratio",
        "gsw_allowed_loss_ratio",
        "gsw_drift",
        "gsw_queue_seconds",
        "gsw_run_seconds",
        "gsw_outcome",
        "gsw_run_timestamp_seconds",
    }
    assert all(family.type == "gauge" and family.documentation for family in found.values())


def test_what_was_measured() -> None:
    assert values(RUN, "gsw_step_time_seconds")[REGRESSED.row.id] == 5.11
    assert ERROR.row.id not in values(RUN, "gsw_step_time_seconds")
    assert values(RUN, "gsw_throughput_change_ratio")[REGRESSED.row.id] == pytest.approx(-0.1084, abs=1e-4)
    assert values(RUN, "gsw_allowed_loss_ratio")[REGRESSED.row.id] == 0.05
    assert {row for row, value in values(RUN, "gsw_drift").items() if value} == {DRIFTING.row.id}


def test_every_row_has_one_outcome_of_all() -> None:
    by_row: dict[str, dict[str, float]] = {}
    for sample in families(RUN)["gsw_outcome"].samples:
        by_row.setdefault(sample.labels["row"], {})[sample.labels["outcome"]] = sample.value
    assert {row: {name for name, value in states.items() if value} for row, states in by_row.items()} == {
        record.row.id: {record.outcome} for record in RUN.records
    }
    assert {len(states) for states in by_row.values()} == {8}


def test_rows_without_a_record_are_errors() -> None:
    run = run_of((PASSED,), {"t.yaml::one": "the session ended", PASSED.row.node_id: "has a record"})
    samples = families(run)["gsw_outcome"].samples
    assert [sample.labels for sample in samples if sample.labels["row"] == "one"] == [
        {"row": "one", "table": "t.yaml", "cluster": "eos", "outcome": "error"}
    ]
    assert len(samples) == 9


def test_the_time_is_that_of_the_newest_record_of_a_cluster() -> None:
    run = run_of(
        (
            varied(PASSED, recorded_s=5.0),
            varied(REGRESSED, recorded_s=7.0),
            varied(ERROR, simulated=True, recorded_s=6.0),
        )
    )
    samples = families(run)["gsw_run_timestamp_seconds"].samples
    assert {sample.labels["cluster"]: sample.value for sample in samples} == {"eos": 7.0, "demo": 6.0}


def test_slow_nodes_are_told_with_what_they_cost() -> None:
    one = SlowNode(("n1",), -0.1, (), (), recovered=False)
    several = SlowNode(("n1", "n2"), -0.05, (), (), recovered=False)
    samples = families(replace(RUN, slow_nodes={"eos": (one, several)}))[
        "gsw_slow_node_throughput_change_ratio"
    ].samples
    assert [(sample.labels, sample.value) for sample in samples] == [
        ({"cluster": "eos", "node": "n1", "one_of": "1"}, -0.1),
        ({"cluster": "eos", "node": "n2", "one_of": "2"}, -0.05),
    ]
    one = FailingNode(("n1",), 6, 8, 0.02, named=True)
    samples = families(replace(RUN, nodes_failing_jobs={"eos": (one,)}))["gsw_failing_node_ratio"].samples
    assert [(sample.labels, sample.value) for sample in samples] == [
        ({"cluster": "eos", "node": "n1", "one_of": "1"}, 0.75)
    ]


def test_nothing_is_nothing() -> None:
    assert openmetrics(run_of(())) == "# EOF"
    assert families(run_of(())) == {}


def test_a_metric_of_a_site_is_a_label() -> None:
    odd = Metric("peak_memory_gib", 'Gi"B\\', Direction.LOWER_IS_BETTER, "peak memory")
    assert REGRESSED.verdict is not None
    verdict = replace(REGRESSED.verdict, metrics=(MetricVerdict(odd, Outcome.PASSED, 70.1, 70.0, 0.05),))
    found = families(run_of((replace(REGRESSED, verdict=verdict),)))
    (sample,) = found["gsw_metric"].samples
    labels = {"metric": "peak_memory_gib", "unit": 'Gi"B\\', "better": "lower is better"}
    assert {**sample.labels, **labels} == sample.labels
    assert sample.value == 70.1


@given(texts)
def test_labels_come_back_as_they_were(text: str) -> None:
    run = hostile_run(text)
    found = families(run)
    drifts = found["gsw_drift"].samples
    assert {sample.labels["workload"] for sample in drifts} == {text}
    assert {sample.labels["row"] for sample in drifts} == {text}
    for family in found.values():
        keys = [tuple(sorted(sample.labels.items())) for sample in family.samples]
        assert len(set(keys)) == len(keys)  # node_exporter gives up on a series that comes twice
        assert all(sample.timestamp is None for sample in family.samples)


def test_tiles_are_samples_of_their_row() -> None:
    missing = f"baselines/nemo/llama3.yaml::{ROW}@n040"
    run = run_of([*tiles(), PASSED], {missing: "the session ended"})
    found = families(replace(run, run=replace(run.run, sweep=sweep_of(run.records[:-1], slow_finding("n[017-018]")))))
    steps = found["gsw_step_time_seconds"].samples
    assert {(one.labels["row"], one.labels.get("tile")) for one in steps} == {
        (PASSED.row.id, None),
        *((ROW, f"n{number:03}") for number in range(1, 33) if number != 31),
    }
    lost = [
        one.labels["tile"] for one in found["gsw_outcome"].samples if one.labels["outcome"] == "error" and one.value
    ]
    assert lost == ["n031", "n040"]
    (peers,) = (one for one in found["gsw_tile_peers_change_ratio"].samples if one.labels["tile"] == "n017")
    assert peers.labels == {"row": ROW, "cluster": "eos", "tile": "n017"}
    assert peers.value == pytest.approx(-0.1)
    assert [(one.labels["node"], one.value) for one in found["gsw_sweep_node_slow_change_ratio"].samples] == [
        ("n017", -0.1),
        ("n018", -0.1),
    ]
    assert [one.value for one in found["gsw_sweep_nodes_not_covered"].samples] == [4]


def test_tiles_that_regress_by_a_sites_metric_are_samples_of_their_own() -> None:
    slow = MetricVerdict(Metric("peak", "GiB", Direction.LOWER_IS_BETTER, "peak"), Outcome.REGRESSED, 2.0, 1.0, 0.05)
    records = [
        replace(one, verdict=replace(one.verdict, metrics=(slow,))) for one in map(tile, ("n1", "n2")) if one.verdict
    ]
    active = Alarm("1f0c92ab", period(Occurrence("night-001", 0.0, 0.0)), State.NEW, pages=True)
    samples = families(replace(run_of(records), alarms=(active,)))["gsw_alarm_pages"].samples
    assert [one.labels["tile"] for one in samples if "metric" in one.labels] == ["n1", "n2"]
