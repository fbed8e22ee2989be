"""Recipes and staging areas that are not as they must be, with the keys that led there."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from pytest_gsw.clusters.model import Cluster, find_cluster
from pytest_gsw.errors import SubmissionError
from pytest_gsw.jobs.layout import fixed_part
from pytest_gsw.jobs.model import JobSpec
from pytest_gsw.jobs.preflight import cluster_problem, recipe_problem, stage_problem
from pytest_gsw.tables.load import load_table
from tests.integration.conftest import tiny_table
from tests.unit.nvidia.started import started

ROW = "gpus: 8, step_time_s: 1.000, line: 10"


class Site:
    """A project with one table and one cluster."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, keys: str, *, directory: str = "tiny", environ: dict[str, str] | None = None) -> None:
        (self.path / "clusters.yaml").write_text(f"clusters:\n  eos:\n    scheduler: slurm\n{keys}")
        (self.path / "tiny.yaml").write_text(tiny_table(ROW).replace("directory: tiny", f"directory: {directory}"))
        self.cluster: Cluster = find_cluster("eos", [Path("clusters.yaml")], environ or {})
        (self.row,) = load_table(Path("tiny.yaml"))
        self.spec: JobSpec = started(self.row, self.cluster)

    def recipe(self) -> str:
        problem = recipe_problem(self.spec, self.row, self.cluster) or self.spec.launch.problem(self.spec)
        return "" if problem is None else str(problem)

    def stage(self) -> str:
        problem: SubmissionError | None = stage_problem(self.spec, self.cluster)
        return "" if problem is None else str(problem)

    @property
    def line(self) -> int:
        """Of the table, the one that names the recipe's directory."""
        lines = (self.path / "tiny.yaml").read_text().split("\n")
        return next(number for number, line in enumerate(lines, 1) if "directory:" in line)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.chdir(tmp_path)
    return Site(tmp_path)


KEYS = "    stage: stage/{recipe}\n    recipes: recipes\n"


def test_all_is_there(site: Site) -> None:
    (site.path / "recipes" / "tiny").mkdir(parents=True)
    (site.path / "recipes" / "tiny" / "launch.sh").write_text("#!/bin/bash\n")
    site.write(KEYS)
    assert (site.recipe(), site.stage()) == ("", "")
    (site.path / "stage" / "tiny" / "results").mkdir(parents=True)
    assert (site.recipe(), site.stage()) == ("", "")


@pytest.mark.parametrize(
    ("made", "keys", "directory", "fact", "evidence"),
    [
        ([], "    stage: s\n    recipes: nowhere/{recipe}\n", "tiny", "directory of recipes is not there: /nowhere", "recipes"),
        ([], "    stage: stage\n", "tiny", "staging area, where the launch script is to be, is not there: /stage", "stage"),
        (["recipes/tiny"], KEYS, "tiny", "recipe's directory is no directory: /recipes/tiny", "recipes recipe"),
        (["recipes/a/b"], KEYS, "tiny", "recipe's directory is not there: /recipes/tiny", "recipes recipe there"),
        ([], KEYS, "./mine", "recipe's directory is not there: /mine", "recipe"),
        (["recipes/tiny/a.sh"], KEYS, "tiny", "launch script is not there: /recipes/tiny/launch.sh", "recipes recipe there"),
    ],
)  # fmt: skip
def test_a_recipe_that_is_not_where_it_is_to_be(
    site: Site, made: list[str], keys: str, directory: str, fact: str, evidence: str
) -> None:
    for path in (site.path / name for name in made):
        path.parent.mkdir(parents=True)
        path.touch()
    site.write(keys, directory=directory)
    problem = recipe_problem(site.spec, site.row, site.cluster)
    assert problem is not None
    assert problem.fact == f"the {fact.replace(': ', f': {site.path}')}"
    assert [name for name, _ in problem.evidence] == evidence.split()


def test_the_keys_that_led_to_a_recipe_are_named_with_their_lines(site: Site) -> None:
    for name in ("grok1", "llama3.1", ".git", "a", "b", "c", "d", "e"):
        (site.path / "recipes" / name).mkdir(parents=True)
    site.write(KEYS)
    assert site.recipe() == (
        f"the recipe's directory is not there: {site.path}/recipes/tiny\n\n"
        f"recipes    clusters.yaml:5  recipes: {site.path}/recipes\n"
        f"recipe     tiny.yaml:{site.line}  directory: tiny\n"
        "there      a, b, c, d, e, grok1 and 1 other\n"
        "next       is the recipe part of this release? Correct the directory there, or fetch the recipe"
    )


