"""A launch script's own name for its log: read once, as the row's spec is made."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_gsw.clusters import Cluster
from pytest_gsw.jobs.model import JobSpec
from pytest_gsw.nvidia import launchers
from tests.messages import wording
from tests.unit.nvidia.started import started
from tests.unit.rows import LLAMA2_FP8_X128


def spec_of(recipes: Path, *lines: str) -> JobSpec:
    script = recipes / LLAMA2_FP8_X128.recipe.name / "launch.sh"
    script.parent.mkdir(exist_ok=True)
    script.write_text("\n".join(("#!/bin/bash", *lines)))
    return started(LLAMA2_FP8_X128, Cluster("eos", "slurm", stage="/stage", recipes=str(recipes)))


def test_a_name_that_is_certain_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = spec_of(tmp_path, "srun --output=/stage/own/t_%j.out train")
    assert spec.log_glob == "own/t_{job_id}.out"
    monkeypatch.setattr(launchers, "named_log", None)
    assert spec.launch.problem(spec) is None


def test_a_site_may_mend_what_is_not_certain(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, "srun --output=$OWN_LOGS/t_%j.out train")
    problem = spec.launch.problem(spec)
    assert problem is not None
    assert problem.fact == wording("uncertain log", script="launch.sh")
    mended = replace(spec, environment={**spec.environment, "OWN_LOGS": "/logs"})
    assert spec.launch.problem(mended) is None
