"""The examples for CI servers use what is there: options, commands, files, formats."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from pytest_gsw.cli import _parser
from pytest_gsw.reports.ci import TEXTS, families, openmetrics
from pytest_gsw.results.record import write_record
from pytest_gsw.session.options import OPTIONS
from tests.messages import wording
from tests.unit.reports.ci.nights import RUN

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = (ROOT / "docs" / "ci.md").read_text()
EXAMPLES = [
    ROOT / "docs" / "examples" / name
    for name in ("Jenkinsfile", "github.yml", "gitlab.yml", "github-outside.yml", "gitlab-outside.yml")
]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_options_and_files_are_there(path: Path) -> None:
    text = path.read_text()
    flags = set(re.findall(r"--gsw-[a-z-]+", text))
    assert {"--gsw-cluster", "--gsw-confirm", "--gsw-report"} <= flags <= {option.flag for option in OPTIONS}
    assert set(re.findall(r"report/([\w.-]+\.(?:csv|json|prom|md))", text)) <= {text.file for text in TEXTS.values()}
    assert set(re.findall(r"report/(\w+)[/ ]", text)) <= {"rows", "workloads"}


@pytest.mark.parametrize("text", [*(path.read_text() for path in EXAMPLES), DOCUMENT])
def test_commands_are_there(text: str) -> None:
    for command in re.findall(r"(?:^ {4}|/bin/|^)pytest-gsw ((?:report|history) [^|`\n]+)", text, re.MULTILINE):
        arguments = command.replace('"$run"', "RUN").split()
        parser, _ = _parser()
        assert parser.parse_args(arguments).command == arguments[0]


@pytest.mark.parametrize("name", ["github.yml", "gitlab.yml"])
def test_what_a_killed_session_leaves_is_reported(name: str, pytester: pytest.Pytester, table: Path) -> None:
    """The commands of the example itself, of a run in the workspace that has written no JUnit."""
    text = (ROOT / "docs" / "examples" / name).read_text()
    (block,) = re.findall(r"^( *)(\[ -f junit.xml \].*?\n\1done)$", text, re.MULTILINE | re.DOTALL)
    (pytester.path / ".night").touch()
    os.utime(".night", (1e9, 1e9))
    pytester.runpytest("--gsw-cluster=demo", str(table), "-k", "H100x8").assert_outcomes(passed=1)
    programs = pytester.path / ".venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "pytest-gsw").write_text(f'#!/bin/sh\nexec {sys.executable} -m pytest_gsw.cli "$@"\n')
    (programs / "pytest-gsw").chmod(0o755)
    environ = {**os.environ, "GITHUB_STEP_SUMMARY": str(pytester.path / "step.md")}
    subprocess.run(["bash", "-ec", textwrap.dedent("".join(block))], env=environ, check=True)
    wanted = {"github.yml": "step.md", "gitlab.yml": "report/gsw.prom"}
    for file in ("junit.xml", "report/index.html", wanted[name]):
        assert "tiny_1b" in (pytester.path / file).read_text(), file


def test_every_format_is_documented() -> None:
    for name, text in TEXTS.items():
        assert f"| `{text.file}` | `{name}` |" in DOCUMENT


def test_every_metric_is_documented() -> None:
    source = (ROOT / "pytest_gsw" / "reports" / "ci.py").read_text()
    metrics = {name for name, _, _ in families(RUN)} | set(re.findall(r'"(gsw_\w+)"', source))
    cells = re.findall(r"^\| (`gsw_.*?) \|", DOCUMENT, re.MULTILINE)
    assert metrics == {name for cell in cells for name in re.findall(r"`(gsw_\w+)`", cell)}
    assert {family.name for family in text_string_to_metric_families(f"{openmetrics(RUN)}\n")} <= metrics


def test_the_alerts_are_of_metrics_that_are_there() -> None:
    example = (ROOT / "docs" / "examples" / "alerts.yml").read_text()
    (group,) = yaml.safe_load(example)["groups"]
    used = {name for rule in group["rules"] for name in re.findall(r"gsw_\w+", rule["expr"])}
    of_clusters = {"gsw_cluster_incident", "gsw_cluster_drift"}
    assert used == {"gsw_outcome", "gsw_drift", "gsw_alarm_pages", "gsw_run_timestamp_seconds", *of_clusters}


def test_the_example_in_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)
    (run_id,) = re.findall(r"\d{8}-\d{6}-[0-9a-f]{6}", example)
    for record in RUN.records:
        write_record(tmp_path / ".gsw" / "runs" / run_id, record)
    monkeypatch.chdir(tmp_path)
    exec(example, {})  # noqa: S102 - our own document
    assert capsys.readouterr().out.startswith(wording("needs attention", count=4, need="rows need") + "\n")
