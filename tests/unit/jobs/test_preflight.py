"""Recipes, their variables and modules, and staging areas, before anything is submitted: only what is certain is an error."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_gsw.clusters import Cluster, find_cluster
from pytest_gsw.errors import SubmissionError
from pytest_gsw.jobs import preflight
from pytest_gsw.jobs.layout import fixed_part
from pytest_gsw.jobs.model import JobSpec
from pytest_gsw.jobs.preflight import (
    RequiredVariable,
    Staged,
    cluster_problem,
    demands_in,
    demands_of,
    recipe_problem,
    release_problems,
    stage_problem,
    staged_release,
)
from pytest_gsw.tables.bundled import bundled_releases
from pytest_gsw.tables.load import load_table, load_tables
from pytest_gsw.tables.model import Baseline, Source
from tests.integration.conftest import tiny_table
from tests.messages import wording
from tests.unit.nvidia.started import launch, started

# -- files, with the keys that led there --------------------------------------------------------------


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

    def script(self, text: str = "", mode: int = 0o644) -> Path:
        """Leave the recipe's launch script."""
        script = self.path / "recipes" / "tiny" / "launch.sh"
        script.parent.mkdir(parents=True)
        script.write_text(f"#!/bin/bash\n{text}")
        script.chmod(mode)
        return script

    def recipe(self) -> str:
        problem = recipe_problem(self.spec, self.row, self.cluster) or self.spec.launch.problem(self.spec)
        return "" if problem is None else str(problem)

    def stage(self) -> str:
        problem: SubmissionError | None = stage_problem(self.spec, self.cluster)
        return "" if problem is None else str(problem)

    def named(self, directory: str = "tiny", recipes: str = "recipes") -> str:
        """The lines of a message with the keys that led to the recipe."""
        lines = (self.path / "tiny.yaml").read_text().split("\n")
        line = next(number for number, line in enumerate(lines, 1) if "directory:" in line)
        return f"recipes    clusters.yaml:5  recipes: {self.path}/{recipes}\nrecipe     tiny.yaml:{line}  directory: {directory}\n"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.chdir(tmp_path)
    return Site(tmp_path)


KEYS = "    stage: stage/{recipe}\n    recipes: recipes\n"


def test_all_is_there(site: Site) -> None:
    site.script()
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
        f"the recipe's directory is not there: {site.path}/recipes/tiny\n\n{site.named()}"
        "there      a, b, c, d, e, grok1 and 1 other\n"
        "next       is the recipe part of this release? Correct the directory there, or fetch the recipe"
    )


