"""How many pages a cause makes, and if what is active pages: simulated clusters, judged night by night.

    python benchmarks/alarms.py                  # all of it: ten minutes
    python benchmarks/alarms.py --series 1       # does it work? one minute

Twelve rows live through forty quiet nights, and forty more in which something happens. The package's own sessions
judge each night, and its alarms are read after each. Nobody acknowledges any, and then somebody acknowledges each page
on the night after it. Each life has a generator of its own, so that a seed gives the same figures.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from tabulate import tabulate

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.simulated.cluster import Life, Ran  # noqa: E402
from benchmarks.simulated.models import JOBS, Model  # noqa: E402
from benchmarks.simulated.session import CLUSTER, Judged, Memory, Session, record_of  # noqa: E402
from pytest_gsw.history.alarms import (  # noqa: E402
    Acknowledgement,
    Alarm,
    IncidentPeriod,
    acknowledge,
    acknowledgements,
    alarms,
    incident_periods_of,
)
from pytest_gsw.history.cluster_series import series_of_cluster  # noqa: E402

ROWS, NODES, SIZE = 12, 24, 4
QUIET, NIGHTS = 40, 40
SIGMA = 0.015
THIRD = frozenset({1, 4, 7, 10})
ALL = frozenset(range(ROWS))
FOREVER = 2e10


class Loss(NamedTuple):
    """What rows, or jobs with a node, lose from a night on, until another."""

    loss: float
    rows: Iterable[int] = ALL
    begin: int = 0
    end: int = NIGHTS
    is_weekly: bool = False
    node: int | None = None

    def slower(self, row: int, night: int, nodes: Iterable[int]) -> float:
        if (
            not self.begin <= night < self.end
            or row not in self.rows
            or (self.node is not None and self.node not in nodes)
        ):
            return 0.0
        return -math.log1p(-self.loss) * ((night - self.begin + 1) / 7 if self.is_weekly else 1)


@dataclass(frozen=True)
class Story:
    """What happens on a cluster, and how many causes it has."""

    losses: tuple[Loss, ...] = ()
    causes: int = 1
    sigma: float = SIGMA
    #: Rows with another image from a night on.
    image: Mapping[int, int] = field(default_factory=dict)


def one(loss: float, begin: int = 0, end: int = NIGHTS, row: int = 0, **more: bool) -> Loss:
    return Loss(loss, {row}, begin, end, **more)


STORIES: Mapping[str, Story] = {
    "nothing": Story(causes=0),
    "a row -10 %, fixed after 10 nights": Story((one(0.1, 0, 10),)),
    "a row -10 % for good": Story((one(0.1),)),
    "a row -3 % for good": Story((one(0.03),)),
    "a row -3 % for good, sigma 2 %": Story((one(0.03),), sigma=0.02),
    "a row -3 % for good, sigma 3 %": Story((one(0.03),), sigma=0.03),
    "a row -4 % for good": Story((one(0.04),)),
    "a row -6 % for good": Story((one(0.06),)),
    "a row loses 1 % a week": Story((one(0.01, is_weekly=True),)),
    "-8 % for 12 nights beside a creep of 1 % a week": Story(
        (one(0.01, is_weekly=True), one(0.08, 14, 26)), 2
    ),
    "-8 % for 12 nights, then -3.5 %": Story((one(0.08, 0, 12), one(0.035, 12))),
    "-3.5 %, and -10 % more from night 26 to 31": Story((one(0.035), one(0.1, 26, 31)), 2),
    "-10 % each ninth night": Story(tuple(one(0.1, night, night + 1) for night in range(0, NIGHTS, 9)), 5),
    "cluster -5 % for 5 nights, twice": Story((Loss(0.05, ALL, 0, 5), Loss(0.05, ALL, 16, 21)), 2),
    "cluster -5 % for 12 nights, then -2.5 %": Story((Loss(0.05, ALL, 0, 12), Loss(0.025, ALL, 12))),
    "cluster -3 % for good": Story((Loss(0.03, ALL),)),
    "a node -10 %": Story((Loss(0.1, node=5),)),
    "a node -10 %, repaired after 20 nights": Story((Loss(0.1, end=20, node=5),)),
    "a node -10 %, and a row -9 %": Story((Loss(0.1, node=5), one(0.09, 10, 25)), 2),
    "a third -8 % for good": Story((Loss(0.08, THIRD),)),
    "a third -8 %, fixed after 15 nights": Story((Loss(0.08, THIRD, 0, 15),)),
    "a third -8 %, one row fixed after 12 nights": Story((one(0.08, 0, 12, 1), Loss(0.08, THIRD - {1}))),
    "a third -8 %, by a new image": Story((Loss(0.08, THIRD),), image=dict.fromkeys(THIRD, 0)),
    "a third -8 % for good, sigma 3 %": Story((Loss(0.08, THIRD),), sigma=0.03),
    "a third -6 % for good": Story((Loss(0.06, THIRD),)),
    "a third -4 % for good": Story((Loss(0.04, THIRD),)),
    "one row -8 %, another 12 nights later": Story((one(0.08), one(0.08, 12, row=3)), 2),
    "one row -8 %, another the night after": Story((one(0.08), one(0.08, 1, row=3)), 2),
    "a third -8 %, another row the night after": Story((Loss(0.08, THIRD), one(0.08, 1)), 2),
    "five rows -8 % by a new image, the night that another one is fixed":
        Story((one(0.08, 0, 10, 11), Loss(0.08, range(5), 11)), 2, image=dict.fromkeys(range(5), 11)),
    "two rows -8 % in one night, one with a new image": Story((one(0.08), one(0.08, row=3)), 2, image={3: 0}),
}  # fmt: skip


@dataclass(frozen=True)
class Lived(Life):
    """The jobs of a story."""

    story: Story = field(default_factory=Story)

    def ran(self, row: int, run: int, job: int = 0, avoided: frozenset[int] = frozenset()) -> Ran:
        nodes: tuple[int, ...] = ()
        if self.has_nodes:
            rng = random.Random(self.seed + job + JOBS * (row + ROWS * run))  # noqa: S311 - noise, not cryptography
            nodes = tuple(rng.sample(sorted({*range(NODES)} - avoided), SIZE))
        slower = sum(loss.slower(row, run - QUIET, nodes) for loss in self.story.losses)
        return Ran(math.exp(self.noise[row][run][job] + slower), nodes)


class Figures(NamedTuple):
    """Of one life."""

    #: Nights with an active alarm that nobody has acknowledged, and those of them on which nothing pages for one.
    nights: int
    silent: int
    #: Alarms that paged; where each is acknowledged, an alarm that pages again counts again.
    pages: int
    #: Most of them in one night.
    most: int


@dataclass
class OnCall:
    """Who is called for the alarms of a life, and acknowledges each page, or none."""

    acknowledges: bool
    told: list[Acknowledgement] = field(default_factory=list)
    nights: int = 0
    silent: int = 0
    most: int = 0
    pages: list[str] = field(default_factory=list)

    def night(self, periods: Iterable[IncidentPeriod], time_s: float) -> tuple[Alarm, ...]:
        """The alarms of a night; each that pages is acknowledged afterwards."""
        found = alarms(periods, self.told, time_s)
        paging = {alarm.id for alarm in found if alarm.pages}
        active = [alarm for alarm in found if alarm.is_active and alarm.acknowledged is None]
        self.nights += bool(active)
        self.silent += any(alarm.id not in paging and alarm.part_of not in paging for alarm in active)
        self.most = max(self.most, len(paging))
        self.pages += paging if self.acknowledges else paging - {*self.pages}
        if self.acknowledges:
            known = [alarm for alarm in found if alarm.pages]
            events = [acknowledge(alarm, why="known", owner="ops", until_s=FOREVER, time_s=time_s) for alarm in known]
            self.told += acknowledgements(events)
        return found

    @property
    def figures(self) -> Figures:
        return Figures(self.nights, self.silent, len(self.pages), self.most)


def live(name: str, seed: int, *, verbose: bool = False) -> tuple[Figures, Figures]:
    """A life, whose alarms nobody acknowledges; and the same where each page is."""
    story = STORIES[name]
    rng = random.Random(f"{seed} {name}")  # noqa: S311 - noise, not cryptography
    noise = [[[rng.gauss(0, story.sigma) for _ in range(JOBS)] for _ in range(QUIET + NIGHTS)] for _ in range(ROWS)]
    has_nodes = any(loss.node is not None for loss in story.losses)
    life = Lived(Model("own", story.sigma), noise, rng.randrange(2**40), has_nodes=has_nodes, story=story)
    history = Memory()
    session = Session(history, ROWS)
    judged: dict[int, Judged] = {}
    both = OnCall(acknowledges=False), OnCall(acknowledges=True)
    for run in range(QUIET + NIGHTS):
        session.look()
        judged = session.run(life, run, before=judged)
        records = [record_of(row, run, found) for row, found in judged.items()]
        images = ("new" if run - QUIET >= story.image.get(row, NIGHTS) else "old" for row in range(ROWS))
        night = time.strftime("%Y%m%d-050000-0000", time.gmtime(records[0].run.recorded_s))
        runs = (replace(one.run, id=night, image=image) for one, image in zip(records, images, strict=True))
        records = [replace(one, run=of_run) for one, of_run in zip(records, runs, strict=True)]
        session.keep(records)
        if run < QUIET:
            continue
        time_s = max(record.run.recorded_s or 0.0 for record in records)
        periods = incident_periods_of(CLUSTER, series_of_cluster(history, CLUSTER))
        for on_call in both:
            found = on_call.night(periods, time_s)
            if verbose:
                show(run - QUIET, found)
    return both[0].figures, both[1].figures


def show(night: int, found: Iterable[Alarm]) -> None:
    for alarm in found:
        facts = (alarm.id, alarm.period.kind.value, alarm.state.value, alarm.period.subject, f"{alarm.gain or 0.0:.1%}")
        marks = ("pages" * alarm.pages, "acknowledged" * (alarm.acknowledged is not None), alarm.part_of)
        print(night, *facts, *filter(None, marks))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--series", type=int, default=10, help="lives of each story (default 10)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="stories with this text")
    parser.add_argument("--show", action="store_true", help="print the alarms of each night")
    asked = parser.parse_args()
    table = []
    total = [0, 0]
    for name, story in STORIES.items():
        if asked.only not in name:
            continue
        line: list[object] = [name, story.causes]
        lives = [live(name, asked.seed + number, verbose=asked.show) for number in range(asked.series)]
        for found in zip(*lives, strict=True):
            nights, silent = sum(one.nights for one in found), sum(one.silent for one in found)
            total = [total[0] + nights, total[1] + silent]
            line += [f"{silent} of {nights}"]
            line += [f"{statistics.mean(one[at] for one in found):.1f}" for at in (2, 3)]
        table.append(line)
        print(line, file=sys.stderr, flush=True)
    headers = ("life", "causes", *2 * ("silent nights", "pages", "at once"))
    print(tabulate(table, headers, "github"))
    print(f"\nnights with an active alarm that nobody has acknowledged and nothing paging: {total[1]} of {total[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
