"""How often each rule is wrong: false failures, power, jobs, drift, by simulation and on a real series.

    python benchmarks/decisions.py --quick                     # does it work? a minute
    python benchmarks/decisions.py --otava PYTHON -o F.json --images docs/decisions    # all of it: half an hour
    python benchmarks/decisions.py --figures F.json --images docs/decisions            # tables and plots again

PYTHON is the interpreter of an environment in which `pip install apache-otava==0.8.0` was run (it pins numpy and scipy,
so it gets one of its own); without it, its lines are missing. All else needs pytest-gsw and `tabulate`. Each cell has a
generator of its own, seeded with its name and `--seed`: figures are the same whatever runs beside them.

All times are over the reference; a loss is one of throughput. The rules:

- *fixed 5 %*: one job, fails beyond a loss of 5 %,
- *any of 3*: run again until one of three jobs is within 5 %; fails if none is,
- *ReFrame*: a reference with fixed relative bounds, (1.0, None, 0.05) on the step time of one run; no retries (its
  default),
- *Megatron-LM*: isclose(rtol=0.05), too fast fails as too slow does; up to three tries, the others on another node,
- *Otava*: Apache Otava 0.8.0 with the defaults of its command line, the whole series again each night; its alarm is the
  first change to slower that it reports (after a change: within five points before it, or later),
- *gsw*: pytest_gsw.performance.decision.decide with so many jobs of history and at most so many more jobs,
- *gsw drift*: pytest_gsw.performance.drift.drift every night.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tabulate import tabulate

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from svg import Chart, draw  # noqa: E402

from pytest_gsw.performance.decision import Outcome, decide  # noqa: E402
from pytest_gsw.performance.drift import drift, warned_nights  # noqa: E402
from pytest_gsw.performance.noise import PRIOR, REFERENCE_JOBS, noise_of  # noqa: E402

TOLERANCE = 0.05
SIGMAS = (0.01, 0.02, 0.03, 0.05, 0.08, 0.13)
LOSSES = (0.03, 0.05, 0.07, 0.10)
#: Loss of throughput a week.
CREEPS = (0.005, 0.01, 0.02)
STEPS = (0.03, 0.05, 0.10)
#: Nights that are watched, those of the reference not counted; and the night (counted with them) of a change.
WATCHED, CHANGE = 180, 60
#: Nights within which a creep of 1 % a week should be found.
SOON = 28
#: Nights that one reference judges.
NIGHTS_PER_SERIES = 40


class Jobs(Protocol):
    """Deviations of jobs, as logarithms of their time over what the row takes."""

    def first(self) -> float:
        """Of the first job of the next night."""

    def again(self) -> float:
        """Of one more job in the same night."""


class Independent:
    def __init__(self, rng: random.Random, sigma: float) -> None:
        self.rng, self.sigma = rng, sigma

    def first(self) -> float:
        return self.rng.gauss(0, self.sigma)

    def again(self) -> float:
        return self.first()


class Autoregressive:
    """AR(1): each night's first job has half of the deviation of that of the night before, and so on within a night."""

    RHO = 0.5

    def __init__(self, rng: random.Random, sigma: float) -> None:
        self.rng, self.fresh = rng, sigma * math.sqrt(1 - self.RHO**2)
        self.night = self.job = rng.gauss(0, sigma)

    def first(self) -> float:
        self.night = self.job = self.RHO * self.night + self.rng.gauss(0, self.fresh)
        return self.night

    def again(self) -> float:
        self.job = self.RHO * self.job + self.rng.gauss(0, self.fresh)
        return self.job


class HeavyTails(Independent):
    """Student's t with three degrees of freedom, of the same standard deviation."""

    def first(self) -> float:
        chi2 = 2 * self.rng.gammavariate(1.5, 1)
        return self.rng.gauss(0, self.sigma) / math.sqrt(chi2)  # t3 is gauss / sqrt(chi2 / 3), and its variance is 3


