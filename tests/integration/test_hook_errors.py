"""A hook that raises ends its own row, with a record that names it; one that returns rubbish ends the session at once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.defaults import set_defaults
from tests.integration.conftest import junit, records
from tests.messages import wording

ROW = "llama2_70b_fp8[H100x128]"
OTHER = "llama2_70b_fp8[H100x64]"
TWO = ("--gsw-cluster=demo", "-k", "llama2_70b_fp8 and (H100x64 or H100x128)", "--junitxml=junit.xml")

#: By the number of GPUs of the row for which it raises, each hook, and what tells it the row.
RAISING = {
    64: ("pytest_gsw_judge", "baseline"),
    128: ("pytest_gsw_make_job_spec", "baseline"),
    256: ("pytest_gsw_log_format", "baseline"),
    512: ("pytest_gsw_job_state_changed", "baseline"),
    1024: ("pytest_gsw_evidence", "log"),
    2048: ("pytest_gsw_run_recorded", "record"),
}
WHOSE = {"baseline": "baseline.gpus == {}", "log": "'_{}_' in log.name", "record": "record.row.gpus == {}"}


def by_row(pytester: pytest.Pytester) -> dict[str, dict[str, Any]]:
    return {record["row"]: record for record in records(pytester.path)}


def test_a_hook_that_raises_is_an_error_of_its_row_alone(pytester: pytest.Pytester) -> None:
    hooks = [
        f"def {hook}({given}):\n    if {WHOSE[given].format(gpus)}: return {{}}['rule']\n"
        for gpus, (hook, given) in RAISING.items()
    ]
    pytester.makeconftest("".join(hooks))
    result = pytester.runpytest(
        "--gsw-cluster=demo", "-k", "llama2_70b_fp8 or (405b_bf16 and x96)", "--junitxml=junit.xml"
    )
    result.assert_outcomes(passed=1, errors=6, deselected=134)
    found, cases = by_row(pytester), junit(pytester.path / "junit.xml")
    (live,) = pytester.path.glob(".gsw/runs/*/live.jsonl")
    lines = [json.loads(line) for line in live.read_text().splitlines()]
    told = [line["record"] for line in lines if line["event"] == "row"]
    for number, (gpus, (hook, _)) in enumerate(RAISING.items(), 1):
        row, fact = f"llama2_70b_fp8[H100x{gpus}]", f"{hook} of conftest.py raised KeyError: 'rule'"
        assert (found[row]["outcome"], found[row]["fact"]) == ("error", fact)
        assert [child.tag for child in cases[row] if child.tag != "properties"] == ["error"], hook
        assert f"at         conftest.py:{2 * number}, in pytest_gsw_" in (cases[row][-1].text or ""), hook
        assert [record["outcome"] for record in told if record["row"] == row] == ["error"], hook


def test_a_peak_that_raises_and_a_format_that_raises(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        "from pytest_gsw import StepLog\n"
        "class Odd:\n    name = 'odd'\n    dialects = ((b'step',),)\n    first_index = 0\n    wraps = False\n"
        "    shows_progress = True\n"
        "    def reader(self):\n        return OddParser()\n"
        "class OddParser:\n    def feed(self, offset, record):\n        self.of(b'x')\n"
        "    def of(self, line):\n        return int(line)\n"
        "    def log(self):\n        return StepLog('odd', (), 0)\n"
        "def pytest_gsw_log_format(baseline):\n    return Odd() if baseline.gpus == 128 else None\n"
        "def pytest_gsw_peak_flops(accelerator): raise OSError(2, 'No such file', 'peaks.csv')\n"
    )
    result = pytester.runpytest(*TWO)
    result.assert_outcomes(errors=2, deselected=139)
    facts = {row: record["fact"] for row, record in by_row(pytester).items()}
    peak = "pytest_gsw_peak_flops of conftest.py raised FileNotFoundError: [Errno 2] No such file: 'peaks.csv'"
    assert facts == {ROW: peak, OTHER: peak}
    pytester.makeconftest((pytester.path / "conftest.py").read_text().partition("def pytest_gsw_peak")[0])
    pytester.runpytest(*TWO, "-q").assert_outcomes(passed=1, errors=1, deselected=139)
    said = [record["fact"] for record in records(pytester.path) if record["row"] == ROW]
    assert any(
        fact.startswith("OddParser.feed of conftest.py raised ValueError: invalid literal for int") for fact in said
    )


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        (
            "def pytest_gsw_make_launcher():\n    return type('Odd', (), {'name': 'odd', 'poll': lambda self: {}})()",
            [
                "ERROR: an implementation of pytest_gsw_make_launcher returned Odd, which is no launcher:",
                "  poll: got poll(), wanted poll(jobs)",
                "plugin     conftest.py",
            ],
        ),
        (
            "import pytest_gsw\n\ndef pytest_gsw_log_format():\n    return pytest_gsw.LineFormat",
            [
                "ERROR: an implementation of pytest_gsw_log_format returned the class LineFormat, wanted an instance of it: *",
            ],
        ),
        (
            "def pytest_gsw_make_launcher(cluster):\n    return {}[cluster.name]",
            [
                "ERROR: pytest_gsw_make_launcher of conftest.py raised KeyError: 'demo'",
                "at         conftest.py:2, in *",
            ],
        ),
        (
            "def pytest_gsw_make_job_spec():\n    return 'sbatch'",
            ["ERROR: an implementation of pytest_gsw_make_job_spec returned str, wanted a JobSpec"],
        ),
        (
            "def pytest_gsw_peak_flops():\n    return 0",
            [
                (
                    "ERROR: an implementation of pytest_gsw_peak_flops returned 0, wanted FLOP/s above 0 or None, for H100 and "
                    "fp8"
                ),
                "plugin     conftest.py",
            ],
        ),
    ],
    ids=["launcher", "class", "raising", "text", "peak"],
)
def test_what_a_hook_returns_is_checked_before_anything_is_submitted(
    pytester: pytest.Pytester, body: str, lines: list[str]
) -> None:
    pytester.makeconftest(f"{body}\n")
    result = pytester.runpytest(*TWO)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([line.replace("[", "[[]") for line in lines])
    assert not list(pytester.path.glob(".gsw/runs/*/stage"))


OWN = """
from pytest_gsw.jobs.local import LocalLauncher