def test_where_a_directory_is_from(site: Site) -> None:
    site.write("    accelerator: H100\n", environ={"STAGE_PATH": f"{site.path}/stage"})
    assert "stage      STAGE_PATH of the environment\n" in site.recipe()
    site.spec = dataclasses.replace(site.spec, directory=Path("/nowhere/else"))
    assert "hook       pytest_gsw_make_job_spec\n" in site.recipe()
    (site.path / "stage").write_text("")
    assert site.stage().startswith(f"the staging area is no directory: {site.path}/stage\n")
    (site.path / "recipes" / "tiny").mkdir(parents=True)
    (site.path / "recipes" / "tiny" / "launch.sh").symlink_to("gone.sh")
    site.write(KEYS)
    assert site.recipe().startswith("the launch script is a link to nothing: ")


@pytest.mark.parametrize(
    ("option", "environment", "line", "named", "place"),
    [
        ("--clusters=eos,dgx", "", "", "eos,dgx", "clusters.yaml:6  --clusters=eos,dgx"),
        ("-Mall", "", "", "all", "clusters.yaml:6  --clusters=all"),
        ("-Q", "SBATCH_CLUSTERS: 'eos,dgx'", "", "eos,dgx", "SBATCH_CLUSTERS"),
        ("-Q", "SLURM_CLUSTERS: ALL", "", "ALL", "SLURM_CLUSTERS"),
        ("-Q", "", "#SBATCH -M eos,dgx", "eos,dgx", "{recipe}/launch.sh:2"),
    ],
)
def test_a_list_of_clusters(site: Site, option: str, environment: str, line: str, named: str, place: str) -> None:
    recipe = site.path / "recipes" / "tiny"
    recipe.mkdir(parents=True)
    (recipe / "launch.sh").write_text(f"#!/bin/bash\n{line}\n")
    site.write(f"{KEYS}    sbatch: ['{option}']\n    environment: {{{environment}}}\n")
    assert str(cluster_problem(site.spec, site.cluster, site.spec)) == (
        f"a session runs on one Slurm cluster, and the row names several: {named}\n\n"
        f"named by   {place.format(recipe=recipe)}\n"
        "next       name one cluster there"
    )


def test_rows_on_two_clusters(site: Site) -> None:
    site.write(f"{KEYS}    sbatch: [--clusters=eos]\n")
    first, none = dataclasses.replace(site.spec, row_id="first"), dataclasses.replace(site.spec, options=())
    other = dataclasses.replace(none, environment={"SBATCH_CLUSTERS": "dgx"})
    assert cluster_problem(site.spec, site.cluster, first) is None
    told = [
        str(cluster_problem(spec, site.cluster, dataclasses.replace(before, row_id="first")))
        for spec, before in ((other, first), (none, first), (other, none))
    ]
    advice = "next       name one cluster for all rows, or run those of each cluster in a session of their own"
    begin = "a session runs on one Slurm cluster, and the row names"
    assert told == [
        f"{begin} dgx, where first names eos\n\nnamed by   SBATCH_CLUSTERS\n{advice}",
        f"{begin} none, where first names eos\n\nnamed by   clusters.yaml:6  --clusters=eos\n{advice}",
        f"{begin} dgx, where first names none\n\nnamed by   SBATCH_CLUSTERS\n{advice}",
    ]


