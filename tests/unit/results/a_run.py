"""The records of a small run, a row of each kind."""

from __future__ import annotations

from typing import Any

from pytest_gsw.results.record import Record
from tests.unit.results.records import SLOW, varied


def row(outcome: str, gpus: int, seconds: float | None = 4.556, suffix: str = "", **changes: Any) -> Record:
    measured = {} if seconds is None else {"step_time_s": seconds}
    name = f"llama2_70b_fp8[H100x{gpus}{suffix}]"
    return varied(
        SLOW,
        **{"outcome": outcome, "gpus": gpus, "row": name, "node_id": f"t::{name}", "measured": measured, **changes},
    )


RUN = [
    row("passed", 64, 4.57),
    row("regressed", 128, 5.11),
    row("improved", 256, 4.0),
    row("inconclusive", 512, 5.0),
    row("error", 1024, None, fact="job 481220 failed with exit code 1: ECC error"),
    row("passed", 64, 4.5, dtype="bf16"),
]
