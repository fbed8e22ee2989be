"""Slow nodes of a sweep, which runs one row once on every tile of a cluster, and the search that follows it.

A tile is a set of nodes, and a job is as slow as its slowest node. All jobs of a sweep share the level of their hour:
tiles are compared with each other and not with a document. Times are excesses here: natural logarithms of the step time
over that level.

Of many tiles the slowest is slow by chance. So a sweep only selects: its time of a suspect is no evidence against that.
The suspects run again, and the nodes of a tile that is slow again are crossed: each takes a place in a fast tile. Each
node has a sequential test of its own (A. Wald, Annals of Mathematical Statistics 16 (1945), p. 117): no loss of
throughput, or one of :data:`LOSS` or twice that.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pytest_gsw.stats.noise import PRIOR, PRIOR_JOBS, Noise, logarithms, median_sd

#: The loss of throughput that a cleared node does not have, as a fraction. The test divides at half of it.
LOSS = 0.05
#: Most rounds of a search, and so most jobs of a node.
MOST_ROUNDS = 8

_LOSS = -math.log1p(-LOSS)
#: A tile is a suspect beyond this excess, and beyond so many standard deviations.
_LEAST_SUSPECT = -math.log1p(-0.02)
_SUSPECT_DEVIATIONS = 1.5
#: Probability that a search names a sound node (C. E. Bonferroni: a share of it for each node tested).
_FALSELY = 0.003
#: Probability that a sound node is named in place of the slow one of its tile.
_CONFUSED = 0.01
#: Log likelihood ratio against a loss that clears a node. By Wald's bound one slow node in ten is missed; as a job is
#: much evidence at once, it is one in twenty.
_CLEAR = math.log(10)
#: Log likelihood ratio of a tile's repeats from which its nodes are crossed: that costs a tile's nodes squared.
_CROSS = 2.0
#: Tiles that are slower by so many deviations count neither for the level nor for the noise, and the variance of normal
#: values without those.
_ODD_DEVIATIONS = 2.0
_KEPT_VARIANCE = 0.886
#: Standard errors that are added to the noise: one that is too small names sound nodes, one too large takes more jobs.
_ADDED_ERRORS = 0.5
#: Least noise; the times of equal jobs are rounded.
_LEAST_SIGMA = 0.001
#: Fewest degrees of freedom of a noise, and fewest tiles of a level: of two, either may be the odd one.
_FEWEST_DEGREES = 5
_FEWEST_TILES = 3
#: A larger number of further jobs is no advice.
_MOST_MORE = 99
_NORMAL = statistics.NormalDist()


@dataclass(frozen=True)
class TileJob:
    """A measured job of the sweep or of the search."""

    #: ``n017`` or ``n[001-004]``; of the search's jobs their nodes, compressed.
    tile: str
    nodes: tuple[str, ...]
    #: Its figure, see :meth:`~pytest_gsw.tables.metrics.Direction.cost`.
    cost: float
    #: 0 for the sweep, 1 to 8 for the search.
    round: int = 0


@dataclass(frozen=True)
class TileFinding:
    """A slow node, nodes that are slow together, or a suspect that is not decided.

    Changes are those of throughput, as fractions: -0.1 is a tenth less.
    """

    kind: Literal["slow", "not decided", "between"]
    #: The slow nodes; of ``between`` those of the tile or switch, of which none explains the loss by itself.
    nodes: tuple[str, ...]
    #: The switch if the nodes are slow together and are all of one; else empty.
    switch: str
    change: float
    #: Bounds of its 95 % interval. Of a finding without jobs of the search, it is an interval for all tiles together.
    low: float
    high: float
    #: Jobs behind it.
    jobs: int
    #: Of ``not decided`` about how many more jobs decide it; ``None`` if no such number does.
    more_jobs: int | None


@dataclass(frozen=True)
class SearchState:
    """The result of the jobs so far, and the jobs of the next round."""

    #: The nodes of each of the next jobs, no node twice; empty if the search has ended.
    next_jobs: tuple[tuple[str, ...], ...]
    #: The number of that next round.
    round: int
    #: By tile of the sweep: its change of throughput from the median of the other tiles, as a fraction.
    peers: Mapping[str, float]
    #: Final if there are no next jobs.
    findings: tuple[TileFinding, ...]
    #: Nodes that lose less than :data:`LOSS`.
    cleared: tuple[str, ...]
    #: Standard deviation of the logarithm of a job's step time.
    sigma: float


def search(
    jobs: Sequence[TileJob],
    *,
    noise: Noise | None = None,
    switches: Mapping[str, str] | None = None,
    most_jobs: float = math.inf,
    begins: bool = True,
    rounds: int = 0,
) -> SearchState:
    """The findings of a sweep's and its search's jobs so far, in any order, and the next round's jobs.

    All follows from the jobs, so a session that was killed goes on. A job that was lost is left out.

    Args:
        jobs: All measured jobs of the sweep and of the search.
        noise: The noise of the row's history; ``None`` without one.
        switches: The leaf switch of each node, if known.
        most_jobs: Number of jobs that the search may still submit.
        begins: False for a sweep without a search.
        rounds: Rounds submitted so far, as all jobs of the last ones may be lost.

    Raises:
        ValueError: A time is not finite and above zero.
    """
    sweep = sorted((job for job in jobs if job.round == 0), key=lambda job: (job.cost, job.tile))
    later = sorted((job for job in jobs if job.round > 0), key=lambda job: (job.round, job.nodes, job.cost))
    logs, later_logs = logarithms([job.cost for job in sweep]), logarithms([job.cost for job in later])
    following = max([rounds, *(job.round for job in later)]) + 1
    if not sweep:
        return SearchState((), following, {}, (), (), _LEAST_SIGMA)
    history = noise or PRIOR
    of_sweep = _level(logs, history)
    excesses = [log - _median_of_others(logs, at) for at, log in enumerate(logs)]
    least = max(_LEAST_SUSPECT, _SUSPECT_DEVIATIONS * of_sweep.pooled_sigma)
    # The slowest first: they come first if there are few jobs.
    suspects = [
        _Suspect(job.nodes, log)
        for job, log, excess in zip(reversed(sweep), reversed(logs), reversed(excesses), strict=True)
        if excess > least
    ]
    suspect_of = {node: suspect for suspect in suspects for node in suspect.nodes}
    met: Counter[tuple[str, str]] = Counter()
    for job, log in zip(later, later_logs, strict=True):
        theirs = [node for node in job.nodes if node in suspect_of]
        suspect = suspect_of[theirs[0]] if theirs else None
        if suspect and set(suspect.nodes) == set(job.nodes):
            suspect.repeats.append(log)
        elif suspect and len(theirs) == 1:
            suspect.crosses[theirs[0]].append(log)
            met.update((theirs[0], node) for node in job.nodes)
    tested = max(1, len(suspect_of))
    test = _Test(_with_search(of_sweep, _Test(of_sweep, tested, len(sweep)), suspects, history), tested, len(sweep))
    for suspect in suspects:
        suspect.decide(test)
    where = switches or {}
    next_jobs: list[tuple[str, ...]] = []
    if begins and of_sweep.is_known and following <= MOST_ROUNDS:
        half = sweep[: (len(sweep) + 1) // 2]
        fast = [job.nodes for job in half if job.nodes[0] not in suspect_of]
        next_jobs = _next_jobs([one for one in suspects if test.may_decide(one.in_sweep)], fast, met, where)
        if not most_jobs >= len(next_jobs):
            next_jobs = next_jobs[: max(0, int(most_jobs))]
    findings = _findings(suspects, test, where, [node for job in sweep for node in job.nodes])
    cleared = {node for suspect in suspects for node in suspect.cleared}
    if of_sweep.is_known:
        most = test.level.centre + _LOSS - _NORMAL.inv_cdf(0.95) * test.sd(1)
        cleared.update(
            node
            for job, log in zip(sweep, logs, strict=True)
            if log < most and job.nodes[0] not in suspect_of
            for node in job.nodes
        )
    cleared.difference_update(node for one in findings for node in one.nodes)
    peers = {job.tile: math.expm1(-excess) for job, excess in zip(sweep, excesses, strict=True)}
    return SearchState(tuple(next_jobs), following, peers, findings, tuple(sorted(cleared)), test.level.sigma)


# -- Level and noise -------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Level:
    """The level of the hour, a logarithm of a cost, and the noise of a job."""

    #: The logarithms of jobs without a slow node.
    sound: Sequence[float]
    centre: float
    pooled_sigma: float
    degrees: int

    @property
    def sigma(self) -> float:
        """The noise with its safety margin."""
        return self.pooled_sigma * (1 + _ADDED_ERRORS / math.sqrt(2 * self.degrees))

    @property
    def is_known(self) -> bool:
        """True if a node may be named, or cleared, by it."""
        return self.degrees >= _FEWEST_DEGREES and len(self.sound) >= _FEWEST_TILES


def _level(logs: Sequence[float], history: Noise) -> _Level:
    """The level and noise by a sweep and the history, from sorted logarithms.

    The first guess is that of the fast half, which slow tiles do not reach. Then all that are not far slower count.
    """
    centre = statistics.median_low(logs)
    below = [log for log in logs if log < centre]
    level = _Level(below, centre, *_pooled(sum((log - centre) ** 2 for log in below), len(below), history))
    for _ in range(2):
        most = level.centre + _ODD_DEVIATIONS * level.sigma
        level = _level_of([log for log in logs if log <= most], (), history)
    return level


def _with_search(level: _Level, test: _Test, suspects: Iterable[_Suspect], history: Noise) -> _Level:
    """The level and noise by the jobs of the search, too: eight tiles alone show little."""
    groups = [group for suspect in suspects for group in (suspect.repeats, *suspect.crosses.values()) if group]
    slow_groups = [group for group in groups if test.ratio(group) > _CROSS]
    sound = [log for group in groups if test.ratio(group) <= _CROSS for log in group]
    return _level_of([*level.sound, *sound], slow_groups, history)


def _level_of(sound: Sequence[float], slow_groups: Iterable[Sequence[float]], history: Noise) -> _Level:
    """The level and noise by jobs without slow nodes, and by how the jobs of each slow node differ."""
    centre = statistics.median(sound)
    squares, degrees = sum((log - centre) ** 2 for log in sound) / _KEPT_VARIANCE, len(sound) - 1
    for group in slow_groups:
        mean = statistics.fmean(group)
        squares, degrees = squares + sum((log - mean) ** 2 for log in group), degrees + len(group) - 1
    return _Level(sound, centre, *_pooled(squares, degrees, history))


def _pooled(squares: float, degrees: int, history: Noise) -> tuple[float, int]:
    """The noise by a sum of squares and the history, and its degrees of freedom."""
    weight = max(history.jobs - 1, PRIOR_JOBS)
    sigma = math.sqrt((squares + weight * history.sigma**2) / (degrees + weight))
    return max(sigma, _LEAST_SIGMA), degrees + weight


def _median_of_others(ordered: Sequence[float], at: int) -> float:
    """The median of sorted values without one; that one if there are no others."""
    others = len(ordered) - 1
    if not others:
        return ordered[at]
    return statistics.fmean(ordered[one + (one >= at)] for one in ((others - 1) // 2, others // 2))


# -- The test --------------------------------------------------------------------------------------


class _Test:
    """Wald's test of jobs, given as logarithms, for no loss against a loss; the level is itself an estimate."""

    def __init__(self, level: _Level, tested: int, tiles: int) -> None:
        self.level, self.tiles = level, tiles
        self._level_error = median_sd(len(level.sound))
        #: Log likelihood ratio that names a node, of so many tested.
        self.names = math.log(tested / _FALSELY)
        #: The logarithm beyond which of so many sound tiles none is by chance.
        self.certain = level.centre - _NORMAL.inv_cdf(_FALSELY / tiles) * self.sd(1)
        # One job has less than half of the evidence that names a node, so that takes three: a job may be an odd one.
        self._most = _LOSS / 2 + self.names / 2 * self.sd(1) ** 2 / _LOSS

    def sd(self, jobs: int) -> float:
        """The standard deviation of the mean excess of jobs."""
        return self.level.sigma * math.sqrt(1 / jobs + self._level_error**2)

    def ratio(self, logs: Sequence[float]) -> float:
        """The log likelihood ratio of a loss; 0 without jobs."""
        return self._ratio_of(self._mean(logs), len(logs)) if logs else 0.0

    def _mean(self, logs: Sequence[float]) -> float:
        return statistics.fmean(min(log - self.level.centre, self._most) for log in logs)

    def _ratio_of(self, mean: float, jobs: int) -> float:
        ratio, larger = (loss * (mean - loss / 2) / self.sd(jobs) ** 2 for loss in (_LOSS, 2 * _LOSS))
        return max(ratio, larger - math.log(2))

    def may_decide(self, in_sweep: float) -> bool:
        """True if a search is long enough to clear a sound suspect, or to name one as slow as in the sweep."""
        clears = _CLEAR * self.level.sigma**2 <= MOST_ROUNDS * _LOSS**2 / 2
        return clears or self.ratio([in_sweep] * MOST_ROUNDS) >= self.names

    def more_jobs(self, logs: Sequence[float], like: float) -> int | None:
        """The number of further jobs that decide a node if they are like its jobs; without any, like a guess."""
        if not self.level.is_known:
            return None
        mean = self._mean(logs or [like])
        for jobs in range(1, _MOST_MORE + 1):
            if not -_CLEAR < self._ratio_of(mean, len(logs) + jobs) < self.names:
                return jobs
        return None

    def finding(
        self,
        kind: Literal["slow", "not decided", "between"],
        nodes: Iterable[str],
        logs: Sequence[float],
        *,
        in_sweep: float = 0.0,
        switch: str = "",
        more_jobs: int | None = None,
    ) -> TileFinding:
        """A finding by jobs of the search, or by the job of the sweep if there are none."""
        excess = statistics.fmean(logs or [in_sweep]) - self.level.centre
        half = _NORMAL.inv_cdf(1 - 0.025 / (1 if logs else self.tiles)) * self.sd(len(logs) or 1)
        change, low, high = (math.expm1(-one) for one in (excess, excess + half, excess - half))
        return TileFinding(kind, tuple(sorted(set(nodes))), switch, change, low, high, len(logs) or 1, more_jobs)


