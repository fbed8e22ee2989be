"""Whoever reads a session's output has gone: ``pytest … | head -1``."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.integration.conftest import records

CANCELS = """
from pathlib import Path
from pytest_gsw.jobs.local import LocalLauncher

class Own(LocalLauncher):
    def cancel(self, jobs):
        with open("cancelled.txt", "a") as file:
            file.writelines(f"{job.id}\\n" for job in jobs)
        super().cancel(jobs)

    def close(self):
        self.cancel = super().cancel  # by which it ends processes whatever the session wants
        super().close()

def pytest_gsw_make_launcher(cluster, run_directory):
    return Own(cluster.gpus, work_directory=run_directory / "batch")
"""

SIX = ("--gsw-cluster=demo", "-k", "llama2_70b_fp8", "--gsw-demo=*x2048]=stall", "--junitxml=junit.xml")


def submitted(directory: Path) -> list[str]:
    """The rows of all submissions in the journals of all runs, sorted; a line that is being written is left out."""
    texts = [path.read_text().rpartition("\n")[0] for path in directory.glob(".gsw/runs/*/journal.jsonl")]
    events = [json.loads(line) for text in texts for line in text.splitlines() if line]
    return sorted(event["row"] for event in events if event["event"] == "submitted")


def read_until(pytester: pytest.Pytester, word: str, *command: str) -> tuple[int, str]:
    """Run a command whose output is closed behind the first line with a word; its exit status and its complaints."""
    process = pytester.popen(
        [*command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert any(word in line for line in process.stdout)
    process.stdout.close()
    try:
        assert process.stderr is not None
        with process.stderr as stream:
            complaints = stream.read()
        return process.wait(120), complaints
    finally:
        process.kill()


def session(pytester: pytest.Pytester, word: str) -> tuple[int, str]:
    pytester.makeconftest(CANCELS)
    return read_until(pytester, word, *map(str, pytester._getpytestargs()), *SIX, "-p", "no:cacheprovider")


def test_before_anything_is_submitted(pytester: pytest.Pytester) -> None:
    """Nobody reads from the start on, so that the first line finds the output closed."""
    pytester.makeconftest(CANCELS)
    reader, writer = os.pipe()
    os.close(reader)
    command = [*map(str, pytester._getpytestargs()), *SIX, "-p", "no:cacheprovider"]
    try:
        process = pytester.popen(command, stdin=subprocess.DEVNULL, stdout=writer, stderr=subprocess.PIPE, text=True)
    finally:
        os.close(writer)
    assert (process.communicate()[1], process.returncode) == ("", 1)
    assert submitted(pytester.path) == []


def test_while_jobs_run(pytester: pytest.Pytester) -> None:
    """The session ends as after an internal error: what has not ended is cancelled, and what was judged has its record."""
    assert session(pytester, "PASSED") == (1, "")
    assert len(submitted(pytester.path)) == 6
    assert (pytester.path / "cancelled.txt").read_text().split()
    assert records(pytester.path)
    assert not list(pytester.path.glob(".gsw/runs/*/owner.*"))  # the run has been let go of
