"""What is measured of one simulated cluster: quiet runs, and the same runs with something changed."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from benchmarks.simulated.cluster import NODES, NOTHING, Change, Life, life_of
from benchmarks.simulated.models import Model
from benchmarks.simulated.otava import POINTS, the_otava
from benchmarks.simulated.rules import RULES
from benchmarks.simulated.session import Judged, Memory, Session, number_of, record_of
from benchmarks.simulated.tally import Cell, Tally
from pytest_gsw.history.comparison import compare_runs
from pytest_gsw.history.model import SeriesKey, series_key
from pytest_gsw.history.store import History
from pytest_gsw.results.cluster_result import incident_of
from pytest_gsw.results.record import Record
from pytest_gsw.stats.decision import Outcome
from pytest_gsw.stats.drift import warned_runs
from pytest_gsw.stats.noise import REFERENCE_JOBS, Noise

GSW, COMPARE, YOUNG = "gsw", "gsw compare", "first 30 nights"
DRIFT, CLUSTER_DRIFT = "gsw drift", "gsw drift, cluster"
OTAVA, OTAVA_DEFAULTS = "Otava, tuned", "Otava, defaults"
#: What one row becomes slower by, and what the whole cluster does.
ROW_CHANGES = tuple(Change(f"row -{loss:.0%}", loss) for loss in (0.05, 0.07, 0.10))
CLUSTER_CHANGES = tuple(Change(f"cluster -{loss:.0%}", loss) for loss in (0.02, 0.03, 0.05, 0.08))
#: What drift looks for in one row.
DRIFTS = (Change("step 3%", 0.03), Change("step 5%", 0.05), Change("drift 1% a week", 0.01, is_weekly=True))
NODE = "node -10%"
#: Runs in which a loss is to be found by a gate, by a node's name, and by drift; and that a warning is to stand.
SOON, NAMED_WITHIN, LATE, STANDS = 7, 14, 28, 60
#: Runs between two looks at the history: what it says changes with its nodes alone.
LOOKS = 30
#: Pairs of runs of each cluster that are compared, and runs in which its whole is slower.
PAIRS, SLOW_RUNS = 40, 10


@dataclass
class Lived:
    """A cluster on which nothing has changed, and what its sessions left."""

    life: Life
    session: Session
    records: list[list[Record]]
    tally: Tally
    rng: random.Random

    def cell(self, change: str, rule: str) -> Cell:
        return self.life.model.name, change, rule

    @property
    def runs(self) -> range:
        """The runs that a reference is known in."""
        return range(REFERENCE_JOBS, self.life.runs)


def measure(model: Model, seed: str, rows: int, runs: int, parts: Collection[str]) -> Tally:
    """The figures of one cluster of a noise model, by the parts of :data:`PARTS`."""
    life, tally = life_of(model, seed, rows, runs), Tally()
    for part in parts:
        tally.add(PARTS[part](life, seed))
    return tally


def sessions(life: Life, seed: str) -> Tally:
    """The package's sessions and commands."""
    lived = live(life, random.Random(f"{seed} changes"))  # noqa: S311 - noise
    changed_rows(lived)
    slow_clusters(lived)
    drifts(lived)
    comparisons(lived)
    return lived.tally


def live(life: Life, rng: random.Random, history: History | None = None) -> Lived:
    """Go through the runs of a cluster, each of them judged by what is known of those before."""
    tally, session, records = Tally(), Session(history or Memory(life.model.blocks), life.rows), []
    judged: dict[int, Judged] = {}
    for run in range(life.runs):
        is_young = session.is_young(run)
        if is_young or (life.has_nodes and run % LOOKS == 0):
            session.look()
            if life.has_nodes and not is_young:
                sound = any(life.slow.get(node, life.runs) > run for one in session.named for node in one)
                tally.count((life.model.name, NOTHING.name, GSW), "sound node named", sound)
                tally.count((life.model.name, NOTHING.name, GSW), "block named", bool(session.named_blocks))
        judged = session.run(life, run, before=judged)
        records.append([record_of(row, run, one) for row, one in judged.items()])
        session.keep(records[-1])
        if not judged:
            continue
        change = YOUNG if run < REFERENCE_JOBS else NOTHING.name
        count_run(tally, (life.model.name, change, GSW), [*judged.values()], records[-1])
    session.look()
    return Lived(life, session, records, tally, rng)


def count_run(tally: Tally, cell: Cell, judged: Sequence[Judged], records: Sequence[Record]) -> None:
    """Count a run in which nothing is wrong."""
    failed, incident = sum(one.outcome is Outcome.REGRESSED for one in judged), incident_of(records)
    fails = incident is not None and incident.fails
    tally.count(cell, "incident", fails)
    tally.count(cell, "warned", incident is not None and not fails)
    tally.count(cell, "false night", failed > 0 or fails)
    tally.count(cell, "false row", failed, len(judged))
    tally.count(cell, "inconclusive", sum(one.outcome is Outcome.INCONCLUSIVE for one in judged), len(judged))
    tally.count(cell, "jobs", sum(len(one.ran) for one in judged), len(judged))


