"""Which rows are compared to tell how a workload scales: those of the bundled tables, checked by hand."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from pytest_gsw.jobs.states import JobState
from pytest_gsw.reports.charts import Curve, Rule, documented_rate, scaling_plot, workloads
from pytest_gsw.reports.reported_row import ReportedRow
from pytest_gsw.results.record import JobFacts, Record
from pytest_gsw.tables.bundled import bundled_baselines
from pytest_gsw.tables.load import load_tables
from tests.messages import wording
from tests.unit.history.runs import imported_figure
from tests.unit.reports.records_of_runs import BROKEN, PASSED, SLOW, drawn, row
from tests.unit.results.records import varied

JOB = JobFacts(JobState.COMPLETED, id="1", launcher="slurm", submit_s=1e9, end_s=1e9 + 60)


@cache
def bundled() -> Mapping[str, tuple[Curve, ...]]:
    """The bundled tables' rows, each measured as documented."""
    home = bundled_baselines()
    tables = [path for path in sorted(home.iterdir()) if path.is_dir() and path.name != "releases"]
    rows = [one for one in load_tables(tables) if one.judged is not None]
    measured = [
        ReportedRow(imported_figure(one, Path("x"), JOB, one.judged or 0), f"{number}")
        for number, one in enumerate(rows)
    ]
    return workloads(measured)


def counts(curve: Curve) -> list[int]:
    return [one.record.row.gpus for one in curve.rows]


def efficiencies(curve: Curve) -> list[float]:
    return [round(100 * (curve.documented(one) or 0), 1) for one in curve.rows]


def test_rows_of_one_model_and_one_batch_per_gpu_are_weak_scaling() -> None:
    bf16, fp8 = (curve for curve in bundled()["llama2_70b on H100"] if curve.rule is Rule.WEAK)
    assert (bf16.name, fp8.name, fp8.batch) == ("bf16", "fp8", 2)
    assert counts(fp8) == [64, 128, 256, 512, 1024, 2048]
    # 121,250.69 tokens/s on 64 GPUs and 3,403,086.41 on 2,048: 1,894.5 and 1,661.7 a GPU.
    assert efficiencies(fp8) == [100.0, 94.9, 87.2, 85.7, 85.4, 87.7]
    assert efficiencies(bf16) == [100.0, 99.0, 97.8, 98.7, 98.8, 99.1]
    (gpt3,) = bundled()["gpt3_175b on H100"]
    assert efficiencies(gpt3) == [100.0, 98.5, 98.3, 94.7, 93.1]


@pytest.mark.parametrize(
    ("workload", "whole", "of_fp8"),
    [("grok1_314b", [512, 1024, 2048], [100.0, 98.8, 97.7]), ("llama3.1_405b", [576, 1152, 2304], [100.0, 99.4, 91.0])],
)
def test_proxies_of_fewer_layers_are_no_part_of_the_models_curve(
    workload: str, whole: list[int], of_fp8: list[float]
) -> None:
    found = bundled()[f"{workload} on H100"]
    assert [(curve.rule, curve.name, counts(curve)) for curve in found] == [
        (Rule.WEAK, "bf16", whole),
        (Rule.WEAK, "fp8", whole),
    ]
    assert efficiencies(found[1]) == of_fp8
    assert {one.record.row.proxy for curve in found for one in curve.rows} == {False}


def test_no_ratio_of_the_bundled_tables_is_one_that_nobody_would_believe() -> None:
    for workload in bundled().values():
        for curve in workload:
            assert all(0.8 < (curve.documented(one) or 0) <= 1.0 for one in curve.rows), curve.name
    assert bundled()["gpt2_52b on V100-32GB"] == ()


def of_batches(*batches: int | None) -> tuple[Curve, ...]:
    """Rows on 64, 128, 256 GPUs, of these batches."""
    records = [
        varied(row(f"llama2_70b_fp8[H100x{64 << number}]"), batch=batch, layers=80, settings={"dp": f"{number}"})
        for number, batch in enumerate(batches)
    ]
    (found,) = workloads(ReportedRow(record, f"{number}") for number, record in enumerate(records)).values()
    return found


def test_rows_of_one_batch_are_strong_scaling() -> None:
    (curve,) = of_batches(512, 512, 512)
    assert (curve.rule, curve.batch, counts(curve)) == (Rule.STRONG, 512, [64, 128, 256])
    assert [curve.documented(one) for one in curve.rows] == [1, 2, 4] == [curve.ideal(one) for one in curve.rows]
    plot = drawn(scaling_plot("llama2_70b", [curve]))
    assert plot.title == "Speed-up of llama2_70b"
    assert plot.svg.findtext(".//a/circle/title") == "llama2_70b_fp8[H100x64]: 1.00x, documented 1.00x"
    assert of_batches(512, 768, None) == ()


def test_curves_that_differ_in_their_batches_alone_are_called_by_these() -> None:
    rows = [(64, 64), (128, 128), (256, 512), (512, 1024)]
    records = [varied(row(f"llama2_70b_fp8[H100x{gpus}]"), batch=batch, layers=80, settings={}) for gpus, batch in rows]
    (found,) = workloads(ReportedRow(record, f"{number}") for number, record in enumerate(records)).values()
    assert sorted(curve.name for curve in found) == ["fp8, 1 sample per GPU", "fp8, 2 samples per GPU"]


