"""A test that fails is run once more by itself: what that decides, and what is told of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.rerun import VARIABLE

ROOT = Path(__file__).resolve().parents[2]

#: A test that is ``first`` fails the first time only; the file is there from then on.
ONCE = """\
from pathlib import Path
import os, pytest

def first(name):
    file = Path(__file__).with_name(f"{name}.seen")
    seen = file.exists()
    file.touch()
    return not seen

def note(what):
    with Path(__file__).with_name("notes").open("a") as file:
        file.write(f"{what} {os.getpid() == int(os.environ['SESSION'])}\\n")
"""
Run = Callable[..., pytest.RunResult]


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A session of one file, whose process is the one that ``note`` says True of."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv(VARIABLE, str(pytester.path / "flaky.txt"))
    monkeypatch.delenv("TOX_ENV_NAME", raising=False)
    pytester.makeconftest("import os\nos.environ.setdefault('SESSION', str(os.getpid()))\n")

    def session(body: str, *options: str) -> pytest.RunResult:
        pytester.makepyfile(test_it=ONCE + body)
        return pytester.runpytest_subprocess("-p", "tests.rerun", "-p", "no:cacheprovider", *options)

    return session


def flaky(pytester: pytest.Pytester) -> str:
    file = pytester.path / "flaky.txt"
    return file.read_text() if file.exists() else ""


MIXED = """
@pytest.fixture(scope="module")
def cluster():
    note("start")
    yield
    note("end")

@pytest.fixture(scope="module")
def broken():
    assert not first("broken"), "no cluster"

@pytest.fixture
def unclean():
    yield
    assert not first("unclean"), "something is left"

@pytest.mark.parametrize("value", ["a::b [c]"])
def test_flaky(cluster, value):
    print("what it printed")
    assert not first("flaky"), "the first failure"

def test_twice(cluster):
    assert first("never") == "never"

def test_setup(broken): pass
def test_teardown(unclean): pass
def test_good(cluster): pass

def test_second_time_skipped():
    if not first("skipped"):
        pytest.skip("not now")
    assert False

@pytest.mark.xfail(strict=True)
def test_second_time_expected():
    assert first("expected")
"""


def test_what_the_second_run_decides(pytester: pytest.Pytester, run: Run) -> None:
    result = run(MIXED)

    assert result.ret == 1
    assert result.parseoutcomes() == {"passed": 2, "failed": 3, "flaky": 3}  # test_teardown's call has passed, too
    failed = {line.partition("::")[2].split(" ")[0] for line in result.outlines if line.startswith("FAILED ")}
    assert failed == {"test_twice", "test_second_time_skipped", "test_second_time_expected"}
    result.stdout.fnmatch_lines(["*--- second run, by itself ---*", "E * assert * == 'never'", "*1 failed in *"])
    heads = [line for line in flaky(pytester).splitlines() if line.startswith("flaky: ")]
    then = "and passed when it was run once more by itself:"
    assert heads == [
        f"flaky: test_it.py::test_flaky[a::b [c]] failed (call), {then}",
        f"flaky: test_it.py::test_setup failed (setup), {then}",
        f"flaky: test_it.py::test_teardown failed (teardown), {then}",
    ]
    for text in (
        "AssertionError: the first failure",
        "AssertionError: no cluster",
        "AssertionError: something is left",
    ):
        assert text in flaky(pytester)
    assert "--- Captured stdout call\nwhat it printed\n" in flaky(pytester)
    assert all(line in result.outlines for line in flaky(pytester).splitlines())
    notes = (pytester.path / "notes").read_text().splitlines()
    # The session's own cluster lives on; each second run has another one.
    assert notes == ["start True", *["start False", "end False"] * 2, "end True"]


FLAKY_THEN_BROKEN = """
def test_1(): assert not first("flaky")
def test_2(): pass
def test_3(): assert False
def test_4(): pass
"""


@pytest.mark.parametrize("options", [(), ("-n", "1")], ids=["one process", "xdist"])
def test_exitfirst_ends_with_the_first_that_fails_twice(
    pytester: pytest.Pytester, run: Run, options: tuple[str, ...]
) -> None:
    result = run(FLAKY_THEN_BROKEN, "--exitfirst", *options)
    assert result.parseoutcomes() == {"passed": 1, "failed": 1, "flaky": 1}
    assert result.ret == (2 if options else 1)
    assert flaky(pytester).count("flaky: ") == 1


def test_a_session_that_is_flaky_alone_ends_well(pytester: pytest.Pytester, run: Run) -> None:
    result = run('def test_1(): assert not first("flaky")\n')
    assert result.ret == 0
    result.stdout.fnmatch_lines(["test_it.py R *", "*= flaky tests =*", "*= 1 flaky in *"])


def test_a_worker_that_dies_is_a_failure(pytester: pytest.Pytester, run: Run) -> None:
    result = run("def test_1():\n    if first('died'): os._exit(3)\n", "-n", "1")
    assert result.ret == 1
    assert result.parseoutcomes()["failed"] == 1
    assert flaky(pytester) == ""


def test_it_is_off_unless_asked_for(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE)
    assert run('def test_1(): assert not first("flaky")\n').parseoutcomes() == {"failed": 1}
