"""A record as JUnit properties; what rows are called in JUnit, and what a session notes for it."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import given

from pytest_gsw.jobs.states import JobState
from pytest_gsw.results.junit import properties
from pytest_gsw.results.manifest import (
    CaseBesideRows,
    RunManifest,
    class_name,
    class_of,
    read_noted,
    suite_properties,
    write_noted,
)
from pytest_gsw.results.record import Record
from tests.messages import wording
from tests.unit.results.records import ENDURED, JOB, SLOW, varied
from tests.unit.results.test_record import RECORDS


def test_the_properties_of_a_measured_row() -> None:
    assert properties(SLOW) == [
        ("gsw_row", "llama2_70b_fp8[H100x128]"),
        ("gsw_outcome", "regressed"),
        (
            "gsw_fact",
            wording(
                "throughput", measured="205,201", change="10.8", side="% below", documented="230,153 (allowed 5 %)"
            ),
        ),
        ("gsw_cluster", "eos"),
        ("gsw_tolerance", 0.05),
        ("gsw_gpus", 128),
        ("gsw_reference", "documented"),
        ("gsw_throughput_change", -0.108415),
        ("gsw_measured_step_time_s", 5.11),
        ("gsw_measured_tokens_per_s", 205200.78),
        ("gsw_measured_mfu", 0.36025),
        ("gsw_measured_days_to_train_1t_tokens", 56.4043),
        ("gsw_measured_tflops_per_gpu", 712.94),
        ("gsw_documented_step_time_s", 4.556),
        ("gsw_documented_tokens_per_s", 230152.77),
        ("gsw_documented_mfu", 0.404),
        ("gsw_documented_days_to_train_1t_tokens", 50.29),
        ("gsw_statistic", "last"),
        ("gsw_steps", 49),
        ("gsw_median_step_s", 5.1),
        ("gsw_p90_step_s", 5.14),
        ("gsw_job_id", "481221"),
        ("gsw_job_state", "COMPLETED"),
        ("gsw_job_exit_code", 0),
        ("gsw_job_nodes", "pool0-[0017-0032]"),
        ("gsw_job_queue_s", 30.0),
        ("gsw_job_run_s", 662.0),
        ("gsw_log", "/stage/results/24.11/fp8/70b/128/log-maxtext_llama2_70b_128_481221.out"),
        ("gsw_baseline", "baselines/maxtext/llama2_70b.yaml:41"),
        ("gsw_document", "readme.md:31"),
    ]


def test_a_row_that_was_never_submitted_has_no_properties_of_a_job() -> None:
    record = varied(SLOW, outcome="error", job=None, log=None, measured={}, statistic="", steps=0, median_s=None)
    names = [name for name, _ in properties(varied(record, p90_s=None))]
    assert not [name for name in names if name.startswith(("gsw_job", "gsw_measured", "gsw_log", "gsw_steps"))]
    assert "gsw_fact" in names
    assert "gsw_reference" not in names


def test_jobs_before_the_last_and_what_an_early_end_saved() -> None:
    lost = replace(JOB, id="481220", state=JobState.NODE_FAIL, nodes="pool0-0017", why_repeated="node failure")
    found = dict(properties(varied(SLOW, attempts=(lost, lost), saved_gpu_hours=41.25)))
    assert {name: value for name, value in found.items() if name.startswith(("gsw_attempt", "gsw_saved"))} == {
        "gsw_attempts": 3,
        "gsw_attempt_1": "481220 NODE_FAIL on pool0-0017: node failure",
        "gsw_attempt_2": "481220 NODE_FAIL on pool0-0017: node failure",
        "gsw_saved_gpu_hours": 41.25,
    }


def test_the_use_of_a_rows_time() -> None:
    found = dict(properties(replace(SLOW, endurance=ENDURED)))
    names = ("gsw_goodput", "gsw_lost_s", "gsw_restarts", "gsw_mtbf_h")
    assert [found[name] for name in names] == [0.95, 3600.0, 2, 12.0]
    assert not [name for name, _ in properties(SLOW) if name in names]


def test_what_makes_figures_useless_is_said() -> None:
    marked = dict(properties(varied(SLOW, simulated=True, not_comparable="--gsw-profile=nsight")))
    assert marked["gsw_simulated"] is True
    assert marked["gsw_not_comparable"] == "--gsw-profile=nsight"
    assert not {"gsw_simulated", "gsw_not_comparable"} & dict(properties(SLOW)).keys()


@given(record=RECORDS)
def test_properties_are_unique_and_of_kinds_that_junit_can_carry(record: Record) -> None:
    found = properties(record)
    assert {type(value) for _, value in found} <= {str, int, float, bool}
    assert len(dict(found)) == len(found)


# -- junit names -----------------------------------------------------------------------------------

ROW = "baselines/nemo/grok1_314b.yaml::grok1_314b_fp8[H100x512]"
NOTED = RunManifest(
    "eos",
    "25.05",
    {"pytest-gsw": "0.1.0", "python": "3.11.7"},
    {ROW: "dtype is blank"},
    rows={ROW: {"framework": "nemo", "workload": "grok1_314b"}},
)


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        (("eos", "nemo", "llama3.1_405b"), "eos.nemo.llama3_1_405b"),
        (("eos.h100", "megatron-bridge", "grok1_314b"), "eos_h100.megatron-bridge.grok1_314b"),
        (("eos", "", ""), "eos.unknown.unknown"),
    ],
)
def test_a_class_name_has_three_parts(parts: tuple[str, str, str], name: str) -> None:
    assert class_name(*parts) == name


def test_a_row_of_two_clusters_is_two_tests() -> None:
    other = replace(SLOW, run=replace(SLOW.run, cluster="selene"))
    assert [class_of(SLOW), class_of(other)] == ["eos.maxtext.llama2_70b", "selene.maxtext.llama2_70b"]
    case = CaseBesideRows("nodes::n017", "eos.h100", "n017", "node n017", "SLOW", "failed", 1, "slow", "gsw_node")
    assert case.class_name == "eos_h100.nodes"


def test_what_is_noted_is_read_again(tmp_path: Path) -> None:
    write_noted(tmp_path, NOTED)
    assert read_noted(tmp_path) == NOTED
    # A session that resumes a run keeps the rows of the one before.
    rows = {"a.yaml::row": {"framework": "nemo", "workload": "b"}}
    write_noted(tmp_path, RunManifest("eos", "", {"python": "3.12.1"}, rows=rows))
    noted = read_noted(tmp_path)
    assert noted.class_of(ROW) == "eos.nemo.grok1_314b"
    assert noted.class_of("a.yaml::row") == "eos.nemo.b"
    assert noted.versions == {"python": "3.12.1"}
    assert noted.errors == {ROW: "dtype is blank"}


def test_a_row_that_nobody_noted_is_called_by_its_table() -> None:
    assert RunManifest("eos").class_of(ROW) == "eos.nemo.grok1_314b"
    assert RunManifest().class_of("llama3.1.yaml::row") == "replay.unknown.llama3_1"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"cluster": 17}',
        '{"versions": ["3.11"]}',
        '{"rows": {"row": 17}}',
        '{"errors": ["row"]}',
        "[" * 100_000,
        "\ud83d",
    ],
)
def test_a_damaged_note_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "junit.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    assert read_noted(tmp_path) == RunManifest()


def test_the_properties_of_a_suite() -> None:
    ran = replace(SLOW, run=replace(SLOW.run, environment={"slurm": "22.05.8", "nccl": "2.19"}))
    assert suite_properties(NOTED, "7f3a", [SLOW, ran]) == [
        ("gsw_cluster", "eos"),
        ("gsw_run", "7f3a"),
        ("gsw_release", "25.05"),
        ("gsw_version_pytest_gsw", "0.1.0"),
        ("gsw_version_python", "3.11.7"),
        ("gsw_version_slurm", "22.05.8"),
    ]
    assert suite_properties(RunManifest(), "7f3a", [SLOW])[0] == ("gsw_cluster", "eos")


def test_each_text_of_a_manifest_is_a_property_that_the_page_names() -> None:
    texts = {part.name for part in fields(RunManifest) if isinstance(part.default, str)} - {"replay_of"}
    noted = replace(RunManifest(), **{name: f"its {name}" for name in texts})  # type: ignore[arg-type]
    found = suite_properties(noted, "7f3a", [])
    assert dict(found) == {"gsw_run": "7f3a", **{f"gsw_{name}": f"its {name}" for name in texts}}
    page = (Path(__file__).parents[3] / "docs" / "ci.md").read_text(encoding="utf-8")
    assert [name for name, _ in found if f"`{name}`" not in page] == []
