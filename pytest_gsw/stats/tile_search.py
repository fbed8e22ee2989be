"""Slow nodes of a sweep, which runs one row once on every tile of a cluster, and the search that follows it.

A tile is a set of nodes, and a job is as slow as its slowest node. All jobs of a sweep share the level of their hour:
tiles are compared with each other and not with a document. Times are excesses here: natural logarithms of the step time
over a level.

Of many tiles the slowest is slow by chance. So a sweep only selects: its time of a suspect is no evidence against that.
The suspects run again in rounds. Each round has a level of its own, by its controls, which are known-good tiles, and by
its other suspects as far as these are sound. A tile that is slow again is halved, and the halves run among nodes that a
second job has proven fast. Each group of nodes has a sequential test of its own (A. Wald, Annals of Mathematical
Statistics 16 (1945), p. 117): no loss of throughput, or one of :data:`LOSS` or twice that. If all groups of a switch
are slow it is the switch, as each of them would need a slow node of its own.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from pytest_gsw.common.node_lists import compressed, expand
from pytest_gsw.stats.noise import PRIOR, PRIOR_JOBS, Noise, logarithms, median_sd
from pytest_gsw.stats.sweep_finding import Kind, SweepFinding

#: The loss of throughput that a cleared node does not have, as a fraction. The test divides at half of it.
LOSS = 0.05

_LOSS = -math.log1p(-LOSS)
#: A tile is a suspect beyond this excess, and beyond standard deviations in these limits: so that about so many sound
#: tiles are suspects.
_LEAST_SUSPECT = -math.log1p(-0.02)
_SUSPECT_DEVIATIONS = (1.0, 1.65)
_SOUND_SUSPECTS = 2.0
#: Probability that a search names a sound node (C. E. Bonferroni: a share of it for each node tested).
_FALSELY = 0.002
#: Probability that a sound node is named in place of the slow one of its tile.
_CONFUSED = 0.01
#: Log likelihood ratio against a loss that clears nodes. By Wald's bound one slow node in ten is missed; as a job is
#: much evidence at once, it is one in twenty.
_CLEAR = math.log(10)
#: Log likelihood ratio of a slow group of nodes, from which its halves run.
_SLOW = 2.0
#: The share of the evidence that names a node which one job has at most: a job may be an odd one, so that takes three.
_OF_ONE_JOB = 0.45
#: Most jobs of a search among fewer tiles: enough to halve three of these down to their nodes.
_LEAST_SEARCH = 48
#: Most jobs of a group of nodes: with a loss near to half of :data:`LOSS` no number decides.
_MOST_JOBS = 16
#: Standard deviation of the change of the level from one round to the next.
_HOURS = 0.03
#: Passes in which the levels of the rounds and the soundness of their suspects follow from each other.
_PASSES = 3
#: Most tiles of a switch that run in a round: if they are all slow, it is the switch.
_TILES_OF_SWITCH = 4
#: Probability that a group of nodes has a slow node of its own.
_OWN_NODE = 0.05
#: Tiles that are slower by so many deviations count neither for the level nor for the noise, and the variance of normal
#: values without those.
_ODD_DEVIATIONS = 2.0
_KEPT_VARIANCE = 0.886
#: Standard errors that are added to the noise: one that is too small names sound nodes, one too large takes more jobs.
_ADDED_ERRORS = 0.5
#: Degrees of freedom of a noise with which twice the evidence names a node: the fewer, the likelier it is too small.
_UNSURE = 4.0
#: Least noise; the times of equal jobs are rounded.
_LEAST_SIGMA = 0.001
#: Fewest degrees of freedom of a noise, and fewest tiles of a level: of two, either may be the odd one.
_FEWEST_DEGREES = 5
_FEWEST_TILES = 3
_NORMAL = statistics.NormalDist()
_BOUND = _NORMAL.inv_cdf(0.95)

#: The order of findings by kind.
_ORDER: Sequence[str] = ("between", "slow", "intermittent", "not decided")
#: Nodes, in order.
_Group = tuple[str, ...]


@dataclass(frozen=True)
class TileJob:
    """A measured job of the sweep or of the search."""

    #: ``n017`` or ``n[001-004]``; of the search's jobs their nodes, compressed.
    tile: str
    nodes: tuple[str, ...]
    #: Its figure, see :meth:`~pytest_gsw.tables.metrics.Direction.cost`.
    cost: float
    #: 0 for the sweep, from 1 on for the search.
    round: int = 0


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
    findings: tuple[SweepFinding, ...]
    #: Nodes that lose less than :data:`LOSS`.
    cleared: tuple[str, ...]
    #: Nodes that were not slow in the sweep, of which that is not known, and the loss that not even one of them has.
    once: tuple[str, ...]
    once_loss: float
    #: Standard deviation of the logarithm of a job's step time.
    sigma: float


def most_search_jobs(tiles: int) -> int:
    """The most jobs of a search among this many tiles without a limit in GPU-hours."""
    return max(tiles, _LEAST_SEARCH)


def search(
    jobs: Sequence[TileJob],
    *,
    noise: Noise | None = None,
    switches: Mapping[str, str] | None = None,
    most_jobs: float = math.inf,
    begins: bool = True,
    rounds: int = 0,
    failed: Collection[tuple[str, ...]] = (),
) -> SearchState:
    """The findings of a sweep's and its search's jobs so far, in any order, and the next round's jobs.

    All follows from the jobs, so a session that was killed goes on. A job that was lost is left out. A job of the
    search without a node of a suspect is a control.

    Args:
        jobs: All measured jobs of the sweep and of the search.
        noise: The noise of the row's history; ``None`` without one.
        switches: The leaf switch of each node, if known.
        most_jobs: Number of jobs that the search may still submit.
        begins: False for a sweep without a search.
        rounds: Rounds submitted so far, as all jobs of the last ones may be lost.
        failed: The nodes of jobs that failed, in order; they would fail again.

    Raises:
        ValueError: A time is not finite and above zero.
    """
    sweep = sorted((job for job in jobs if job.round == 0), key=lambda job: (job.cost, job.tile))
    later = sorted((job for job in jobs if job.round > 0), key=lambda job: (job.round, job.nodes, job.cost))
    logs, later_logs = logarithms([job.cost for job in sweep]), logarithms([job.cost for job in later])
    following = max([rounds, *(job.round for job in later)]) + 1
    if not sweep:
        return SearchState((), following, {}, (), (), (), 0.0, _LEAST_SIGMA)
    level = _level(logs, noise or PRIOR)
    excesses = [log - _median_of_others(logs, at) for at, log in enumerate(logs)]
    by_chance = -_NORMAL.inv_cdf(min(_SOUND_SUSPECTS / len(sweep), 0.5))
    least = max(_LEAST_SUSPECT, sorted((by_chance, *_SUSPECT_DEVIATIONS))[1] * level.pooled_sigma)
    tiles = [tuple(sorted(job.nodes)) for job in sweep]
    # The slowest first: they come first if there are few jobs.
    slowest = [tile for tile, excess in zip(tiles, excesses, strict=True) if excess > least][::-1]
    under_test = {node for tile in slowest for node in tile}
    by_round: dict[int, list[tuple[_Group, float]]] = defaultdict(list)
    met: Counter[tuple[str, str]] = Counter()
    for job, log in zip(later, later_logs, strict=True):
        group = under_test.intersection(job.nodes)
        by_round[job.round].append((tuple(sorted(group or job.nodes)), log))
        met.update((node, partner) for node in group for partner in job.nodes)
    test = _Test(level, dict(zip(tiles, logs, strict=True)), slowest, [*by_round.values()])
    switch_of = switches or {}
    of_switch = _switches(test, switch_of)
    suspects = [_Suspect(tile, test, of_switch.get(_switch(tile, switch_of))) for tile in slowest]
    next_jobs = _next_jobs(suspects, test, met, switch_of, failed, most_jobs) if begins and level.is_known else []
    findings = _findings(suspects, of_switch, test)
    in_findings = {node for finding in findings for node in expand(finding.nodes)}
    fast_bounds = {tile: test.bound([excess, *test.jobs.get(tile, ())]) for tile, excess in test.fast.items()}
    bounds = {node: bound for tile, bound in fast_bounds.items() for node in tile}
    bounds.update(pair for suspect in suspects for pair in suspect.bounds.items())
    once = {node for node, bound in bounds.items() if not (level.is_known and bound < _LOSS)} - in_findings
    return SearchState(
        tuple(next_jobs),
        following,
        {job.tile: math.expm1(-excess) for job, excess in zip(sweep, excesses, strict=True)},
        findings,
        tuple(sorted(bounds.keys() - once - in_findings)),
        tuple(sorted(once)),
        -math.expm1(-max((bounds[node] for node in once), default=0.0)),
        test.sigma,
    )


# -- Levels and noise ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Level:
    """The level of the sweep's hour, a logarithm of a cost, and the noise of a job."""

    centre: float
    #: Number of tiles that are not far slower.
    sound: int
    pooled_sigma: float
    degrees: float

    @property
    def sigma(self) -> float:
        """The noise with its safety margin."""
        return self.pooled_sigma * (1 + _ADDED_ERRORS / math.sqrt(2 * self.degrees))

    @property
    def is_known(self) -> bool:
        """True if a node may be named, or cleared, by it."""
        return self.degrees >= _FEWEST_DEGREES and self.sound >= _FEWEST_TILES

    def with_jobs(self, squares: float, degrees: float) -> _Level:
        """The same level, with its noise by more jobs."""
        every = self.degrees + degrees
        sigma = math.sqrt((self.pooled_sigma**2 * self.degrees + squares) / every)
        return replace(self, pooled_sigma=max(sigma, _LEAST_SIGMA), degrees=every)


