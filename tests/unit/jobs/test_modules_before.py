"""What a recipe's Python must have, before a job is started on this machine."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest

from pytest_gsw.clusters.model import Cluster
from pytest_gsw.jobs.preflight import Modules, modules_of, modules_problem
from pytest_gsw.jobs.spec import make_job_spec
from pytest_gsw.tables.bundled import bundled_baselines
from pytest_gsw.tables.load import load_table
from tests.integration.conftest import tiny_table

LINE = "#GSW modules: {} of ${{MY_PYTHON:-python3}}\n"


def script(directory: Path, text: str) -> Path:
    path = directory / "launch.sh"
    path.write_text(f"#!/bin/bash\n{text}")
    return path


def problem(directory: Path, modules: str, python: str | None = sys.executable, **environ: str) -> str:
    (directory / "tiny.yaml").write_text(tiny_table("gpus: 8, step_time_s: 1.000, line: 10"))
    (row,) = load_table(directory / "tiny.yaml")
    spec = make_job_spec(row, Cluster("here", "local", stage=str(directory)), run_id="1")
    spec = dataclasses.replace(spec, directory=directory)
    needed = modules_of(script(directory, LINE.format(modules)))
    assert needed is not None
    named = {} if python is None else {"MY_PYTHON": python}
    found = modules_problem(spec, {**named, **environ}, needed)
    return "" if found is None else str(found)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "echo\n",
        "  #GSW modules: torch of ${P:-python3}\n",
        "#GSW modules: torch\n",
        "#GSW modules: torch of python3\n",
        "#GSW modules: torch;rm of ${P:-python3}\n",
        "#GSW modules: torch of ${P:-python3 -c x}\n",
    ],
)
def test_a_script_that_says_nothing(tmp_path: Path, text: str) -> None:
    assert modules_of(script(tmp_path, text)) is None


def test_the_bundled_recipe_says_it() -> None:
    needed = modules_of(bundled_baselines() / "huggingface" / "smoke_gpt" / "launch.sh")
    assert needed is not None
    assert dataclasses.replace(needed, line=0) == Modules(
        ("torch", "transformers", "accelerate"), "RUN_CONF_PYTHON", "python3", 0
    )


def test_modules_that_are_there(tmp_path: Path) -> None:
    assert problem(tmp_path, "json, pytest") == ""


def test_modules_that_are_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert problem(tmp_path, "json, gsw_nosuch, gsw_nor_this") == (
        f"the recipe's Python has no gsw_nosuch or gsw_nor_this: {sys.executable}\n"
        "\n"
        f"said at    launch.sh:2\n"
        f"next       {sys.executable} -m pip install gsw_nosuch gsw_nor_this, or name another Python in MY_PYTHON"
    )


def test_a_python_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert problem(tmp_path, "json", python=None, PATH=str(tmp_path)) == (
        "the recipe's Python is not there: python3\n"
        "\n"
        "said at    launch.sh:2\n"
        "next       install it, or name another Python in MY_PYTHON"
    )


def test_what_is_not_certain_is_no_error(tmp_path: Path) -> None:
    fails = tmp_path / "fails"
    fails.write_text("#!/bin/bash\necho gsw_nosuch\nexit 1\n")
    fails.chmod(0o755)
    assert problem(tmp_path, "gsw_nosuch", python=str(fails)) == ""
    no_program = tmp_path / "no-program"
    no_program.write_bytes(b"\x7fELF")
    no_program.chmod(0o755)
    assert problem(tmp_path, "gsw_nosuch", python=str(no_program)) == ""
    assert problem(tmp_path, "gsw_nosuch", BASH_ENV="/etc/profile") == ""


def test_what_the_job_is_told_counts(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "gsw_nosuch.py").touch()
    assert problem(tmp_path, "gsw_nosuch", PYTHONPATH=str(tmp_path / "mine")) == ""
