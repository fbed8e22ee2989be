"""Runs that are looked at again: on another cluster's name, after the table has changed, in a resumed session."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_gsw.jobs.journal import NAME
from pytest_gsw.tables.load import load_table
from pytest_gsw.tables.model import definition_hash, experiment_hash
from tests.integration.conftest import Gsw, tiny_table
from tests.integration.runs import accept
from tests.messages import wording

#: A recipe that neither trains nor says that it is a simulation; it names its image where it is told one.
LAUNCH = """\
#!/bin/bash
set -eu
gpus=$(( SLURM_JOB_NUM_NODES * RUN_CONF_GPU_PER_NODE ))
results=$STAGE_PATH/results/v1/$DTYPE/$MODEL_SIZE/$gpus
mkdir -p "$results"
{
    [ -z "${TINY_IMAGE:-}" ] || echo "GSW: MODEL=tiny MODEL_SIZE=1b IMAGE='$TINY_IMAGE' JOB_ID=$SLURM_JOB_ID"
    for step in {0..19}; do echo "completed step: $step, seconds: $TINY_SECONDS, loss: 9.0"; done
} >"$results/log-maxtext_tiny_1b_${gpus}_$SLURM_JOB_ID.out"
"""
CLUSTERS = """\
clusters:
  eos: {scheduler: local, accelerator: H100, gpus: 64, stage: stage, recipes: recipes}
  pool0: {scheduler: local, accelerator: H100, gpus: 64, stage: stage, recipes: recipes}
"""


@pytest.fixture
def site(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table of one row, and clusters that are not simulated."""
    recipe = pytester.path / "recipes" / "tiny"
    recipe.mkdir(parents=True)
    (recipe / "launch.sh").write_text(LAUNCH)
    (pytester.path / "clusters.yaml").write_text(CLUSTERS)
    table = pytester.path / "site" / "tiny.yaml"
    table.parent.mkdir()
    table.write_text(tiny_table("gpus: 8, step_time_s: 1.000, line: 10"))
    monkeypatch.chdir(pytester.path)
    monkeypatch.setenv("TINY_SECONDS", "1.10")
    monkeypatch.setenv("TINY_IMAGE", "/s/tiny.sqsh")
    monkeypatch.delenv("RUN_CONF_IMAGE", raising=False)
    return table


def run(pytester: pytest.Pytester, *options: str, cluster: str | None = "eos") -> pytest.RunResult:
    on = [f"--gsw-cluster={cluster}"] if cluster else []
    return pytester.runpytest(*on, "--gsw-baselines=site", *options)


def runs(pytester: pytest.Pytester) -> list[Path]:
    """The directories of all runs, the oldest first."""
    return sorted(pytester.path.glob(".gsw/runs/*"), key=lambda path: path.stat().st_mtime)


def recorded(directory: Path) -> dict[str, Any]:
    (path,) = directory.glob("records/*.json")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


# -- replays ------------------------------------------------------------------------------


def test_a_replay_on_another_cluster_is_a_usage_error(pytester: pytest.Pytester, site: Path) -> None:
    accept(site, 1.1, "tiny.sqsh", "eos")
    run(pytester, cluster="pool0").assert_outcomes(failed=1)
    (directory,) = runs(pytester)
    result = run(pytester, f"--gsw-replay={directory}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [
            "ERROR: --gsw-replay: "
            + wording("replay of another cluster", run=directory.name, cluster="pool0", given="eos"),
            "next: give --gsw-cluster=pool0, or leave it out to judge by the document",
        ]
    )
    assert runs(pytester) == [directory]
    run(pytester, f"--gsw-replay={directory}", cluster="pool0").assert_outcomes(failed=1)


def test_a_replay_keeps_the_definition_that_was_recorded(pytester: pytest.Pytester, site: Path) -> None:
    run(pytester)
    (directory,) = runs(pytester)
    then = recorded(directory)["definition"]
    site.write_text(site.read_text().replace("steps: 20", "steps: 20, script: launch.sh, environment: {A: b}"))
    now = accept(site, 1.1, "tiny.sqsh", "eos")
    assert now != then
    result = run(pytester, f"--gsw-replay={directory}")
    result.assert_outcomes(failed=1)
    other = f"this run was recorded under another definition ({then}, now {now})"
    result.stdout.fnmatch_lines(
        [
            "accepted   "
            + wording(
                "accepted does not count",
                cluster="eos",
                figure="1.1 s, 2026-11-20",
                why=f"{other}" + wording("document used"),
            )
        ]
    )
    assert recorded(runs(pytester)[-1])["definition"] == then


