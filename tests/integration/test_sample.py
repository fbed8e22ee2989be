"""Which parameter sets are run where each change is tested, and that all of them are elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sample import VARIABLE

ROOT = Path(__file__).resolve().parents[2]
TESTS = """
import pytest

@pytest.mark.sampled(2)
@pytest.mark.parametrize("letter", "abcde")
def test_sampled(letter): pass

class TestSome:
    @pytest.mark.parametrize("letter", "abc")
    def test_each(self, letter): pass

def test_alone(): pass
"""


@pytest.mark.parametrize(
    ("mode", "ran"),
    [
        (None, "each[a] each[b] each[c] sampled[a] sampled[b] sampled[c] sampled[d] sampled[e]"),
        ("sampled", "each[a] each[b] each[c] sampled[d] sampled[e]"),
        ("one-of-each", "each[a] sampled[d]"),
    ],
)
def test_what_is_run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, mode: str | None, ran: str) -> None:
    monkeypatch.syspath_prepend(ROOT)
    monkeypatch.delenv(VARIABLE, raising=False)
    if mode:
        monkeypatch.setenv(VARIABLE, mode)
    pytester.makepyfile(test_it=TESTS)
    result = pytester.runpytest("-v", "-p", "tests.sample", "--strict-markers")
    lines = [line.split(" ")[0] for line in result.outlines if " PASSED" in line]
    assert " ".join(sorted(line.rpartition("test_")[2] for line in lines if "[" in line)) == ran
    assert sum("test_alone" in line for line in lines) == 1
    said = f"{VARIABLE}={mode}: not all parameter sets were run; tox -m nightly runs them"
    assert (said in result.outlines) is (mode is not None)


def test_another_word_is_refused(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)
    monkeypatch.setenv(VARIABLE, "few")
    result = pytester.runpytest("-p", "tests.sample")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: GSW_TESTS: got 'few', wanted sampled, one-of-each or nothing"])