class Outliers(Independent):
    """Normal, and one job in twenty is slower by 5 to 30 % besides."""

    def first(self) -> float:
        slow = self.rng.uniform(0.05, 0.3) if self.rng.random() < 0.05 else 0.0
        return self.rng.gauss(0, self.sigma) + slow


class SharedNight:
    """Half of the variance is the night's own: every job of a night has it, however many are run."""

    def __init__(self, rng: random.Random, sigma: float) -> None:
        self.rng, self.half, self.night = rng, sigma / math.sqrt(2), 0.0

    def first(self) -> float:
        self.night = self.rng.gauss(0, self.half)
        return self.again()

    def again(self) -> float:
        return self.night + self.rng.gauss(0, self.half)


NOISES: Mapping[str, Callable[[random.Random, float], Jobs]] = {
    "independent": Independent,
    "AR(1) 0.5": Autoregressive,
    "Student t3": HeavyTails,
    "slow outliers": Outliers,
    "shared night": SharedNight,
}

#: A rule's answer for one night: whether it fails the row, whether it leaves it open, and after how many jobs.
Answer = tuple[bool, bool, int]


class Rule(Protocol):
    def begin(self, jobs: Jobs) -> None:
        """A row's reference nights."""

    def night(self, jobs: Jobs, slower: float) -> Answer:
        """One night; ``slower`` is the logarithm of what the row has become slower by."""


class Fixed:
    """The fixed gate, its retries, and its kin."""

    def __init__(self, low: float, high: float, tries: int = 1) -> None:
        self.low, self.high, self.tries = low, high, tries

    def begin(self, jobs: Jobs) -> None:
        pass

    def night(self, jobs: Jobs, slower: float) -> Answer:
        for tried in range(1, self.tries + 1):
            ratio = math.exp((jobs.first() if tried == 1 else jobs.again()) + slower)
            if self.low <= ratio <= self.high:
                return False, False, tried
        return True, False, self.tries


class Ours:
    """pytest-gsw's own: the functions of the package."""

    def __init__(self, history: int, confirm: int, accepted: int = 0) -> None:
        self.history, self.confirm, self.accepted = history, confirm, accepted
        self.noise, self.reference_s = PRIOR, 1.0

    def begin(self, jobs: Jobs) -> None:
        times_s = [math.exp(jobs.first()) for _ in range(max(self.history, self.accepted))]
        self.noise = noise_of(times_s[: self.history])
        self.reference_s = statistics.median(times_s[: self.accepted]) if self.accepted else 1.0

    def night(self, jobs: Jobs, slower: float) -> Answer:
        times_s = [math.exp(jobs.first() + slower)]
        if self.reference_s / times_s[0] >= 1 - TOLERANCE:
            # A first job within the tolerance is the only one, and passes: that is much the most frequent case, and
            # tests/unit/performance/test_decision.py says that it is so.
            return False, False, 1
        while True:
            answer = decide(times_s, self.reference_s, TOLERANCE, self.noise, confirm=self.confirm)
            if not answer.more:
                return answer.outcome is Outcome.REGRESSED, answer.outcome is Outcome.INCONCLUSIVE, len(times_s)
            times_s.append(math.exp(jobs.again() + slower))


RULES: Mapping[str, Callable[[], Rule]] = {
    "fixed 5 %": lambda: Fixed(0, 1 / (1 - TOLERANCE)),
    "any of 3": lambda: Fixed(0, 1 / (1 - TOLERANCE), 3),
    "ReFrame": lambda: Fixed(0, 1.05),
    "Megatron-LM": lambda: Fixed(0.95, 1.05, 3),
    "gsw, 30 jobs, +0": lambda: Ours(30, 0),
    "gsw, prior, +2": lambda: Ours(0, 2),
    "gsw, 8 jobs, +2": lambda: Ours(8, 2),
    "gsw, 30 jobs, +2": lambda: Ours(30, 2),
    "gsw, prior, +4": lambda: Ours(0, 4),
    "gsw, 8 jobs, +4": lambda: Ours(8, 4),
    "gsw, 30 jobs, +4": lambda: Ours(30, 4),
    "gsw, 30 jobs, +4, held against 5": lambda: Ours(30, 4, accepted=5),
    "gsw, 30 jobs, +4, held against 30": lambda: Ours(30, 4, accepted=30),
}


