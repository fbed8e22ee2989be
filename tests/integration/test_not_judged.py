"""A session in which rows were selected and not judged is never green, whatever kept them from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.conftest import junit, records
from tests.messages import wording

ROW = "llama2_70b_fp8[H100x128]"
ONE = ("--gsw-cluster=demo", f"baselines/maxtext/llama2_70b.yaml::{ROW}", "--junitxml=junit.xml")
TWO = ("--gsw-cluster=demo", "-k", "llama2_70b_fp8 and (H100x64 or H100x128)", "--junitxml=junit.xml")


def with_hooks(pytester: pytest.Pytester, body: str, place: str) -> tuple[str, str]:
    """Options that load hooks from a plugin; of a conftest.py, which needs none, options that change nothing."""
    pytester.makepyfile(**{place: f"import pytest\n{body}\n"})
    pytester.syspathinsert()
    return "-p", "no:cacheprovider" if place == "conftest" else place


#: Where a site has its hooks.
PLACES = pytest.mark.parametrize("place", ["own_plugin", "conftest"])


def tags(pytester: pytest.Pytester) -> dict[str, list[str]]:
    """What each test case of the JUnit file holds besides its properties."""
    found = junit(pytester.path / "junit.xml") if Path("junit.xml").exists() else {}
    return {name: [child.tag for child in case if child.tag != "properties"] for name, case in found.items()}


@pytest.mark.parametrize("option", ["--setup-only", "--setup-plan"])
def test_what_only_shows_the_set_up_leaves_no_green_test_case(pytester: pytest.Pytester, option: str) -> None:
    result = pytester.runpytest(*ONE, option)
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    assert tags(pytester) == {ROW: ["skipped"]}
    assert not list(pytester.path.glob(".gsw/runs/*/stage"))


def test_a_plugin_that_swallows_one_row(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        "import pytest\n@pytest.hookimpl(tryfirst=True)\n"
        "def pytest_runtest_protocol(item):\n    return True if 'x128' in item.name else None\n"
    )
    result = pytester.runpytest(*TWO)
    result.assert_outcomes(passed=1, errors=1, deselected=139)
    result.stdout.fnmatch_lines(
        [
            "the row was not judged: a plugin took pytest_runtest_protocol in place of pytest's own",
            "next       pytest --trace-config lists the plugins; -p no:NAME leaves one out",
            f"ERROR *{ROW.replace('[', '[[]')} - the row w*",
        ]
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert tags(pytester)[ROW] == ["error"]
    assert {one["row"]: one["outcome"] for one in records(pytester.path)}[ROW] == "error"


@pytest.mark.parametrize(
    ("body", "place"),
    [
        # A loop of a conftest.py comes before ours, and one of a plugin that is named on the command line behind it.
        ("@pytest.hookimpl(tryfirst=True)\ndef pytest_runtestloop(): return True", "conftest"),
        ("def pytest_runtest_setup(): pytest.exit('enough', returncode=0)", "own_plugin"),
        ("def pytest_runtest_setup(): pytest.exit('enough', returncode=0)", "conftest"),
    ],
    ids=["loop", "exit", "exit-conftest"],
)
def test_a_session_that_ends_before_its_rows_are_judged(pytester: pytest.Pytester, body: str, place: str) -> None:
    result = pytester.runpytest(*ONE, *with_hooks(pytester, body, place))
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [wording("not judged", rows="gsw: 1 row was"), f"  baselines/*{ROW.replace('[', '[[]')}"], consecutive=True
    )


def test_another_plugins_loop_judges_nothing(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        "import pytest\n@pytest.hookimpl(tryfirst=True)\ndef pytest_runtestloop(session):\n"
        "    for item in session.items:\n"
        "        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)\n    return True\n"
    )
    result = pytester.runpytest(*TWO)
    result.assert_outcomes(skipped=2, deselected=139)
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED


@pytest.mark.parametrize(
    ("body", "fact"),
    [
        ("def pytest_runtest_setup(): pytest.skip('rack 7')", "skipped after its job was submitted: rack 7"),
        (
            "def pytest_runtest_setup(): raise KeyError('rack')",
            "pytest_runtest_setup of PLACE raised KeyError: 'rack'",
        ),
        (
            "def pytest_runtest_setup(): pytest.fail('rack 7')",
            "pytest_runtest_setup of PLACE raised Failed: rack 7",
        ),
        ("def pytest_gsw_judge(): pytest.skip('no rule')", "skipped after its job was submitted: no rule"),
    ],
    ids=["skip", "raise", "fail", "judge"],
)
@PLACES
def test_a_row_that_a_foreign_hook_ends_is_an_error(
    pytester: pytest.Pytester, body: str, fact: str, place: str
) -> None:
    result = pytester.runpytest(*ONE, *with_hooks(pytester, f"@pytest.hookimpl(tryfirst=True)\n{body}", place))
    fact = fact.replace("PLACE", "conftest.py" if place == "conftest" else place)
    result.assert_outcomes(errors=1)
    (record,) = records(pytester.path)
    assert (record["outcome"], record["fact"]) == ("error", fact)
    assert record["job"]["state"] == "COMPLETED"
    result.stdout.fnmatch_lines([fact])
    assert tags(pytester) == {ROW: ["error"]}


@pytest.mark.parametrize(
    "body",
    [
        (
            "@pytest.hookimpl(tryfirst=True)\ndef pytest_runtest_makereport(item, call):\n"
            "    return pytest.TestReport(item.nodeid, item.location, {}, 'passed', None, call.when)"
        ),
        (
            "@pytest.hookimpl(wrapper=True, tryfirst=True)\ndef pytest_runtest_makereport():\n"
            "    report = yield\n    report.outcome = 'passed'\n    return report"
        ),
        (
            "@pytest.hookimpl(wrapper=True)\ndef pytest_runtest_call():\n    try:\n        yield\n"
            "    except BaseException:\n        pass"
        ),
        "@pytest.hookimpl(tryfirst=True)\ndef pytest_runtest_logreport(report): report.outcome = 'passed'",
    ],
    ids=["maker", "outermost", "call", "log"],
)
@pytest.mark.parametrize("fault", ["slow:20%", "fail"])
@PLACES
def test_hooks_that_make_every_report_green(pytester: pytest.Pytester, body: str, fault: str, place: str) -> None:
    result = pytester.runpytest(*ONE, f"--gsw-demo=*={fault}", *with_hooks(pytester, body, place))
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_a_row_that_is_open_is_not_covered_by_others_that_pass(pytester: pytest.Pytester, table: Path) -> None:
    """Beside a row that passes, one that a marker leaves out, and an ordinary test."""
    pytester.makeconftest(
        "import pytest\ndef pytest_collection_modifyitems(items):\n"
        "    next(i for i in items if 'B200' in i.name).add_marker(pytest.mark.skip('rack 7'))\n"
    )
    pytester.makepyfile(test_one="def test_one(): pass")
    rows = ("--gsw-baselines=site", "site", "test_one.py", "--junitxml=junit.xml")
    for options in ((), ("--lf",), ("-n1",)):
        result = pytester.runpytest("--gsw-cluster=demo", *rows, *options, "--gsw-demo=*[H100x8]=fast:40%")
        assert result.parseoutcomes().items() >= {"passed": 2, "skipped": 2}.items(), options
        assert result.ret == 6, options
        found = {name: kinds for name, kinds in tags(pytester).items() if name.startswith("tiny")}
        name = "tiny_1b_bf16[{}]".format
        assert found == {name("H100x8"): ["skipped"], name("H100x16"): [], name("B200x8"): ["skipped"]}, options
        result.stdout.fnmatch_lines(["*= inconclusive =*", wording("too good", row="tiny_1b_bf16[[]H100x8]", why="*")])
    assert pytester.runpytest("--gsw-cluster=demo", *rows).ret == pytest.ExitCode.OK


@pytest.mark.parametrize("mark", ["skipif(True, reason='rack 7')", "xfail(run=False)"])
def test_a_mark_that_keeps_pytest_from_running_a_row_keeps_its_job_away(pytester: pytest.Pytester, mark: str) -> None:
    pytester.makeconftest(
        "import pytest\ndef pytest_collection_modifyitems(items):\n"
        f"    next(i for i in items if i.name == '{ROW}').add_marker(pytest.mark.{mark})\n"
    )
    result = pytester.runpytest(*TWO)
    assert result.ret == 0
    assert result.parseoutcomes()["passed"] == 1
    assert len(list(pytester.path.glob(".gsw/runs/*/batch/*.out"))) == 1
