"""What launch scripts demand of their environment. Wrong here is a demand that is none: a row that could have run."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from pytest_gsw.errors import SubmissionError
from pytest_gsw.jobs import preflight
from pytest_gsw.jobs.model import JobSpec
from pytest_gsw.jobs.preflight import RequiredVariable, demands_in, demands_of
from tests.unit.nvidia.started import launch

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
        ('if [[ -z "$NGC_API_KEY" ]]; then\n    echo "none" >&2\n    exit 1\nfi', "NGC_API_KEY", True),
        ("if [ -z ${A_KEY:-} ]; then\n  exit 2\nfi", "A_KEY", True),
        ("export WORKLOAD=$LLMB_INSTALL/workloads/x", "LLMB_INSTALL", False),
        ("RESULTS=${OTHER:-1}/${MODEL_SIZE}/x", "MODEL_SIZE", False),
        ('if [ "$SLURM_NNODES" -gt 4 ]; then\n  X=1\nfi\nA=${B?}', "B", False),
        ('echo "set B, please"\nA=${B?}', "B", False),
    ],
)
def test_a_demand(body: str, name: str, empty_is_unset: bool) -> None:
    (demand,) = demanded(body)
    assert (demand.name, demand.forbidden, demand.empty_is_unset) == (name, False, empty_is_unset)


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
        "A=${B:-$C/${D}}/x",
        "set +u\nA=$B",
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
        "A='$HF_TOKEN'",
        "A=\\$HF_TOKEN",
        "[[ $X ]] && A=${HF_TOKEN:?}",
        'if [[ -z "$HF_TOKEN" ]]; then\n    HF_TOKEN=none\nfi',
        'if [[ -z "$HF_TOKEN" ]]; then\n    exit 0\nfi',
        'if [[ -z "$HF_TOKEN" ]]; then\n    load_token || exit 1\nfi',
        "A=$SLURM_JOB_ID/${SLURM_NNODES:?}/$HOME/$PWD/$TMPDIR",
        "A=$1/$@/$#/$?",
        "# A=${HF_TOKEN:?}",
        "A=${#HF_TOKEN}",
    ],
)
def test_no_demand(body: str) -> None:
    assert demanded(body) == []


def test_without_set_u_a_variable_may_be_missing() -> None:
    assert demanded("A=$HF_TOKEN/x", "#!/bin/bash\nset -e\n") == []


def test_what_must_not_be_set() -> None:
    (demand,) = demanded('if [ -n "${STAGE_PATH+x}" ]; then\n    echo "Error: not any more"\n    exit 1\nfi')
    assert demand == RequiredVariable("STAGE_PATH", 5, forbidden=True)
    assert not demand.is_met({"STAGE_PATH": ""})
    assert demand.is_met({})


def test_no_bash_script_and_a_job_without_the_sessions_environment() -> None:
    assert demanded("A=${B:?}", "#!/usr/bin/env python3\n") == []
    assert demanded("A=${B:?}", "#!/bin/bash\n#SBATCH --export=NONE\n") == []
    assert len(demanded("A=${B:?}", "#!/bin/bash\n#SBATCH --export=ALL\n")) == 1


def variables_problem(spec: JobSpec, environ: dict[str, str]) -> SubmissionError | None:
    return preflight.variables_problem(spec, environ, demands_of(spec.script))


@pytest.fixture
def spec(tmp_path: Path) -> JobSpec:
    (tmp_path / "launch.sh").write_text(f"{HEAD}A=${{HF_TOKEN?}}\nB=${{LLMB_INSTALL:?}}\nC=$MODEL_SIZE\n")
    return JobSpec("a", "a", tmp_path / "launch.sh", tmp_path, tmp_path / "stage", 1, 8, {"MODEL_SIZE": "70b"})


@pytest.mark.parametrize(
    "head",
    [
        "#!/bin/bash -l\n",  # the user's profile may set it
        "#!/usr/bin/env -S bash --login\n",
        "#!/bin/bash\n#SBATCH --export=ALL,HF_TOKEN=a\n",
        "#!/bin/bash\n#SBATCH --get-user-env\n",
    ],
)
def test_a_job_with_more_variables_than_the_session(head: str) -> None:
    assert not demanded("A=${HF_TOKEN:?}", head)


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
    assert problem.fact == "the launch script needs MODEL_SIZE, which is not set"
    assert problem.advice == "give the row its `size` in the table, which sets MODEL_SIZE"


def test_a_script_that_refuses_the_staging_area(spec: JobSpec) -> None:
    spec.script.write_text(f'{HEAD}if [ -n "${{STAGE_PATH+x}}" ]; then\n    exit 1\nfi\n')
    problem = variables_problem(spec, {"STAGE_PATH": "/stage"})
    assert str(problem) == (
        "the launch script does not start if STAGE_PATH is set\n\n"
        f"said at    {spec.script}:5\n"
        "next       it submits by itself: `launcher: nemo-run`, and LLMB_INSTALL in `environment` of the cluster"
    )


def test_what_is_set_for_a_script_that_submits_by_itself(spec: JobSpec) -> None:
    spec.script.write_text(f'{HEAD}: "${{SBATCH_ACCOUNT:?}}"\nif [ -n "${{STAGE_PATH+x}}" ]; then\n    exit 1\nfi\n')
    environment = {"LLMB_INSTALL": "/llmb", "STAGE_PATH": "/stage"}
    own = dataclasses.replace(spec, launch=launch("nemo-run"), environment=environment, options=("--account=eng",))
    assert variables_problem(own, {"STAGE_PATH": "/other"}) is None
    assert variables_problem(dataclasses.replace(own, options=()), {}) is not None
    assert variables_problem(dataclasses.replace(own, launch=launch("llmb-run"), options=()), {}) is None
