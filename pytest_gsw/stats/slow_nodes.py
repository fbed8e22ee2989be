"""Slow nodes, found from the step time and the nodes of each job.

A job of synchronous training is as slow as its slowest node: one fast job clears all of its nodes. A row may have
become slower itself, or the whole cluster, or what is connected to one switch; these are suspects like a node of all
of their jobs. If they explain as much, no node is named. The likeliest suspect explains its jobs, and the search
continues with the rest. A switch may also be congested in a few runs: its jobs of such a run are no evidence on nodes.

All values are natural logarithms of times: a difference of 0.1 is 10 %.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import math
import operator
import statistics
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pytest_gsw.common.groups import grouped
from pytest_gsw.stats.cluster_effect import effects_of
from pytest_gsw.stats.noise import PRIOR, PRIOR_JOBS, pooled

#: The loss that suspects are tested for: a node that costs less fails no row by itself.
LOSS = 0.06
#: A node with a smaller loss is not named.
LEAST_LOSS = 0.02
#: Largest group of indistinguishable nodes that is named.
MOST_TOGETHER = 16
#: Number of newest runs that clear nodes: older ones do not describe today.
NEWEST_RUNS = 30
#: Share of runs that may name a healthy node. A sum of log likelihood ratios that begins on any run is above ln(1/p)
#: with a probability of p at most (J. Ville, Étude critique de la notion de collectif, 1939, p. 100).
_FALSE = 0.0005
#: A suspect is distinguished from another if it is a hundred times as likely.
_DISTINCT = math.log(100)
#: Evidence that clears a node, or fixes a slow one: it is so many times likelier to be healthy. Evidence against it: so
#: many times less likely, jobs before which cannot clear a node that has become slow since.
_CLEAR, _SUSPECT = math.log(1000), math.log(10)
#: Fewest jobs that define a level.
_FEWEST = 4
#: Standard deviations by which the lower quartile and the lowest tenth of normal values lie below their mean.
_QUARTILE, _DECILE = 0.6745, 1.2816
#: Weight of the spread of all rows, in jobs, next to a row's own.
_POOLED_JOBS = 10
#: Upper limit on a whole run's evidence, in multiples of one job's.
_OF_RUN = 1.5
#: Least noise: a node that is slower by a thousandth is no slow node.
_LEAST_SIGMA = 0.01
#: Standard deviations beyond which a job is odd.
_ODD = 2.5
#: Runs from the first evidence against a node or switch to the last: neighbours may share what slowed them down.
_FEWEST_RUNS = 2
#: Share of its runs in which a switch is congested that is tested for.
_CONGESTED = 0.1
#: Upper limit on fits of one history.
_MOST_FITS = 24


class JobTime(NamedTuple):
    """One measured job; a history has so many that each is a tuple."""

    #: Number of the run, in order; one run of all rows is a run.
    run: int
    row: int
    #: Logarithm of its step time.
    log_s: float
    #: Its nodes: bit i is the i-th node.
    nodes: int


@dataclass(frozen=True)
class SlowNodeGroup:
    """A slow node, or several of which one is slow; or a switch with all of its nodes."""

    nodes: tuple[int, ...]
    #: Logarithm of the factor by which its jobs take longer.
    excess: float
    #: The run of its first job with evidence against it after the last that clears it, and the last run with such
    #: evidence.
    since: int
    last: int
    #: True if it has been fast again.
    recovered: bool
    #: Indices of its jobs from then on that are slow, and of those that are not.
    slow_jobs: tuple[int, ...]
    fast_jobs: tuple[int, ...]
    #: Number of the switch.
    switch: int | None = None


@dataclass(frozen=True)
class SearchResult:
    """Slow and healthy nodes in a history."""

    #: Nodes that were slow at some time, the likeliest first; then switches.
    slow_groups: tuple[SlowNodeGroup, ...] = ()
    #: Of the nodes of the newest runs, as bits: those that are known good, and those without enough data.
    cleared: int = 0
    undecided: int = 0


@dataclass(frozen=True)
class _Peak:
    """The largest sum of evidence against a suspect, its run, and the run at which the sum began."""

    top: float
    run: int
    since: int


#: A finding: suspects that are not distinguished, its first and last run, whether it has been fast again, and the runs
#: in which a switch was slow.
_Named = tuple[Sequence[int], int, int, bool, Collection[int]]


def find(jobs: Sequence[JobTime], switches: Sequence[int] = ()) -> SearchResult:
    """Find slow nodes, and slow switches.

    Args:
        jobs: In the order of their runs.
        switches: The nodes of each switch, where they are known: bit i is the i-th node.
    """
    if not jobs:
        return SearchResult()
    search = _Search(jobs, switches)
    slow_groups = tuple(search.find_slow())
    still = (group for group in slow_groups if not group.recovered and group.switch is None)
    slow = sum(1 << node for node in {node for group in still for node in group.nodes})
    there, cleared = search.find_known_good()
    return SearchResult(slow_groups, cleared & ~slow, there & ~cleared & ~slow)


class _Search:
    """Search of one history: each suspect found explains its jobs, and the rest is searched again."""

    def __init__(self, jobs: Sequence[JobTime], switches: Sequence[int] = ()) -> None:
        self.jobs, self.switches = jobs, switches
        self.logs = [job.log_s for job in jobs]
        self.runs = [job.run for job in jobs]
        self.nodes = max(job.nodes.bit_length() for job in jobs)
        #: Index of the first row, and of the whole cluster behind the rows; nodes and switches are before them.
        self.rows = self.nodes + len(switches)
        self.cluster = self.rows + max(job.row for job in jobs) + 1
        # Numbers are the same objects in all jobs: a history has millions.
        numbers = list(range(self.cluster + 1))
        #: Nodes that run in the same jobs, by the first of them, which stands for all in the search; those of switches.
        self.alike = _alike({job.nodes for job in jobs})
        alone = functools.reduce(operator.or_, (1 << node for node in self.alike), 0)
        places = {mask: [numbers[node] for node in bits(mask & alone)] for mask in {job.nodes for job in jobs}}
        above = {mask: [numbers[self.nodes + i] for i, nodes in enumerate(switches) if mask & nodes] for mask in places}
        #: The switches of each job.
        self.above = [above[job.nodes] for job in jobs]
        self.alike |= {self.nodes + number: tuple(bits(nodes)) for number, nodes in enumerate(switches)}
        #: The suspects of each job: its nodes and switches, then its row, then the cluster.
        self.suspects = [
            (*places[job.nodes], *above[job.nodes], numbers[self.rows + job.row], numbers[-1]) for job in jobs
        ]
        #: The level of each job, shared by the jobs of its row in the same period.
        self.levels: list[tuple[int, ...]] = [(job.row,) for job in jobs]
        self.explained: set[int] = set()
        #: Evidence against switches that explain their jobs, by run.
        self.slow_runs: dict[int, dict[int, float]] = defaultdict(dict)
        self.of_run: dict[int, list[int]] = defaultdict(list)
        self.jobs_of: dict[int, list[int]] = defaultdict(list)
        for index, (run, suspects) in enumerate(zip(self.runs, self.suspects, strict=True)):
            self.of_run[run].append(index)
            for suspect in suspects:
                self.jobs_of[suspect].append(index)
        self._numbers = itertools.count()
        seen = functools.reduce(operator.or_, (job.nodes for job in jobs)).bit_count()
        self.enough = math.log(max(1, seen) / _FALSE)

    def find_slow(self) -> Iterator[SlowNodeGroup]:
        """The slow nodes, then the slow switches, after all suspects are found."""
        named: list[_Named] = []
        for _ in range(_MOST_FITS):
            self._fit_levels()
            if not self._find_suspects(named):
                break
        for group in (*named, *self._slow_switches()):
            slow_group = self._make_group(*group)
            if slow_group.excess >= LEAST_LOSS:
                yield slow_group

    def _find_suspects(self, named: list[_Named]) -> bool:
        """Find the suspects that this fit shows, the likeliest first; the jobs of each are no evidence on the others.

        Returns:
            True if any was found: the levels are to be fitted again.
        """
        is_new = False
        tops = {suspect: top for suspect, top in self._tops(self.most).items() if top > self.enough / 2}
        #: Switches that are no suspects.
        self.sound = {switch for switch in range(self.nodes, self.rows) if switch not in tops}
        waiting = [(-top, suspect) for suspect, top in tops.items()]
        heapq.heapify(waiting)
        while waiting:
            top, suspect = heapq.heappop(waiting)
            peak = self._peak(suspect, self.most)
            if peak.top < -top:  # another suspect has explained some of its jobs
                if peak.top > self.enough / 2:
                    heapq.heappush(waiting, (-peak.top, suspect))
                continue
            # The jobs of one suspect do not show how often jobs are odd otherwise: those since its beginning count
            # for half of the limit alone.
            limit = self._limit(self._jobs_in(suspect, peak.since))
            peaks = {rival: self._peak(rival, limit) for rival in self._in_most_slow_jobs(suspect, peak)}
            best = max(peaks, key=lambda node: peaks[node].top)
            peak = peaks[best]
            if peak.top <= self.enough:
                continue
            sums = {rival: self._peak(rival, limit, peak.run) for rival in self._in_most_slow_jobs(best, peak)}
            rivals = sorted(rival for rival, sum_ in sums.items() if sum_.top > peak.top - _DISTINCT)
            others = [rival for rival in rivals if rival >= self.rows]
            best = max(others or [one for one in rivals if one >= self.nodes] or rivals, key=lambda one: sums[one].top)
            since = sums[best].since
            if best < self.nodes and peak.run - since < _FEWEST_RUNS:
                continue
            fixed = self._is_fixed(best, since, peak.run, limit)
            last = peak.run if fixed else math.inf
            culprits = [best] if best >= self.nodes else rivals
            jobs = {index for culprit in culprits for index in self._jobs_in(culprit, since, last)}
            for index in jobs:
                self.highest[self.runs[index]] -= max(-2 * self.most, self.ratios[index])
            self._leave_out(jobs)
            is_new = True
            if others:  # it is not the nodes: these jobs have a level of their own
                levels = {self.levels[index] for index in jobs}
                if levels.isdisjoint(self.levels[index] for index in self.jobs_of[best] if index not in jobs):
                    self.explained.update(jobs)  # they have it already, and are odd still: they are no evidence
                number = next(self._numbers)
                for index in jobs:
                    self.levels[index] = (*self.levels[index], number)
                continue
            self.explained.update(jobs)
            if best >= self.nodes:
                self.slow_runs[best] |= dict.fromkeys((self.runs[index] for index in jobs), peak.top)
            elif sum(len(self.alike[rival]) for rival in rivals) <= MOST_TOGETHER:
                named.append((rivals, since, peak.run, fixed, ()))
        return is_new

    def _fit_levels(self) -> None:
        """Compute each job's excess over its level and run, the spread of the excesses, and the evidence from both."""
        of_level: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for index, level in enumerate(self.levels):
            if index not in self.explained:
                of_level[level].append(index)
        by_level = {level: indices for level, indices in of_level.items() if len(indices) >= _FEWEST}
        pick = {level: operator.itemgetter(*indices) for level, indices in by_level.items()}
        jobs, logs = self.jobs, self.logs
        of_row = {level: sorted(pick[level](logs)) for level in by_level}
        usual = statistics.median(map(_low_spread, of_row.values())) if of_row else PRIOR.sigma
        first: dict[int, dict[int, float]] = defaultdict(dict)
        for level, indices in by_level.items():
            centre = _centre(of_row[level], usual)
            for index in indices:
                first[jobs[index].run].setdefault(level[0], logs[index] - centre)
        effects = effects_of(first, lambda values: _centre(sorted(values), usual))
        left = [log_s - effects.get(job.run, 0.0) for job, log_s in zip(jobs, logs, strict=True)]
        ordered = {level: sorted(pick[level](left)) for level in by_level}
        centres = {level: _centre(values, usual) for level, values in ordered.items()}
        self.excess = [
            one - centres[level] if level in centres else None for one, level in zip(left, self.levels, strict=True)
        ]
        spreads = {
            level: statistics.median([abs(value - centres[level]) for value in values]) / _QUARTILE
            for level, values in ordered.items()
        }
        all_rows = pooled(statistics.median(spreads.values() or [0.0]), len(by_level), PRIOR.sigma, PRIOR_JOBS)
        self.sigmas = {
            level: max(_LEAST_SIGMA, pooled(spreads[level], len(indices), all_rows, _POOLED_JOBS))
            for level, indices in by_level.items()
        }
        #: The jobs with a level and no explanation, and the odd ones.
        self.known, self.odd = set[int](), set[int]()
        #: Log likelihood ratio of a slow node by job, 0 of others.
        self.ratios = [0.0] * len(jobs)
        for level, indices in by_level.items():
            sigma = self.sigmas[level]
            odd = max(LOSS / 2, _ODD * sigma)
            values = [value - centres[level] for value in pick[level](left)]
            self.known.update(indices)
            for index, value in zip(indices, values, strict=True):
                self.ratios[index] = _ratio(LOSS, value, sigma)
            self.odd.update(index for index, value in zip(indices, values, strict=True) if value > odd)
        self.most = self._limit()
        #: Evidence of congestion by switch and run; the jobs of such a run are none against nodes.
        self.congested: dict[int, dict[int, float]] = defaultdict(dict)
        if self.switches:
            self._find_congestion()
        #: Upper limit on the evidence of each run against the cluster, while one job's limit is no lower than `most`.
        self.highest = {run: sum(max(-2 * self.most, self.ratios[i]) for i in of) for run, of in self.of_run.items()}

    def _find_congestion(self) -> None:
        """Find the runs in which a switch explains its slow jobs better than any one node; most others are not slow."""
        for run, indices in self.of_run.items():
            slow = [index for index in indices if self.ratios[index] > 0]
            if 2 * len(slow) > len(indices):
                continue
            # A fast job on one node does not use its switch.
            counted = [one for one in indices if self.ratios[one] > 0 or self.jobs[one].nodes.bit_count() > 1]
            counts = Counter(itertools.chain.from_iterable(self.above[index] for index in slow))
            for switch in (number for number, count in counts.items() if count > 1):
                below = self.switches[switch - self.nodes]
                theirs = [index for index in counted if self.jobs[index].nodes & below]
                total = sum(_limited(self.ratios[index], self.most) for index in theirs)
                if total > _SUSPECT and total - self._most_of_one_node(theirs) > _SUSPECT:
                    self.congested[switch][run] = total
        for switch, runs in self.congested.items():
            near = {run + days for run in runs for days in (-1, 0, 1)}
            self._leave_out({index for index in self.jobs_of[switch] if self.runs[index] in near})

    def _most_of_one_node(self, jobs: Iterable[int]) -> float:
        """The largest evidence of slow jobs against one node."""
        sums: dict[int, float] = defaultdict(float)
        for index in jobs:
            for node in self.suspects[index] if self.ratios[index] > 0 else ():
                sums[node] += min(self.most, self.ratios[index])
        return max(value for node, value in sums.items() if node < self.nodes)

    def _leave_out(self, jobs: Collection[int]) -> None:
        """Take jobs out of the evidence."""
        for index in jobs:
            self.ratios[index] = 0.0
        self.known.difference_update(jobs)
        self.odd.difference_update(jobs)

    def _slow_switches(self) -> Iterator[_Named]:
        """The switches that are slow in more runs than by chance."""
        for switch in range(self.nodes, self.rows):
            evidence = {**self.congested[switch], **self.slow_runs[switch]}
            runs = sorted({self.runs[index] for index in self.jobs_of[switch]})
            ratios = (math.log1p(_CONGESTED * math.expm1(evidence.get(run, -math.inf))) for run in runs)
            peak = _largest_sum(zip(runs, ratios, strict=True))
            slow = [run for run in evidence if run >= peak.since]
            if peak.top > math.log(len(self.switches) / _FALSE) and max(slow) - peak.since >= _FEWEST_RUNS:
                fast = sum(run > max(slow) for run in runs)
                share = len(slow) / (sum(run >= peak.since for run in runs) - fast + 1)
                is_fixed = fast * math.log1p(-share) < -_CLEAR
                yield [switch], peak.since, max(slow), is_fixed, frozenset(slow)

    def _jobs_in(self, suspect: int, since: int, last: float = math.inf) -> list[int]:
        """The jobs of a suspect in the runs of a period."""
        return [index for index in self.jobs_of[suspect] if since <= self.runs[index] <= last]

    def _limit(self, but: Collection[int] = ()) -> float:
        """Upper limit on one job's log likelihood ratio: the rarer odd jobs are, the more evidence one may be.

        ``but`` are jobs that are left out of the share of odd ones in one half of the limit.
        """
        odd, known = self.odd, self.known
        others = len(known) - len(known.intersection(but))
        shares = ((len(odd) + 1) / (len(known) + 1), (len(odd.difference(but)) + 1) / (others + 1))
        return -sum(map(math.log, shares)) / 2

    def _tops(self, most: float) -> Mapping[int, float]:
        """The largest sum of evidence against each suspect, see :meth:`_peak`."""
        ratios, suspects, least, most_of_run = self.ratios, self.suspects, -2 * most, _OF_RUN * most
        totals, tops = defaultdict[int, float](float), defaultdict[int, float](float)
        for indices in self.of_run.values():
            evidence = defaultdict[int, float](float)
            for index in indices:
                if ratio := ratios[index]:
                    limited = ratio if least < ratio < most else most if ratio > 0 else least
                    for suspect in suspects[index]:
                        evidence[suspect] += limited
            for suspect, of_run in evidence.items():
                if of_run > 0 or totals[suspect]:
                    total = totals[suspect] = max(0.0, totals[suspect] + max(least, min(most_of_run, of_run)))
                    tops[suspect] = max(tops[suspect], total)
        return tops

    def _peak(self, suspect: int, most: float, last: float | None = None) -> _Peak:
        """The largest sum of evidence against a suspect, or that at a run.

        No sum falls below 0 (E. S. Page, Biometrika 41, p. 100). A run's jobs are together little more evidence than
        one job, since they share its hours.
        """
        ratios, runs, least, most_of_run = self.ratios, self.runs, -2 * most, _OF_RUN * most
        total, since, peak = 0.0, 0, _Peak(0.0, 0, 0)
        all_jobs, jobs = self.of_run.items(), self.jobs_of[suspect]
        for run, indices in all_jobs if suspect == self.cluster else itertools.groupby(jobs, runs.__getitem__):
            if last is not None and run > last:
                break
            # Most runs are so far below the least evidence that theirs need not be added up; twice it is no rounding.
            is_least = suspect == self.cluster and most >= self.most and self.highest[run] < 2 * least
            evidence = least if is_least else 0.0
            for index in () if is_least else indices:
                ratio = ratios[index]
                evidence += ratio if least < ratio < most else most if ratio > 0 else least
            if total <= 0.0:
                since = run
            total = max(0.0, total + max(least, min(most_of_run, evidence)))
            if total > peak.top:
                peak = _Peak(total, run, since)
        return peak if last is None else _Peak(total, run, since)

    def _in_most_slow_jobs(self, suspect: int, peak: _Peak) -> list[int]:
        """The suspects that most of the slow jobs of a suspect have in common."""
        slow = [index for index in self._jobs_in(suspect, peak.since, peak.run) if self.ratios[index] > 0]
        counts = Counter(itertools.chain.from_iterable(self.suspects[index] for index in slow))
        return [other for other, count in counts.items() if 2 * count > len(slow) and other not in self.sound]

    def _is_fixed(self, suspect: int, since: int, last: int, most: float) -> bool:
        """True if its jobs since the last evidence against it show that its loss until then is gone."""
        excess = {index: self.excess[index] or 0.0 for index in self._jobs_in(suspect, since)}
        loss = max(LEAST_LOSS, statistics.median(excess[index] for index in excess if self.runs[index] <= last))
        later = [index for index in excess if self.runs[index] > last and index in self.known]
        ratios = ((index, _ratio(loss, excess[index], self.sigmas[self.levels[index]])) for index in later)
        return _largest_sum((index, -_limited(ratio, most)) for index, ratio in ratios).top >= _CLEAR

    def _make_group(
        self, suspects: Sequence[int], since: int, last: int, recovered: bool, runs: Collection[int]
    ) -> SlowNodeGroup:
        jobs = self._jobs_in(suspects[0], since, last if recovered else math.inf)
        jobs = [index for index in jobs if all(other in self.suspects[index] for other in suspects[1:])]
        theirs = {index: value for index in jobs if (value := self.excess[index]) is not None}
        slow = [value for index, value in theirs.items() if not runs or self.runs[index] in runs]
        excess = statistics.median(slow or [0.0])
        slow_jobs = tuple(index for index, value in theirs.items() if value > excess / 2)
        fast_jobs = tuple(index for index, value in theirs.items() if value <= excess / 2)
        nodes = tuple(sorted(node for group_node in suspects for node in self.alike[group_node]))
        switch = suspects[0] - self.nodes if runs else None
        return SlowNodeGroup(nodes, excess, since, last, recovered, slow_jobs, fast_jobs, switch)

    def find_known_good(self) -> tuple[int, int]:
        """The nodes of the newest runs, and the known good ones of them; valid after all slow nodes are found."""
        runs = [run for run in self.of_run if run > self.jobs[-1].run - NEWEST_RUNS]
        newest = [index for run in runs for index in self.of_run[run]]
        there = functools.reduce(operator.or_, (self.jobs[index].nodes for index in newest))
        # A level that mostly comes from one node is no evidence on that node.
        of_row = grouped((self.jobs[index].row, self.suspects[index][:-2]) for index in newest)
        ran = {row: Counter(itertools.chain.from_iterable(jobs)) for row, jobs in of_row.items()}
        own = {row: {node for node, count in ran[row].items() if 2 * count > len(jobs)} for row, jobs in of_row.items()}
        sums: dict[int, float] = defaultdict(float)
        cleared, decided = 0, set[int]()
        for run in reversed(runs):
            for index in self.of_run[run]:
                if ratio := self.ratios[index]:
                    others = own[self.jobs[index].row]
                    for node in self.suspects[index][:-2]:
                        if node not in decided and node not in others:
                            sums[node] += _limited(ratio, self.most)
            for node, total in sums.items():
                if not -_CLEAR < total < _SUSPECT and node not in decided:
                    decided.add(node)
                    if total < 0 and node < self.nodes:
                        cleared |= sum(1 << twin for twin in self.alike[node])
        return there, cleared