def gates(life: Life, _seed: str) -> Tally:
    """The other rules on the same quiet runs, and on those in which a row has changed."""
    tally, name = Tally(), life.model.name
    for title, make in RULES.items():
        rule, cell = make(life), (name, NOTHING.name, title)
        for run in range(REFERENCE_JOBS, life.runs):
            answers = [rule.run(life, row, run) for row in range(life.rows) if life.has_run(row, run)]
            if not answers:
                continue
            failed = sum(one.fails for one in answers)
            tally.count(cell, "false night", failed > 0)
            tally.count(cell, "false row", failed, len(answers))
            tally.count(cell, "inconclusive", sum(one.is_open for one in answers), len(answers))
            tally.count(cell, "jobs", sum(one.jobs for one in answers), len(answers))
        for changed, row, runs in variations(life, ROW_CHANGES, SOON):
            failed_at = [rule.run(changed, row, run).fails for run in runs]
            count_found(tally, (name, changed.change.name, title), failed_at)
    return tally


def variations(life: Life, changes: Sequence[Change], runs: int) -> Iterator[tuple[Life, int, Sequence[int]]]:
    """Each row of a cluster once by itself with each of some changes, and the first runs since, drawn at random."""
    rng = random.Random(life.seed)  # noqa: S311 - the same runs for every rule
    for change in changes:
        for row in range(life.rows):
            at = rng.randrange(REFERENCE_JOBS, life.runs - runs + 1)
            there = [run for run in range(at, at + runs) if life.has_run(row, run)]
            if there:
                yield replace(life, change=change, at=at, row=row), row, there


def count_found(tally: Tally, cell: Cell, failed: Sequence[bool]) -> None:
    """Count how often a loss fails, by the runs since it came."""
    tally.count(cell, "fails", sum(failed), len(failed))
    tally.wait(cell, "fails", failed.index(True) + 1 if True in failed else None)


def changed_rows(lived: Lived) -> None:
    """One row has become slower."""
    for life, row, runs in variations(lived.life, ROW_CHANGES, SOON):
        judged: list[Judged] = []
        for run in runs:
            before = {row: judged[-1]} if judged else None
            judged.append(lived.session.run(life, run, [row], before)[row])
        cell = lived.cell(life.change.name, GSW)
        count_found(lived.tally, cell, [one.outcome is Outcome.REGRESSED for one in judged])
        lived.tally.count(cell, "passed", sum(one.outcome is Outcome.PASSED for one in judged), len(judged))


def slow_clusters(lived: Lived) -> None:
    """The whole cluster has become slower."""
    for change in CLUSTER_CHANGES:
        cell = lived.cell(change.name, GSW)
        runs = [run for run in lived.runs if lived.records[run]]
        for run in lived.rng.sample(runs, min(SLOW_RUNS, len(runs))):
            judged = lived.session.run(replace(lived.life, change=change, at=run), run)
            failed = sum(one.outcome is Outcome.REGRESSED for one in judged.values())
            is_incident = incident_of([record_of(row, run, one) for row, one in judged.items()]) is not None
            lived.tally.count(cell, "incident", is_incident)
            lived.tally.count(cell, "fails", failed > 0 or is_incident)
            lived.tally.count(cell, "rows failed", failed)
            lived.tally.count(cell, "further jobs", sum(len(one.ran) - 1 for one in judged.values()))


def drifts(lived: Lived) -> None:
    """Warnings of drift: false ones, how soon a change is found, and whether the warning stays; of rows and of all."""
    for row, past in enumerate(lived.session.histories.values()):
        change, at = DRIFTS[row % len(DRIFTS)], changes_at(lived.life, row)
        runs = dict(zip((number_of(run.run_id) for run in past.counted), past.adjusted_costs, strict=True))
        lived.tally.count(lived.cell(NOTHING.name, DRIFT), "alarm", bool(warned_runs([*runs.values()])))
        count_warnings(lived.tally, lived.cell(change.name, DRIFT), with_change(runs, change, at), at)
    together = lived.session.together
    effects = {
        number_of(together.runs[index].name): math.exp(effect) for index, effect in together.before.effects.items()
    }
    lived.tally.count(lived.cell(NOTHING.name, CLUSTER_DRIFT), "alarm", bool(warned_runs([*effects.values()])))
    for row in range(lived.life.rows):
        change, at = DRIFTS[row % len(DRIFTS)], changes_at(lived.life, row)
        count_warnings(lived.tally, lived.cell(change.name, CLUSTER_DRIFT), with_change(effects, change, at), at)