def test_what_may_not_be_read_or_written(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    (site.path / "recipes" / "tiny").mkdir(parents=True)
    (site.path / "recipes" / "tiny" / "launch.sh").write_text("#!/bin/bash\n")
    site.write(KEYS)
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert site.recipe().startswith(f"the launch script cannot be read: {site.path}/recipes/tiny/launch.sh\n")
    assert site.stage() == (
        f"the staging area is not there, and cannot be made: {site.path}/stage/tiny\n\n"
        f"stage      clusters.yaml:4  stage: {site.path}/stage/{{recipe}}\n"
        f"above      {site.path} cannot be written to\n"
        f"next       correct `stage` there, or get the right to write: ls -ld {site.path}"
    )
    results = site.path / "stage" / "tiny" / "results"
    results.mkdir(parents=True)
    assert site.stage() == (
        f"the staging area cannot be written to: {results}\n\n"
        f"stage      clusters.yaml:4  stage: {site.path}/stage/{{recipe}}\n"
        f"next       correct `stage` there, or get the right to write: ls -ld {results}"
    )


@pytest.mark.parametrize(
    ("pattern", "part"),
    [
        ("results/*/fp8/70b/64/log_{job_id}.out", "results"),
        ("logs/mine/{job_id}.out", "logs/mine"),
        ("{job_id}/log.out", ""),
        ("log-{job_id}.out", ""),
        ("", ""),
    ],
)
def test_the_directories_of_a_log_that_are_known(pattern: str, part: str) -> None:
    assert fixed_part(pattern) == part


def test_a_script_that_is_run_here_is_a_program(site: Site) -> None:
    script = site.path / "recipes" / "tiny" / "launch.sh"
    script.parent.mkdir(parents=True)
    script.write_text("#!/bin/bash\n")
    script.chmod(0o644)
    site.write(f"{KEYS}    launcher: nemo-run\n")
    assert site.recipe() == (
        f"the launch script cannot be run: {script}\n\n"
        f"recipes    clusters.yaml:5  recipes: {site.path}/recipes\n"
        f"recipe     tiny.yaml:{site.line}  directory: tiny\n"
        f"next       chmod +x {script}"
    )
    script.chmod(0o755)
    assert site.recipe() == ""


def test_llmb_run_has_its_scripts_elsewhere(site: Site) -> None:
    (site.path / "recipes" / "tiny").mkdir(parents=True)
    site.write(f"{KEYS}    launcher: llmb-run\n")
    assert site.recipe() == ""


@pytest.mark.parametrize(("said", "told"), [("sbatch", True), ("nemo", False), ("configured_sbatch", False)])
def test_llmb_run_does_not_say_where_a_job_writes_that_it_gives_to_sbatch(site: Site, said: str, told: bool) -> None:
    """It runs what its own checkout of the recipes has."""
    install, repo = site.path / "install", site.path / "repo"
    (install / "workloads" / "pretrain_tiny").mkdir(parents=True)
    (install / "cluster_config.yaml").write_text(f"launcher: {{llmb_repo: {repo}, llmb_install: {install}}}\n")
    for name in ("other", "tiny"):
        (repo / name / "pretrain").mkdir(parents=True)
        (repo / name / "pretrain" / "metadata.yaml").write_text(
            f"general:\n  workload: {name}\n  workload_type: pretrain\nrun:\n"
            f"  launcher_type: '{said if name == 'tiny' else 'nemo'}'\n"
        )
    keys = KEYS.replace("recipes: recipes", "recipes: install/workloads")
    site.write(f"{keys}    launcher: llmb-run\n", directory="pretrain_tiny")
    assert site.recipe() == (
        "the recipe is launched by sbatch, and the row by llmb-run\n\n"
        "recipe     repo/tiny/pretrain/metadata.yaml:5  launcher_type: 'sbatch'\n"
        f"recipes    clusters.yaml:5  recipes: {site.path}/install/workloads\n"
        f"recipe     tiny.yaml:{site.line}  directory: pretrain_tiny\n"
        "next       set `launcher: sbatch` in the cluster file, or in the table: recipe: {launcher: sbatch}"
        if told
        else ""
    )


def test_where_the_recipes_are_installed(site: Site) -> None:
    site.write(f"    stage: /dev/null\n    launcher: nemo-run\n    environment: {{LLMB_INSTALL: {site.path}/llmb}}\n")
    assert site.stage() == ""
    (site.path / "llmb").write_text("")
    assert site.stage() == (
        f"LLMB_INSTALL is no directory: {site.path}/llmb\n\n"
        "next       correct it under `environment` of the cluster: all nodes must see it"
    )


@pytest.mark.parametrize(
    ("said", "launcher", "wanted"),
    [
        ("'megatron_bridge'", "", "nemo-run"),
        ("nemo", "configured-sbatch", "nemo-run"),
        ("sbatch", "nemo-run", "sbatch"),
        ('"configured_sbatch"', "nemo-run", "configured-sbatch"),
        ("megatron_bridge", "nemo-run", ""),
        ("sbatch", "configured-sbatch", ""),
        ("something_new", "", ""),
        ("nemo  # by NeMo-Run", "", "nemo-run"),
    ],
)
def test_a_recipe_is_launched_as_it_says(site: Site, said: str, launcher: str, wanted: str) -> None:
    recipe = site.path / "recipes" / "tiny"
    recipe.mkdir(parents=True)
    (recipe / "launch.sh").write_text("#!/bin/bash\n")
    (recipe / "launch.sh").chmod(0o755)
    (recipe / "metadata.yaml").write_text(f"general:\n  workload: tiny\nrun:\n  launcher_type: {said}\n")
    site.write(KEYS + (f"    launcher: {launcher}\n" if launcher else ""))
    told = site.recipe()
    if not wanted:
        assert told == ""
        return
    assert told == (
        f"the recipe is launched by {wanted}, and the row by {launcher or 'sbatch'}\n\n"
        f"recipe     recipes/tiny/metadata.yaml:4  launcher_type: {said}\n"
        f"recipes    clusters.yaml:5  recipes: {site.path}/recipes\n"
        f"recipe     tiny.yaml:{site.line}  directory: tiny\n"
        f"next       set `launcher: {wanted}` in the cluster file, or in the table: recipe: {{launcher: {wanted}}}"
    )