def _largest_sum(evidence: Iterable[tuple[int, float]]) -> _Peak:
    """The largest sum of evidence by run, see :meth:`_Search._peak`, whose own loop is faster."""
    total, since, peak = 0.0, 0, _Peak(0.0, 0, 0)
    for run, value in evidence:
        since = run if total <= 0.0 else since
        total = max(0.0, total + value)
        peak = _Peak(total, run, since) if total > peak.top else peak
    return peak


def _alike(masks: Collection[int]) -> dict[int, tuple[int, ...]]:
    """The nodes that are in the same sets, by the first of them."""
    sets = grouped((node, number) for number, mask in enumerate(masks) for node in bits(mask))
    alike = grouped((tuple(sets[node]), node) for node in sorted(sets))
    return {nodes[0]: tuple(nodes) for nodes in alike.values()}


def _quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[round((len(ordered) - 1) * share)]


def _centre(ordered: Sequence[float], sigma: float) -> float:
    """The centre of values that no node slows down, from the lower quartile, which slow ones hardly move."""
    return _quantile(ordered, 0.25) + _QUARTILE * sigma


def _low_spread(ordered: Sequence[float]) -> float:
    """The spread of the faster values."""
    return (_quantile(ordered, 0.25) - _quantile(ordered, 0.1)) / (_DECILE - _QUARTILE)


