"""What rows are called in JUnit, and what a session notes for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_gsw.results.junit_names import (
    Noted,
    class_name,
    class_of,
    class_of_incident,
    read_noted,
    suite_properties,
    write_noted,
)
from tests.unit.results.records import SLOW

ROW = "baselines/nemo/grok1_314b.yaml::grok1_314b_fp8[H100x512]"
NOTED = Noted(
    "eos", "25.05", {"pytest-gsw": "0.1.0", "python": "3.11.7"}, {ROW: "eos.nemo.grok1_314b"}, {ROW: "dtype is blank"}
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
    assert class_of_incident("eos.h100") == "eos_h100.cluster"


def test_what_is_noted_is_read_again(tmp_path: Path) -> None:
    write_noted(tmp_path, NOTED)
    assert read_noted(tmp_path) == NOTED


def test_a_session_that_resumes_a_run_keeps_the_rows_of_the_one_before(tmp_path: Path) -> None:
    write_noted(tmp_path, NOTED)
    write_noted(tmp_path, Noted("eos", "", {"python": "3.12.1"}, {"another.yaml::row": "eos.nemo.another"}, {}))
    noted = read_noted(tmp_path)
    assert noted.class_of(ROW) == "eos.nemo.grok1_314b"
    assert noted.class_of("another.yaml::row") == "eos.nemo.another"
    assert noted.versions == {"python": "3.12.1"}
    assert noted.errors == {ROW: "dtype is blank"}


def test_a_row_that_nobody_noted_is_called_by_its_table() -> None:
    assert Noted("eos").class_of(ROW) == "eos.nemo.grok1_314b"
    assert Noted().class_of("llama3.1.yaml::row") == "replay.unknown.llama3_1"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"cluster": 17}',
        '{"versions": ["3.11"]}',
        '{"classes": {"row": 17}}',
        '{"errors": ["row"]}',
        "[" * 100_000,
        "\ud83d",
    ],
)
def test_a_damaged_note_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "junit.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    assert read_noted(tmp_path) == Noted()


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
    assert suite_properties(Noted(), "7f3a", [SLOW])[0] == ("gsw_cluster", "eos")