def _level(logs: Sequence[float], history: Noise) -> _Level:
    """The level and noise by a sweep and the history, from sorted logarithms.

    The first guess is that of the fast half, which slow tiles do not reach. Then all that are not far slower count.
    """
    weight = max(history.jobs - 1, PRIOR_JOBS)
    of_history = _Level(0.0, 0, history.sigma, weight)
    centre = statistics.median_low(logs)
    below = [log for log in logs if log < centre]
    level = replace(of_history.with_jobs(sum((log - centre) ** 2 for log in below), len(below)), centre=centre)
    for _ in range(2):
        most = level.centre + _ODD_DEVIATIONS * level.sigma
        sound = [log for log in logs if log <= most]
        centre = statistics.median(sound)
        squares = sum((log - centre) ** 2 for log in sound) / _KEPT_VARIANCE
        level = replace(of_history.with_jobs(squares, len(sound) - 1), centre=centre, sound=len(sound))
    return level


def _median_of_others(ordered: Sequence[float], at: int) -> float:
    """The median of sorted values without one; that one if there are no others."""
    others = len(ordered) - 1
    if not others:
        return ordered[at]
    low, high = (others - 1) // 2, others // 2
    return (ordered[low + (low >= at)] + ordered[high + (high >= at)]) / 2


# -- The test --------------------------------------------------------------------------------------