def _limited(ratio: float, most: float) -> float:
    """One job's evidence: no more than the limit, and twice that in favour of a node."""
    return max(-2 * most, min(most, ratio))


def _ratio(loss: float, value: float, sigma: float) -> float:
    return loss * (value - loss / 2) / sigma**2


def bits(mask: int) -> Iterator[int]:
    """The positions of a number's set bits."""
    text = bin(mask)[:1:-1]
    at = text.find("1")
    while at >= 0:
        yield at
        at = text.find("1", at + 1)


# -- Nodes on which jobs fail more often than on others --------------------------------------------
# A row may fail by itself, and in one run everything may: a job's chance is that of its row or of its run, whichever is
# higher. A node is named if so many failures of its jobs have a probability below one in twenty for a whole cluster,
# the least likely first. Its jobs are no evidence on other nodes then.


#: Probability that a healthy cluster has a named node (C. E. Bonferroni: a share of it for each node).
_FALSELY = 0.05
#: Fewest failures of a named node.
_FEWEST_FAILED = 2
#: Terms below this share do not change a sum.
_NEGLIGIBLE = 1e-17


@dataclass(frozen=True)
class JobEnd:
    """One job, measured or failed."""

    run: str
    row: str
    #: Its nodes: bit i is the i-th node.
    nodes: int
    failed: bool


