"""A row is judged by the figures of the release that ran, or not at all."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from pytest_gsw.logs.model import Identity
from pytest_gsw.tables.bundled import bundled_releases
from pytest_gsw.tables.load import load_tables
from pytest_gsw.tables.releases import container_of
from pytest_gsw.validation.agreement import compare
from tests.integration.conftest import put_on_path, records
from tests.messages import wording

#: The bundled figures of this row are those of 25.02 to 25.04.02: 17.53 s. Those of 25.01 are 16.21 s.
ROW = "baselines/nemo/grok1_314b.yaml::grok1_314b_fp8[H100x64]"


def log_of(directory: Path, version: str | None) -> Path:
    """A log as the recipe of Grok 1 leaves it, of a release by its constant, or of one that says none."""
    said = "" if version is None else f" GSW_VERSION={version} IMAGE='/stage/nvidia+nemo+24.12.sqsh' FW_VERSION=24.12"
    own = (
        "GSW: MODEL=grok1 FRAMEWORK=nemo MODEL_SIZE=314b JOB_NUM_NODES=8 GPUS_PER_NODE=8 DTYPE=fp8 SYNTHETIC_DATA=True"
    )
    lines = [
        f"{own}{said} JOB_ID=4711 JOB_MODE=training OPTIMIZATION_NAME='' OPTIMIZATION_CODE=''",
        *(
            f"Epoch 0: : {2 * n}%|#| {n}/50 [{n:02}:00<00:00, v_num=gjbq, reduced_train_loss={12 - n / 25:.2f}, "
            f"global_step={n - 1}.0, consumed_samples={1024 * n}.0, train_step_timing in s=17.89]"
            for n in range(1, 51)
        ),
    ]
    path = directory / "log-nemo_grok1_314b_64_4711.out"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_log_that_does_not_say_its_release_is_judged(pytester: pytest.Pytester) -> None:
    pytester.runpytest(f"--gsw-replay={log_of(pytester.path, None)}", ROW).assert_outcomes(passed=1)


def test_a_loss_of_the_release_that_ran_is_a_regression_by_its_own_figures(pytester: pytest.Pytester) -> None:
    """17.89 s is fast enough by the figures of v25.02, and 9.4 % too slow by those of v25.01."""
    log = log_of(pytester.path, "25.01")
    result = pytester.runpytest(f"--gsw-replay={log}", ROW)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        [
            wording("release differs", ran="25.01 or 25.01.1", documented="25.02 to 25.04.02"),
            "release    GSW_VERSION=25.01 in the log",
            "table      *baselines/releases/24.11.1/nemo/grok1_314b.yaml has this row's figures of 25.01",
            f"said at    {log}:1",
            "next       stage the recipe of 25.04.02, or take that release's figures: pytest --gsw-replay=* --gsw-release=25.01 *",
        ]
    )
    (advice,) = [line for line in result.stdout.lines if line.startswith("next ")]
    assert "'baselines/releases/24.11.1/nemo/grok1_314b.yaml::grok1_314b_fp8[H100x64]'" in advice
    again = pytester.runpytest(*shlex.split(advice.partition(": pytest ")[2]))
    again.assert_outcomes(failed=1)
    again.stdout.fnmatch_lines(
        [wording("throughput", measured="468,899", change="9.4", side="% below", documented="517,496 (allowed 5 %)")]
    )


def test_a_record_says_which_release_ran(pytester: pytest.Pytester) -> None:
    replay = f"--gsw-replay={log_of(pytester.path, '25.02')}"
    pytester.runpytest(replay, ROW, "--junitxml=junit.xml").assert_outcomes(passed=1)
    (run,) = records(pytester.path)
    assert run["environment"] == {"recipe": "25.02", "framework": "24.12"}
    assert run["compared"]["release"] == "25.02"
    text = (pytester.path / "junit.xml").read_text()
    assert 'name="gsw_environment_recipe" value="25.02"' in text


@pytest.fixture
def eos(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cluster on which a recipe of v25.04 is staged for Llama 2; what was submitted stands in this file."""
    submitted = pytester.path / "submitted"
    refusing = f'echo "$@" >>"{submitted}"; echo "sbatch: error: Invalid partition name specified" >&2; exit 1'
    put_on_path(pytester.path / "bin", monkeypatch, sbatch=refusing, scontrol="exit 1")
    (pytester.path / "clusters.yaml").write_text("clusters: {eos: {scheduler: slurm, stage: 'stage/{recipe}'}}\n")
    stage = pytester.path / "stage" / "maxtext"
    stage.mkdir(parents=True)
    (stage / "launch.sh").write_text("#!/bin/bash\nexport GSW_VERSION=25.04\n")
    return submitted


@pytest.mark.parametrize("version", ["25.01", None])
def test_a_row_that_is_named_is_of_the_release_that_is_asked_for(
    pytester: pytest.Pytester, version: str | None
) -> None:
    log = log_of(pytester.path, version)
    result = pytester.runpytest(f"--gsw-replay={log}", "--gsw-release=25.01", ROW)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [
            "ERROR: "
            + wording("asked release", release="25.01", rows="*grok1_314b_fp8*", documented="25.02 to 25.04.02"),
            "next: name the row with -k 'grok1_314b_fp8', or ask for --gsw-release=25.04.02",
        ]
    )
    pytester.runpytest(f"--gsw-replay={log}", "--gsw-release=25.03", ROW).assert_outcomes(
        **({"passed": 1} if version is None else {"errors": 1})
    )


def test_the_command_for_a_staged_recipe_of_another_release_runs_that_releases_row(
    pytester: pytest.Pytester, eos: Path
) -> None:
    recipe = pytester.path / "stage" / "grok1"
    recipe.mkdir()
    (recipe / "launch.sh").write_text("#!/bin/bash\nexport GSW_VERSION=25.01\n")
    result = pytester.runpytest("--gsw-cluster=eos", "--gsw-plan", ROW)
    (advice,) = [line for line in result.stdout.lines if "take that release's figures: " in line]
    again = pytester.runpytest(*shlex.split(advice.partition(": pytest ")[2]), "--gsw-plan")
    assert again.ret == 0
    again.stdout.fnmatch_lines(["gsw: 1 row, about *", "  command *sbatch *"])
    assert not eos.exists()


@pytest.mark.parametrize(
    ("image", "agrees"),
    [
        ("nvcr.io#nvidia/nemo:26.06.01", True),
        ("nvcr.io/nvidia/nemo:26.04.01", False),
        ("/lustre/images/nvidia+nemo+26.04.01.sqsh", False),
        ("/lustre/images/nvidia+nemo+26.06.01.sqsh", True),
        ("nvcr.io/nvidia/nemo:dev", None),
        ("/lustre/images/mine.sqsh", None),
    ],
)
def test_a_runs_container_is_compared_where_its_image_tells_it(image: str, agrees: bool | None) -> None:
    row = load_tables(bundled_releases()["nemo:26.06.01"])[0]
    compared = compare(row, Identity(image=image), job_id=None, image=None)
    assert [(one.name, one.agrees) for one in compared] == ([] if agrees is None else [("container", agrees)])


def test_the_container_of_two_numbers_is_that_of_a_zero() -> None:
    assert container_of("nvcr.io#nvidia/nemo:26.04.00") == container_of("nemo:26.04") == "nemo:26.04"
    assert container_of("/images/nvidia+nemo+26.04.sqsh") == "nemo:26.04"
    assert container_of("nvcr.io/nvidia/nemo:26.08.rc5") == "nemo:26.08.rc5"