# -- Suspects --------------------------------------------------------------------------------------


@dataclass
class _Suspect:
    """A tile that was slow in the sweep, the jobs since, and what follows from them; jobs are logarithms of costs."""

    nodes: tuple[str, ...]
    in_sweep: float
    #: Jobs of the whole tile.
    repeats: list[float] = field(default_factory=list)
    #: By node, its jobs in fast tiles.
    crosses: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    slow: Sequence[str] = ()
    cleared: Sequence[str] = ()
    #: True if the tile is slow, and either no node is slow or all are.
    is_between: bool = False
    #: True if the tile itself is to run again.
    to_repeat: bool = False
    #: The nodes to cross, the likeliest first.
    to_cross: Sequence[str] = ()

    def jobs_of(self, node: str) -> Sequence[float]:
        """The jobs that show one node alone."""
        return self.repeats if len(self.nodes) == 1 else self.crosses.get(node, [])

    def decide(self, test: _Test) -> None:
        """Compute what follows from the jobs."""
        alone = {node: test.ratio(self.jobs_of(node)) for node in self.nodes}
        if len(self.nodes) == 1:
            self.slow = [node for node in self.nodes if alone[node] >= test.names]
            self.cleared = [node for node in self.nodes if alone[node] <= -_CLEAR]
            self.to_repeat = not self.slow and not self.cleared
            return
        # A slow node is slow in its tile as well. There it may be another one, so crosses have to tell them apart.
        every = {node: test.ratio([*self.repeats, *self.crosses.get(node, ())]) for node in self.nodes}
        one_of_them, together = _mean_ratio(every.values()), test.ratio(self.repeats)
        *_, second, best = sorted(alone.values())
        apart = best - second >= math.log(len(self.nodes) / _CONFUSED)
        self.slow = [
            node
            for node, one in alone.items()
            if one >= test.names or (apart and one == best and every[node] >= test.names)
        ]
        self.cleared = [node for node, one in alone.items() if min(one, every[node]) <= -_CLEAR]
        all_fast = len(self.cleared) == len(self.nodes)
        if self.slow:
            self.is_between = min(alone.values()) > 0
            self.slow = self.nodes if self.is_between else self.slow
        elif one_of_them <= -_CLEAR and self.repeats and together <= 0:
            self.cleared = self.nodes
        elif all_fast and together >= test.names:
            self.is_between = True
        else:
            least = 0.0 if self.in_sweep > test.certain else _CROSS
            self.to_repeat = all_fast or not (one_of_them >= least or together >= test.names)
        # The likeliest nodes explain the tile. The others are crossed only if those do not.
        least = 0.0 if self.slow else best - _CLEAR
        undecided = [node for node in self.nodes if least < alone[node] < test.names and node not in self.cleared]
        self.to_cross = sorted(undecided, key=lambda node: -alone[node])


