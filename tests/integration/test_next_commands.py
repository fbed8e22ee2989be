"""The commands that a session, its summary and its report tell to type are typed, and do what they say."""

from __future__ import annotations

import html
import shlex
from pathlib import Path

import pytest

from tests.integration.conftest import Gsw, junit

ONE = "llama2_70b_fp8[H100x64]"
BROKEN = ("--gsw-cluster=demo", "--gsw-demo=*x64]=slow:12%;*x128]=oom", "--gsw-demo=*x256]=slow:12%")


def typed(pytester: pytest.Pytester, told: str) -> pytest.RunResult:
    """The outcome of one command of a message, as a shell takes it apart."""
    program, *arguments = shlex.split(told)
    assert program == "pytest"
    return pytester.runpytest(*arguments)


def told(result: pytest.RunResult, name: str) -> list[str]:
    return [line.removeprefix(name).strip() for line in result.outlines if line.startswith(f"{name} ")]


def test_the_commands_of_a_session_find_its_rows_as_they_were(gsw: Gsw, pytester: pytest.Pytester) -> None:
    """A session of three broken rows and a sound one."""
    rows = ("-k", "llama2_70b_fp8 and (x64 or x128 or x256 or x512)")
    broken = pytester.runpytest(*BROKEN, *rows, "--junitxml=junit.xml", "--gsw-report=report")
    broken.assert_outcomes(failed=2, errors=1, passed=1, deselected=137)
    gsw("report", "--format=junit", "last", "-o", "rebuilt.xml")
    by_session, rebuilt = (commands_in(pytester.path / name) for name in ("junit.xml", "rebuilt.xml"))
    assert by_session == rebuilt
    assert by_session == sorted(f"{name} {line}" for name in ("again", "offline") for line in told(broken, name))

    (again,) = (line for line in told(broken, "again") if line.endswith(f"{ONE}'"))
    assert again.startswith("pytest --gsw-cluster=demo '--gsw-demo=*x64]=slow:12%' ")
    typed(pytester, again).assert_outcomes(failed=1)
    (offline,) = (line for line in told(broken, "offline") if line.endswith(f"{ONE}'"))
    typed(pytester, offline).assert_outcomes(failed=1)  # a log that is judged again needs no fault

    slow, error = (line.partition(": ")[2] for line in told(broken, "next:"))
    assert slow in html.unescape((pytester.path / "report" / "index.html").read_text())
    assert f"`{error}`" in (pytester.path / "report" / "summary.md").read_text()
    typed(pytester, error).assert_outcomes(errors=1)
    typed(pytester, slow).assert_outcomes(failed=2)


def test_a_row_of_another_release_is_run_again_by_that_release(pytester: pytest.Pytester) -> None:
    options = ("--gsw-cluster=demo", "--gsw-release=25.02", "--gsw-demo=*=slow:12%", "-k", "grok1 and fp8 and x512")
    result = pytester.runpytest(*options)
    result.assert_outcomes(failed=1)
    (again,) = told(result, "again")
    typed(pytester, again).assert_outcomes(failed=1)


def commands_in(path: Path) -> list[str]:
    texts = [element.text or "" for case in junit(path).values() for element in case]
    found = [line.split(maxsplit=1) for text in texts for line in text.splitlines()]
    return sorted(" ".join(words) for words in found if words and words[0] in {"again", "offline"})
