"""How jobs of a cluster's rows differ while nothing has changed: noise models, as data.

All values are natural logarithms of times over what the row usually takes.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

#: Jobs that a row can have in one run: the first, and four that confirm it.
JOBS = 5
#: Autocorrelation of a level, from run to run.
LEVEL_RHO = 0.8
#: Congestion: the share of runs that have a slow hour, that of rows that run in it, what it costs them, and how
#: likely a further job is still in it.
SLOW_HOURS, ROWS_IN_IT, COST, STILL_IN_IT = 0.1, 0.4, (0.02, 0.1), 0.5
#: Single odd jobs: how many, and what they take longer.
ODD_JOBS, ODD_COST = 0.05, (0.05, 0.3)

#: One value of mean (or median) 0 and a standard deviation.
Shape = Callable[[random.Random, float], float]

#: Of a row, by run, each of its jobs; of a run without the row, none.
Noise = list[list[float]]

#: What becomes of the jobs of all rows besides: changed in place.
Also = Callable[[random.Random, list[Noise]], None]


def gaussian(rng: random.Random, sigma: float) -> float:
    return rng.gauss(0, sigma)


def student(rng: random.Random, sigma: float) -> float:
    """Three degrees of freedom, of the same standard deviation: the variance of Student's t3 is 3."""
    return rng.gauss(0, sigma) / math.sqrt(2 * rng.gammavariate(1.5, 1))


def lognormal(rng: random.Random, sigma: float) -> float:
    """Strongly skewed, with a long tail of slow jobs; skewness 3.7."""
    return sigma * (rng.lognormvariate(0, 0.8) - math.exp(0.32)) / (math.exp(0.32) * math.sqrt(math.expm1(0.64)))


def odd_jobs(rng: random.Random, sigma: float) -> float:
    return rng.gauss(0, sigma) + (rng.uniform(*ODD_COST) if rng.random() < ODD_JOBS else 0.0)


def laplace(rng: random.Random, sigma: float) -> float:
    return sigma / math.sqrt(2) * (rng.expovariate(1) - rng.expovariate(1))


def heavy(rng: random.Random, core: float) -> float:
    """Two and a half degrees of freedom, of this standard deviation in the core."""
    return rng.gauss(0, core) / math.sqrt(rng.gammavariate(1.25, 2) / 2.5)


def seldom_slow(rng: random.Random, sigma: float) -> float:
    """One job in two hundred loses 30 %."""
    return rng.gauss(0, sigma) + (-math.log(0.7) if rng.random() < 0.005 else 0.0)


def bounded(rng: random.Random, sigma: float) -> float:
    """A bandwidth has an upper bound: most jobs are near it, and the others are slower."""
    return sigma * (rng.expovariate(1) - math.log(2))


def one_in_five(rng: random.Random, sigma: float) -> float:
    return rng.gauss(0, sigma) + (rng.uniform(0.04, 0.12) if rng.random() < 0.2 else 0.0)


def _more(jobs: list[float], value: float) -> None:
    jobs[:] = [job + value for job in jobs]


def by_scale(low: float, high: float) -> Also:
    """Rows whose standard deviation grows from one to the other; that of their jobs is the geometric mean before."""
    middle = math.sqrt(low * high)

    def change(_: random.Random, rows: list[Noise]) -> None:
        for number, row in enumerate(rows):
            sigma = low * (high / low) ** (number / max(1, len(rows) - 1))
            row[:] = [[job * sigma / middle for job in jobs] for jobs in row]

    return change


def weekly(sigma: float, *, is_shared: bool) -> Also:
    """Each week has an image, that of all rows or each row's own."""

    def change(rng: random.Random, rows: list[Noise]) -> None:
        for week in range(0, len(rows[0]), 7):
            shared = rng.gauss(0, sigma)
            for row in rows:
                level = shared if is_shared else rng.gauss(0, sigma)
                for jobs in row[week : week + 7]:
                    _more(jobs, level)

    return change


def mondays(loss: float, share: float = 1.0) -> Also:
    """One run of seven is slower for all rows, or for a share of them."""

    def change(_: random.Random, rows: list[Noise]) -> None:
        for number, row in enumerate(rows):
            for jobs in row[::7] if number < share * len(rows) else ():
                _more(jobs, loss)

    return change


