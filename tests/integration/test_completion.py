"""What a shell completes behind pytest-gsw, by argcomplete's own protocol and in a real bash."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.runs import write_runs

argcomplete = pytest.importorskip("argcomplete")
Complete = Callable[[str], list[str]]


@pytest.fixture
def complete(pytester: pytest.Pytester) -> Complete:
    """The words that a bash is told behind a line, in a directory with five runs."""

    def ask(line: str) -> list[str]:
        answer = pytester.path / "answer"
        environ = {
            **os.environ,
            "_ARGCOMPLETE": "1",
            "_ARGCOMPLETE_SHELL": "bash",
            "_ARGCOMPLETE_SUPPRESS_SPACE": "1",
            "_ARGCOMPLETE_COMP_WORDBREAKS": " \t\n\"'><=;|&(:",
            "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
            "COMP_LINE": line,
            "COMP_POINT": str(len(line)),
        }
        command = [sys.executable, "-c", "from pytest_gsw.cli import main; main()"]
        subprocess.run(command, env=environ, cwd=pytester.path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return answer.read_text().split("\v")

    return ask


@pytest.fixture
def runs(pytester: pytest.Pytester, table: Path) -> list[str]:
    return sorted((run.name for run in write_runs(pytester.path / ".gsw", table)), reverse=True)


def test_an_ini_file_that_cannot_be_read_takes_no_words_away(
    complete: Complete, runs: list[str], pytester: pytest.Pytester
) -> None:
    (pytester.path / "pytest.ini").write_text("[pytest\n")
    assert complete("pytest-gsw compare 20") == runs
    assert complete("pytest-gsw metrics a.log --row gpt3_175b_fp8[H100x10") == ["gpt3_175b_fp8\\[H100x1024\\]"]


def test_options_and_rows(complete: Complete) -> None:
    assert complete("pytest-gsw metrics --cl") == ["--cluster", "--clusters"]
    assert complete("pytest-gsw baseline propose last --row gpt3_175b_fp8") == [
        f"gpt3_175b_fp8\\[H100x{gpus}\\]" for gpus in (1024, 128, 2048, 256, 512)
    ]


def test_runs(complete: Complete, runs: list[str]) -> None:
    assert complete("pytest-gsw report ")[:6] == ["last", *runs]
    assert complete(f"pytest-gsw compare last {runs[1][:8]}") == [runs[1]]
    assert complete("pytest-gsw report .gs") == [".gsw/"]


def test_without_argcomplete_nothing_changes(pytester: pytest.Pytester) -> None:
    (pytester.path / "argcomplete.py").write_text("raise ImportError\n")
    command = [sys.executable, "-c", "import sys; from pytest_gsw.cli import main; sys.exit(main(['rows', '--json']))"]
    environ = {**os.environ, "_ARGCOMPLETE": "1", "PYTHONPATH": str(pytester.path)}
    ended = subprocess.run(command, env=environ, cwd=pytester.path, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("[")


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_in_a_real_bash(pytester: pytest.Pytester) -> None:
    """A person types half of a row's id and a tab; what bash hands to the command is the row's id."""
    command = pytester.path / "bin" / "pytest-gsw"
    command.parent.mkdir()
    command.write_text(f"#!{sys.executable}\nimport sys\nfrom pytest_gsw.cli import main\nsys.exit(main())\n")
    command.chmod(0o755)
    # A file that the brackets would match as a pattern.
    (pytester.path / "gpt3_175b_fp8H").touch()
    argcomplete_of = (
        "from argcomplete.shell_integration import shellcode; print(shellcode(['pytest-gsw'], shell='bash'))"
    )
    (pytester.path / "setup.sh").write_text(subprocess.check_output([sys.executable, "-c", argcomplete_of], text=True))
    environ = {
        **os.environ,
        "PATH": f"{command.parent}:{os.environ['PATH']}",
        "TERM": "dumb",
        "PS1": "$ ",
        "INPUTRC": "/dev/null",
    }
    leader, follower = pty.openpty()
    bash = subprocess.Popen(
        ["bash", "--norc", "--noprofile", "-i"], cwd=pytester.path, env=environ, stdin=follower, stdout=follower,
        stderr=follower, start_new_session=True,
    )  # fmt: skip
    os.close(follower)
    try:
        # Behind the tab, the line's begin: the words are printed as the command would have had them.
        typed = "pytest-gsw metrics a.log --row=gpt3_175b_fp8[H100x12\t\x01printf '<%s>\\n' > said \n"
        os.write(leader, f"shopt -s failglob; source setup.sh\n{typed}exit\n".encode())
        with contextlib.suppress(OSError):  # the terminal is gone with bash
            while select.select([leader], [], [], 120)[0] and os.read(leader, 4096):
                pass
    finally:
        bash.kill()
        bash.wait()
        os.close(leader)
    assert (pytester.path / "said").read_text().splitlines() == [
        "<pytest-gsw>",
        "<metrics>",
        "<a.log>",
        "<--row=gpt3_175b_fp8[H100x128]>",
    ]