def test_where_a_directory_is_from(site: Site) -> None:
    site.write("    accelerator: H100\n", environ={"STAGE_PATH": f"{site.path}/stage"})
    assert "stage      STAGE_PATH of the environment\n" in site.recipe()
    site.spec = dataclasses.replace(site.spec, directory=Path("/nowhere/else"))
    assert "hook       pytest_gsw_make_job_spec\n" in site.recipe()
    (site.path / "stage").write_text("")
    assert site.stage().startswith(wording("stage is no directory", path=f"{site.path}/stage") + "\n")
    (site.path / "recipes" / "tiny").mkdir(parents=True)
    (site.path / "recipes" / "tiny" / "launch.sh").symlink_to("gone.sh")
    site.write(KEYS)
    assert site.recipe().startswith(wording("script is a dead link", path=""))


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
    recipe = site.script(f"{line}\n").parent
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
    site.script()
    site.write(KEYS)
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert site.recipe().startswith(
        wording("script is not readable", path=f"{site.path}/recipes/tiny/launch.sh") + "\n"
    )
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
    script = site.script()
    site.write(f"{KEYS}    launcher: nemo-run\n")
    assert site.recipe() == (
        wording("script is not runnable", path=script) + f"\n\n{site.named()}next       chmod +x {script}"
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
        f"{site.named('pretrain_tiny', 'install/workloads')}"
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
    metadata = site.script(mode=0o755).with_name("metadata.yaml")
    metadata.write_text(f"general:\n  workload: tiny\nrun:\n  launcher_type: {said}\n")
    site.write(KEYS + (f"    launcher: {launcher}\n" if launcher else ""))
    told = site.recipe()
    if not wanted:
        assert told == ""
        return
    assert told == (
        f"the recipe is launched by {wanted}, and the row by {launcher or 'sbatch'}\n\n"
        f"recipe     recipes/tiny/metadata.yaml:4  launcher_type: {said}\n{site.named()}"
        f"next       set `launcher: {wanted}` in the cluster file, or in the table: recipe: {{launcher: {wanted}}}"
    )


# -- what launch scripts demand of their environment --------------------------------------------------


HEAD = "#!/bin/bash\n#SBATCH --exclusive\n\nset -eu -o pipefail\n"


def demanded(body: str, head: str = HEAD) -> list[RequiredVariable]:
    return list(demands_in(head + body))


@pytest.mark.parametrize(
    ("body", "name", "empty_is_unset"),
    [
        ('export HF_TOKEN=${HF_TOKEN?"Required variable HF_TOKEN"}', "HF_TOKEN", False),
        ("GPU_TYPE=${GPU_TYPE:?GPU_TYPE is required.}", "GPU_TYPE", True),
        (': "${LLMB_INSTALL:?Required variable LLMB_INSTALL}"', "LLMB_INSTALL", True),
        (": ${LLMB_INSTALL:?}", "LLMB_INSTALL", True),
        ('if [ "$SLURM_NNODES" -gt 4 ]; then\n  X=1\nfi\nA=${B?}', "B", False),
        ('echo "set B, please" >&2\nA=${B?}', "B", False),
        (
            "A=$(date +%s) # of now\nif [[ -z $A ]]; then\n    exit 1\nfi\nif [ $A -lt 4 ] || { [ $A = 4 ] && [ $C -lt 2 ]; }; then\n    echo old\nfi\nexport B=${B:?set it}",
            "B",
            True,
        ),
    ],
)
def test_a_demand(body: str, name: str, empty_is_unset: bool) -> None:
    (demand,) = demanded(body)
    assert (demand.name, demand.empty_is_unset) == (name, empty_is_unset)


@pytest.mark.parametrize(
    "body",
    [
        "export DTYPE=${DTYPE:-fp8}",
        "export HF_TOKEN=${HF_TOKEN-}\nA=${HF_TOKEN:?}",  # it has a default before
        "HF_TOKEN=$(cat ~/.token)\nA=${HF_TOKEN:?}",
        "read HF_TOKEN </etc/token\nA=${HF_TOKEN:?}",
        "source ./configure.sh\nA=${HF_TOKEN:?}",
        ". ./configure.sh\nA=${HF_TOKEN:?}",
        'eval "$CODE"\nA=${HF_TOKEN:?}',
        "[[ -f env ]] && source env\nA=${HF_TOKEN:?}",
        "if [ -f env ]; then\n    . env\nfi\nA=${HF_TOKEN:?}",
        "export $(grep = env)\nA=${HF_TOKEN:?}",
        'while read -r line; do\n    export "$line"\ndone <env\nA=${HF_TOKEN:?}',
        "module load site\nA=${HF_TOKEN:?}",
        "exit 0\nA=${HF_TOKEN:?}",
        "[[ -f done ]] && exit\nA=${HF_TOKEN:?}",
        "if [ $X = 1 ]; then\n    ./other.sh\n    exit 0\nfi\nA=${HF_TOKEN:?}",
        "if ! source env; then\n    exit 1\nfi\nA=${HF_TOKEN:?}",
        'printf -v "$NAME" x\nA=${HF_TOKEN:?}',
        "$SETUP\nA=${HF_TOKEN:?}",
        "A=${B:-${C}}",  # C is not looked at where B is set
        'A=/tmp/x; mkdir -p "$A"',
        'export A=/tmp/x && echo "$A"',
        "A=$EPOCHSECONDS",
        "if [ $X = 1 ]; then\nA=${HF_TOKEN:?}\nfi",  # of one kind of run alone
        "if [ $X = 1 ]; then\n    A=${HF_TOKEN:?}\nfi",
        "if true; then :; fi; case $X in\na)\nA=${HF_TOKEN:?}\n;;\nesac",
        "login() {\nA=${HF_TOKEN:?}\n}",
        "cat <<EOF\nA=${HF_TOKEN:?}\nEOF",
        "echo '\nA=${HF_TOKEN:?}\n'",
        "python train.py \\\nA=${HF_TOKEN:?}",
        "A=${B:-${HF_TOKEN:?}}",
        "A='${HF_TOKEN:?}'",
        "[[ $X ]] && A=${HF_TOKEN:?}",
        'if [[ -z "$HF_TOKEN" ]]; then\n    HF_TOKEN=none\nfi',
        'if [[ -z "$HF_TOKEN" ]]; then\n    exit 0\nfi',
        'if [[ -z "$HF_TOKEN" ]]; then\n    load_token || exit 1\nfi',
        "A=$SLURM_JOB_ID/${SLURM_NNODES:?}/$HOME/$PWD/$TMPDIR",
        "A=$1/$@/$#/$?",
        "# A=${HF_TOKEN:?}",
    ],
)
def test_no_demand(body: str) -> None:
    assert demanded(body) == []


@pytest.mark.parametrize(
    "head",
    [
        "#!/usr/bin/env python3\n",
        "#!/bin/bash\n#SBATCH --export=NONE\n",
        "#!/bin/bash -l\n",  # the user's profile may set it
        "#!/usr/bin/env -S bash --login\n",
        "#!/bin/bash\n#SBATCH --export=ALL,HF_TOKEN=a\n",
        "#!/bin/bash\n#SBATCH --get-user-env\n",
    ],
)
def test_no_bash_script_or_a_job_with_other_variables_than_the_session(head: str) -> None:
    assert demanded("A=${HF_TOKEN:?}", head) == []
    assert len(demanded("A=${HF_TOKEN:?}", "#!/bin/bash\n#SBATCH --export=ALL\n")) == 1


def variables_problem(spec: JobSpec, environ: dict[str, str]) -> SubmissionError | None:
    return preflight.variables_problem(spec, environ, demands_of(spec.script))


@pytest.fixture
def spec(tmp_path: Path) -> JobSpec:
    (tmp_path / "launch.sh").write_text(f"{HEAD}A=${{HF_TOKEN?}}\nB=${{LLMB_INSTALL:?}}\nC=${{MODEL_SIZE:?}}\n")
    return JobSpec("a", "a", tmp_path / "launch.sh", tmp_path, tmp_path / "stage", 1, 8, {"MODEL_SIZE": "70b"})


@pytest.mark.parametrize("option", ["--export=ALL,HF_TOKEN=a", "--get-user-env", "--export-file=env"])
def test_options_that_give_a_job_more_variables(spec: JobSpec, option: str) -> None:
    asked = [RequiredVariable("HF_TOKEN", 5)]
    assert preflight.variables_problem(dataclasses.replace(spec, options=("--export=ALL",)), {}, asked) is not None
    assert preflight.variables_problem(dataclasses.replace(spec, options=(option,)), {}, asked) is None


def test_variables_that_are_not_set(spec: JobSpec) -> None:
    problem = variables_problem(spec, {"LLMB_INSTALL": ""})
    assert isinstance(problem, SubmissionError)
    assert str(problem) == (
        "the launch script needs HF_TOKEN and LLMB_INSTALL, which are not set\n\n"
        f"said at    {spec.script}:5  HF_TOKEN\n"
        f"said at    {spec.script}:6  LLMB_INSTALL\n"
        "next       export HF_TOKEN=… LLMB_INSTALL=…; or write that under `environment` of the cluster"
    )
    assert "which is not set" in str(variables_problem(spec, {"HF_TOKEN": ""}))
    assert variables_problem(spec, {"HF_TOKEN": "hf_secret", "LLMB_INSTALL": "/llmb"}) is None


def test_a_file_that_bash_reads_first_leaves_all_open(spec: JobSpec) -> None:
    assert variables_problem(spec, {"BASH_ENV": "/etc/site.sh"}) is None


def test_a_row_without_a_size(spec: JobSpec) -> None:
    problem = variables_problem(
        JobSpec("a", "a", spec.script, spec.directory, spec.stage, 1, 8, {}, unset=("MODEL_SIZE",)),
        {"MODEL_SIZE": "8b", "HF_TOKEN": "x", "LLMB_INSTALL": "x"},
    )
    assert problem is not None
    assert problem.fact == wording("script needs", names="MODEL_SIZE", are="is")
    assert problem.advice == wording("next size")


def test_what_is_set_for_a_script_that_submits_by_itself(spec: JobSpec) -> None:
    spec.script.write_text(f'{HEAD}: "${{SBATCH_ACCOUNT:?}}"\n')
    environment = {"LLMB_INSTALL": "/llmb", "STAGE_PATH": "/stage"}
    own = dataclasses.replace(spec, launch=launch("nemo-run"), environment=environment, options=("--account=eng",))
    assert variables_problem(own, {"STAGE_PATH": "/other"}) is None
    assert variables_problem(dataclasses.replace(own, options=()), {}) is not None
    assert variables_problem(dataclasses.replace(own, launch=launch("llmb-run"), options=()), {}) is None


# -- which release is staged --------------------------------------------------------------------------


ROWS = {row.id: row for row in load_tables()}
GROK = ROWS["grok1_314b_fp8[H100x64]"]


def staged(root: Path, text: str, recipe: str = "grok1") -> Path:
    script = root / recipe / "launch.sh"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(text)
    return script


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("export GSW_VERSION=25.02\n", "25.02"),
        ("#!/bin/bash\nset -eu\n  GSW_VERSION='25.04.01'  # of launch.sh\n", "25.04.01"),
        ("export GSW_VERSION=25.02\nGSW_VERSION=25.02\n", "25.02"),
        ("export GSW_VERSION=25.02\nexport GSW_VERSION=25.04\n", None),
        ('export GSW_VERSION=${GSW_VERSION?"is not set"}\n', None),
        ("# export GSW_VERSION=25.02\n", None),
        ("GSW_VERSION=25.01#x\nMY_GSW_VERSION=25.01\n", None),
        ("export GSW_VERSION=$(cat version)\nGSW_VERSION_SUFFIX=1\n", None),
        ("export GSW_VERSION=demo\n", None),
        ("", None),
    ],
)
def test_what_a_launch_script_says(tmp_path: Path, text: str, version: str | None) -> None:
    found = staged_release(staged(tmp_path, text))
    assert (found and found.version) == version