def missing(of_rows: float, of_runs: float) -> Also:
    """Rows that do not run in a share of runs, and runs in which none does."""

    def change(rng: random.Random, rows: list[Noise]) -> None:
        for run in range(len(rows[0])):
            is_gone = rng.random() < of_runs
            for row in rows:
                if rng.random() < of_rows or is_gone:
                    row[run] = []

    return change


def come_and_go(rng: random.Random, rows: list[Noise]) -> None:
    """Each row runs for weeks, and then for a while it does not."""
    for row in rows:
        runs = rng.random() < 0.75
        for run in range(len(row)):
            runs = rng.random() > 1 / 45 if runs else rng.random() < 1 / 15
            if not runs:
                row[run] = []


def spell_in_reference(rng: random.Random, rows: list[Noise]) -> None:
    """Each row is 6 to 12 % slower for five to eight of the first 30 runs."""
    for row in rows:
        runs, cost = rng.randint(5, 8), rng.uniform(0.06, 0.12)
        begin = rng.randrange(30 - runs + 1)
        for jobs in row[begin : begin + runs]:
            _more(jobs, cost)


def slower_until(run: int, cost: float) -> Also:
    """All rows are slower up to a run."""

    def change(_: random.Random, rows: list[Noise]) -> None:
        for row in rows:
            for jobs in row[:run]:
                _more(jobs, cost)

    return change


def gained_one_by_one(rng: random.Random, rows: list[Noise]) -> None:
    """Each row is 6 % slower than its document until a run between the 8th and the 22nd."""
    for row in rows:
        for jobs in row[: rng.randint(8, 22)]:
            _more(jobs, -math.log(0.94))