class _Excess(NamedTuple):
    """A job against the level of its round, or of the sweep, by other jobs."""

    value: float
    variance: float


class _Test:
    """Wald's test of groups of nodes, by their jobs of the search, for no loss against a loss."""

    def __init__(
        self,
        level: _Level,
        tiles: Mapping[_Group, float],
        suspects: Sequence[_Group],
        rounds: Sequence[Sequence[tuple[_Group, float]]],
    ) -> None:
        self.level, self.sigma = level, level.sigma
        of_sweep = self.sigma**2 * (1 + median_sd(level.sound) ** 2)
        tile_of = {node: tile for tile in suspects for node in tile}
        #: All tiles, and those that are no suspects, the fastest first.
        self.in_sweep = {tile: _Excess(log - level.centre, of_sweep) for tile, log in tiles.items()}
        self.fast = {tile: excess for tile, excess in self.in_sweep.items() if tile[0] not in tile_of}
        #: Log likelihood ratio that names a node, of so many tested.
        self.names = math.log(max(1, sum(map(len, suspects))) / _FALSELY) * (1 + _UNSURE / level.degrees)
        #: By group of suspects' nodes, or by control, its jobs.
        self.jobs: dict[_Group, list[_Excess]] = {}
        #: By suspect, the groups of its nodes.
        self.groups: dict[_Group, set[_Group]] = {tile: set() for tile in suspects}
        # A slow hour and slow suspects look alike but for the controls: these are the first guess.
        weights = {group: float(group[0] not in tile_of) for jobs in rounds for group, _ in jobs}
        for group in (group for group in weights if group[0] in tile_of):
            self.groups[tile_of[group[0]]].add(group)
        for _ in range(_PASSES):
            self._compare(rounds, weights)
            for tile, groups in self.groups.items():
                for group in groups:
                    others = [job for other in groups if {*other}.issuperset(group) for job in self.jobs[other]]
                    # The probability that it is sound, by the sweep and by the jobs with others, too.
                    weights[group] = 1 / (1 + math.exp(self.ratio([self.in_sweep[tile], *others])))

    def _compare(self, rounds: Iterable[Sequence[tuple[_Group, float]]], weights: Mapping[_Group, float]) -> None:
        """Compare the jobs with the levels of their rounds, to which they count as far as they are sound."""
        self.jobs = defaultdict(list)
        centre, weight = self.level.centre, 1 / median_sd(self.level.sound) ** 2
        squares: list[float] = []
        for jobs in rounds:
            before = 1 / (1 / weight + (_HOURS / self.sigma) ** 2)
            weight = before + sum(weights[group] for group, _ in jobs)
            centre += sum(weights[group] * (log - centre) for group, log in jobs) / weight
            for group, log in jobs:
                others = weight - weights[group]
                excess, factor = (log - centre) * weight / others, 1 + 1 / others
                self.jobs[group].append(_Excess(excess, self.sigma**2 * factor))
                if weights[group] == 1.0:
                    squares.append(excess**2 / factor)
        self.sigma = self.level.with_jobs(sum(squares), len(squares)).sigma

    def shared(self, tile: _Group) -> list[_Group]:
        """The smallest groups of a suspect that ran and have several nodes, or all of its nodes."""
        groups = [{*group} for group in self.groups[tile] if len(group) > 1 or group == tile]
        return [tuple(sorted(group)) for group in groups if not any(other < group for other in groups)]

    def ratio(self, jobs: Collection[_Excess]) -> float:
        """The log likelihood ratio of a loss; 0 without jobs."""
        most = _OF_ONE_JOB * self.names
        ratio, larger = (
            sum(max(-most, min(loss * (job.value - loss / 2) / job.variance, most)) for job in jobs)
            for loss in (_LOSS, 2 * _LOSS)
        )
        return max(ratio, larger - math.log(2))

    def own_node(self, group: _Group) -> float:
        """The probability that a group has a slow node of its own, by the jobs of its nodes alone."""
        alone = [self.ratio(self.jobs.get((node,), ())) for node in group] if len(group) > 1 else [0.0]
        return -math.expm1(-sum(math.log1p(_OWN_NODE / len(group) * math.exp(ratio)) for ratio in alone))

    def is_certain(self, tile: _Group) -> bool:
        """True if of so many sound tiles none is as slow in the sweep by chance: Student's quantile, to first order."""
        normal = -_NORMAL.inv_cdf(_FALSELY / len(self.in_sweep))
        quantile = normal * (1 + (normal**2 + 1) / (4 * self.level.degrees))
        return self.in_sweep[tile].value > quantile * math.sqrt(self.in_sweep[tile].variance)

    def bound(self, jobs: Sequence[_Excess]) -> float:
        """The upper end of the excess's 90 % interval."""
        mean, sd = _mean(jobs)
        return mean + _BOUND * sd

    def more_jobs(self, jobs: Sequence[_Excess], like: float) -> int | None:
        """The number of further jobs with this excess that decide a group; ``None`` if it is not to have so many."""
        job = _Excess(like, 2 * self.sigma**2)
        for more in range(1, _MOST_JOBS + 1 - len(jobs) if self.level.is_known else 0):
            if not -_CLEAR < self.ratio([*jobs, *[job] * more]) < self.names:
                return more
        return None

    def finding(
        self, kind: Kind, nodes: Iterable[str], jobs: Sequence[_Excess], *, switch: str = "", tile: _Group = ()
    ) -> SweepFinding:
        """A finding by jobs of the search, or by the sweep's job on a tile: if there are none, or it was slow once."""
        by_sweep = bool(tile) and (not jobs or kind == "intermittent")
        mean, sd = _mean([self.in_sweep[tile]] if by_sweep else jobs)
        half = _NORMAL.inv_cdf(1 - 0.025 / (len(self.in_sweep) if by_sweep else 1)) * sd
        change, low, high = (math.expm1(-excess) for excess in (mean, mean + half, mean - half))
        more = self.more_jobs(jobs, mean) if kind == "not decided" else None
        # Of nodes that ran only together, each round of halves shows the likelier ones.
        more = more and more + 2 * math.ceil(math.log2(len({*nodes})))
        return SweepFinding(kind, compressed(nodes), switch, change, low, high, len(jobs) or 1, more)