def _mean_ratio(ratios: Collection[float]) -> float:
    """The log likelihood ratio of a loss of one of several nodes, each as likely as the others before the jobs."""
    most = max(ratios)
    return most + math.log(statistics.fmean(math.exp(one - most) for one in ratios))


def _next_jobs(
    suspects: Sequence[_Suspect],
    fast: Iterable[tuple[str, ...]],
    met: Mapping[tuple[str, str], int],
    switches: Mapping[str, str],
) -> list[tuple[str, ...]]:
    """The nodes of the next round's jobs; each crossed node has a fast tile to itself."""
    jobs: list[tuple[str, ...]] = []
    unused = [(tile, {switches.get(node) for node in tile} - {None}) for tile in fast]
    for suspect in suspects:
        if suspect.to_repeat:
            jobs.append(suspect.nodes)
            continue
        places = len(suspect.nodes) - 1
        for node in suspect.to_cross:
            own = switches.get(node)
            # Beside nodes of its own switch it shows the switch, and a tile that it met before may itself be slow.
            ranked = [
                (own in names, met.get((node, tile[0]), 0), at)
                for at, (tile, names) in enumerate(unused)
                if len(tile) >= places
            ]
            if ranked:
                tile, _ = unused.pop(min(ranked)[-1])
                jobs.append((node, *tile[:places]))
    return jobs


