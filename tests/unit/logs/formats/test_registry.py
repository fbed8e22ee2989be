from __future__ import annotations

import subprocess
import sys

import pytest

from pytest_gsw.logs.formats.registry import FORMATS


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_is_known_by_its_own_name(name: str) -> None:
    assert FORMATS[name].name == name
    assert FORMATS[name] is FORMATS[name]


def test_no_other_name_is_a_format() -> None:
    assert FORMATS.get("registry") is None
    assert len(FORMATS) == len(list(FORMATS))


def test_a_format_that_is_not_asked_for_is_not_loaded() -> None:
    program = (
        "import sys; from pytest_gsw.logs.formats.registry import FORMATS; FORMATS['maxtext'];"
        "print([name.rpartition('.')[2] for name in sys.modules if name.startswith('pytest_gsw.logs.formats.')])"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout == "['registry', 'base', 'lines']\n"