def changes_at(life: Life, row: int) -> int:
    """The run, drawn at random, since which a row, or the cluster, drifts."""
    rng = random.Random(life.seed + row)  # noqa: S311 - the same run for every rule
    return rng.randrange(REFERENCE_JOBS, max(REFERENCE_JOBS + 1, life.runs - STANDS))


def with_change(runs: Mapping[int, float], change: Change, at: int) -> dict[int, float]:
    """The same runs with a change, as far as it is looked at."""
    return {
        run: time_s * math.exp(change.slower(run - at) if run >= at else 0.0)
        for run, time_s in runs.items()
        if run < at + STANDS
    }


def count_warnings(tally: Tally, cell: Cell, runs: Mapping[int, float], at: int) -> None:
    """Count how long a warning took, and whether it was silent on a later run."""
    numbers = [*runs]
    warned = [numbers[index] for index in warned_runs([*runs.values()]) if numbers[index] >= at]
    tally.wait(cell, "warned", warned[0] - at + 1 if warned else None)
    if warned:
        tally.count(cell, "silent", len(warned) < sum(number >= warned[0] for number in numbers))


def comparisons(lived: Lived) -> None:
    """``pytest-gsw compare`` of a run with the one before."""
    noises = noises_of(lived)
    for run in lived.rng.sample(lived.runs, min(PAIRS, len(lived.runs))):
        compared = compare_runs(lived.records[run - 1], lived.records[run], noises)
        slower = sum(row.change == "slower" for row in compared.rows)
        lived.tally.count(lived.cell(NOTHING.name, COMPARE), "false night", slower > 0)


def noises_of(lived: Lived) -> dict[SeriesKey, Noise]:
    keys = {record.row.id: series_key(record) for records in lived.records for record in records}
    found = ((keys.get(row), past.noise()) for row, past in lived.session.histories.items())
    return {key: noise for key, noise in found if key is not None and noise is not None}


def others_drifts(life: Life, _seed: str) -> Tally:
    """What Otava finds of the same changes on the same runs, asked anew each run."""
    tally, name, otava = Tally(), life.model.name, the_otava()
    for row in range(life.rows):
        at, change = changes_at(life, row), DRIFTS[row % len(DRIFTS)]
        usual = [life.ran(row, run).time_s for run in range(life.runs) if life.has_run(row, run)]
        changed = [*with_change(dict(enumerate(usual)), change, at).values()][: at + LATE]
        for title, is_tuned in ((OTAVA, True), (OTAVA_DEFAULTS, False)):
            alarm = otava.first_alarm(usual, REFERENCE_JOBS, earliest=0, tuned=is_tuned)
            tally.count((name, NOTHING.name, title), "alarm", alarm is not None)
            alarm = otava.first_alarm(changed, at, earliest=at - POINTS, tuned=is_tuned)
            tally.wait((name, change.name, title), "warned", alarm)
    return tally


def slow_node(of_rows: Life, seed: str) -> Tally:
    """One node becomes slow: when it is named, and whether others are."""
    tally, cell = Tally(), (of_rows.model.name, NODE, GSW)
    if of_rows.has_nodes:
        return tally
    rng = random.Random(f"{seed} slow node")  # noqa: S311 - noise, not cryptography
    at, node = rng.randrange(REFERENCE_JOBS, 2 * REFERENCE_JOBS), rng.randrange(NODES)
    quiet = life_of(of_rows.model, f"{seed} node", of_rows.rows, at + NAMED_WITHIN)
    life = replace(quiet, has_nodes=True, slow={node: at})
    session, found = Session(Memory(), life.rows), []
    judged: dict[int, Judged] = {}
    for run in range(life.runs):
        if run > at or run == REFERENCE_JOBS:
            session.look()
            found.append((run, session.named))
        judged = session.run(life, run, before=judged)
        session.keep([record_of(row, run, one) for row, one in judged.items()])
        if any(node in one for one in session.named):
            tally.count(cell, "false night", any(one.outcome is Outcome.REGRESSED for one in judged.values()))
    session.look()
    found.append((life.runs, session.named))
    since = [run - at for run, named in found if (node,) in named]
    tally.wait(cell, "named alone", since[0] if since else None)
    tally.count(cell, "sound node named", any(node not in one for _, named in found for one in named))
    in_set = [run - at for run, named in found if any(node in one for one in named)]
    tally.wait(cell, "named", in_set[0] if in_set else None)
    return tally


#: What is measured of each cluster, by name.
PARTS: Mapping[str, Callable[[Life, str], Tally]] = {
    "gsw": sessions,
    "nodes": slow_node,
    "gates": gates,
    "otava": others_drifts,
}