class Own(LocalLauncher):
    {body}

def pytest_gsw_make_launcher(cluster, run_directory):
    return Own(cluster.gpus, work_directory=run_directory / 'batch')
"""


@pytest.mark.parametrize("method", ["poll", "find_log"])
def test_a_launcher_that_raises_later_ends_the_session_with_its_traceback(
    pytester: pytest.Pytester, method: str
) -> None:
    pytester.makeconftest(OWN.format(body=f"def {method}(self, *_): raise KeyError('x')"))
    result = pytester.runpytest(*TWO, "--gsw-demo=*x64]=stall")
    assert result.ret == pytest.ExitCode.INTERNAL_ERROR
    result.stdout.fnmatch_lines([f'INTERNALERROR>   File "*conftest.py", line 4, in {method}', "*KeyError: 'x'"])
    result.stdout.fnmatch_lines([wording("still running", jobs="*")])


def test_a_job_that_is_no_rows_is_found_after_its_row_was_told(pytester: pytest.Pytester) -> None:
    """As the next row's job ends: the first row is an error all the same, on the screen, in JUnit and in its record."""
    late = """def named(self, specs, since_s):
        from pytest_gsw import FoundJob, JobState, JobStatus
        status = JobStatus(JobState.FAILED, exit_code=7, nodes='n001')
        return tuple(FoundJob('12', specs[0].name, status) for _ in recorded)"""
    observer = "\nrecorded = []\ndef pytest_gsw_run_recorded(record): recorded[:] = [record]\n"
    pytester.makeconftest(OWN.format(body=late) + observer)
    rows = "gpt3_175b_fp8 and (H100x128 or H100x256)"
    set_defaults(pytester.path, max_jobs=1)
    result = pytester.runpytest("--gsw-cluster=demo", "-k", rows, "--junitxml=junit.xml")
    result.assert_outcomes(passed=2, errors=1, deselected=139)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    fact = "the row has 1 job that no submission of it named: 12"
    result.stdout.fnmatch_lines([wording("job of no row", job="12 gsw-* FAILED on n001")])
    assert min((record["outcome"], record["fact"]) for record in by_row(pytester).values()) == ("error", fact)
    assert fact in (pytester.path / "junit.xml").read_text()


def test_last_words_that_a_file_server_shows_behind_a_whole_log_are_found_when_the_session_ends(
    pytester: pytest.Pytester,
) -> None:
    pytester.makeconftest(
        "def pytest_gsw_run_recorded(record):\n"
        "    with open(record.run.log, 'a') as log:\n"
        "        log.write('RuntimeError: NCCL communicator was aborted\\n')\n"
    )
    result = pytester.runpytest("--gsw-cluster=demo", "-k", "gpt3_175b_fp8 and H100x128", "--junitxml=junit.xml")
    result.assert_outcomes(passed=1, errors=1, deselected=140)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert by_row(pytester)["gpt3_175b_fp8[H100x128]"]["outcome"] == "error"
    assert "its log shows a failure" in (pytester.path / "junit.xml").read_text()


def test_a_session_that_does_not_know_all_jobs_of_its_run_fails(pytester: pytest.Pytester) -> None:
    away = """def named(self, specs, since_s):
        from pytest_gsw import SubmissionError
        raise SubmissionError('nobody answers', (('command', 'squeue --me'),), advice='ask again')"""
    pytester.makeconftest(OWN.format(body=away))
    result = pytester.runpytest("--gsw-cluster=demo", "-k", "gpt3_175b_fp8 and H100x128")
    result.stdout.fnmatch_lines(["gsw: " + wording("other jobs unknown", why="nobody answers"), "command *squeue --me"])
    result.assert_outcomes(passed=1, deselected=140)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
