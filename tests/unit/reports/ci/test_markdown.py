"""The summary as GitHub shows it: CommonMark with tables."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from markdown_it import MarkdownIt
from markdown_it.token import Token

from pytest_gsw.history.alarms import Alarm, Occurrence, State
from pytest_gsw.reports.ci import markdown
from pytest_gsw.stats.verdict import Reason
from tests.messages import wording
from tests.unit.history.runs import period
from tests.unit.reports.ci.nights import (
    HOSTILE,
    NOON_S,
    PASSED,
    REGRESSED,
    RUN,
    SINCE,
    hostile_run,
    record,
    run_of,
    texts,
)
from tests.unit.results.records import PASSED_BY_ACCEPTED, varied
from tests.unit.results.sweeps import ROW, nodes, slow_finding, sweep_of, tile, tiles
from tests.unit.results.test_incident import run_records

PARSER = MarkdownIt("gfm-like", {"linkify": False})


def inline(text: str) -> list[Token]:
    return [child for token in PARSER.parse(text) for child in token.children or ()]


def cells(text: str) -> list[list[str]]:
    """What the lines of all tables show."""
    rows: list[list[str]] = []
    for token in PARSER.parse(text):
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline" and token.level > 2:
            rows[-1].append("".join(child.content for child in token.children or ()))
    return rows


def an_alarm(subject: str, state: State, fixed_by: str = "", part_of: str = "", explained_by: str = "") -> Alarm:
    seen = Occurrence("night-001", NOON_S, 0.0)
    fixed_s = NOON_S if fixed_by else None
    shown = period(seen, subject=subject, fixed_s=fixed_s, fixed_by=fixed_by, part_of=explained_by)
    return Alarm("1f0c92ab", shown, state, pages=True, part_of=part_of)


def test_alarms_by_what_became_of_them_come_first() -> None:
    alarms = (
        *(an_alarm("a", State.NEW), an_alarm("b", State.WORSE), an_alarm("c", State.ONGOING)),
        *(an_alarm("d", State.FIXED, fixed_by=PASSED.run.id), an_alarm("e", State.FIXED, fixed_by="earlier")),
        an_alarm("h", State.NEW, part_of="1f0c92ab"),
        *(an_alarm("f", State.NEW, part_of="1f0c92ab", explained_by="1f0c92ab"), an_alarm("g", State.GONE)),
    )
    assert markdown(replace(RUN, alarms=alarms)).splitlines()[3:8] == [
        "",
        "- **new** (3): `regression of a`, `regression of b`, `regression of h`",
        "- **ongoing** (1): `regression of c`",
        "- **fixed** (1): `regression of d`",
        "",
    ]
    assert "**new**" not in markdown(replace(RUN, alarms=alarms[-2:]))
    named = ", ".join(f"`regression of row{n}`" for n in range(8))
    many = tuple(an_alarm(f"row{n}", State.NEW) for n in range(9))
    assert f"- **new** (9): {named} and 1 more\n" in markdown(replace(RUN, alarms=many))


def test_the_whole_summary() -> None:
    assert markdown(RUN) == "\n".join(
        [
            wording("needs attention", count=4, need="rows need"),
            "",
            (
                "`eos`, run `20261120-221000-7f3a`, 6 rows: 2 passed, 1 improved, 1 regressed, 1 inconclusive, 1 error, "
                "1 of them drifts, 741.4 GPU-hours"
            ),
            "",
            "| row | what | throughput | allowed | nodes | since | next |",
            "| --- | --- | ---: | ---: | --- | --- | --- |",
            (
                f"| `llama2_70b_fp8[H100x128]` | **regressed** | -10.8 % | -5.0 % | `pool0-[0017-0032]` | `{SINCE}, 3 runs` "
                "| `pytest --gsw-cluster=eos --gsw-confirm=4 "
                "'baselines/maxtext/llama2_70b.yaml::llama2_70b_fp8[H100x128]'` |"
            ),
            (
                "| `llama2_70b_fp8[H100x256]` | **error** `job 4812256 failed with exit code 1: CUDA out of memory` "
                "|  |  | `pool0-[0017-0032]` |  | `pytest --gsw-cluster=eos "
                "'baselines/maxtext/llama2_70b.yaml::llama2_70b_fp8[H100x256]'` |"
            ),
            (
                "| `llama2_70b_fp8[H100x512]` | **inconclusive** `throughput 1 tokens/s is 8.1 % below the documented 2` "
                "| -8.9 % | -5.0 % | `pool0-[0017-0032]` |  "
                "| `pytest --gsw-cluster=eos 'baselines/maxtext/llama2_70b.yaml::llama2_70b_fp8[H100x512]'` |"
            ),
            (
                "| `llama2_70b_fp8[H100x1024]` | **drift** `throughput of the newest runs is -4.1 % against the first ones, "
                "-0.9 % a week, since about 2026-11-12 (job 470011 of run 20261112-221000-aaaa)` "
                "| -3.1 % | -5.0 % | `pool0-[0017-0032]` |  "
                "| `pytest-gsw history --drift 'llama2_70b_fp8[H100x1024]' --cluster=eos` |"
            ),
            (
                "| `llama2_70b_fp8[H100x2048]` | improved | +30.2 % | +5.0 % | `pool0-[0017-0032]` |  "
                "| `pytest-gsw baseline propose .gsw/runs/20261120-221000-7f3a '--row=llama2_70b_fp8[H100x2048]'` |"
            ),
            "",
            "| row | verdict | change | measured | against |",
            "| --- | --- | ---: | ---: | ---: |",
            "| `llama2_70b_fp8[H100x64]` | passed | -1.0 % | `4.6 s` | `4.556 s` |",
            "| `llama2_70b_fp8[H100x128]` | **regressed** | -10.8 % | `5.11 s` | `4.556 s` |",
            "| `llama2_70b_fp8[H100x256]` | **error** |  |  |  |",
            "| `llama2_70b_fp8[H100x512]` | **inconclusive** | -8.9 % | `5 s` | `4.556 s` |",
            "| `llama2_70b_fp8[H100x1024]` | passed | -3.1 % | `4.7 s` | `4.556 s` |",
            "| `llama2_70b_fp8[H100x2048]` | improved | +30.2 % | `3.5 s` | `4.556 s` |",
        ]
    )


def test_changes_of_several_figures_are_not_all_of_throughput() -> None:
    label = {
        "key": "ttft_ms_median",
        "unit": "ms",
        "direction": "lower is better",
        "label": "median time to first token",
    }
    figures = {"documented": {"value": 33.5}, "measured": {"value": 60.5}}
    latency = varied(REGRESSED, row="a", node_id="t::a", metric="ttft_ms_median", label=label, **figures)
    assert "| row | what | median time to first token | allowed |" in markdown(run_of([latency]))
    text = markdown(run_of([latency, REGRESSED]))
    assert "| row | what | change | allowed |" in text
    assert "| +80.6 % | +5.3 % |" in text
    assert "| -10.8 % | -5.0 % |" in text
    # Each has its own unit.
    assert "| `a` | **regressed** | +80.6 % | `60.5 ms` | `33.5 ms` |" in text
    assert "| **regressed** | -10.8 % | `5.11 s` | `4.556 s` |" in text


def test_rows_that_nobody_must_look_at_are_listed_and_need_no_attention() -> None:
    accepted = [varied(PASSED_BY_ACCEPTED, row=f"row{n}", node_id=f"t.yaml::row{n}", gpus=8 << n) for n in range(2)]
    text = markdown(run_of((REGRESSED, *accepted)))
    assert text.startswith(wording("needs attention", count=1, need="row needs") + "\n")
    assert "3 rows: 2 passed (2 by an accepted figure), 1 regressed, " in text
    assert (
        text.count(
            "| accepted `"
            + wording("passed by accepted", cluster="eos", change="10.8", side="% below", metric="throughput, ")
        )
        == 2
    )
    assert text.count("| accepted | -4.1 % | `5.11 s` | `4.9 s` |") == 2


def test_a_quiet_run() -> None:
    assert markdown(run_of((PASSED,))).splitlines()[:3] == [
        wording("needs attention", count="no", need="row needs"),
        "",
        "`eos`, run `20261120-221000-7f3a`, 1 row: 1 passed, 11.8 GPU-hours",
    ]


def test_a_run_of_which_nothing_is_left() -> None:
    assert cells(markdown(run_of((), {"t.yaml::one": "the session ended"})))[1:] == [
        ["one", "error the session ended", "", "", "", "", ""]
    ]


@pytest.mark.parametrize("limit_bytes", [3_000, 20_000])
def test_the_summary_is_as_long_as_it_may_be(limit_bytes: int) -> None:
    rows = tuple(
        record(gpus, 9.0, outcome="regressed", workload=f"w{gpus}", node_id=f"t::{gpus}") for gpus in range(120)
    )
    text = markdown(run_of(rows), limit_bytes)
    assert len(text.encode()) <= limit_bytes
    shown = [row for row in cells(text) if row[0].startswith("llama2") and len(row) == 7]
    assert "\n" + wording("left out of it", findings=120 - len(shown)) + ".\n" in text
    assert text.startswith(wording("needs attention", count=120, need="rows need") + "\n")


def test_a_slow_cluster_is_counted_as_one() -> None:
    whole = run_records([0.06] * 10, Reason.INCIDENT)
    assert markdown(run_of(whole)).startswith(wording("needs attention", count=1, need="cluster needs") + "\n")
    own = varied(REGRESSED, node_id="t.yaml::own")
    assert markdown(run_of((*whole, own))).startswith(
        wording("needs attention", count=1, need="cluster and 1 row need") + "\n"
    )


@given(texts)
def test_what_others_write_is_text(text: str) -> None:
    shown = markdown(hostile_run(text))
    kinds = {token.type for token in inline(shown)}
    assert kinds <= {"text", "code_inline", "strong_open", "strong_close"}
    assert {token.type for token in PARSER.parse(shown)}.isdisjoint({"html_block", "fence", "code_block", "hr"})
    tables = [len(row) for row in cells(shown)]
    assert set(tables) == {5, 7}
    plain = "".join(token.content for token in inline(shown) if token.type == "text")
    assert "ATTACHMENT" not in plain
    assert "<" not in plain


@pytest.mark.parametrize("text", [one for one in HOSTILE if one and "\n" not in one and "\\|" not in one])
def test_what_others_write_can_be_read(text: str) -> None:
    assert cells(markdown(run_of((varied(PASSED, outcome="error", fact=text, job=None),))))[1][1] == f"error {text}"


def test_the_tiles_of_a_row_come_first_with_the_command_that_drains_what_is_slow() -> None:
    run = run_of(tiles())
    swept = replace(run, run_id="r1", run=replace(run.run, sweep=sweep_of(run.records, slow_finding())))
    head, _, rest = markdown(swept).partition("\n| row |")
    assert "### pytest-gsw: 1 slow node and 2 tiles need attention" in head
    assert "32 tiles of 1 row: 30 passed, 1 regressed, 1 error" in head
    assert f"Tiles of `{ROW}`:" in head
    assert "- **slow** `n017 -10.0 % (-12.0 % to -8.0 %), 3 jobs`" in head
    assert (
        "- **not covered** (3 nodes): `n[901-902] (drained: NHC: ib0 \\| down)`, `n031 (job failed: node failure)`"
        in head
    )
    assert "- next: `scontrol update nodename=n017 state=drain reason='gsw r1: 10.0 % slower than 30 peers'`" in head
    assert "@n017" in rest


def test_a_slow_node_needs_attention_though_all_tiles_passed() -> None:
    run = run_of(tile(name) for name in nodes(8))
    swept = replace(run, run=replace(run.run, sweep=sweep_of(run.records, slow_finding("n003"))))
    assert markdown(swept).startswith(wording("needs attention", count=1, need="slow node needs") + "\n")
