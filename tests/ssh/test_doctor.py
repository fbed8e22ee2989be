"""``pytest-gsw doctor``: a sound cluster, and broken ones, behind a real OpenSSH server."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pytest_gsw.cli import main
from tests.messages import wording
from tests.slurm.cluster import PATH

from .login_node import HOST, LoginNode
from .toy_slurm import PROGRAMS, ToySlurm

OVER_SSH = ["ssh", "connection", "python3", "clock"]
ON_SLURM = ["node", "programs", "slurm", "slurmctld", "accounting", "partition", "stage", "recipes"]


@dataclass
class Site:
    """A login node with a toy Slurm, and a file of clusters."""

    node: LoginNode
    slurm: ToySlurm
    directory: Path
    keys: dict[str, Any] = field(default_factory=dict)

    @property
    def bin(self) -> Path:
        """The one directory in the PATH of the login node."""
        return self.directory / "bin"

    @property
    def stage(self) -> Path:
        return self.directory / "stage"

    def program(self, name: str, script: str) -> None:
        (self.bin / name).unlink(missing_ok=True)
        (self.bin / name).write_text(f"#!/bin/sh\n{script}\n")
        (self.bin / name).chmod(0o755)

    def without_host(self) -> None:
        del self.keys["host"], self.keys["ssh"]

    def remove(self, name: str) -> None:
        (self.bin / name).unlink()


@pytest.fixture
def site(start_node: Callable[..., LoginNode], toy_slurm: ToySlurm, tmp_path: Path) -> Site:
    home = tmp_path / "home"
    home.mkdir()
    (home / ".bash_profile").write_text(f"export PATH={tmp_path}/bin\n")
    node = start_node(home=home)
    made = Site(node, toy_slurm, tmp_path)
    for directory in (made.bin, made.stage, made.stage / "maxtext"):
        directory.mkdir()
    for name in PROGRAMS:
        (made.bin / name).symlink_to(toy_slurm.bin / name)
    made.program("srun", "exit 0")
    made.program("python3", f'exec {sys.executable} "$@"')
    options = ["-F", str(node.ssh_config)]
    made.keys = {"scheduler": "slurm", "host": HOST, "ssh": options, "stage": str(made.stage), "partition": "batch"}
    return made


@pytest.fixture
def doctor(site: Site, capsys: pytest.CaptureFixture[str]) -> Callable[..., dict[str, dict[str, Any]]]:
    """Run it; the checks by their names."""

    def run(status: int) -> dict[str, dict[str, Any]]:
        file = site.directory / "clusters.yaml"
        file.write_text(json.dumps({"clusters": {"eos": site.keys}}))
        assert main(["doctor", "eos", f"--clusters={file}", "--json"]) == status
        checks = json.loads(capsys.readouterr().out)
        assert [check["state"] for check in checks if check["advice"]] == ["problem"] * status
        assert site.slurm.submissions == []
        return {check["name"]: check for check in checks}

    return run


Doctor = Callable[[int], dict[str, dict[str, Any]]]


def test_a_sound_cluster(site: Site, doctor: Doctor) -> None:
    checks = doctor(0)
    assert list(checks) == [*OVER_SSH, *ON_SLURM]
    assert {check["state"] for check in checks.values()} == {"ok"}
    assert "22.05.8" in checks["slurm"]["fact"]
    assert "master" not in checks["connection"]["fact"]
    assert [path.name for path in site.stage.iterdir()] == ["maxtext"]  # nothing is left


def test_the_same_checks_on_this_machine(site: Site, doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    site.without_host()
    monkeypatch.setenv("PATH", str(site.bin))
    checks = doctor(0)
    assert list(checks) == ON_SLURM
    assert str(site.stage) in checks["stage"]["fact"]
    site.remove("sbatch")
    assert HOST not in doctor(1)["programs"]["advice"]


def test_a_master_of_the_user(site: Site, doctor: Doctor) -> None:
    socket = f"{site.node.directory}/control"
    with site.node.ssh_config.open("a") as config:
        config.write(f"  ControlPath {socket}\n")
    ssh = ("ssh", "-F", str(site.node.ssh_config))
    subprocess.run([*ssh, "-MNf", HOST], check=True, timeout=60, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        assert "master" in doctor(0)["connection"]["fact"]
        assert site.node.connections().most == 1
    finally:
        subprocess.run([*ssh, "-O", "exit", HOST], check=True, timeout=60, stderr=subprocess.DEVNULL)


# -- No connection ----------------------------------------------------------------------------------


def no_connection(checks: dict[str, dict[str, Any]], fact: str, advice: str) -> None:
    """It is the only problem, and all that needs a connection is left out."""
    assert list(checks)[-1] == "connection"
    assert fact in checks["connection"]["fact"]
    assert advice in checks["connection"]["advice"]


def test_no_ssh(site: Site, doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(site.directory))
    no_connection(doctor(1), "ssh", "install")


def test_an_unknown_host(site: Site, doctor: Doctor) -> None:
    site.keys["host"] = "no-such-host.invalid"
    no_connection(doctor(1), "no-such-host.invalid", "`host`")


def test_a_refused_connection(site: Site, doctor: Doctor) -> None:
    site.node.stop()
    no_connection(doctor(1), "refused", f"ssh -v -F {site.node.ssh_config} {HOST}")


def test_a_wrong_key(site: Site, doctor: Doctor) -> None:
    key = site.directory / "other_key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True, timeout=60)
    config = site.node.ssh_config
    config.write_text(config.read_text().replace(f"{site.node.directory}/client_key", str(key)))
    why = wording("no connection", host=HOST, why="")
    no_connection(doctor(1), why, "ssh-add")
    no_connection(doctor(1), "Permission denied", "ssh-add")


def test_another_host_key(site: Site, doctor: Doctor) -> None:
    site.node.change_host_key()
    checks = doctor(1)
    no_connection(checks, "IDENTIFICATION HAS CHANGED", "ssh-keygen -R")
    assert any("known_hosts:1" in line for line in checks["connection"]["evidence"])


@pytest.mark.parametrize("options", [["-oNoSuchOption=1"], ["-F", "/no/such/file"], ["--no-such"]])
def test_options_that_ssh_refuses(site: Site, doctor: Doctor, options: list[str]) -> None:
    site.keys["ssh"] = options
    no_connection(doctor(1), "", "`ssh` of the cluster")


def test_a_bad_line_of_the_configuration(site: Site, doctor: Doctor) -> None:
    with site.node.ssh_config.open("a") as config:
        config.write("  NoSuchKeyword yes\n")
    no_connection(doctor(1), str(site.node.ssh_config), "configuration of ssh")


def test_no_python3(site: Site, doctor: Doctor) -> None:
    site.remove("python3")
    no_connection(doctor(1), "python3", "python3 --version")


@pytest.mark.parametrize("version", ["2, 7, 18", "3, 5, 10"])
def test_a_python3_that_is_too_old(site: Site, doctor: Doctor, version: str) -> None:
    program = f"import sys; sys.version_info = ({version}); exec(sys.argv.pop(1))"
    site.program("python3", f'exec {sys.executable} -c "{program}" "$2" "$3"')
    no_connection(doctor(1), version.replace(", ", ".").rpartition(".")[0], "python3 3.6")


def test_a_profile_that_ends_the_shell(site: Site, doctor: Doctor) -> None:
    (site.directory / "home" / ".bash_profile").write_text("echo welcome; exit 0\n")
    no_connection(doctor(1), "exit code 0", "start-up files")


def test_a_connection_that_is_lost(site: Site, doctor: Doctor) -> None:
    site.program("sbatch", "kill -9 $PPID")
    checks = doctor(1)
    assert list(checks) == ["ssh", "connection", "python3", "clock", "node", "programs"]
    assert checks["connection"]["state"] == "problem"


# -- A login node with a problem --------------------------------------------------------------------


def one_problem(checks: dict[str, dict[str, Any]], name: str, fact: str, advice: str) -> None:
    """It is the only problem, and the others are checked."""
    assert [check["name"] for check in checks.values() if check["state"] == "problem"] == [name]
    assert fact in checks[name]["fact"]
    assert advice in checks[name]["advice"]


def test_no_sbatch(site: Site, doctor: Doctor) -> None:
    site.remove("sbatch")
    checks = doctor(1)
    one_problem(checks, "programs", "sbatch", f"{HOST} bash -l <<< 'command -v sbatch'")
    assert [name for name in ON_SLURM if name not in checks] == ["slurm"]


def test_advice_that_can_be_typed(site: Site, doctor: Doctor) -> None:
    site.remove("sbatch")
    find = doctor(1)["programs"]["advice"].split("`")[1]
    site.program("sbatch", "")
    found = subprocess.run(["bash", "-c", find], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout == f"{site.bin}/sbatch\n"


@pytest.mark.parametrize(
    "script",
    [
        "echo slurm_load_ctl_conf error: Unable to contact slurm controller >&2; exit 1",
        "echo 'Slurmctld(primary) at eos-ctl is DOWN'",
    ],
)
def test_a_controller_that_does_not_answer(site: Site, doctor: Doctor, script: str) -> None:
    site.program("scontrol", script)
    checks = doctor(1)
    one_problem(checks, "slurmctld", "slurmctld does not answer", "scontrol ping")
    assert "partition" not in checks


def test_a_backup_that_is_up(site: Site, doctor: Doctor) -> None:
    down_and_up = "echo 'Slurmctld(primary) at a is DOWN'; echo 'Slurmctld(backup) at b is UP'"
    site.program("scontrol", f'[ "$1" = ping ] || exec {site.slurm.bin}/scontrol "$@"\n{down_and_up}')
    assert "a is DOWN" in doctor(0)["slurmctld"]["fact"]


def test_without_accounting(site: Site, doctor: Doctor) -> None:
    site.slurm.turn("accounting", 0)
    assert doctor(0)["accounting"]["state"] == "note"


def test_accounting_that_does_not_answer(site: Site, doctor: Doctor) -> None:
    site.slurm.turn("sacct_error", "sacct: error: Connection refused")
    one_problem(doctor(1), "accounting", "Connection refused", "sacct")


def test_a_slurm_that_is_too_old(site: Site, doctor: Doctor) -> None:
    site.program("sbatch", "echo slurm 21.08.8-2")
    one_problem(doctor(1), "slurm", "21.08.8-2, wanted 22.05", "administrators")


@pytest.mark.parametrize("name", ["PARTITION", "batsh"])
def test_an_unknown_partition(site: Site, doctor: Doctor, name: str) -> None:
    site.keys["partition"] = name
    one_problem(doctor(1), "partition", name, "`partition`")


def test_accounts(site: Site, doctor: Doctor) -> None:
    site.keys["account"] = "llm"
    site.program("sacctmgr", 'for word; do [ "$word" = account=llm ] && echo llm; done; exit 0')
    assert doctor(0)["account"]["fact"] == "llm"
    site.keys["account"] = "other"
    one_problem(doctor(1), "account", "'other'", "`account`")
    site.program("sacctmgr", "echo no accounting >&2; exit 1")
    assert "account" not in doctor(0)


def test_a_clock_that_is_ahead(site: Site, doctor: Doctor) -> None:
    (site.directory / "sitecustomize.py").write_text(
        "import time\nreal = time.time\ntime.time = lambda: real() + 3600\n"
    )
    site.program("python3", f'PYTHONPATH={site.directory} exec {sys.executable} "$@"')
    one_problem(doctor(1), "clock", "1h00m ahead", "date -u")


# -- Files ------------------------------------------------------------------------------------------


def test_a_staging_area_that_can_be_made(site: Site, doctor: Doctor) -> None:
    site.keys["stage"] = str(site.directory / "new" / "{recipe}")
    checks = doctor(0)
    assert (checks["stage"]["state"], checks["recipes"]["state"]) == ("note", "note")
    assert not (site.directory / "new").exists()


def test_a_staging_area_without_its_directory(site: Site, doctor: Doctor) -> None:
    site.keys["stage"] = f"{site.directory}/missing/stage"
    one_problem(doctor(1), "stage", f"{HOST}:{site.directory}/missing/stage", "mkdir -p")


def test_a_staging_area_below_a_file(site: Site, doctor: Doctor) -> None:
    (site.directory / "file").touch()
    site.keys["stage"] = f"{site.directory}/file/stage"
    one_problem(doctor(1), "stage", "is no directory", "ls -ld")


def test_a_staging_area_that_is_not_writable(site: Site, doctor: Doctor) -> None:
    site.keys |= {"stage": "/proc/gsw", "recipes": str(site.stage)}  # not even for root
    checks = doctor(1)
    one_problem(checks, "stage", "/proc", "`stage`")
    assert "quota" not in checks["stage"]["advice"]


@contextlib.contextmanager
def full_file_system(directory: Path) -> Iterator[None]:
    """A file system of 64 kB without a free byte; the test skips if it may not be mounted."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(directory)]
    if shutil.which("mount", path=PATH) is None or subprocess.run(mount, stderr=subprocess.DEVNULL).returncode:
        pytest.skip("no file system may be mounted here")
    try:
        with contextlib.suppress(OSError):
            (directory / "file").write_bytes(bytes(1 << 20))
        yield
    finally:
        subprocess.run(["umount", str(directory)], check=True)


def test_a_full_staging_area(site: Site, doctor: Doctor) -> None:
    site.keys["recipes"] = str(site.stage)
    site.keys["stage"] = str(full := site.directory / "full")
    full.mkdir()
    with full_file_system(full):
        one_problem(doctor(1), "stage", "0 B free", "quota")
        assert [path.name for path in full.iterdir()] == ["file"]


def test_no_recipes(site: Site, doctor: Doctor) -> None:
    site.keys["recipes"] = f"{site.directory}/recipes"
    one_problem(doctor(1), "recipes", f"{HOST}:{site.directory}/recipes", "`recipes`")


def test_no_staging_area(site: Site, doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STAGE_PATH", raising=False)
    del site.keys["stage"]
    checks = doctor(1)
    one_problem(checks, "stage", "'eos'", "STAGE_PATH")
    assert "recipes" not in checks
