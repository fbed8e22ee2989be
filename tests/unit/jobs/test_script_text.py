from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_gsw.jobs.scripts import script_text, versions_in


def test_a_scripts_text_is_as_the_file_is_now(tmp_path: Path) -> None:
    script = tmp_path / "launch.sh"
    script.write_bytes(b"#!/bin/bash\n\xff\n")
    assert script_text(script) == "#!/bin/bash\n\N{REPLACEMENT CHARACTER}\n"
    script.write_text("#!/bin/bash\nexit\n")
    assert script_text(script) == "#!/bin/bash\nexit\n"


def test_a_script_of_the_same_size_and_time_is_another_one(tmp_path: Path) -> None:
    """An archive gives the files of each release one time, and its tools keep it."""
    texts = []
    for version in ("25.01", "25.02"):
        (tmp_path / version).write_text(f"GSW_VERSION={version}\n")
        os.utime(tmp_path / version, (1, 1))
        (tmp_path / version).rename(tmp_path / "launch.sh")
        texts.append(script_text(tmp_path / "launch.sh"))
    assert texts == ["GSW_VERSION=25.01\n", "GSW_VERSION=25.02\n"]


def test_what_is_no_file_has_no_text(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")  # whoever opened it would wait for a writer
    assert [script_text(tmp_path / name) for name in ("pipe", "gone.sh", ".", "pipe/launch.sh")] == [None] * 4


@pytest.mark.parametrize(
    ("text", "versions"),
    [
        ("export GSW_VERSION=25.01\n", ["25.01"]),
        ("  GSW_VERSION='25.04.01'  # of launch.sh\nGSW_VERSION=demo\t\n", ["25.04.01", "demo"]),
        ("GSW_VERSION=25.01#x\nGSW_VERSION=$1\n# GSW_VERSION=25.01\nMY_GSW_VERSION=25.01\n", []),
    ],
)
def test_the_release_that_a_launch_script_fixes(text: str, versions: list[str]) -> None:
    assert [match[1] for match in versions_in(text)] == versions
