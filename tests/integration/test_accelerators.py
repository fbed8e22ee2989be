"""The rows of a session are those of the cluster's accelerator; none meets an empty session without the next command."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.messages import wording


def cluster(pytester: pytest.Pytester, accelerator: str) -> str:
    """Describe a cluster and return the option that names it."""
    text = f"clusters:\n  site: {{scheduler: local, accelerator: {accelerator}, stage: stage}}\n"
    (pytester.path / "clusters.yaml").write_text(text)
    return "--gsw-cluster=site"


@pytest.mark.parametrize(
    ("accelerator", "figures", "rows", "others"),
    [
        ("H100", "the documents' own", 47, "H100: 21 releases, newest nemo:26.06, --gsw-release=RELEASE"),
        ("GB200", "release nemo:26.08", 9, "GB200: 13 releases, newest nemo:26.08, --gsw-release=RELEASE"),
    ],
)
def test_the_rows_of_a_session_are_those_of_the_clusters_accelerator(
    pytester: pytest.Pytester, accelerator: str, figures: str, rows: int, others: str
) -> None:
    result = pytester.runpytest(cluster(pytester, accelerator), "--gsw-plan", "-v")
    result.stdout.fnmatch_lines([f"gsw: figures: {figures}", f"gsw: {others}"])
    planned = [line for line in result.outlines if line.startswith("baselines/")]
    assert len(planned) == rows
    assert all(f"[{accelerator.upper()}" in line for line in planned)


def test_an_accelerator_without_rows_has_the_next_command(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest(cluster(pytester, "H200"), "--gsw-plan")
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    result.stdout.fnmatch_lines(
        [
            "gsw: 141 rows for CPU, H100, V100-16GB and V100-32GB left out: site has H200",
            wording("no rows for it", accelerator="H200"),
            wording("next row and guess", command="pytest *"),
        ]
    )
    assert not list(pytester.path.glob(".gsw/runs/*/stage"))


def test_a_release_without_rows_for_the_accelerator_names_those_that_have_some(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest(cluster(pytester, "H100"), "--gsw-release=nemo:26.08", "--gsw-plan")
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    result.assert_outcomes(deselected=18)
    result.stdout.fnmatch_lines(
        [
            "gsw: 18 rows for GB200 and GB300 left out: site has H100",
            wording("releases for it", accelerator="H100", releases="21 releases", newest="nemo:26.06"),
            "next: pytest --gsw-cluster=site --gsw-release=nemo:26.06",
        ]
    )
    (advice,) = [line for line in result.outlines if line.startswith("next: ")]
    again = pytester.runpytest(*shlex.split(advice.partition(": pytest ")[2]), "--collect-only", "-q")
    assert sum("::" in line for line in again.outlines) == 5


def test_a_row_of_another_accelerator_that_is_named_is_a_usage_error(pytester: pytest.Pytester, table: Path) -> None:
    row = "site/tiny.yaml::tiny_1b_bf16[H100x8]"
    result = pytester.runpytest(cluster(pytester, "GB200"), row)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [
            f"ERROR: {row.replace('[', '[[]')}: "
            + wording("row for another accelerator", accelerator="H100", cluster="site", there="GB200"),
            "next: name a cluster that has H100 with --gsw-cluster, or rows for GB200",
        ]
    )


def test_a_replay_of_a_run_has_its_figures(pytester: pytest.Pytester) -> None:
    """By the release of the run: neither it nor the cluster need be named again."""
    run = ("--gsw-cluster=demo", "--gsw-release=nemo:26.06.01", "-k", "gpt_oss")
    pytester.runpytest(*run).assert_outcomes(passed=2, deselected=12)
    pytester.runpytest("--gsw-replay=last").assert_outcomes(passed=2, deselected=12)
