"""The four steps of docs/recipes.md from a recipe to a row, as written, for a chip that no bundled table has."""

from __future__ import annotations

import re
import shlex
import textwrap
from pathlib import Path

import pytest

from pytest_gsw.tables.load import load_table
from pytest_gsw.tables.release_rows import directories_for, releases_for
from tests.integration.conftest import Gsw
from tests.messages import wording

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "recipes.md").read_text()
#: A recipe by the page's own log name, identity and step; its steps take as long as a variable says.
LAUNCH = """\
#!/bin/bash
set -eu -o pipefail
export GSW_VERSION=1 GPUS=$(( NUM_NODES * RUN_CONF_GPU_PER_NODE ))
log={log}
mkdir -p "${{log%/*}}"
{{
    echo "{line}"
    for ((step = 0; step < 20; step++)); do echo "{step}"; done
}} >"$log"
"""
#: What the page's examples have, by what a script has for it.
VARIABLES = {
    "MODEL=smoke_gpt": "MODEL=my_model",
    "FRAMEWORK=huggingface": "FRAMEWORK=maxtext",
    "MODEL_SIZE=20m": "MODEL_SIZE=$MODEL_SIZE",
    "DTYPE=fp32": "DTYPE=$DTYPE",
    "GPUS_PER_NODE=1": "GPUS_PER_NODE=$RUN_CONF_GPU_PER_NODE",
    "JOB_NUM_NODES=2": "JOB_NUM_NODES=$NUM_NODES",
    "JOB_ID=481220": "JOB_ID=$SLURM_JOB_ID",
    "<GPUs>": "${GPUS}",
    "<framework>_<model>_<size>": "maxtext_my_model_${MODEL_SIZE}",
    "step: 7": "step: $step",
    "4.312": "$SECONDS_A_STEP",
}


def of_page(begin: str) -> str:
    """A line of the page in a script's words."""
    (line,) = re.findall(rf"^ +({re.escape(begin)}.*)$", PAGE, re.MULTILINE)
    for example, variable in VARIABLES.items():
        line = line.replace(example, variable)
    return str(line)


@pytest.mark.parametrize("seconds", ["4.312", "0.045"])
def test_the_steps_of_the_page(
    pytester: pytest.Pytester, gsw: Gsw, monkeypatch: pytest.MonkeyPatch, seconds: str
) -> None:
    section = PAGE.partition("\n## From the recipe to a row\n")[2].partition("\n## ")[0]
    steps = re.split(r"^\d\. ", section.partition("\nFor an MFU")[0], flags=re.MULTILINE)[1:]
    assert len(steps) == 4
    table = pytester.path / "site" / "my_model.yaml"
    table.parent.joinpath("my_model").mkdir(parents=True)
    table.write_text(textwrap.dedent(steps[0].partition("```yaml\n")[2].partition("   ```")[0]))
    (row,) = load_table(table)
    assert (releases_for(row.accelerator), directories_for(row.accelerator)) == ((), ())
    (table.parent / "my_model" / "launch.sh").write_text(
        LAUNCH.format(log=of_page("$STAGE_PATH/"), line=of_page("GSW: MODEL="), step=of_page("completed step: "))
    )
    cluster = {"scheduler": "local", "accelerator": row.accelerator, "gpus": 8, "gpus_per_node": 8, "stage": "stage"}
    facts = ", ".join(f"{key}: {value}" for key, value in cluster.items())
    (pytester.path / "clusters.yaml").write_text(f"clusters:\n  eos: {{{facts}}}\n")
    monkeypatch.setenv("SECONDS_A_STEP", seconds)
    measure, write, again = (re.findall(r"^ {7}(.*)$", step, re.MULTILINE) for step in steps[1:])
    # The command that a session for such a chip names.
    (asked,) = [line for line in pytester.runpytest("--gsw-cluster=eos").outlines if line.startswith("next: ")]
    assert asked.endswith(f": {measure[0]}")
    pytester.runpytest(*shlex.split(measure[0])[1:]).assert_outcomes(failed=1)
    assert (
        wording("review", path="site.diff", command="git apply site.diff") + "\n" in gsw(*shlex.split(write[0])[1:]).out
    )
    assert pytester.run(*shlex.split(write[1])).ret == 0
    (row,) = load_table(table)
    assert row.documented.step_time_s == float(seconds)
    pytester.runpytest(*shlex.split(again[0])[1:]).assert_outcomes(passed=1)
    assert "1 row: 0 contradictions" in gsw("import", "--check", "site").out
