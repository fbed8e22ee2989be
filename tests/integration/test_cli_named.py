"""How subcommands take a run, a row, a cluster or a path, and what they say where there is none of that name."""

from __future__ import annotations

import argparse
import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest

from pytest_gsw.cli import main
from pytest_gsw.cli.arguments import COMMANDS, VERBS
from tests.integration.conftest import Gsw
from tests.integration.runs import write_runs
from tests.messages import wording

NEWEST = "20261114-221000-7f3a"


@pytest.fixture
def runs(gsw: Gsw, pytester: pytest.Pytester, table: Path) -> list[Path]:
    """Five runs of one row on eos, which the history has as well."""
    found = write_runs(pytester.path / ".gsw", table)
    gsw("history", "--add", *found)
    return found


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"pytest-gsw {version('pytest-gsw')}\n"


LAST = ("compare 20261110-221000-7f3a", "report", "report --format=junit", "report --format=markdown", "history --add")


def test_the_last_run_is_the_newest(runs: list[Path], gsw: Gsw) -> None:
    for command in map(str.split, LAST):
        by_id = gsw(*command, Path(".gsw/runs", NEWEST)).out
        assert gsw(*command, "last").out == by_id.replace(f"{NEWEST}'", "last'"), command


def test_no_last_run(pytester: pytest.Pytester, gsw: Gsw) -> None:
    assert gsw("report", "--format=junit", "last", status=2).err == (
        "pytest-gsw report: there is no run in .gsw/runs\nnext: run rows, pytest --gsw-cluster=NAME\n"
    )


def test_what_the_history_and_the_runs_do_not_have(runs: list[Path], gsw: Gsw) -> None:
    for command in ("report --format=junit", "report", "baseline propose", "compare last"):
        where = "" if "--format" in command else ", and none in the history .gsw/history.sqlite"
        assert gsw(*command.split(), "20261114-221000-7f3b", status=2).err == (
            f"pytest-gsw {command.split()[0]}: "
            + wording("no run of it", name="20261114-221000-7f3b")
            + f"{where}; did you mean '{NEWEST}'?\n"
            + wording("next run")
            + "\n"
        )
    for command in ("history", "history --drift", "nodes", "alarms"):
        of_eos = "--cluster: the history .gsw/history.sqlite is of eos, not of eso; did you mean 'eos'?\n"
        assert gsw(*command.split(), "--cluster=eso", status=2).err == f"pytest-gsw {command.split()[0]}: {of_eos}"
    for command in ("history", "history --drift"):
        assert gsw(*command.split(), "tiny*", "tiny_1b_bf16[H100x9]", status=2).err == (
            "pytest-gsw history: the history .gsw/history.sqlite has no row 'tiny_1b_bf16[H100x9]'; did you mean "
            "'tiny_1b_bf16[H100x8]'?\nnext: pytest-gsw history\n"
        )
    assert gsw("history", "exclude", "20261114-221000-7f3b", "--why=x", status=2).err == (
        "pytest-gsw history: the history .gsw/history.sqlite has no run '20261114-221000-7f3b'; did you mean "
        f"'{NEWEST}'?\nnext: pytest-gsw history --json\n"
    )


def test_a_path_may_begin_at_home(
    runs: list[Path],
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    gsw: Gsw,
) -> None:
    monkeypatch.setenv("HOME", str(pytester.path))
    gsw("report", "--format=junit", f"~/.gsw/runs/{NEWEST}", "--output=~/junit.xml")
    assert (pytester.path / "junit.xml").is_file()
    with pytest.raises(SystemExit, match="2"):
        main(["report", "--format=junit", "last", "--output=~nobody-here/junit.xml"])
    assert "argument -o/--output: " + wording("no home", path="'~nobody-here'") + "\n" in capsys.readouterr().err
    assert gsw("report", "--format=junit", "~nobody-here/run", status=2).err == (
        "pytest-gsw report: " + wording("no home", path="'~nobody-here'") + "\n"
    )


