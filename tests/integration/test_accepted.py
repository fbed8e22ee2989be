"""A cluster's accepted figure: it judges, it says so everywhere, and the documented one stays in sight."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import Gsw, junit, properties, records, unwrapped
from tests.integration.runs import accept
from tests.messages import wording

ROW = "tiny_1b_bf16[H100x8]"
NODE_ID = f"site/tiny.yaml::{ROW}"


def run(pytester: pytest.Pytester, fault: str = "slow:0%", *options: str) -> pytest.RunResult:
    demo = ("--gsw-cluster=demo", f"--gsw-demo=*H100x8]={fault}")
    return pytester.runpytest(*demo, "--gsw-baselines=site", "--junitxml=junit.xml", NODE_ID, *options)


def test_a_run_within_what_is_accepted_passes_and_names_both(pytester: pytest.Pytester, table: Path, gsw: Gsw) -> None:
    definition = accept(table, 1.1)
    result = run(pytester, "slow:12%")
    result.assert_outcomes(passed=1)
    line = next(line for line in result.outlines if " PASSED " in line)
    measured_s = records(pytester.path)[-1]["measured"]["step_time_s"]
    changes = [f"{(of / measured_s - 1) * 100:+.1f} %" for of in (1.1, 1.0)]
    assert f"  PASSED     throughput {changes[0]} vs accepted, {changes[1]} vs document  " in line
    loss = f"{(1 - 1 / measured_s) * 100:.1f} % below the documented throughput"
    pytest.LineMatcher(unwrapped(result.outlines)).fnmatch_lines(
        [
            "* accepted figures *",
            f"{ROW.replace('[', '[[]')}  passed by what demo has accepted; it is {loss}, and would have failed by it",
        ]
    )
    facts = properties(junit(pytester.path / "junit.xml")[ROW])
    note = "accepted on demo 2026-11-20: 1.1 s, median of 7 jobs, spread 0.83 % (481220, 481221)"
    assert facts["gsw_reference"] == "accepted"
    assert facts["gsw_accepted"] == note
    assert (facts["gsw_accepted_step_time_s"], facts["gsw_documented_step_time_s"]) == ("1.1", "1.0")
    assert float(facts["gsw_accepted_tokens_per_s"]) == pytest.approx(65536 / 1.1)
    assert (facts["gsw_definition"], facts["gsw_image"]) == (definition, "simulation")
    assert {name: records(pytester.path)[-1][name] for name in ("accepted_note", "definition", "image")} == {
        "accepted_note": note,
        "definition": definition,
        "image": "simulation",
    }

    log = records(pytester.path)[-1]["log"]

    def metrics(*arguments: str, status: int = 0) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(
            gsw("metrics", log, "--row", ROW, "--baselines", table, "--json", *arguments, status=status).out
        )
        return found

    bare, found = metrics(status=1), metrics("--cluster=demo")
    assert (bare["verdict"], bare["accepted"]) == ("regressed", None)
    assert (found["verdict"], found["accepted"], found["documented"]) == ("passed", 1.1, 1.0)
    assert (found["image"], found["definition"]) == ("simulation", definition)
    assert (
        gsw("metrics", log, "--cluster=demo", status=2).err
        == "pytest-gsw metrics: --cluster judges a row; add --row=ID\n"
    )

    # A replay judges as the session did; without a cluster it is not known whose accepted figure counts.
    (directory,) = (pytester.path / ".gsw" / "runs").iterdir()
    replay = (f"--gsw-replay={directory}", "--gsw-baselines=site", NODE_ID)
    pytester.runpytest("--gsw-cluster=demo", *replay).assert_outcomes(passed=1)
    pytester.runpytest(*replay).assert_outcomes(failed=1)


def test_a_run_that_is_slower_than_accepted_fails_with_both_figures(pytester: pytest.Pytester, table: Path) -> None:
    accept(table, 1.1)
    result = run(pytester, "slow:30%")
    result.assert_outcomes(failed=1)
    measured = records(pytester.path)[-1]["measured"]
    tokens, seconds = measured["tokens_per_s"], measured["step_time_s"]
    below = [f"{(1 - of / seconds) * 100:.1f} % below the" for of in (1.1, 1.0)]
    fact = f"throughput {tokens:,.0f} tokens/s is {below[0]} accepted 59,578 of demo (allowed 5 %), {below[1]} documented 65,536"
    result.stdout.fnmatch_lines(
        [
            fact,
            "metric * measured * accepted * change * allowed * documented * change",
            "step time (s) * 1.100 * +5.3 % *regressed * 1.000 *",
            "throughput (tokens/s) * 59,578 * -5.0 % *regressed * 65,536 *",
            "baseline   site/tiny.yaml:14  (site.md:10)",
            "accepted   on demo 2026-11-20: 1.1 s, median of 7 jobs, spread 0.83 % (481220, 481221)",
        ]
    )
    case = junit(pytester.path / "junit.xml")[ROW]
    assert properties(case)["gsw_fact"] == fact
    assert not any("accepted figures" in line for line in result.outlines)  # it has failed; nothing is hidden


def test_what_is_faster_than_accepted_is_said_to_be(pytester: pytest.Pytester, table: Path) -> None:
    accept(table, 1.2)
    result = run(pytester)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [wording("changes of two", metric="*", change="IMPROVED   throughput +*", documented="*") + "*"]
    )


def test_a_figure_of_another_image_does_not_count_and_that_is_said(pytester: pytest.Pytester, table: Path) -> None:
    accept(table, 1.1, image="old.sqsh")
    result = run(pytester, "slow:12%")
    result.assert_outcomes(failed=1)
    note = (
        "the accepted figure of demo (1.1 s, 2026-11-20) was measured with the image old.sqsh, this run used the image "
        "simulation: the documented one is used"
    )
    result.stdout.fnmatch_lines([f"accepted   {note}"])
    pytest.LineMatcher(unwrapped(result.outlines)).fnmatch_lines(
        ["* accepted figures *", f"{ROW.replace('[', '[[]')}  {note}"]
    )
    facts = properties(junit(pytester.path / "junit.xml")[ROW])
    assert (facts["gsw_reference"], facts["gsw_accepted"]) == ("documented", note)


def test_the_file_beside_the_table_counts_and_is_no_table(pytester: pytest.Pytester, table: Path) -> None:
    accept(table, 1.1)
    run(pytester, "slow:12%").assert_outcomes(passed=1)
    assert records(pytester.path)[-1]["accepted"]
    for arguments in (["--gsw-baselines=site"], ["--gsw-baselines=site", "site"], ["site/tiny.yaml"]):
        found = pytester.runpytest("--collect-only", "-q", "--gsw-cluster=demo", *arguments)
        assert [line for line in found.outlines if "::" in line] == [
            f"site/tiny.yaml::tiny_1b_bf16[{gpus}]" for gpus in ("H100x8", "H100x16", "B200x8")
        ]