@pytest.mark.parametrize("recipe", ["grok1", "deepseek_v3/pretrain/megatron_bridge"])
def test_what_the_file_of_a_checkout_says_where_the_script_says_nothing(tmp_path: Path, recipe: str) -> None:
    (tmp_path / "release.yaml").write_text("# one version for all\n\nllmb_version: '26.06.00'\nother: 1\n")
    found = staged_release(staged(tmp_path, "#!/bin/bash\n", recipe))
    assert found == Staged("26.06.00", tmp_path / "release.yaml", 3, "llmb_version: '26.06.00'")
    own = staged_release(staged(tmp_path, "export GSW_VERSION=25.10\n", recipe))
    assert own is not None
    assert own.version == "25.10"
    # Whoever says two releases in the script itself may be run as either.
    several = "export GSW_VERSION=25.02\nexport GSW_VERSION=25.04\n"
    assert staged_release(staged(tmp_path, several, recipe)) is None


@pytest.mark.parametrize(
    "text", ["llmb_version: 'main'\n", "", "  llmb_version: '26.02'\n", "llmb_version: '1'\nllmb_version: '2'\n"]
)
def test_what_a_file_of_a_checkout_says_without_a_release(tmp_path: Path, text: str) -> None:
    (tmp_path / "release.yaml").write_text(text)
    assert staged_release(staged(tmp_path, "#!/bin/bash\n")) is None


