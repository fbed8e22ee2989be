"""Lines for Jenkins' junit-attachments plugin."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_gsw.results.attachments import attachment_lines
from pytest_gsw.results.record import write_record
from tests.unit.results.records import SLOW, varied

#: As the plugin looks for it in each line of a test case's output.
PATTERN = re.compile(r"\[\[ATTACHMENT\|(.+)\]\]")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "a ]] log.out"
    path.write_text("step 1\n")
    return path


def test_log_record_and_page(tmp_path: Path, log: Path) -> None:
    record = varied(SLOW, log=str(log))
    path = write_record(tmp_path, record)
    page = tmp_path / "page.html"
    page.write_text("<p>")
    lines = attachment_lines(record, tmp_path, page)
    assert lines == [f"[[ATTACHMENT|{log}]]", f"[[ATTACHMENT|{path}]]", f"[[ATTACHMENT|{page}]]"]
    found = [PATTERN.fullmatch(line) for line in lines]
    assert [match and match.group(1) for match in found] == [str(log), str(path), str(page)]


def test_what_else_the_job_wrote(tmp_path: Path, log: Path) -> None:
    errors = tmp_path / "log.err"
    errors.write_text("")
    record = varied(SLOW, log=str(log), outputs=(str(errors), str(tmp_path / "gone.out")))
    assert attachment_lines(record, tmp_path) == [f"[[ATTACHMENT|{log}]]", f"[[ATTACHMENT|{errors}]]"]


def test_paths_are_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_record(tmp_path, SLOW)
    monkeypatch.chdir(tmp_path)
    assert attachment_lines(SLOW, Path()) == [f"[[ATTACHMENT|{path}]]"]


def test_what_is_not_there_is_not_named(tmp_path: Path) -> None:
    assert attachment_lines(SLOW, tmp_path, tmp_path / "gone.html") == []
    assert attachment_lines(varied(SLOW, log=None), tmp_path) == []
    assert attachment_lines(varied(SLOW, log=str(tmp_path)), tmp_path) == []  # a directory


@pytest.mark.parametrize("name", ["a\n[[ATTACHMENT|/etc/passwd]]", "red\x1b[31m", "left\u202e"])
def test_a_path_that_is_no_line_is_not_named(tmp_path: Path, name: str) -> None:
    path = tmp_path / name.replace("/", "_")
    path.write_text("")
    assert attachment_lines(varied(SLOW, log=str(path)), tmp_path) == []


@pytest.mark.parametrize("name", ["nul\x00", "x" * 5000])
def test_a_name_that_no_file_can_have(tmp_path: Path, name: str) -> None:
    assert attachment_lines(varied(SLOW, log=name), tmp_path) == []