def one_night(rule: str, noise: str, sigma: float, loss: float, series: int, seed: int) -> dict[str, float]:
    """Shares of nights that fail and that stay open, and jobs a night, with a true loss from the first night on."""
    rng = random.Random(f"{seed} night {rule} {noise} {sigma} {loss}")  # noqa: S311 - noise, not cryptography
    failed = unsure = jobs_run = nights = 0
    for _ in range(series):
        jobs, judge = NOISES[noise](rng, sigma), RULES[rule]()
        judge.begin(jobs)
        for _ in range(NIGHTS_PER_SERIES):
            fails, stays_open, jobs_of_night = judge.night(jobs, -math.log1p(-loss))
            failed, unsure, jobs_run, nights = failed + fails, unsure + stays_open, jobs_run + jobs_of_night, nights + 1
    return {"failed": failed / nights, "inconclusive": unsure / nights, "jobs": jobs_run / nights, "nights": nights}


@dataclass(frozen=True)
class Course:
    """What becomes of a row from :data:`CHANGE` on."""

    name: str
    slower: Callable[[int], float]


def creeping(rate: float) -> Course:
    return Course(f"creep {rate:.1%} a week", lambda after: -math.log1p(-rate) * (after + 1) / 7)


def stepping(loss: float) -> Course:
    return Course(f"step {loss:.0%}", lambda _: -math.log1p(-loss))


ALL_COURSES = (Course("nothing", lambda _: 0.0), *map(creeping, CREEPS), *map(stepping, STEPS))
COURSES = {course.name: course for course in ALL_COURSES}
#: The rules that are asked every night; the gates run their own jobs, the others look at each night's first.
WATCHERS = ("fixed 5 %", "any of 3", "ReFrame", "Megatron-LM", "gsw, 30 jobs, +4", "gsw drift", "Otava")