def test_where_the_fewest_gpus_were_not_measured_the_next_row_takes_their_place() -> None:
    curve = weak(BROKEN, row("llama2_70b_fp8[H100x128]"), row("llama2_70b_fp8[H100x256]", judged=4.6))
    assert curve.base.record.row.gpus == 128
    assert [curve.measured(one) for one in curve.rows] == [None, 1.0, pytest.approx(4.5 / 4.6)]
    assert [curve.documented(one) for one in curve.rows] == [1.0, 1.0, 1.0]  # of the same pairs
    plot = drawn(scaling_plot("llama2_70b", [curve]))
    told = [title.text for title in plot.svg.iter("title")]
    assert "llama2_70b_fp8[H100x64]: error: job 481265 failed with exit code 1: NCCL error" in told
    assert [one.text or "".join(one.itertext()) for one in plot.legend][1] == "could not be measured"


def test_a_row_that_regressed_is_no_base() -> None:
    curve = weak(SLOW, row("llama2_70b_fp8[H100x256]"))
    assert curve.base.record.row.gpus == 256
    assert [curve.measured(one) for one in curve.rows] == [pytest.approx(0.9), 1.0]
    plot = drawn(scaling_plot("llama2_70b", [curve]))
    told = [title.text for title in plot.svg.iter("title")]
    assert "llama2_70b_fp8[H100x128]: 90.0 %, documented 100.0 %, regressed" in told
    (mark,) = plot.svg.findall(".//a/svg[@class='regressed']")
    assert mark.find("polygon") is not None
    assert [one.text or "".join(one.itertext()) for one in plot.legend][1] == "regressed"


def test_where_no_row_passed_the_first_is_the_base() -> None:
    slow = varied(SLOW, row="llama2_70b_fp8[H100x256]", gpus=256, node_id="t::slow")
    assert weak(SLOW, slow).base.record.row.gpus == 128


def test_a_row_that_passed_by_an_accepted_figure_alone_is_no_base_where_another_passed_by_its_document() -> None:
    hides = {"outcome": "passed", "accepted": {"step_time_s": 5.0}}
    accepted = varied(SLOW, **hides)
    assert weak(accepted, row("llama2_70b_fp8[H100x256]")).base.record.row.gpus == 256
    slow = varied(SLOW, row="llama2_70b_fp8[H100x64]", gpus=64, node_id="t::slow")
    assert weak(slow, accepted).base.record.row.gpus == 128
    # By its document it passed, too.
    near = varied(accepted, measured={**accepted.figures.measured, "step_time_s": 4.6})
    assert weak(near, row("llama2_70b_fp8[H100x256]")).base.record.row.gpus == 128


def test_what_is_not_believed_is_no_point_and_no_base() -> None:
    doubted = {"measured": {"step_time_s": 3.6}, "outcome": "inconclusive", "reason": "too good to be true"}
    first = varied(row("llama2_70b_fp8[H100x64]"), **doubted)
    curve = weak(first, row("llama2_70b_fp8[H100x128]"), row("llama2_70b_fp8[H100x256]"))
    assert curve.base.record.row.gpus == 128
    assert [curve.measured(one) for one in curve.rows] == [None, 1.0, 1.0]
    plot = drawn(scaling_plot("llama2_70b", [curve]))
    told = [title.text for title in plot.svg.iter("title")]
    assert wording("none of the row", row="llama2_70b_fp8[H100x64]", why="too good to be true") in told
    assert [one.text or "".join(one.itertext()) for one in plot.legend][1] == "not believed"


def test_rows_of_cores_are_no_gpus() -> None:
    records = [varied(row(f"gpt_bf16[CPUx{count}]"), accelerator="CPU") for count in (1, 2)]
    curve = weak(*records)
    assert curve.batch_text == "2 samples per CPU"
    plot = drawn(scaling_plot("gpt", [curve]))
    assert plot.title == "Efficiency per CPU (%) of gpt"
    assert "over 1 to 2 CPUs" in plot.alt


def weak(*records: Record) -> Curve:
    """The one curve of rows that keep the batch of a GPU."""
    alike = [varied(one, batch=2 * one.row.gpus, layers=80) for one in records]
    (found,) = workloads(ReportedRow(record, f"{number}") for number, record in enumerate(alike)).values()
    (curve,) = found
    return curve


def test_a_second_row_that_is_the_same_is_no_second_point() -> None:
    records = [varied(row(f"llama2_70b_fp8[H100x{gpus}]"), batch=2 * gpus, layers=80) for gpus in (64, 128)]
    again = varied(records[0], row="llama2_70b_fp8[H100x64-again]", node_id="t::again")
    (found,) = workloads(ReportedRow(record, f"{number}") for number, record in enumerate([*records, again])).values()
    assert [counts(curve) for curve in found] == [[64, 128]]


def test_a_workload_on_one_number_of_gpus_does_not_scale() -> None:
    assert workloads([ReportedRow(PASSED, "a")]) == {}


def test_without_tokens_the_samples_of_a_step_tell() -> None:
    bare = varied(PASSED, batch=128, documented={"step_time_s": 4.0})
    assert documented_rate(ReportedRow(bare, "a")) == 32.0