def slow_hours_of_half(rng: random.Random, rows: list[Noise]) -> None:
    """In a tenth of the runs, half of the rows run in a slow hour."""
    for run in range(len(rows[0])):
        if rng.random() < SLOW_HOURS:
            for row in rng.sample(rows, len(rows) // 2):
                row[run] = [value + late for value, late in zip(row[run], _slow_hour(rng), strict=False)]


# -- what changes with time, size or hardware -------------------------------------------------


def regimes(quiet: float, loud: float) -> Also:
    """Each row has weeks of one standard deviation and weeks of the other; that of its jobs is 1 before."""

    def change(rng: random.Random, rows: list[Noise]) -> None:
        for row in rows:
            sigma = quiet
            for run, jobs in enumerate(row):
                if rng.random() < 1 / 20:
                    sigma = quiet + loud - sigma
                row[run] = [job * sigma for job in jobs]

    return change


def garch(rng: random.Random, rows: list[Noise]) -> None:
    """A large deviation is followed by large ones: GARCH(1, 1) of a persistence of 0.95, its variance 1 on average."""
    for row in rows:
        variance = 1.0
        for run, jobs in enumerate(row):
            row[run] = [job * math.sqrt(variance) for job in jobs]
            variance = 0.05 + 0.15 * variance * rng.gauss(0, 1) ** 2 + 0.8 * variance


def weekdays_and_hours(rng: random.Random, rows: list[Noise]) -> None:
    """Two days of a week are busy for all rows, and a row that starts in the busy third of a day is slower still."""
    for row in rows:
        busy = 0.015 if rng.random() < 1 / 3 else 0.0
        for run, jobs in enumerate(row):
            _more(jobs, 0.015 + busy if run % 7 < 2 else 0.0)


def throttling(rng: random.Random, rows: list[Noise]) -> None:
    """In a warm week, each job has an even chance of a hot rack, which costs 1 to 5 %."""
    for week in range(0, len(rows[0]), 7):
        if rng.random() < 0.15:
            for row in rows:
                for jobs in row[week : week + 7]:
                    jobs[:] = [job + (rng.uniform(0.01, 0.05) if rng.random() < 0.5 else 0.0) for job in jobs]


def generations(rng: random.Random, rows: list[Noise]) -> None:
    """A third of the jobs run on newer nodes, and are 4 % faster."""
    for row in rows:
        for jobs in row:
            jobs[:] = [job - (0.04 if rng.random() < 1 / 3 else 0.0) for job in jobs]


def ageing(rng: random.Random, rows: list[Noise]) -> None:
    """Each row loses up to 3 % in one to three months, until its nodes are repaired."""
    for row in rows:
        months = rng.randint(30, 90)
        begin = rng.randrange(months)
        for run, jobs in enumerate(row):
            _more(jobs, 0.03 * ((run + begin) % months / months - begin / months))


def by_gpus(_: random.Random, rows: list[Noise]) -> None:
    """Rows of few GPUs are quiet, those of many are not: 0.8 to 2.7 %; the standard deviation of jobs is 1 before."""
    for number, row in enumerate(rows):
        sigma = 0.008 * 1.5 ** (number % 4)
        row[:] = [[job * sigma for job in jobs] for jobs in row]


def wandering(sigma: float, rho: float) -> Also:
    """All rows share a level that wanders from run to run."""

    def change(rng: random.Random, rows: list[Noise]) -> None:
        for run, level in enumerate(_wandering(rng, sigma, len(rows[0]), rho)):
            for row in rows:
                _more(row[run], level)

    return change


def slower_repeats(_: random.Random, rows: list[Noise]) -> None:
    """Jobs that confirm are 1.5 % slower: the cluster is busier at the end of a night."""
    for row in rows:
        for jobs in row:
            jobs[1:] = [job + 0.015 for job in jobs[1:]]


def slowest_node(rng: random.Random, rows: list[Noise]) -> None:
    """A job is as slow as the slowest of its 1, 2, 4 or 8 nodes, each of which differs by 2 %."""
    for number, row in enumerate(rows):
        nodes = 2 ** (number % 4)
        usual = statistics.median(max(rng.gauss(0, 0.02) for _ in range(nodes)) for _ in range(2001))
        row[:] = [[max(rng.gauss(0, 0.02) for _ in range(nodes)) - usual for _ in jobs] for jobs in row]


@dataclass(frozen=True)
class Model:
    """How jobs differ."""

    name: str
    #: Standard deviation of what a row's jobs differ by, without what all rows have in common.
    sigma: float
    shape: Shape = gaussian
    #: Autocorrelation from job to job: of the first jobs of runs, and of a run's further jobs.
    chained: float = 0.0
    #: The share of the variance that is a level of the row, which wanders from run to run.
    level: float = 0.0
    #: Standard deviation of what all jobs of a run have in common.
    run_sd: float = 0.0
    #: Whether runs have slow hours.
    congested: bool = False
    #: The share of jobs that have a slow node.
    slow_jobs: float = 0.0
    #: What becomes of rows besides, one after another.
    also: tuple[Also, ...] = ()
    #: Half of the nodes is slower by this, and a job runs in one of the halves.
    second_half: float = 0.0
    #: Blocks of nodes; each is congested now and then, and a job that has one of its nodes is slower.
    blocks: int = 0
    #: What rows take, seconds, and the decimals of what is printed, where that is little.
    usual_s: float = 1.0
    decimals: int | None = None


def _family(name: str, sigmas: Sequence[float], **of_model: object) -> list[Model]:
    return [Model(f"{name} {sigma:.0%}", sigma, **of_model) for sigma in sigmas]  # type: ignore[arg-type]


MODELS: Mapping[str, Model] = {
    model.name: model
    for model in (
        *_family("Gaussian", (0.01, 0.02, 0.03, 0.05, 0.08)),
        *_family("Student t3", (0.02, 0.03), shape=student),
        *_family("lognormal", (0.02, 0.03), shape=lognormal),
        *_family("AR(1) 0.5", (0.02, 0.03), chained=0.5),
        *_family("level plus jobs", (0.02, 0.03), level=0.5),
        *(Model(f"shared night {sd:.0%}", 0.02, run_sd=sd) for sd in (0.01, 0.02, 0.03)),
        Model("shared night 1%, jobs 3%", 0.03, run_sd=0.01),
        Model("congestion", 0.02, congested=True),
        Model("1 in 20 slow", 0.02, odd_jobs),
        *(Model(f"slow nodes {share:.0%}", 0.02, slow_jobs=share) for share in (0.05, 0.1, 0.2)),
        Model("Laplace 3%", 0.03, laplace),
        Model("t2.5, core 1.2%", 0.012, heavy),
        Model("1 in 200 at -30%", 0.02, seldom_slow),
        Model("sigma 0.5 to 4%", math.sqrt(0.005 * 0.04), also=(by_scale(0.005, 0.04),)),
        Model("0.43 s, two decimals", 0.01, usual_s=0.43, decimals=2),
        Model("level 0.8 plus jobs 2%", 0.02, level=0.8),
        Model("weekly images, each row 1%", 0.02, also=(weekly(0.01, is_shared=False),)),
        Model("weekly images, shared 1%", 0.02, also=(weekly(0.01, is_shared=True),)),
        Model("rows come and go", 0.02, also=(come_and_go,)),
        Model("a third missing", 0.02, also=(missing(1 / 3, 0.1),)),
        Model("slow node in all nights", 0.02, slow_jobs=1 / 40),
        Model(
            "realistic",
            math.sqrt(0.007 * 0.03),
            seldom_slow,
            run_sd=0.007,
            also=(by_scale(0.007, 0.03), mondays(0.015), missing(0.1, 0.05)),
        ),
        Model("spell in reference", 0.02, also=(spell_in_reference,)),
        Model("bad first week", 0.02, also=(slower_until(7, 0.06),)),
        Model("repaired at night 15", 0.02, also=(slower_until(15, 0.04),)),
        Model("step in reference", 0.02, also=(gained_one_by_one,)),
        Model("Mondays +3%", 0.02, also=(mondays(0.03),)),
        Model("Mondays +4%, half", 0.02, also=(mondays(0.04, 0.5),)),
        Model("two halves, 2.5%", 0.02, second_half=0.025),
        Model("two halves, 4%", 0.02, second_half=0.04),
        Model("slow hours of half", 0.02, also=(slow_hours_of_half,)),
        Model("regimes of noise", 1.0, also=(regimes(0.01, 0.03),)),
        Model("GARCH", 0.02, also=(garch,)),
        Model("weekdays and hours", 0.02, also=(weekdays_and_hours,)),
        Model("thermal throttling", 0.015, also=(throttling,)),
        Model("congested blocks", 0.02, blocks=10),
        Model("two generations", 0.015, also=(generations,)),
        Model("ageing and repair", 0.015, also=(ageing,)),
        Model("sigma by GPUs", 1.0, also=(by_gpus,)),
        Model("bounded GB/s", 0.02, bounded),
        *(Model(f"wandering level {rho:g}", 0.02, also=(wandering(0.01, rho),)) for rho in (0.8, 0.95, 0.98)),
        Model("fast document", 0.02, also=(slower_until(10**6, 0.02),)),
        Model("1 in 5 slow", 0.015, one_in_five),
        Model("slower repeats", 0.02, also=(slower_repeats,)),
        Model("slowest node", 0.0, also=(slowest_node,)),
    )
}


def noise_of_rows(model: Model, rng: random.Random, rows: int, runs: int) -> list[Noise]:
    """What each row's jobs take, without nodes."""
    own = [_own(model, rng, runs) for _ in range(rows)]
    for run in range(runs):
        shared = rng.gauss(0, model.run_sd) if model.run_sd else 0.0
        is_slow = model.congested and rng.random() < SLOW_HOURS
        for row in own:
            hour = _slow_hour(rng) if is_slow and rng.random() < ROWS_IN_IT else (0.0,) * JOBS
            row[run] = [value + shared + late for value, late in zip(row[run], hour, strict=True)]
    for change in model.also:
        change(rng, own)
    return own


def _own(model: Model, rng: random.Random, runs: int) -> Noise:
    if model.chained:
        return _chained(model, rng, runs)
    of_job = model.sigma * math.sqrt(1 - model.level)
    levels = _wandering(rng, model.sigma * math.sqrt(model.level), runs)
    return [[level + model.shape(rng, of_job) for _ in range(JOBS)] for level in levels]


def _wandering(rng: random.Random, sigma: float, runs: int, rho: float = LEVEL_RHO) -> list[float]:
    if not sigma:
        return [0.0] * runs
    levels, fresh = [rng.gauss(0, sigma)], sigma * math.sqrt(1 - rho**2)
    while len(levels) < runs:
        levels.append(rho * levels[-1] + rng.gauss(0, fresh))
    return levels


def _chained(model: Model, rng: random.Random, runs: int) -> Noise:
    fresh = model.sigma * math.sqrt(1 - model.chained**2)
    first, found = rng.gauss(0, model.sigma), []
    for _ in range(runs):
        first = model.chained * first + rng.gauss(0, fresh)
        jobs = [first]
        while len(jobs) < JOBS:
            jobs.append(model.chained * jobs[-1] + rng.gauss(0, fresh))
        found.append(jobs)
    return found


def _slow_hour(rng: random.Random) -> tuple[float, ...]:
    """What a slow hour costs each of a row's jobs."""
    cost, jobs = rng.uniform(*COST), 1
    while jobs < JOBS and rng.random() < STILL_IN_IT:
        jobs += 1
    return (cost,) * jobs + (0.0,) * (JOBS - jobs)
