"""How subcommands take a run, a row, a cluster or a path, and what they say where there is none of that name."""

from __future__ import annotations

import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest

from pytest_gsw.cli import main
from tests.integration.runs import write_runs

NEWEST = "20261114-221000-7f3a"


@pytest.fixture
def runs(pytester: pytest.Pytester, table: Path) -> list[Path]:
    """Five runs of one row on eos, which the history has as well."""
    found = write_runs(pytester.path / ".gsw", table)
    assert main(["history", "--add", *map(str, found)]) == 0
    return found


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a subcommand says that finds nothing of what it is asked for."""
    capsys.readouterr()
    assert main(list(arguments)) == 2
    return capsys.readouterr().err


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"pytest-gsw {version('pytest-gsw')}\n"


LAST = ("compare 20261110-221000-7f3a", "report", "report --format=junit", "report --format=markdown", "history --add")


def test_the_last_run_is_the_newest(runs: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    for command in map(str.split, LAST):
        capsys.readouterr()
        by_id = main([*command, str(Path(".gsw/runs", NEWEST))])
        expected = capsys.readouterr().out
        assert main([*command, "last"]) == by_id, command
        assert capsys.readouterr().out == expected.replace(f"{NEWEST}'", "last'"), command


def test_the_last_run_of_the_history_is_excluded(runs: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["history", "exclude", "last", "--why=maintenance"]) == 0
    assert capsys.readouterr().out == (
        f".gsw/history.sqlite: {NEWEST} counts no more; to take that back: pytest-gsw history include {NEWEST} --why=TEXT\n"
    )
    assert main(["history", "include", "last", "--why=it was none"]) == 0


def test_no_last_run(pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys, "report", "--format=junit", "last") == "pytest-gsw report: there is no run in .gsw/runs\n"


def test_what_the_history_and_the_runs_do_not_have(runs: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("report --format=junit", "report", "baseline propose", "compare last"):
        where = "" if "--format" in command else ", and none in the history .gsw/history.sqlite"
        assert told(capsys, *command.split(), "20261114-221000-7f3b") == (
            f"pytest-gsw {command.split()[0]}: there is no run '20261114-221000-7f3b' in .gsw/runs{where}; "
            f"did you mean '{NEWEST}'?\nnext: ls .gsw/runs\n"
        )
    for command in ("history", "history --drift", "nodes", "alarms"):
        of_eos = "--cluster: the history .gsw/history.sqlite is of eos, not of eso; did you mean 'eos'?\n"
        assert told(capsys, *command.split(), "--cluster=eso") == f"pytest-gsw {command.split()[0]}: {of_eos}"
    for command in ("history", "history --drift"):
        assert told(capsys, *command.split(), "tiny*", "tiny_1b_bf16[H100x9]") == (
            "pytest-gsw history: the history .gsw/history.sqlite has no row 'tiny_1b_bf16[H100x9]'; did you mean "
            "'tiny_1b_bf16[H100x8]'?\nnext: pytest-gsw history\n"
        )
    assert told(capsys, "history", "exclude", "20261114-221000-7f3b", "--why=x") == (
        "pytest-gsw history: the history .gsw/history.sqlite has no run '20261114-221000-7f3b'; did you mean "
        f"'{NEWEST}'?\nnext: pytest-gsw history --csv\n"
    )


def test_a_path_may_begin_at_home(
    runs: list[Path], pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(pytester.path))
    assert main(["report", "--format=junit", f"~/.gsw/runs/{NEWEST}", "--output=~/junit.xml"]) == 0
    assert (pytester.path / "junit.xml").is_file()
    with pytest.raises(SystemExit, match="2"):
        main(["report", "--format=junit", "last", "--output=~nobody-here/junit.xml"])
    assert "argument -o/--output: unknown home directory: '~nobody-here'\n" in capsys.readouterr().err
    assert told(capsys, "report", "--format=junit", "~nobody-here/run") == (
        "pytest-gsw report: unknown home directory: '~nobody-here'\n"
    )


def test_rows_on_a_cluster_that_nobody_knows(
    table: Path, pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    (pytester.path / "clusters.yaml").write_text(
        "clusters: {eos: {scheduler: slurm, stage: s, account: '${NOT_SET}'}}\n"
    )
    assert told(capsys, "rows", str(table), "--cluster=eso").splitlines()[:2] == [
        "pytest-gsw rows: no cluster 'eso'; did you mean 'eos'?",
        "known: demo, eos, local",
    ]
    assert main(["rows", str(table), "--cluster=eos"]) == 0  # what it cannot be asked for today is no matter
    (pytester.path / "clusters.yaml").rename(pytester.path / "etc.yaml")
    assert told(capsys, "rows", str(table), "--cluster=eos").startswith("pytest-gsw rows: no cluster 'eos'\n")
    assert main(["rows", str(table), "--cluster=eos", "--clusters=etc.yaml"]) == 0


def test_rows_on_a_cluster_that_a_table_knows(
    table: Path, pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str], runs: list[Path]
) -> None:
    assert main(["baseline", "propose", *map(str, runs), "--output=b.diff"]) == 0
    subprocess.run(["patch", "-p1", "-i", "b.diff"], check=True, cwd=pytester.path, stdout=subprocess.DEVNULL)
    assert main(["rows", str(table), "--cluster=eos"]) == 0
    assert told(capsys, "rows", str(table), "--cluster=eso").startswith(
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
                "compare, nodes and alarms"
            ),
        ),
        (
            ["nodes", "--clustr=eos", "--json"],
            "pytest-gsw nodes: error: unrecognized arguments: --clustr=eos; did you mean '--cluster'?",
        ),
        (["rows", "--zzzzz"], "pytest-gsw rows: error: unrecognized arguments: --zzzzz"),
    ],
)
def test_a_command_and_an_option_that_are_misspelt(
    capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(words)
    assert capsys.readouterr().err.splitlines()[-1] == message


@pytest.mark.parametrize("command", ["alarms", "history --drift", "history", "nodes"])
def test_a_history_without_a_run_is_no_all_clear(
    pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    (pytester.path / ".gsw").mkdir()
    (pytester.path / ".gsw" / "history.sqlite").touch()
    said = "the history .gsw/history.sqlite has no measured job\nnext: run rows, pytest --gsw-cluster=NAME\n"
    for more in ([], ["--cluster=eos"]):
        assert main([*command.split(), *more]) == 2
        assert capsys.readouterr().err == f"pytest-gsw {command.split()[0]}: {said}"