def test_a_recipes_own_file_of_that_name_does_not_hide_that_of_the_checkout(tmp_path: Path) -> None:
    (tmp_path / "release.yaml").write_bytes(b"llmb_version: '26.02'\r\n")
    script = staged(tmp_path, "#!/bin/bash\n")
    (script.parent / "release.yaml").write_text("maintainer: somebody\n")
    assert staged_release(script) == Staged("26.02", tmp_path / "release.yaml", 1, "llmb_version: '26.02'")


def test_no_script_says_nothing(tmp_path: Path) -> None:
    assert staged_release(tmp_path / "grok1" / "launch.sh") is None


def problems(script: Path, row: Baseline = GROK) -> list[str]:
    eos = Cluster("eos", "slurm")
    return [str(error) for _, error in release_problems([(row, script)], eos)]


def test_a_recipe_of_another_release_cannot_be_judged_by_the_row(tmp_path: Path) -> None:
    assert problems(tmp_path / "grok1" / "launch.sh") == []  # nothing is there yet
    script = staged(tmp_path, "export GSW_VERSION=25.04\n")
    assert problems(script) == []
    script.write_text("export GSW_VERSION=24.10\n")
    assert problems(script) == [
        f"""\
the staged recipe is of release 24.10, and the row's figures are of 25.02 to 25.04.02

release    {script}:1  export GSW_VERSION=24.10
table      no bundled table has this row for 24.10
next       stage the recipe of 25.04.02, or write the figures of 24.10 into a table of your own, \
with releases: ["24.10"], and name it with --gsw-baselines"""
    ]
    assert problems(script, replace(GROK, source=replace(GROK.source, releases=()))) == []


def test_a_recipe_of_another_release_than_the_documents_tag(tmp_path: Path) -> None:
    script = staged(tmp_path, "export GSW_VERSION=25.04\n")
    tagged = replace(GROK, source=Source("readme.md", 7, "v25.02"))
    (problem,) = problems(script, tagged)
    assert problem.startswith(wording("staged release", staged="25.04", documented="v25.02") + "\n")