def _mean(jobs: Sequence[_Excess]) -> tuple[float, float]:
    """The weighted mean of jobs, and its standard deviation."""
    weight = sum(1 / job.variance for job in jobs)
    return sum(job.value / job.variance for job in jobs) / weight, 1 / math.sqrt(weight)


# -- Suspects --------------------------------------------------------------------------------------


class _Suspect:
    """A tile that was slow in the sweep, and what follows from the jobs of its groups of nodes since."""

    def __init__(self, nodes: _Group, test: _Test, switch: _Switch | None) -> None:
        self.nodes, self.switch, self._test = nodes, switch, test
        self._groups = {group: test.jobs[group] for group in sorted(test.groups[nodes])}
        alone = {node: self._ratio((node,)) for node in nodes}
        totals = {node: test.ratio(self._jobs_with(node)) for node in nodes}
        *_, second, best = -math.inf, *sorted(totals.values())
        # A slow node is slow in its tile as well. There it may be another one, so smaller groups tell them apart.
        apart = best >= test.names and best - second >= math.log(len(nodes) / _CONFUSED)
        self.slow = {
            node
            for node, ratio in alone.items()
            if ratio >= test.names or (apart and ratio >= _CLEAR and totals[node] == best)
        }
        sizes = {len(group) for group in self._groups}
        self.cleared = {
            node
            for node in {*nodes} - self.slow
            if any(test.ratio(self._jobs_with(node, size)) <= -_CLEAR for size in sizes)
        }
        together = [job for group, jobs in self._groups.items() if len(group) > 1 for job in jobs]
        ratio = test.ratio(together)
        all_cleared = len(self.cleared) == len(nodes) > 1
        #: True if the tile is slow, and either no node is slow or all are.
        self.is_between = (
            ratio >= test.names if all_cleared else bool(self.slow) and min(alone.values()) >= _SLOW and len(nodes) > 1
        )
        is_unclear = all_cleared and not (together and ratio <= 0)
        #: The groups of nodes to run next.
        self.open = [] if self.is_between else [nodes] if is_unclear else self._open(nodes)
        if switch is not None and switch.is_slow:
            self.open = [group for group in self.open if not switch.nodes.issuperset(group)]
        elif switch is not None and switch.ratio >= _CLEAR:
            self.open = self._of_switch(switch) or self.open

    @property
    def bounds(self) -> dict[str, float]:
        """The largest excess of each node that its smallest group does not exclude; none of a cleared one."""
        smallest_last = sorted(self._groups.items(), key=lambda of_group: -len(of_group[0]))
        bounds = {node: self._test.bound(jobs) for group, jobs in smallest_last for node in group}
        return bounds | dict.fromkeys(self.cleared, 0.0)

    def findings(self, covered: Collection[str]) -> Iterator[SweepFinding]:
        """The answers on nodes that no other finding covers."""
        test, rest = self._test, {*self.nodes}.difference(covered)
        jobs = [job for jobs in self._groups.values() for job in jobs]
        if self.is_between and rest:
            yield test.finding("between", rest, jobs, switch=self.switch.name if self.switch else "")
        if self.is_between or not rest:
            return
        for node in self.slow & rest:
            yield test.finding("slow", [node], self._groups.get((node,)) or self._jobs_with(node))
        for group in self.open if self.slow else [self.nodes] * bool(self.open):
            left = rest.intersection(group) - self.slow
            own = self._groups.get(group if len(self.open) > 1 else self.open[0], [])
            if left:
                yield test.finding("not decided", left - self.cleared or left, own, tile=self.nodes)
        if not self.slow and not self.open and test.is_certain(self.nodes):
            yield test.finding("intermittent", rest, jobs, tile=self.nodes)

    def _ratio(self, group: _Group) -> float:
        return self._test.ratio(self._groups.get(group, ()))

    def _jobs_with(self, node: str, most: float = math.inf) -> list[_Excess]:
        """The jobs with a node in groups of at most so many."""
        return [job for group, jobs in self._groups.items() if node in group and len(group) <= most for job in jobs]

    def _open(self, group: _Group) -> list[_Group]:
        if self.cleared.union(self.slow).issuperset(group):
            return []
        is_named = not self.slow.isdisjoint(group)
        if len(group) == 1 or (not is_named and self._ratio(group) < _SLOW):
            return [group]
        ratios = {half: self._ratio(half) for half in _halves(group) if not self.cleared.issuperset(half)}
        # The likeliest nodes explain the group. The others run on only if those do not.
        least = 0.0 if is_named else max(ratios.values()) - _CLEAR
        return [open_group for half, ratio in ratios.items() if ratio >= least for open_group in self._open(half)]

    def _of_switch(self, switch: _Switch) -> list[_Group]:
        """The groups whose jobs show if the switch is slow: halves of what a slow node of its own explains, too."""
        groups = self._test.shared(self.nodes)
        share = switch.least / switch.groups
        explained = [group for group in groups if -math.log(self._test.own_node(group)) < share]
        halves = [half for group in explained if len(group) > 1 for half in _halves(group)]
        again = [group for group in groups if group not in explained and self._ratio(group) < share]
        return [half for half in halves if not self.cleared.union(self.slow).issuperset(half)] + again