def test_rows_on_a_cluster_that_nobody_knows(table: Path, pytester: pytest.Pytester, gsw: Gsw) -> None:
    (pytester.path / "clusters.yaml").write_text(
        "clusters: {eos: {scheduler: slurm, stage: s, account: '${NOT_SET}'}}\n"
    )
    assert gsw("rows", table, "--cluster=eso", status=2).err.splitlines()[:2] == [
        "pytest-gsw rows: " + wording("no cluster", name="eso", nearest="eos"),
        "known: demo, eos, local",
    ]
    gsw("rows", table, "--cluster=eos")  # what it cannot be asked for today is no matter
    (pytester.path / "clusters.yaml").rename(pytester.path / "etc.yaml")
    assert gsw("rows", table, "--cluster=eos", status=2).err.startswith(
        "pytest-gsw rows: " + wording("no cluster like it", name="eos") + "\n"
    )
    gsw("rows", table, "--cluster=eos", "--clusters=etc.yaml")


def test_rows_on_a_cluster_that_a_table_knows(
    table: Path, pytester: pytest.Pytester, gsw: Gsw, runs: list[Path]
) -> None:
    gsw("baseline", "propose", *runs, "--output=b.diff")
    subprocess.run(["patch", "-p1", "-i", "b.diff"], check=True, cwd=pytester.path, stdout=subprocess.DEVNULL)
    gsw("rows", table, "--cluster=eos")
    assert gsw("rows", table, "--cluster=eso", status=2).err.startswith(
        "pytest-gsw rows: no cluster 'eso'; did you mean 'eos'?\nknown: demo, eos, local\n"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["histry"], "pytest-gsw: error: there is no command 'histry'; did you mean 'history'?"),
        (
            ["zzzzz"],
            (
                "pytest-gsw: error: there is no command 'zzzzz'; there are rows, metrics, import, baseline, report, history, "
                "compare, nodes, alarms and doctor"
            ),
        ),
        (
            ["nodes", "--clustr=eos", "--json"],
            "pytest-gsw nodes: error: unrecognized arguments: --clustr=eos; did you mean '--cluster'?",
        ),
        (
            ["rows", "--zzzzz"],
            "next: pytest-gsw rows --help, or if it is an option of sessions, pytest --gsw-cluster=NAME",
        ),
    ],
)
def test_a_command_and_an_option_that_are_misspelt(
    capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(words)
    assert capsys.readouterr().err.splitlines()[-1] == message


@pytest.mark.parametrize("command", ["alarms", "history --drift", "history", "nodes"])
def test_a_history_without_a_run_is_no_all_clear(pytester: pytest.Pytester, gsw: Gsw, command: str) -> None:
    (pytester.path / ".gsw").mkdir()
    (pytester.path / ".gsw" / "history.sqlite").touch()
    said = "the history .gsw/history.sqlite has no measured job\nnext: run rows, pytest --gsw-cluster=NAME\n"
    for more in ([], ["--cluster=eos"]):
        assert gsw(*command.split(), *more, status=2).err == f"pytest-gsw {command.split()[0]}: {said}"


def options_of(command: str) -> list[str]:
    """The options of a command that take a value."""
    parser = argparse.ArgumentParser()
    (VERBS.get(command) or COMMANDS[command])[-1](parser)
    return [one.option_strings[-1] for one in parser._actions if one.option_strings and one.nargs != 0]


@pytest.mark.parametrize("command", [*COMMANDS, *VERBS])
def test_an_empty_value_is_no_absent_one(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    given = [words for name in options_of(command) for words in ([f"{name}="], [name, ""], [name, " "])]
    for words in [*given, [""], ["--", " "]]:
        with pytest.raises(SystemExit, match="2"):
            main([*command.split(), *words])
        assert "is empty" in capsys.readouterr().err
