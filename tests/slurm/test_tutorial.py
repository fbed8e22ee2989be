"""The tutorial, on a real Slurm: its commands in their order, read from the page, and what they print."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.shown import as_pattern, blocks

from .cluster import SlurmCluster
from .conftest import start

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "tutorial.md"
#: Stands for `python3 -m venv`, and its pip for an installation, which would reach another host: the environment has the
#: commands of the Python that runs the tests. `tox -e release` installs for real.
PYTHON = """\
#!/bin/bash
set -eu
[ "$*" = "-m venv .venv" ]
{python} -m venv --without-pip .venv
cat >.venv/bin/pip <<'PIP'
#!/bin/bash
set -eu
[ "$*" = "install --quiet ." ] && [ -e pyproject.toml ]
printf '#!/bin/sh\\nexec {python} -m pytest "$@"\\n' >.venv/bin/pytest
printf '#!/bin/sh\\nexec {python} -c "import sys; from pytest_gsw.cli import main; sys.exit(main())" "$@"\\n' \\
    >.venv/bin/pytest-gsw
chmod +x .venv/bin/pytest*
PIP
chmod +x .venv/bin/pip
"""
END = "the block has ended with"


class Shell:
    """One bash that all blocks are typed into."""

    def __init__(self, directory: Path, environ: dict[str, str]) -> None:
        self._bash = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=directory,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
        )
        self._limit = threading.Timer(600, self._bash.kill)
        self._limit.start()

    def run(self, commands: str) -> tuple[int, str]:
        """The exit status of a block's last command, and what all of them print."""
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        self._bash.stdin.write(f"{{ {commands}}} </dev/null\necho {END} $?\n")
        self._bash.stdin.flush()
        said = []
        for line in self._bash.stdout:
            if line.startswith(END):
                return int(line.removeprefix(END)), "".join(said)
            said.append(line)
        raise AssertionError(f"the shell has ended: {''.join(said)}")

    def close(self) -> None:
        """End it."""
        self._limit.cancel()
        self._bash.kill()
        self._bash.communicate()


@pytest.fixture(scope="module")
def slurm4() -> Iterator[SlurmCluster]:
    """The cluster that the tutorial asks for."""
    yield from start(4)


@pytest.fixture
def shell(slurm4: SlurmCluster, tmp_path: Path) -> Iterator[Shell]:
    """In a checkout, with a home of its own."""
    checkout, home, python = tmp_path / "checkout", tmp_path / "home", tmp_path / "bin" / "python3"
    for directory in (checkout, home, python.parent):
        directory.mkdir()
    shutil.copy(ROOT / "pyproject.toml", checkout)
    shutil.copytree(ROOT / "docs", checkout / "docs")
    python.write_text(PYTHON.format(python=sys.executable))
    python.chmod(0o755)
    foreign = ("GSW_", "PYTEST_", "GITHUB_", "CI", "VIRTUAL_ENV", "XDG_", "STAGE_PATH", "PYTHON")
    environ = {name: value for name, value in slurm4.environ.items() if not name.startswith(foreign)}
    environ |= {"HOME": str(home), "COLUMNS": "100", "NO_COLOR": "1"}
    environ["PATH"] = f"{python.parent}{os.pathsep}{environ['PATH']}"
    shell = Shell(checkout, environ)
    yield shell
    shell.close()


def test_the_tutorial(shell: Shell) -> None:
    for line, commands, exit_status, output in blocks(PAGE.read_text()):
        status, said = shell.run(commands)
        if status != exit_status:
            pytest.fail(f"{PAGE.name}:{line}: exit status {status}\n{commands}\n{said}", pytrace=False)
        if output is not None and re.fullmatch(as_pattern(output), said) is None:
            pytest.fail(f"{PAGE.name}:{line}: the page shows\n{output}\nand what is printed is\n{said}", pytrace=False)
    assert shell.run("git status --short; git -C ~/workspace status --short\n") == (0, "")


def test_the_run_that_is_rehearsed_is_that_of_the_jenkinsfile() -> None:
    jenkinsfile = (PAGE.parent / "examples" / "Jenkinsfile").read_text()
    run = re.search(r"\.venv/bin/(pytest --gsw-cluster=.*?)\n *'''", jenkinsfile, re.DOTALL)
    assert run is not None
    (rehearsed,) = [block.commands for block in blocks(PAGE.read_text()) if block.commands.startswith("git clone")]
    assert f" {_words(run[1])})" in _words(rehearsed)


def _words(commands: str) -> str:
    """The words of a command that is on several lines."""
    return " ".join(commands.replace("\\", "").split())