#: As recipes of v25.05.01 to v25.05.03 have it, and the first heading of each one's CHANGELOG.
CONSTANT = "export GSW_VERSION=25.05.01\n"
HEADING = "# Changes\n\n## [v{release}] - 2025-07-22\n### Changed\n\n## [v25.05.01] - 2025-06-18\n"


def row_of(release: str, row_id: str = "grok1_314b_bf16[H100x512]") -> Baseline:
    (row,) = (row for path in bundled_releases()[release] for row in load_table(path) if row.id == row_id)
    return row


@pytest.mark.parametrize("release", ["25.05.01", "25.05.02", "25.05.03"])
def test_the_changelog_says_which_of_several_releases_is_staged(tmp_path: Path, release: str) -> None:
    script = staged(tmp_path, CONSTANT)
    (tmp_path / "CHANGELOG").write_text(HEADING.format(release=release))
    found = staged_release(script)
    assert found == Staged(release, tmp_path / "CHANGELOG", 3, f"## [v{release}] - 2025-07-22", is_release=True)
    assert found.releases == (release,)
    for other in ("25.05.01", "25.05.02", "25.05.03"):
        said = problems(script, row_of(other))
        assert bool(said) == (release not in row_of(other).source.releases)


def test_a_release_that_the_changelog_says_is_told_with_its_figures(tmp_path: Path) -> None:
    script = staged(tmp_path, CONSTANT)
    (tmp_path / "CHANGELOG").write_text(HEADING.format(release="25.05.02"))
    (problem,) = problems(script, row_of("25.05.01"))
    assert problem.startswith(
        "the staged recipe is of release 25.05.02, and the row's figures are of 25.05.01\n"
        "\n"
        f"release    {tmp_path}/CHANGELOG:3  ## [v25.05.02] - 2025-07-22\n"
        "table      baselines/releases/25.05.02/nemo/grok1_314b.yaml has this row's figures of 25.05.02\n"
        "next       stage the recipe of 25.05.01, or take that release's figures: pytest "
    )
    assert "--gsw-release=25.05.02" in problem


@pytest.mark.parametrize("heading", [None, "25.04", "25.05.04"])
@pytest.mark.parametrize("release", ["25.05.01", "25.05.02"])
def test_releases_of_which_nothing_says_which_is_staged_are_named_with_their_figures(
    tmp_path: Path, release: str, heading: str | None
) -> None:
    script = staged(tmp_path, CONSTANT)
    if heading is not None:
        (tmp_path / "CHANGELOG").write_text(HEADING.format(release=heading))
    row = row_of(release)
    of = "25.05.01" if release == "25.05.01" else "25.05.02 to 25.05.05"
    assert problems(script, row) == [
        f"""\
the staged recipe is of release 25.05.01, 25.05.02 or 25.05.03, and the row's figures are of {of}

release    {script}:1  export GSW_VERSION=25.05.01
table      several: step_time_s 16.93 of 25.05.01, 15.933 of 25.05.02, 15.933 of 25.05.03
next       stage a checkout of one release, whose CHANGELOG names it"""
    ]
    # Rows whose figures are the same in all three, and a table of one's own, which says what is right.
    assert problems(script, row_of(release, "grok1_314b_bf16[GB200x256]")) == []
    own = replace(row, location=replace(row.location, path=tmp_path / "own.yaml"))
    assert problems(script, own) == []


@pytest.mark.parametrize(
    ("tag", "version", "heading"),
    [("25.01.1", "25.01", "25.01"), ("25.02.02", "25.02", "25.02"), ("25.03", "25.02", "25.02")],
)
def test_a_changelog_that_lacks_a_release_whose_figures_are_those_before(
    tmp_path: Path, tag: str, version: str, heading: str
) -> None:
    (tmp_path / "CHANGELOG").write_text(f"## [v{heading}] - 2025-02-11\n")
    script = staged(tmp_path, f"export GSW_VERSION={version}\n")
    assert [row.id for path in bundled_releases()[tag] for row in load_table(path) if problems(script, row)] == []


@pytest.mark.parametrize("version", ["24.11", "v24.11"])
def test_a_table_of_ones_own_may_name_a_release_as_the_script_does(tmp_path: Path, version: str) -> None:
    script = staged(tmp_path, f"export GSW_VERSION={version}\n")
    for releases, wrong in (("24.11",), False), (("24.11.1",), False), (("24.12",), True):
        row = replace(GROK, source=replace(GROK.source, releases=releases))
        assert bool(problems(script, row)) == wrong
