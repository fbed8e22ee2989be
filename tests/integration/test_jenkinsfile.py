"""The Jenkinsfile of the examples, parsed by Groovy itself and run with steps that only tell how they are called."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import require

ROOT = Path(__file__).resolve().parents[2]
JENKINSFILE = ROOT / "docs" / "examples" / "Jenkinsfile"
RUN = Path(__file__).with_name("jenkins") / "run.groovy"
#: Where Debian's package has it.
GROOVY = Path("/usr/share/groovy/lib")


@pytest.fixture(scope="module")
def groovy() -> Sequence[str]:
    """The command that runs a script."""
    java = shutil.which("java")
    jars = sorted(GROOVY.glob("groovy-*.jar"))
    require("GSW_REQUIRE_GROOVY", None if java and jars else "there is no Groovy: apt-get install groovy")
    return (str(java), "-cp", f"{GROOVY}/*", "groovy.ui.GroovyMain", str(RUN))


def steps(groovy: Sequence[str], path: Path = JENKINSFILE, **answers: str) -> list[tuple[str, list[Any]]]:
    """Each step with its arguments, in the order in which Groovy runs them."""
    done = subprocess.run(
        [*groovy, str(path)], env={**os.environ, **answers}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return [(line["step"], line["arguments"]) for line in lines]


def names(found: list[tuple[str, list[Any]]]) -> list[str]:
    return [name for name, _ in found]


@pytest.mark.parametrize(("status", "outcome"), [("0", None), ("6", "unstable"), ("5", "error")])
def test_what_becomes_of_the_build(groovy: Sequence[str], status: str, outcome: str | None) -> None:
    found = steps(groovy, STATUS=status)
    assert [name for name in names(found) if name in {"unstable", "error"}] == ([outcome] if outcome else [])
    # Whatever pytest ended with, its results are shown.
    behind = names(found)[names(found).index("post") :]
    assert {"junit", "publishHTML", "archiveArtifacts"} <= set(behind)
    (junit,) = [arguments for name, arguments in found if name == "junit"]
    assert junit == [{"testResults": "junit.xml", "keepProperties": True}]


def test_of_the_run_before_the_first_page_is_removed(tmp_path: Path) -> None:
    (cleaning,) = re.findall(r"sh '(rm .*)'", JENKINSFILE.read_text())
    files = (
        "index.html",
        "runs.html",
        "gsw.prom",
        "workloads/a.html",
        "runs/20261120-221000-7f3a/index.html",
    )
    for name in files:
        (tmp_path / "report" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "report" / name).write_text("")
    (tmp_path / "junit.xml").write_text("")
    subprocess.run(["sh", "-c", cleaning], cwd=tmp_path, check=True)
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {".night", "report/workloads/a.html", "report/runs/20261120-221000-7f3a/index.html"}
    # In a workspace that is new there is nothing to remove.
    (tmp_path / "new").mkdir()
    subprocess.run(["sh", "-c", cleaning], cwd=tmp_path / "new", check=True)
