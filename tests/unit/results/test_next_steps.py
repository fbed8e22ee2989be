"""What to type next for a whole run; for one row it is tested with the report and with exports."""

from __future__ import annotations

from pathlib import Path

from pytest_gsw.results.next_steps import next_commands
from tests.unit.results.records import SLOW, varied

RUN = Path(".gsw/runs/night")


def test_one_row_of_a_need_is_named_and_several_are_counted() -> None:
    broken = varied(SLOW, outcome="error", fact="job 1 failed", measured={}, reason="")
    node = SLOW.row.node_id
    assert next_commands([SLOW, broken], RUN) == [
        (f"look again at {SLOW.row.id}", f"pytest --gsw-cluster=eos --gsw-confirm=4 '{node}'"),
        (f"run again {SLOW.row.id}", f"pytest --gsw-cluster=eos '{node}'"),
    ]
    many = [varied(SLOW, node_id=f"t.yaml::{number}") for number in range(7)]
    assert next_commands(many, RUN) == [("look again at 7 rows", "pytest --gsw-cluster=eos --gsw-confirm=4 --lf")]


def test_improved_and_drifting_rows_are_proposed_and_looked_up() -> None:
    fast = varied(SLOW, outcome="improved", reason="faster than allowed")
    drifts = varied(SLOW, outcome="passed", reason="within tolerance", drift="it drifts")
    assert next_commands([fast, fast, drifts, drifts], RUN) == [
        ("see the drift of 2 rows", "pytest-gsw trend --cluster=eos"),
        ("propose tighter figures for 2 rows", f"pytest-gsw baseline propose {RUN}"),
    ]


def test_a_run_in_which_all_is_well_asks_for_nothing() -> None:
    assert next_commands([varied(SLOW, outcome="passed", reason="within tolerance")], RUN) == []
