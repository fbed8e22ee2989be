"""What to type next for a whole run; for one row it is tested with the report and with exports."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_gsw.results import attention
from pytest_gsw.results.record import Record
from pytest_gsw.results.suggested_commands import again, next_command, next_commands, own_advice
from tests.unit.results.records import SLOW, varied

RUN = Path(".gsw/runs/night")


def test_one_row_of_a_need_is_named_and_several_are_counted() -> None:
    broken = varied(SLOW, outcome="error", fact="job 1 failed", measured={}, reason="")
    node = SLOW.row.node_id
    assert next_commands([SLOW, broken], RUN) == [
        (f"look again at {SLOW.row.id}", f"pytest --gsw-cluster=eos --gsw-confirm=4 '{node}'"),
        (f"run again {SLOW.row.id}", f"pytest --gsw-cluster=eos '{node}'"),
    ]
    many = [varied(SLOW, node_id=f"t.yaml::a_fp8[H100x{gpus}]") for gpus in (1024, 128, 64)]
    named = "t.yaml -k 'a_fp8[ and ([H100x64] or [H100x128] or [H100x1024])'"
    assert next_commands(many, RUN) == [("look again at 3 rows", f"pytest --gsw-cluster=eos --gsw-confirm=4 {named}")]


def test_many_rows_are_named_by_their_tables_and_cases() -> None:
    names = ("t.yaml::a_fp8[H100x64]", "t.yaml::a_bf16[H100x64]", "u.yaml::a_fp8[H100x8]", "u.yaml::a_fp8[H100x8-b]")
    rows = [varied(SLOW, node_id=name) for name in names]
    selected = "(a_fp8[ and ([H100x8] or [H100x8-b] or [H100x64])) or (a_bf16[ and ([H100x64]))"
    assert again(rows, RUN) == f"pytest --gsw-cluster=eos t.yaml u.yaml -k '{selected}'"
    rows = [varied(SLOW, node_id=name) for name in ("t.yaml::a[H100x8]", "t.yaml::a b[H100x8]", "t.yaml::c[H100x8]")]
    assert again(rows, RUN) == "pytest --gsw-cluster=eos 't.yaml::a[H100x8]' 't.yaml::a b[H100x8]' 't.yaml::c[H100x8]'"


def test_improved_and_drifting_rows_are_proposed_and_looked_up() -> None:
    fast = varied(SLOW, outcome="improved", reason="faster than allowed")
    drifts = varied(SLOW, outcome="passed", reason="within tolerance", drift="it drifts")
    assert next_commands([fast, fast, drifts, drifts], RUN) == [
        ("see the drift of 2 rows", "pytest-gsw history --drift --cluster=eos"),
        ("propose tighter figures for 2 rows", f"pytest-gsw baseline propose {RUN}"),
    ]
    assert next_commands([varied(SLOW, outcome="passed", reason="within tolerance")], RUN) == []
    fast = varied(SLOW, outcome="improved", reason="faster than allowed", simulated=True)
    assert next_commands([fast], RUN) == []


def test_rows_of_an_interrupted_session_are_gone_on_with_and_not_run_beside_themselves() -> None:
    left = varied(SLOW, outcome="error", fact="interrupted: job 7 was left running", measured={}, reason="")
    resume = f"pytest --gsw-resume={SLOW.run.id}"
    assert next_commands([SLOW, left, left], RUN)[1:] == [("go on with 2 rows", resume)]
    assert again([left], RUN) == resume


def test_what_ran_although_documented_to_fail_is_run_again_and_not_confirmed() -> None:
    ran = varied(SLOW, outcome="unexpected_success", fact="is documented to run out of memory", measured={}, reason="")
    (one,) = next_commands([ran, ran], RUN)
    assert "--gsw-confirm" not in one[1]


def test_rows_that_several_jobs_have_confirmed_are_looked_up() -> None:
    assert SLOW.jobs.last is not None
    confirmed = replace(SLOW, jobs=replace(SLOW.jobs, repeats=(SLOW.jobs.last,)))
    history = f"pytest-gsw history '{SLOW.row.id}' '{SLOW.row.id}' --cluster=eos"
    assert next_commands([confirmed, confirmed], RUN) == [("look again at 2 rows", history)]
    history = f"pytest-gsw history '{SLOW.row.id}' --cluster=eos"
    assert next_command(SLOW, attention.ACCEPTED, RUN) == history


def failed(number: int, **changes: str) -> Record:
    name = f"t.yaml::a_fp8[H100x{number}]"
    keys = {"outcome": "error", "fact": f"job {number} failed", "reason": "", **changes}
    return varied(SLOW, node_id=name, row=name.partition("::")[2], measured={}, **keys)


def test_a_fault_that_another_job_would_meet_again_has_its_own_step() -> None:
    first = failed(1, fact="the recipe is of another release", advice="stage the recipe of 25.02")
    same = failed(2, fact="the recipe is of another release", advice="as of a_fp8[H100x1]")
    other = failed(3, fact="HF_TOKEN is not set", advice="export HF_TOKEN")
    assert own_advice([first, same, other, SLOW]) == [
        ("for 2 rows", "stage the recipe of 25.02"),
        ("for a_fp8[H100x3]", "export HF_TOKEN"),
    ]
    assert next_commands([first, same, other], RUN) == []


def test_many_rows_that_failed_are_the_last_failed_ones() -> None:
    many = [failed(number) for number in range(1, 7)]
    assert next_commands([*many, SLOW], RUN, failed_last=True) == [
        ("run again 7 rows", "pytest --gsw-cluster=eos --gsw-confirm=4 --lf")
    ]
    assert len(next_commands([*many, SLOW], RUN)) == 2


def on_tile(node: str, **changes: Any) -> Record:
    tile = {"row": f"{SLOW.row.id}@{node}", "node_id": f"{SLOW.row.node_id}@{node}", "tile": node}
    return varied(SLOW, **tile, tile_options=["--gsw-tile=node"], **changes)


def test_slow_tiles_are_searched_and_fast_ones_propose_nothing() -> None:
    ran = on_tile("n3", outcome="unexpected_success", fact="is documented to run out of memory", measured={}, reason="")
    fast = on_tile("n4", outcome="improved", reason="faster than allowed")
    assert next_commands([on_tile("n1"), on_tile("n2"), ran, fast], RUN) == [
        (
            "search among the tiles, 2 of which are slow",
            f"pytest --gsw-cluster=eos --gsw-tile=node --gsw-find '{SLOW.row.node_id}'",
        ),
        (f"look again at {ran.row.id}", f"pytest --gsw-cluster=eos '{ran.row.node_id}'"),
    ]
    assert "propose" not in next_command(fast, attention.IMPROVED, RUN)