# -- resumed sessions ---------------------------------------------------------------------


def resumed(pytester: pytest.Pytester, site: Path, change: tuple[str, str] | None) -> tuple[pytest.RunResult, Path]:
    """A session that died before it judged its row, and went on after its table was changed."""
    run(pytester)
    (directory,) = runs(pytester)
    (path,) = directory.glob("records/*.json")
    path.unlink()
    if change is not None:
        site.write_text(site.read_text().replace(*change))
    accept(site, 1.1, "tiny.sqsh", "eos")
    return pytester.runpytest(f"--gsw-resume={directory.name}", "--gsw-baselines=site"), directory


def test_a_resumed_session_judges_a_job_by_what_its_row_was(pytester: pytest.Pytester, site: Path) -> None:
    result, directory = resumed(pytester, site, ("steps: 20", "steps: 20, environment: {A: b}"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["accepted   * " + wording("another definition") + " (*"])
    assert recorded(directory)["definition"] != definition_hash(load_table(site)[0], "tiny.sqsh")
    intent = json.loads((directory / NAME).read_text().splitlines()[1])
    assert recorded(directory)["definition"] == intent["definition"]
    assert recorded(directory)["experiment"] == ""  # nobody knows of which row it was


def test_a_resumed_session_whose_row_is_the_same(pytester: pytest.Pytester, site: Path) -> None:
    result, directory = resumed(pytester, site, None)
    result.assert_outcomes(passed=1)
    assert recorded(directory)["definition"] == definition_hash(load_table(site)[0], "tiny.sqsh")
    assert recorded(directory)["experiment"] == experiment_hash(load_table(site)[0])


# -- what is judged, and the image --------------------------------------------------------


def test_the_definition_does_not_depend_on_the_shells_secrets(
    pytester: pytest.Pytester, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    definition = accept(site, 1.1, "tiny.sqsh", "eos")
    monkeypatch.setenv("MODEL_KEY", "tiny.sqsh")
    run(pytester).assert_outcomes(passed=1)
    found = recorded(runs(pytester)[-1])
    assert (found["image"], found["definition"]) == ("***", definition)


# -- what has changed between two runs ----------------------------------------------------


def test_who_changes_a_variable_of_a_cluster_reads_it_as_a_cause(
    pytester: pytest.Pytester, site: Path, gsw: Gsw
) -> None:
    """Between two runs somebody sets variables in clusters.yaml, and a token is renewed, which no file may have."""

    def set_variables(**variables: str) -> None:
        environment = f", environment: {json.dumps(variables)}}}\n  pool0"
        Path("clusters.yaml").write_text(CLUSTERS.replace("}\n  pool0", environment))

    tokens = ("tk-first-0123456789", "tk-second-0123456789")
    set_variables(TINY_SECONDS="1.00", HF_TOKEN=tokens[0], TP_COMM="ring")
    run(pytester).assert_outcomes(passed=1)
    set_variables(TINY_SECONDS="1.16", HF_TOKEN=tokens[1], NCCL_IB_DISABLE="1")
    slower = run(pytester, "--junitxml=junit.xml", "--gsw-report=report")
    slower.assert_outcomes(failed=1)

    changed = "NCCL_IB_DISABLE not set -> 1, TINY_SECONDS 1.00 -> 1.16, TP_COMM ring -> not set"
    slower.stdout.fnmatch_lines(["since      this run", f"changed    {changed}"])
    assert f"\nchanged: {changed} (all rows)\n" in gsw("compare", *map(str, runs(pytester)), status=1).out
    assert f" {changed}: throughput -13.8 % " in gsw("history").out
    (row_page,) = Path("report/runs").glob("*/rows/*.html")
    for text in (Path("junit.xml").read_text(), Path("report/index.html").read_text()):
        assert changed.replace(">", "&gt;") in text
    assert "NCCL_IB_DISABLE=1, TINY_SECONDS=1.16" in row_page.read_text()

    written = [path for path in pytester.path.rglob("*") if path.is_file() and path.name != "clusters.yaml"]
    assert not [path for path in written if any(token.encode() in path.read_bytes() for token in tokens)]
