"""``pytest-gsw doctor`` without a cluster: its lines, its exit status, and files that only a test can break."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_gsw.cli import doctor, main
from pytest_gsw.clusters import Cluster
from pytest_gsw.jobs.ssh.checks import NOTE, PROBLEM, Check, _Slurm
from pytest_gsw.jobs.ssh.connection import Machine

CHECKS = (
    Check("ssh", "OpenSSH_9.2p1"),
    Check("accounting", "off", NOTE),
    Check("stage", "nothing can be written", PROBLEM, ("one", "two"), "df -h /lustre"),
)


@pytest.fixture(autouse=True)
def _clusters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("clusters.yaml").write_text("clusters: {eos: {scheduler: slurm}, own: {scheduler: flux}}")


def show(monkeypatch: pytest.MonkeyPatch, *checks: Check) -> None:
    monkeypatch.setattr(doctor, "checks_of", lambda _: iter(checks))


def test_the_lines(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    show(monkeypatch, *CHECKS)
    assert main(["doctor", "eos"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "ssh         OpenSSH_9.2p1",
        "accounting  note: off",
        "stage       problem: nothing can be written",
        "            one",
        "            two",
        "            next: df -h /lustre",
        "eos: 1 problem",
    ]
    assert main(["doctor", "eos", "--json"]) == 1
    assert [check["state"] for check in json.loads(capsys.readouterr().out)] == ["ok", "note", "problem"]


def test_a_note_is_no_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    show(monkeypatch, *CHECKS[:2])
    assert main(["doctor", "eos"]) == 0


def test_a_secret_is_not_shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_abcdefghijklmnop")
    show(monkeypatch, Check("ssh", "hf_abcdefghijklmnop"))
    main(["doctor", "eos"])
    assert "abcdef" not in capsys.readouterr().out


@pytest.mark.parametrize("name", ["demo", "local", "own"])
def test_other_schedulers_have_nothing_to_check(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", name, "--json"]) == 0
    (check,) = json.loads(capsys.readouterr().out)
    assert (check["name"], check["state"]) == ("scheduler", "note")


def test_the_cluster_of_the_ini_file(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 2
    Path("clusters.yaml").rename("etc.yaml")
    Path("pytest.ini").write_text("[pytest]\ngsw_cluster = eos\ngsw_clusters = etc.yaml\n")
    show(monkeypatch, *CHECKS[:2])
    assert main(["doctor"]) == 0
    assert main(["doctor", "eso"]) == 2


# -- Files, by the helper's answers -----------------------------------------------------------------


def stage_check(answers: Mapping[str, Any], machine: Machine) -> Check:
    def call(do: str, arguments: Mapping[str, Any]) -> Any:
        hello = {"host": "n1", "variables": {}}
        entries = {"entries": {place: {"kind": "directory"} for place in arguments.get("directories", ())}}
        return {"hello": hello, "survey": entries, **answers}[do]

    checks: Iterator[Check] = _Slurm(Cluster("eos", stage="/lustre/ann"), machine, call)._of_files()
    return next(checks)


@pytest.mark.parametrize("machine", [Machine(), Machine("eos-login", ("-F", "a file"))])
def test_an_exceeded_quota(machine: Machine) -> None:
    place = "/lustre/ann/.gsw" if machine.host else "/lustre/ann"
    facts = {"there": "/lustre/ann", "is_directory": True, "is_writable": True, "free_bytes": 7.2e15}
    answers = {"writable": {place: facts}, "try_writing": {"problem": "Disk quota exceeded", "is_full": True}}
    check = stage_check(answers, machine)
    assert check.state == PROBLEM
    assert "Disk quota exceeded" in check.fact
    assert "7,200 TB" in check.fact
    assert check.advice.endswith(machine.command("df", "-h", "/lustre/ann"))


@pytest.mark.parametrize(("there", "is_made"), [("/lustre/ann", False), ("/lustre", True), ("/", True)])
def test_a_staging_area_without_the_right_to_write(there: str, is_made: bool) -> None:
    facts = {"there": there, "is_directory": True, "is_writable": False, "free_bytes": 1e12}
    check = stage_check({"writable": {"/lustre/ann": facts}}, Machine())
    assert check.state == PROBLEM
    assert ("cannot be made" in check.fact) == is_made
    assert check.advice.endswith(f"ls -ld {there}")


# -- What to type -----------------------------------------------------------------------------------


def test_a_command_for_a_login_node() -> None:
    machine = Machine("eos-login", ("-F", "a file"))
    assert machine.command("ls", "-ld", "/a b") == """ssh -F 'a file' eos-login bash -l <<< 'ls -ld '"'"'/a b'"'"''"""
    assert Machine().command("ls", "-ld", "/a b") == "ls -ld '/a b'"
    assert (machine.path("/x"), Machine().path("/x")) == ("eos-login:/x", "/x")


@pytest.mark.parametrize(
    ("why", "typed"),
    [
        ("ssh: connect to host eos-login port 22: Connection refused", "ssh -v eos-login true"),
        ("ann@eos-login: Permission denied (publickey,keyboard-interactive).", "ssh -MNf eos-login"),
        ("Can't open user config file /x: No such file or directory", "`ssh` of the cluster"),
        ("bash: line 1: exec: python3: not found", "python3 --version"),
        ("python3 is 3.5, wanted 3.6 or newer", "python3 --version"),
        ("AttributeError: never seen", "ssh -v eos-login true"),
    ],
)
def test_advice_on_last_words(why: str, typed: str) -> None:
    assert typed in Machine("eos-login").advice(why)