# -- Findings --------------------------------------------------------------------------------------


def _findings(
    suspects: Sequence[_Suspect], test: _Test, switches: Mapping[str, str], tested: Iterable[str]
) -> tuple[TileFinding, ...]:
    """The answers so far: nodes that are slow together, slow nodes, then what is not decided."""
    of_switch: dict[str, set[str]] = defaultdict(set)
    for node in tested:
        of_switch[switches.get(node, "")].add(node)
    slow = {node for suspect in suspects for node in suspect.slow}
    not_fast = {node for suspect in suspects for node in suspect.nodes if node not in suspect.cleared}
    whole = {
        name: nodes
        for name, nodes in of_switch.items()
        if name and nodes <= not_fast and len(nodes & slow) >= max(2, len(nodes) / 2)
    }
    of_whole = {node for nodes in whole.values() for node in nodes}
    # By switch, or by nodes if these are of several: nodes that are slow together, and their jobs.
    together: dict[str | tuple[str, ...], tuple[list[str], list[float]]] = defaultdict(lambda: ([], []))
    alone: list[TileFinding] = []
    undecided: list[TileFinding] = []
    for suspect in suspects:
        own = {switches.get(node, "") for node in suspect.nodes}
        group = min(own) if len(own) == 1 and own != {""} else suspect.nodes
        if suspect.is_between and not suspect.slow:
            nodes, logs = together[group]
            nodes += suspect.nodes
            logs += suspect.repeats
        for node in suspect.slow:
            if switches.get(node) in whole or suspect.is_between:
                in_whole = switches.get(node) in whole
                nodes, logs = together[switches[node] if in_whole else group]
                nodes += whole[switches[node]] if in_whole else [node]
                logs += suspect.jobs_of(node)
            else:
                alone.append(test.finding("slow", [node], suspect.jobs_of(node)))
        if not suspect.is_between:
            undecided += [one for one in _not_decided(suspect, test) if not of_whole.issuperset(one.nodes)]
    kind: Literal["slow", "between"] = "slow" if all(len(one.nodes) == 1 for one in suspects) else "between"
    groups = [
        test.finding(kind, nodes, logs, switch=group if isinstance(group, str) else "")
        for group, (nodes, logs) in together.items()
    ]
    return (*groups, *sorted(alone, key=lambda one: (one.change, one.nodes)), *undecided)


def _not_decided(suspect: _Suspect, test: _Test) -> list[TileFinding]:
    """The nodes still open of a suspect: single ones, or some or all of its tile together."""
    nodes = suspect.to_cross or (suspect.nodes if suspect.to_repeat else ())
    more = [test.more_jobs(suspect.jobs_of(node), suspect.in_sweep) for node in nodes]
    if suspect.slow or len(nodes) == 1:
        return [
            test.finding("not decided", [node], suspect.jobs_of(node), in_sweep=suspect.in_sweep, more_jobs=jobs)
            for node, jobs in zip(nodes, more, strict=True)
        ]
    if not nodes:
        return []
    if not suspect.crosses:
        # Of nodes that ran only together, one job each shows the likeliest.
        more = [len(nodes) - 1, more[0]]
    elif not suspect.to_cross:
        more = [test.more_jobs(suspect.repeats, suspect.in_sweep)]
    counts = [jobs for jobs in more if jobs is not None]
    sum_of_jobs = sum(counts) if len(counts) == len(more) else None
    return [test.finding("not decided", nodes, suspect.repeats, in_sweep=suspect.in_sweep, more_jobs=sum_of_jobs)]