def watched(watcher: str, noise: str, sigma: float, course: str, series: int, seed: int, otava: Otava | None) -> Any:
    """For each series the night of the first alarm, counted from the change, or from the first watched night."""
    rng = random.Random(f"{seed} watch {watcher} {noise} {sigma} {course}")  # noqa: S311 - noise, not cryptography
    slower, still = COURSES[course].slower, course == "nothing"
    nights = REFERENCE_JOBS + WATCHED
    change = REFERENCE_JOBS if still else CHANGE
    alarms: list[int | None] = []
    for _ in range(series):
        jobs = NOISES[noise](rng, sigma)
        if watcher in RULES:
            rule = RULES[watcher]()
            rule.begin(jobs)
            if not isinstance(rule, Ours):
                for _ in range(REFERENCE_JOBS):
                    jobs.first()
            after = (night for night in range(nights - change) if rule.night(jobs, slower(night))[0])
            alarms.append(next((night + 1 for night in after), None))
            continue
        times_s = [
            math.exp(jobs.first() + (slower(night - change) if night >= change else 0)) for night in range(nights)
        ]
        if watcher == "gsw drift":
            first = next((night + 1 for night in warned_nights(times_s) if night >= change), None)
        else:
            assert otava is not None
            first = otava.ask({"series": times_s, "first": change, "earliest": 0 if still else change - 5})
        alarms.append(None if first is None else first - change)
    found_at = sorted(alarm for alarm in alarms if alarm is not None)
    median = found_at[(len(alarms) - 1) // 2] if 2 * len(found_at) > len(alarms) else None
    soon = sum(alarm <= SOON for alarm in found_at)
    return {"series": series, "found": len(found_at) / series, "soon": soon / series, "median": median}


class Otava:
    """Apache Otava in its own process."""

    def __init__(self, python: Path) -> None:
        script = ROOT / "benchmarks" / "peers" / "otava_alarms.py"
        command = [str(python), str(script)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, question: Mapping[str, Any]) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def tigerbeetle() -> list[float]:
    """The published series, transactions per second."""
    lines = (ROOT / "benchmarks" / "data" / "tigerbeetle.csv").read_text(encoding="utf-8").splitlines()
    return [float(line.split(",")[1]) for line in lines if line[:1].isdigit()]


def alarms_of_drift(per_s: Sequence[float]) -> list[dict[str, Any]]:
    """Every alarm, to slower and, on the reciprocal, to faster, when each is accepted as the new state of things.

    The next reference is then the points from the first suspect one on.
    """
    found, start = [], 0
    for count in range(1, len(per_s) + 1):
        for way, times_s in (("slower", [1 / value for value in per_s[:count]]), ("faster", per_s[:count])):
            seen = drift(times_s, start)
            if seen is not None:
                alarm = {"way": way, "at": count - 1, "suspect": seen.first_suspect, "shift": seen.shift}
                found.append({**alarm, "z": seen.z, "rho": seen.rho, "newest": seen.newest, "since": start})
                start = seen.first_suspect
                break
    return found


def real_series(otava: Otava | None) -> dict[str, Any]:
    """What the drift rule and Otava say of TigerBeetle's series."""
    per_s = tigerbeetle()
    result: dict[str, Any] = {"drift": alarms_of_drift(per_s)}
    if otava is not None:
        result["otava"] = otava.ask({"series": per_s})
        magnitude = {"min_magnitude": 0.05}
        result["otava 5 %"] = otava.ask({"series": per_s, "options": magnitude})
        # Otava again each night, as the drift rule is asked; a series of times, whose changes to slower are those up.
        nightly: dict[int, int] = {}
        for count in range(10, len(per_s) + 1):
            for index, before, after in otava.ask({"series": per_s[:count]}):
                if after < before:
                    nightly.setdefault(index, count - 1)
        result["otava nightly slower"] = sorted(nightly.items())
    return result


def run(options: argparse.Namespace) -> dict[str, Any]:
    """All figures."""
    quick: bool = options.quick
    rounds: float = options.rounds * (0.01 if quick else 1)
    otava = None if options.otava is None else Otava(options.otava)
    begin_s = time.monotonic()

    def say(what: str) -> None:
        print(f"{time.monotonic() - begin_s:6.0f} s  {what}", file=sys.stderr, flush=True)

    nights, watch = [], []
    for noise in NOISES:
        for rule in RULES:
            for sigma in SIGMAS:
                for loss in (0.0, *LOSSES):
                    # A false failure in a thousand nights needs many of them, a power of 95 % fewer.
                    series = max(2, round(rounds * (5000 if loss == 0 else 1000 if loss == LOSSES[-1] else 250)))
                    figures = one_night(rule, noise, sigma, loss, series, options.seed)
                    nights.append({"rule": rule, "noise": noise, "sigma": sigma, "loss": loss, **figures})
            say(f"{noise}: {rule}")
    for noise in NOISES:
        for watcher in WATCHERS:
            if watcher == "Otava" and otava is None:
                continue
            for sigma in SIGMAS:
                for course in COURSES:
                    if watcher == "Otava" and (sigma not in (0.01, 0.03) or "0.5" in course or "2.0" in course):
                        continue
                    # A share of 2 % needs many series; Otava takes a tenth of a second for each.
                    many = 100 if watcher == "Otava" else 200 if course != "nothing" else 1000 if sigma <= 0.03 else 300
                    series = max(2, round(rounds * many))
                    figures = watched(watcher, noise, sigma, course, series, options.seed, otava)
                    watch.append({"rule": watcher, "noise": noise, "sigma": sigma, "course": course, **figures})
            say(f"{noise}: {watcher}, watched")
    result = {"seed": options.seed, "rounds": rounds, "night": nights, "watch": watch, "real": real_series(otava)}
    if otava is not None:
        otava.close()
    say("done")
    return result


def percent(share: float, of: float) -> str:
    """A share of so many, with as many digits as they support."""
    if share == 0:
        return f"< {100 / of:.1g}"
    return f"{100 * share:.3f}" if share < 0.01 else f"{100 * share:.2f}" if share < 0.1 else f"{100 * share:.1f}"


def found(cell: Mapping[str, Any]) -> str:
    """The share that was found soon, and the median night where there is one."""
    return f"{cell['soon']:.0%} · {cell['median'] if cell['median'] is not None else '-'}"


def pick(cells: Sequence[dict[str, Any]], **what: object) -> dict[str, Any] | None:
    return next((cell for cell in cells if all(cell[name] == value for name, value in what.items())), None)


def tables(figures: Mapping[str, Any]) -> str:
    """All figures as Markdown."""
    nights, watch = figures["night"], figures["watch"]
    parts: list[str] = []

    def table(title: str, header: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
        parts.append(f"**{title}**\n\n" + tabulate(lines, header, tablefmt="pipe", disable_numparse=True))

    def by_sigma(title: str, loss: float, cell: Callable[[dict[str, Any]], str], rules: Sequence[str]) -> None:
        header = ["rule", *(f"sigma {sigma:.0%}" for sigma in SIGMAS)]
        lines = []
        for rule in rules:
            row = [pick(nights, rule=rule, noise="independent", sigma=sigma, loss=loss) for sigma in SIGMAS]
            lines.append([rule, *(cell(one) for one in row if one is not None)])
        table(title, header, lines)

    every = list(RULES)
    ours = [rule for rule in RULES if rule.startswith("gsw")]
    by_sigma("False failures, % of rows and nights, independent noise", 0.0, failed, every)
    by_sigma("Power against a true loss of 10 %, % of nights, independent noise", 0.10, failed, every)
    by_sigma("Jobs per row and night when nothing has changed, independent noise", 0.0, jobs_a_night, every)
    by_sigma("Inconclusive when nothing has changed, % of rows and nights, independent noise", 0.0, unsure, ours)
    by_sigma("Inconclusive at a true loss of 10 %, % of nights, independent noise", 0.10, unsure, ours)
    header = ["rule", *(f"{loss:.0%}, sigma {sigma:.0%}" for sigma in SIGMAS[:3] for loss in LOSSES[:3])]
    lines = []
    for rule in RULES:
        cells = [pick(nights, rule=rule, noise="independent", sigma=s, loss=x) for s in SIGMAS[:3] for x in LOSSES[:3]]
        lines.append([rule, *(failed(cell) for cell in cells if cell is not None)])
    table("Failed at a smaller true loss, % of nights, independent noise", header, lines)
    for sigma in (0.02, 0.03):
        lines = []
        for rule in RULES:
            row = [rule]
            for noise in NOISES:
                still, lost = (pick(nights, rule=rule, noise=noise, sigma=sigma, loss=loss) for loss in (0.0, 0.10))
                if still is not None and lost is not None:
                    row.append(f"{failed(still)} · {failed(lost)} · {jobs_a_night(still)}")
            lines.append(row)
        title = f"sigma {sigma:.0%}: false failures (%) · power against 10 % (%) · jobs per row and night"
        table(title, ["rule", *NOISES], lines)
    lines = []
    for watcher in WATCHERS:
        for sigma in SIGMAS:
            cells = [pick(watch, rule=watcher, noise=noise, sigma=sigma, course="nothing") for noise in NOISES]
            shown = [percent(cell["found"], cell["series"]) for cell in cells if cell is not None]
            if shown:
                lines.append([watcher, f"{sigma:.0%}", *shown])
    table("Rows with a false alarm in 180 nights, %", ["rule", "sigma", *NOISES], lines)
    changes = [course for course in COURSES if course != "nothing"]
    for noise in ("independent", "AR(1) 0.5", "slow outliers"):
        lines = []
        for watcher in WATCHERS:
            for sigma in SIGMAS:
                cells = [pick(watch, rule=watcher, noise=noise, sigma=sigma, course=course) for course in changes]
                if any(cells):
                    lines.append([watcher, f"{sigma:.0%}", *("" if cell is None else found(cell) for cell in cells)])
        title = f"Found within {SOON} nights · median nights to the first alarm, {noise}"
        table(title, ["rule", "sigma", *changes], lines)
    parts.append(real_text(figures["real"]))
    return "\n\n".join(parts)


def failed(cell: Mapping[str, Any]) -> str:
    return percent(cell["failed"], cell["nights"])


def unsure(cell: Mapping[str, Any]) -> str:
    return percent(cell["inconclusive"], cell["nights"])


def jobs_a_night(cell: Mapping[str, Any]) -> str:
    return f"{cell['jobs']:.2f}"


def real_text(real: Mapping[str, Any]) -> str:
    """The alarms on the real series."""
    lines = []
    for one in real["drift"]:
        sign = 1 if one["way"] == "slower" else -1
        change = (1 + one["shift"]) ** -sign - 1
        suspect = [str(one["suspect"]), one["way"], f"{100 * change:+.1f} %"]
        lines.append([str(one["at"]), *suspect, f"{one['z']:.1f}", f"{one['rho']:.2f}", str(one["newest"])])
    header = ["alarm at", "first suspect", "to", "throughput", "z", "rho", "newest"]
    text = tabulate(lines, header, tablefmt="pipe", disable_numparse=True)
    parts = [f"**TigerBeetle: the drift rule's alarms**\n\n{text}"]
    for name in ("otava", "otava 5 %"):
        if name in real:
            points = ", ".join(f"{index} ({after / before - 1:+.1%})" for index, before, after in real[name])
            parts.append(f"{name}: {points}")
    if "otava nightly slower" in real:
        points = ", ".join(f"{index} (at {at})" for index, at in real["otava nightly slower"])
        parts.append(f"otava each night, to slower: {points}")
    return "\n\n".join(parts)


def plots(figures: Mapping[str, Any], directory: Path) -> None:
    """The charts of docs/decisions.md."""
    nights, watch = figures["night"], figures["watch"]
    rules = ["fixed 5 %", "any of 3", "Megatron-LM", "gsw, prior, +4", "gsw, 30 jobs, +2", "gsw, 30 jobs, +4"]
    places = [float(number) for number in range(len(SIGMAS))]
    x_ticks = [(place, f"{sigma:.0%}") for place, sigma in zip(places, SIGMAS, strict=True)]
    shares = [(value, f"{value:.0%}") for value in (0, 0.2, 0.4, 0.6, 0.8, 1)]

    def line(cells: Sequence[dict[str, Any] | None], name: str) -> list[float | None]:
        return [None if cell is None else cell[name] for cell in cells]

    def of_nights(loss: float, name: str) -> dict[str, list[float | None]]:
        return {
            rule: line([pick(nights, rule=rule, noise="independent", sigma=s, loss=loss) for s in SIGMAS], name)
            for rule in rules
        }

    def of_watch(course: str, name: str, noise: str, watchers: Sequence[str]) -> dict[str, list[float | None]]:
        return {
            rule: line([pick(watch, rule=rule, noise=noise, sigma=s, course=course) for s in SIGMAS], name)
            for rule in watchers
        }

    x_title = "noise between jobs (sigma), independent"
    some = [watcher for watcher in WATCHERS if watcher != "ReFrame"]
    charts = {
        "false-failures": Chart(
            title="False failures per row and night",
            x_title=x_title,
            y_title="nights (logarithmic)",
            xs=places,
            lines=of_nights(0.0, "failed"),
            y_from=1e-5,
            y_to=1,
            y_ticks=[(10**-power, f"{100 * 10**-power:g} %") for power in (0, 1, 2, 3, 4, 5)],
            x_ticks=x_ticks,
            logarithmic=True,
            targets=[(0.001, "target: 0.1 %")],
        ),
        "power": Chart(
            title="Nights that fail at a true loss of 10 % of throughput",
            x_title=x_title,
            y_title="nights",
            xs=places,
            lines=of_nights(0.10, "failed"),
            y_from=0,
            y_to=1,
            y_ticks=shares,
            x_ticks=x_ticks,
            targets=[(0.95, "target: 95 %")],
        ),
        "jobs": Chart(
            title="Jobs per row and night when nothing has changed",
            x_title=x_title,
            y_title="jobs",
            xs=places,
            lines=of_nights(0.0, "jobs"),
            y_from=1,
            y_to=1.75,
            y_ticks=[(value, f"{value:.1f}") for value in (1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7)],
            x_ticks=x_ticks,
            targets=[(1.1, "target: 1.1")],
        ),
        "creep": Chart(
            title="A creep of 1 % a week: found within 28 nights",
            x_title=x_title,
            y_title="rows",
            xs=places,
            lines=of_watch("creep 1.0% a week", "soon", "independent", some),
            y_from=0,
            y_to=1,
            y_ticks=shares,
            x_ticks=x_ticks,
        ),
        "false-alarms": Chart(
            title="Rows with a false alarm in 180 nights, AR(1) noise",
            x_title="noise between jobs (sigma), AR(1) with 0.5",
            y_title="rows",
            xs=places,
            lines=of_watch("nothing", "found", "AR(1) 0.5", some),
            y_from=0,
            y_to=1,
            y_ticks=shares,
            x_ticks=x_ticks,
            targets=[(0.02, "target: 2 %")],
        ),
        "tigerbeetle": real_chart(figures["real"]),
    }
    directory.mkdir(parents=True, exist_ok=True)
    for name, chart in charts.items():
        (directory / f"{name}.svg").write_text(draw(chart), encoding="utf-8")


def real_chart(real: Mapping[str, Any]) -> Chart:
    """The real series with the first suspects of the drift rule and the change points of Otava."""
    per_s = tigerbeetle()
    suspects = {one["suspect"] for one in real["drift"]}
    otava = {index for index, _, _ in real.get("otava", [])}

    def dots(at: set[int], height: float) -> list[float | None]:
        return [height if index in at else None for index in range(len(per_s))]

    lines: dict[str, Sequence[float | None]] = {"transactions per second": per_s}
    lines["gsw drift: first suspects"] = dots(suspects, 22_500)
    if otava:
        lines["Otava's change points"] = dots(otava, 21_500)
    return Chart(
        title="TigerBeetle's accepted load",
        x_title="measurement",
        y_title="thousands per second",
        xs=[float(index) for index in range(len(per_s))],
        lines=lines,
        y_from=20_000,
        y_to=33_000,
        y_ticks=[(1000.0 * value, str(value)) for value in (20, 22, 24, 26, 28, 30, 32)],
        x_ticks=[(float(value), str(value)) for value in (0, 50, 100, 150, 200, 250, 300, 350)],
        dots=frozenset(lines) - {"transactions per second"},
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="How often each rule is wrong, by simulation and on a real series.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=float, default=1.0, help="so many times the series (default %(default)s)")
    parser.add_argument("--quick", action="store_true", help="a hundredth of the series")
    parser.add_argument("--otava", type=Path, metavar="PYTHON", help="interpreter that has apache-otava 0.8.0")
    parser.add_argument("--figures", type=Path, metavar="FILE", help="take the figures from this file, measure nothing")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write the figures to this file, as JSON")
    parser.add_argument("--images", type=Path, metavar="DIR", help="write the plots there, as SVG")
    options = parser.parse_args()
    figures = json.loads(options.figures.read_text(encoding="utf-8")) if options.figures else run(options)
    if options.output is not None:
        options.output.write_text(json.dumps(figures) + "\n", encoding="utf-8")
    print(tables(figures))
    if options.images is not None:
        plots(figures, options.images)
    return 0


if __name__ == "__main__":
    sys.exit(main())