@dataclass(frozen=True)
class Failures:
    """Failed jobs of a node, or of several nodes of which one fails them."""

    nodes: tuple[int, ...]
    failed: int
    of: int
    #: Expected share of failures: that of the same rows, in the same runs, on all nodes.
    usual: float
    #: True if the failures are beyond chance.
    named: bool


def failures(jobs: Sequence[JobEnd]) -> tuple[Failures, ...]:
    """The failures of each node of which a job failed; named ones come first."""
    if not any(job.failed for job in jobs):
        return ()
    enough = math.log(_FALSELY / functools.reduce(operator.or_, (job.nodes for job in jobs)).bit_count())
    named: list[Failures] = []
    left = list(jobs)
    of_all = counts = _counts(left)
    while True:
        often = {node: each for node, each in counts.items() if each.failed >= max(_FEWEST_FAILED, each.expected)}
        tails = {node: log_tail(each.failed, each.of, each.usual) for node, each in often.items()}
        odd = {node: tail for node, tail in tails.items() if tail < enough}
        if not odd:
            break
        first = min(odd, key=lambda node: (odd[node], node))
        group = _indistinguishable(first, tails, [job.nodes for job in left if job.failed])
        named.append(_make_failures(group, counts[first]))
        mask = functools.reduce(operator.or_, (1 << node for node in group))
        left = [job for job in left if not job.nodes & mask]
        counts = _counts(left)
    named_nodes = {each_node for each in named for each_node in each.nodes}
    others = [_make_failures((node,), each, named=False) for node, each in of_all.items() if node not in named_nodes]
    return (*named, *sorted(others, key=lambda node: (-node.failed / node.of, -node.failed, node.nodes)))


