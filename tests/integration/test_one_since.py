"""All screens say the same of a run: the state, the onset and the changes of each row, alarm and node."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_gsw.history.location import open_history
from pytest_gsw.results.record import Record, read_records
from pytest_gsw.results.runs_directory import begin_of
from tests.integration.conftest import Gsw
from tests.integration.screens import (
    Screens,
    minute,
    read_commands,
    read_junit,
    read_markdown,
    read_metrics,
    read_overview,
    read_pages,
    read_screen,
)

ROWS = ("--gsw-cluster=demo", "-k", "(llama2_70b or gpt3_175b) and (H100x64 or H100x128 or H100x256)")
NIGHTS, DAY_S = 46, 86400
#: How many histories are tried; by hand: GSW_TEST_NIGHTS=50 pytest -n 2 tests/integration/test_one_since.py.
SEEDS = range(int(os.environ.get("GSW_TEST_NIGHTS", "3")))

#: What a row loses, by how many nights ago that is: 0 is the session. One that has lost all was not measured.
COURSES: dict[str, dict[int, float]] = {
    "steady": {},
    "slow": dict.fromkeys(range(4), 0.12),
    "slow for a week": dict.fromkeys(range(10), 0.12),
    "slow tonight": {0: 0.12},
    "slow again": dict.fromkeys((0, 4, 5), 0.12),
    "one good run": dict.fromkeys((0, 2, 3), 0.12),
    "mended tonight": dict.fromkeys(range(1, 5), 0.12),
    "mended": dict.fromkeys(range(2, 5), 0.12),
    "drifts": dict.fromkeys(range(21), 0.035),
    "drifts, then slow": {**dict.fromkeys(range(26), 0.035), 0: 0.12, 1: 0.12},
    "noisy": {0: 0.08},
    "fast": dict.fromkeys(range(3), -0.09),
    "error": dict.fromkeys(range(2), 1.0),
}
#: The noise between jobs of a row whose loss noise explains, and of others.
NOISY, QUIET = 0.05, 0.01


def night(record: Record, ago: int, lost: float, sigma: float, rng: random.Random, slow_node: int) -> Record:
    """The same row on an earlier night."""
    last, verdict = record.jobs.last, record.verdict
    assert last is not None
    assert verdict is not None
    nodes = rng.sample(range(12), 4)
    by_node = 0.1 * (slow_node > ago and 7 in nodes)
    seconds = verdict.documented * (1 + rng.gauss(0, sigma)) / (1 - lost) / (1 - by_node) if lost < 1 else None
    speed = 0.0 if seconds is None else verdict.documented / seconds - 1
    word = "regressed" if speed < -0.065 else "inconclusive" if speed < -0.05 else "passed" if speed < 0.05 else ""
    end_s = (last.end_s or 0.0) - DAY_S * ago
    listed = ",".join(f"n{node}" for node in sorted(nodes))
    times = {"start_s": end_s - 60, "end_s": end_s, "submit_s": end_s - 60}
    job = replace(last, id=f"{ago}-{last.id}", judged=seconds, nodes=listed, **times)
    run_id = f"night-{NIGHTS - ago:03}"
    if seconds is None:
        broken = replace(record, outcome="error", fact="exit code 1", verdict=None, drift=None)
        return replace(
            broken, run=replace(record.run, id=run_id, recorded_s=end_s), jobs=replace(record.jobs, last=job)
        )
    return replace(
        record,
        outcome=word or "improved",
        run=replace(record.run, id=run_id, recorded_s=end_s, variables=settings(ago)),
        jobs=replace(record.jobs, last=job, repeats=(), attempts=()),
        figures=replace(record.figures, measured={**record.figures.measured, record.judged_metric.key: seconds}),
        verdict=replace(verdict, measured=seconds, jobs=(seconds,)),
    )


def settings(ago: int) -> dict[str, str]:
    """The variables of a night: three changes, one of them tonight."""
    return {
        "NCCL_ALGO": "tree" if ago <= 9 else "ring",
        "NCCL_PROTO": "LL" if ago <= 3 else "Simple",
        "NCCL_IB_TC": "106" if ago == 0 else "96",
    }


@pytest.fixture(scope="module")
def kept() -> list[Record]:
    """What all rows measured in a first session, once there was one."""
    return []


@pytest.mark.parametrize("seed", SEEDS)
def test_all_screens_say_the_same(
    pytester: pytest.Pytester, kept: list[Record], gsw: Gsw, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = random.Random(seed)  # noqa: S311 - noise, not cryptography
    for name, value in settings(0).items():
        monkeypatch.setenv(name, value)
    if not kept:
        pytester.runpytest(*ROWS, "--gsw-history=none")
        (first,) = pytester.path.glob(".gsw/runs/*")
        kept += read_records(first)
    courses = {record.row.id: rng.choice(list(COURSES)) for record in kept}
    whole = rng.choice([0, 0, 0, 1, 3])  # nights of an incident
    slow_node = rng.choice([0, 0, 20])

    def lost(row: str, ago: int) -> float:
        return 0.12 if ago < whole else COURSES[courses[row]].get(ago, 0.0)

    (pytester.path / ".gsw").mkdir(exist_ok=True)
    with open_history(pytester.path / ".gsw" / "history.sqlite") as history:
        records = [
            night(record, ago, lost(record.row.id, ago), sigma, rng, slow_node)
            for ago in range(NIGHTS, 0, -1)
            for record in kept
            for sigma in [NOISY if courses[record.row.id] == "noisy" else QUIET]
            if rng.random() > 0.1
        ]
        assert history.add(records) == len(records)
    faults = []
    for row in courses:
        if (loss := lost(row, 0)) >= 1:
            faults.append(f"{row}=fail")
        elif loss:
            faults.append(f"{row}={'slow' if loss > 0 else 'fast'}:{abs(loss) * 100:.1f}%")
    monkeypatch.setenv("GSW_DEMO_SEED", f"{seed}")
    before = set(pytester.path.glob(".gsw/runs/*"))
    result = pytester.runpytest(
        *ROWS, f"--gsw-demo={';'.join(faults)}", "--gsw-report=report", "--junitxml=junit.xml", "--color=no"
    )
    (run,) = set(pytester.path.glob(".gsw/runs/*")) - before
    found = Screens(minute(begin_of(run.name, 0.0)), {})
    read_screen(found, result.outlines, courses)
    read_junit(found, Path("junit.xml"), "junit")
    read_markdown(found, Path("report/summary.md").read_text(), "summary.md")
    read_metrics(found, Path("report/gsw.prom").read_text(), "gsw.prom")
    read_pages(found, Path("report"))
    read_overview(found, gsw().out)
    gsw("report", "last", "--format=junit", "--output=rebuilt.xml")
    read_junit(found, Path("rebuilt.xml"), "rebuilt junit")
    read_markdown(found, gsw("report", "last", "--format=markdown").out, "rebuilt summary")
    read_metrics(found, gsw("report", "last", "--format=openmetrics").out, "rebuilt metrics")
    read_commands(found, gsw)
    assert found.contradictions() == []
    heard = {screen for values in found.said.values() for screen in values}
    assert heard >= {"screen", "junit", "gsw.prom", "page", "rebuilt junit", "rebuilt metrics"}