def _halves(group: _Group) -> tuple[_Group, _Group]:
    return group[: len(group) // 2], group[len(group) // 2 :]


def _next_jobs(
    suspects: Sequence[_Suspect],
    test: _Test,
    met: Mapping[tuple[str, str], int],
    switch_of: Mapping[str, str],
    failed: Collection[_Group],
    most_jobs: float,
) -> list[_Group]:
    """The nodes of the next round's jobs: groups of suspects among proven nodes, and controls."""
    groups: list[_Group] = []
    running: Counter[str] = Counter()
    may_clear = test.more_jobs([], 0.0)
    for suspect in suspects:
        name = suspect.switch.name if suspect.switch else ""
        may_end = may_clear or test.more_jobs([], test.in_sweep[suspect.nodes].value)
        # Tiles of one switch that are slow together are one suspect.
        if suspect.open and may_end and running[name] < _TILES_OF_SWITCH:
            groups += [group for group in suspect.open if len(test.jobs.get(group, ())) < _MOST_JOBS]
            running[name] += bool(name)
    if not groups:
        return []
    size = len(suspects[0].nodes)
    # The least used first, and of these neither the slowest nor the fastest, as these may always be so.
    rank = {tile: abs(at - len(test.fast) / 4) for at, tile in enumerate(test.fast)}
    runs = {tile: test.jobs.get(tile, []) for tile in test.fast if tile not in failed}
    controls = sorted(
        (tile for tile in runs if len(runs[tile]) < _MOST_JOBS), key=lambda tile: (len(runs[tile]), rank[tile])
    )
    proven = [
        node
        for tile, jobs in runs.items()
        if jobs and test.ratio([test.fast[tile], *jobs]) <= -_CLEAR / 2
        for node in tile
    ]
    used = {node for tile in controls[:1] for node in tile}
    jobs: list[_Group] = []
    is_short = size > 1 and len(proven) < 2 * size
    for group in groups:
        # Beside nodes of its own switch it shows the switch, and a node that it met before may itself be slow.
        own = switch_of.get(group[0], group[0])
        free = [node for node in proven if node not in used]
        free.sort(key=lambda node: (switch_of.get(node) == own, met[group[0], node]))
        job = tuple(sorted((*group, *free[: size - len(group)])))
        if len(job) < size:
            is_short = True
        elif job not in failed:
            jobs.append(job)
            used.update(job)
    more_controls = [tile for tile in controls[1:] if is_short and used.isdisjoint(tile)]
    chosen = [*controls[:1], *more_controls[:1]]
    jobs = jobs[: max(0, int(min(most_jobs - len(chosen), len(jobs))))]
    return [*jobs, *chosen] if jobs or (is_short and most_jobs >= len(chosen)) else []


# -- Switches and findings -------------------------------------------------------------------------


@dataclass
class _Switch:
    """A switch: its nodes, and whether all of them are slow together."""

    name: str
    #: The log likelihood ratio that names it.
    least: float
    nodes: set[str] = field(default_factory=set)
    jobs: list[_Excess] = field(default_factory=list)
    #: Number of groups that ran since the sweep.
    groups: int = 0
    #: The log likelihood ratio of all being slow together, against a slow node of each group.
    ratio: float = 0.0

    @property
    def is_slow(self) -> bool:
        """True if it is named."""
        return self.ratio >= self.least


def _switch(nodes: Iterable[str], switch_of: Mapping[str, str]) -> str:
    """The switch of all these nodes; empty if they are of several."""
    names = {switch_of.get(node, "") for node in nodes}
    return names.pop() if len(names) == 1 else ""


def _switches(test: _Test, switch_of: Mapping[str, str]) -> dict[str, _Switch]:
    """The switches by name."""
    names = {*switch_of.values()}
    switches = {name: _Switch(name, math.log(len(names) / _FALSELY)) for name in names}
    for node in (node for tile in test.in_sweep for node in tile if node in switch_of):
        switches[switch_of[node]].nodes.add(node)
    for tile, in_sweep in test.in_sweep.items() if switches else ():
        for group in [tile] if tile in test.fast else test.shared(tile):
            jobs = test.jobs.get(group, [])
            if switch := switches.get(_switch(group, switch_of)):
                own, ratio = test.own_node(group), test.ratio([in_sweep, *jobs] if tile in test.fast else jobs)
                more = ratio - math.log(own * math.exp(ratio) + 1 - own)
                # The sweep alone names nothing, but a fast tile of it speaks against the switch.
                switch.ratio += min(more, 0.0) if tile in test.fast else more
                switch.groups += tile not in test.fast
                switch.jobs += jobs
    return switches


def _findings(suspects: Sequence[_Suspect], of_switch: Mapping[str, _Switch], test: _Test) -> tuple[SweepFinding, ...]:
    """The answers so far: nodes that are slow together, slow nodes, intermittent ones, then what is not decided."""
    switches = [switch for switch in of_switch.values() if switch.is_slow]
    kind: Kind = "slow" if all(len(suspect.nodes) == 1 for suspect in suspects) else "between"
    together = [test.finding(kind, switch.nodes, switch.jobs, switch=switch.name) for switch in switches]
    covered = {node for switch in switches for node in switch.nodes}
    others = [finding for suspect in suspects for finding in suspect.findings(covered)]
    return (*together, *sorted(others, key=lambda one: (_ORDER.index(one.kind), one.change, expand(one.nodes))))