@dataclass
class _Count:
    failed: int = 0
    of: int = 0
    expected: float = 0.0

    @property
    def usual(self) -> float:
        return min(1.0, self.expected / self.of)


def _counts(jobs: Sequence[JobEnd]) -> Mapping[int, _Count]:
    """Counts of each node of which a job failed."""
    of_row, of_run = grouped([(job.row, job.failed) for job in jobs]), grouped([(job.run, job.failed) for job in jobs])
    of_rows = {row: sum(failed) / len(failed) for row, failed in of_row.items()}
    of_runs = {run: (sum(failed) - 1) / len(failed) for run, failed in of_run.items()}  # one failure makes no bad run
    failing = functools.reduce(operator.or_, (job.nodes for job in jobs if job.failed), 0)
    counts: dict[int, _Count] = defaultdict(_Count)
    for job in jobs:
        usual = max(of_rows[job.row], of_runs[job.run])
        for node in bits(job.nodes & failing):
            count = counts[node]
            count.failed += job.failed
            count.of += 1
            count.expected += usual
    return counts


def _indistinguishable(first: int, tails: Mapping[int, float], failed: Collection[int]) -> tuple[int, ...]:
    """The nodes that failures do not distinguish from the likeliest: about as unlikely, and mostly in the same jobs."""
    theirs = [nodes for nodes in failed if nodes >> first & 1]
    return tuple(
        sorted(
            node
            for node, tail in tails.items()
            if tail < tails[first] + _DISTINCT and 2 * sum(nodes >> node & 1 for nodes in theirs) > len(theirs)
        )
    )


def _make_failures(nodes: tuple[int, ...], count: _Count, named: bool = True) -> Failures:
    return Failures(nodes, count.failed, count.of, count.usual, named)


def log_tail(count: int, of: int, share: float) -> float:
    """The logarithm of the probability of ``count`` or more events, each with probability ``share``.

    Args:
        count: Number of events.
        of: Number of trials.
        share: Probability of one event, from 0 to 1.
    """
    if count <= 0 or share >= 1:
        return 0.0
    if share <= 0:
        return -math.inf
    if count > of * share:
        return min(0.0, _log_sum(count, of, share))
    # The complement is the shorter tail.
    return math.log1p(-min(1.0, math.exp(_log_sum(of - count + 1, of, 1 - share))))


def _log_sum(count: int, of: int, share: float) -> float:
    """The logarithm of the sum of a binomial's terms from one on behind which they fall."""
    first = math.lgamma(of + 1) - math.lgamma(count + 1) - math.lgamma(of - count + 1)
    first += count * math.log(share) + (of - count) * math.log1p(-share)
    term, total = 1.0, 1.0
    for k in range(count, of):
        term *= (of - k) / (k + 1) * share / (1 - share)
        total += term
        if term < _NEGLIGIBLE * total:
            break
    return first + math.log(total)
