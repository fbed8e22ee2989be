"""The rootdir's conftest.py counts for every row of a session, wherever the row's table lies."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.integration.conftest import tiny_table

#: Notes each call of a hook that pytest asks for one item, by the conftest.py that it is in.
COUNTS = """\
import pathlib

def note(hook, where):
    with pathlib.Path({notes!r}).open("a") as file:
        file.write("{name} " + hook + " " + where + "\\n")

def pytest_runtest_logstart(nodeid): note("logstart", nodeid)
def pytest_runtest_setup(item): note("setup", item.nodeid)
def pytest_runtest_call(item): note("call", item.nodeid)
def pytest_runtest_teardown(item): note("teardown", item.nodeid)
def pytest_runtest_makereport(item, call): note("makereport-" + call.when, item.nodeid)
def pytest_runtest_logreport(report): note("logreport-" + report.when, report.nodeid)
def pytest_runtest_logfinish(nodeid): note("logfinish", nodeid)
"""
#: What pytest asks for each item that passes.
HOOKS = {
    *("logstart", "setup", "call", "teardown", "logfinish"),
    *(f"{hook}-{when}" for hook in ("makereport", "logreport") for when in ("setup", "call", "teardown")),
}
BUNDLED = "baselines/maxtext/llama2_70b.yaml::llama2_70b_fp8[H100x128]"
OWN = "site/tiny.yaml::tiny_1b_bf16[H100x8]"


@pytest.fixture
def notes(pytester: pytest.Pytester) -> Path:
    """A project with a table of its own and a conftest.py in its rootdir that counts; where it notes the calls."""
    path = pytester.path / "notes.txt"
    pytester.makeini("[pytest]\n")
    pytester.makeconftest(COUNTS.format(notes=str(path), name="rootdir"))
    pytester.mkdir("site").joinpath("tiny.yaml").write_text(tiny_table("gpus: 8, step_time_s: 1.000, line: 10"))
    return path


def calls(notes: Path) -> Counter[str]:
    return Counter(notes.read_text().splitlines())


@pytest.mark.parametrize(
    ("arguments", "row", "directory"),
    [
        (("-k", "llama2_70b_fp8 and H100x128"), BUNDLED, "below"),
        (("--gsw-baselines=site",), OWN, "."),
        (("--gsw-baselines=site",), OWN, "below"),
    ],
    ids=["no-argument", "own-directory", "own-directory-from-below"],
)
def test_each_hook_is_called_once_for_each_row(
    pytester: pytest.Pytester,
    notes: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    row: str,
    directory: str,
) -> None:
    (pytester.path / "below").mkdir()
    monkeypatch.chdir(pytester.path / directory)
    if directory == "below":
        arguments = tuple(argument.replace("site", str(pytester.path / "site")) for argument in arguments)
    result = pytester.runpytest("--gsw-cluster=demo", "-c", str(pytester.path / "tox.ini"), *arguments)
    assert result.parseoutcomes()["passed"] == 1
    assert calls(notes) == Counter(f"rootdir {hook} {row}" for hook in HOOKS)


def test_a_table_that_lies_elsewhere_and_is_named_beside_tests(
    pytester: pytest.Pytester, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then pytest takes its way from the top to the table's real place, and comes by no conftest.py."""
    project = pytester.mkdir("project")
    for name in ("conftest.py", "tox.ini"):
        (pytester.path / name).rename(project / name)
    (project / "test_other.py").write_text("def test_other(): pass\n")
    monkeypatch.chdir(project)
    result = pytester.runpytest("-ctox.ini", "--gsw-cluster=demo", "--gsw-baselines=../site", "test_other.py", OWN)
    result.assert_outcomes(passed=2)
    assert calls(notes) == Counter(
        f"rootdir {hook} {item}" for hook in HOOKS for item in ("test_other.py::test_other", OWN)
    )
