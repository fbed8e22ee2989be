"""A row is judged by the figures of the release that ran, or not at all."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pytest_gsw.tables.bundled import bundled_baselines

#: The bundled figures of this row are those of 25.02 to 25.04.02: 17.53 s. Those of 25.01 are 16.21 s.
ROW = "baselines/nemo/grok1_314b.yaml::grok1_314b_fp8[H100x64]"


def log_of(directory: Path, version: str | None, step_time_s: float = 17.89) -> Path:
    """A log as the recipe of Grok 1 leaves it, of a release by its constant, or of one that says none."""
    said = "" if version is None else f" GSW_VERSION={version} IMAGE='/stage/nvidia+nemo+24.12.sqsh' FW_VERSION=24.12"
    own = (
        "GSW: MODEL=grok1 FRAMEWORK=nemo MODEL_SIZE=314b JOB_NUM_NODES=8 GPUS_PER_NODE=8 DTYPE=fp8 SYNTHETIC_DATA=True"
    )
    lines = [
        f"{own}{said} JOB_ID=4711 JOB_MODE=training OPTIMIZATION_NAME='' OPTIMIZATION_CODE=''",
        *(
            f"Epoch 0: : {2 * n}%|#| {n}/50 [{n:02}:00<00:00, v_num=gjbq, reduced_train_loss={12 - n / 25:.2f}, "
            f"global_step={n - 1}.0, consumed_samples={1024 * n}.0, train_step_timing in s={step_time_s}]"
            for n in range(1, 51)
        ),
    ]
    path = directory / "log-nemo_grok1_314b_64_4711.out"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("version", ["25.02", "25.04", "25.04.01", None])
def test_a_log_of_the_rows_release_is_judged(pytester: pytest.Pytester, version: str | None) -> None:
    result = pytester.runpytest(f"--gsw-replay={log_of(pytester.path, version)}", ROW)
    result.assert_outcomes(passed=1)


@pytest.mark.parametrize("step_time_s", [17.89, 8.0, 99.0])
def test_a_log_of_another_release_is_never_judged(pytester: pytest.Pytester, step_time_s: float) -> None:
    log = log_of(pytester.path, "24.11", step_time_s)
    result = pytester.runpytest(f"--gsw-replay={log}", ROW)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        [
            "the log is of release 24.11.1, and the row's figures are of 25.02 to 25.04.02",
            "release    GSW_VERSION=24.11 in the log",
            f"said at    {log}:1",
            "next       *",
        ]
    )


def test_the_error_names_the_table_with_the_figures_of_the_release_that_ran(
    pytester: pytest.Pytester, tmp_path: Path
) -> None:
    table = bundled_baselines() / "nemo" / "grok1_314b.yaml"
    site = pytester.path / "site.yaml"
    site.write_text(re.sub("releases: .*", 'releases: ["25.01", "25.01.1"]', table.read_text()))
    log = log_of(pytester.path, "25.03")
    result = pytester.runpytest(f"--gsw-replay={log}", "--gsw-baselines=site.yaml", "-k", "grok1_314b_fp8 and H100x64")
    result.assert_outcomes(errors=1, deselected=17)
    result.stdout.fnmatch_lines(
        [
            "the log is of release 25.03, and the row's figures are of 25.01 and 25.01.1",
            "table      *baselines/nemo/grok1_314b.yaml has this row's figures of 25.03",
            "next       judge it by that release's figures, with --gsw-release=25.03, or stage the recipe of 25.01.1",
        ]
    )


def test_a_sites_table_without_releases_is_judged_whatever_ran(pytester: pytest.Pytester) -> None:
    table = bundled_baselines() / "nemo" / "grok1_314b.yaml"
    (pytester.path / "site.yaml").write_text(re.sub("releases: .*\n", "", table.read_text()))
    log = log_of(pytester.path, "25.01")
    result = pytester.runpytest(f"--gsw-replay={log}", "--gsw-baselines=site.yaml", "-k", "grok1_314b_fp8 and H100x64")
    result.assert_outcomes(passed=1, deselected=17)


def test_a_record_says_which_release_ran(pytester: pytest.Pytester) -> None:
    pytester.runpytest(f"--gsw-replay={log_of(pytester.path, '25.02')}", ROW, "--junitxml=junit.xml")
    (record,) = pytester.path.glob(".gsw/runs/*/records/*.json")
    run = json.loads(record.read_text())
    assert run["environment"] == {"recipe": "25.02", "framework": "24.12"}
    assert run["compared"]["release"] == "25.02"
    text = (pytester.path / "junit.xml").read_text()
    assert 'name="gsw_environment_recipe" value="25.02"' in text
