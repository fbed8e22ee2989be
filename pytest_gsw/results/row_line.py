"""A row on one line: its id, its outcome, and what there is to know of it, the most important first.

Changes are of throughput, and ``+`` is better. What has no room is left out from the end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pytest_gsw.common.words import percent, share
from pytest_gsw.jobs.model import BOOST_NOT_SET
from pytest_gsw.performance.verdict import Reason, Verdict
from pytest_gsw.results import outcomes, row_text
from pytest_gsw.results.outcomes import Outcome
from pytest_gsw.results.record import Record
from pytest_gsw.results.row_text import of_peak
from pytest_gsw.tables import metrics
from pytest_gsw.tables.model import TOLERANCE

#: No line is longer, however wide the screen is: build logs are read in narrow windows, too.
WIDEST = 100
#: The outcomes' words stand below each other, but for the longest.
_WORD = 9
#: So many columns are made for ids; a longer one moves its own line.
MOST_FOR_IDS = 34
#: A longer id is cut in its middle: what tells rows from each other stands at the ends.
_LONGEST_ID = 60
#: So many columns of a line are for outcome, change or cause, as long as so many are left for the id.
_BESIDE_ID, _SHORTEST_ID = 41, 26
#: Less than this of a text says nothing.
_LEAST = 12

_JOB = re.compile(
    r"^job (?P<job>\S+) (?:(?:failed|ended)(?: with (?P<code>exit code \d+)| by (?P<signal>signal \d+))?: )"
)
_ENDED = re.compile(r"^job \S+ ")
#: Words of lines that tell why something ended.
_TELLING = re.compile(
    r"error|exception|fatal|fail|abort|kill|cannot|can't|not found|no such|denied|invalid|unable|timed? ?out"
    r"|terminated|refused|assert|segmentation|panic|\bfault",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class RowLine:
    """What is said of a row on one line."""

    row: str
    #: The outcome in capitals.
    word: str
    #: The most important first; the first is cut where it has no room, the others are left out.
    parts: tuple[str, ...] = ()

    def texts(self, width: int, ids: int = 0) -> tuple[str, str, str]:
        """Id, word and the rest, each with the blanks behind it, in so many columns together.

        ``ids`` is how many columns ids have; a longer one moves the rest.
        """
        longest = min(_LONGEST_ID, max(_SHORTEST_ID, width - _BESIDE_ID))
        name = shortened(self.row, longest).ljust(min(ids, MOST_FOR_IDS, longest))
        head = f"{name}  {self.word.ljust(_WORD)}"
        return f"{name}  ", self.word.ljust(_WORD), fitted(self.parts, width - len(head))

    def text(self, width: int, ids: int = 0) -> str:
        """The same as one text."""
        return "".join(self.texts(width, ids)).rstrip()


def line_of(record: Record, said: str = "") -> RowLine:
    """A row by its record; ``said`` is the line of a log that tells most of an error whose cause is not known."""
    outcome = outcomes.of(record.outcome)
    parts: tuple[str, ...] = figures(record)
    if outcome.pytest == "error":
        parts = (_error(record, said),)
    elif outcome.pytest == "xfailed" or not record.figures.measured:
        parts = (record.fact, _job(record))
    return RowLine(record.row.id, outcome.shown, tuple(part for part in parts if part))


def figures(record: Record) -> tuple[str, ...]:
    """What was measured of a row, and what is to be known of it."""
    metric = record.judged_metric
    measured = record.figures.measured.get(metric.key)
    mfu = record.figures.measured.get(metrics.MFU.key)
    parts = (
        change_text(record),
        *(
            f"{one.metric.label} {one.measured:.4g} {one.metric.unit} ({percent(one.change)}){_allowed(one.tolerance)}"
            for one in record.metrics
        ),
        _reason(record),
        "newer jobs passed over" if record.passed_over else "",
        "" if measured is None else f"{measured:.4g} {metric.per_unit}",
        "" if mfu is None else f"MFU {share(mfu)}{of_peak(record)}",
        BOOST_NOT_SET if BOOST_NOT_SET in record.run.environment.values() else "",
        _job(record),
        f"median of {len(record.jobs.repeats) + 1} jobs" if record.jobs.repeats else "",
        f"attempt {len(record.jobs.attempts) + 1}" if record.jobs.attempts else "",
        # No job ended here: who gave the log vouches for its end.
        "log only" if record.jobs.last and record.jobs.last.state == "REPLAYED" else "",
        "simulated" if record.run.simulated else "",
    )
    return tuple(part for part in parts if part)


def change_text(record: Record) -> str:
    """By how much a row's throughput differs from what it is held against: ``throughput -10.7 %``; empty if unknown."""
    key = record.judged_metric.key
    measured, documented = record.figures.measured.get(key), record.figures.documented.get(key)
    accepted = record.figures.accepted.get(key)
    if not measured or not (documented or accepted):
        return ""
    of_document = f"{percent(documented / measured - 1)}" if documented else ""
    if not accepted:
        return f"throughput {of_document}{_allowed(record.row.tolerance)}"
    # Both, always: a slow cluster that has accepted its slowness must not look like a fast one.
    beside = f", {of_document} to documented" if of_document else ""
    return f"throughput {percent(accepted / measured - 1)} to accepted{beside}{_allowed(record.row.tolerance)}"


def _allowed(tolerance: float) -> str:
    """The tolerance of a row, or of a metric, in parentheses; empty for the usual one."""
    return "" if tolerance == TOLERANCE else f" (allowed {tolerance * 100:g} %)"


def telling_line(lines: Iterable[str]) -> str:
    """Of the last lines of a log the last one that looks like a cause; empty where none does."""
    return next((text for line in reversed(list(lines)) if _TELLING.search(text := line.strip())), "")


def fitted(parts: Sequence[str], room: int) -> str:
    """Parts behind two blanks each, as many as have room; the first is cut where it has none, and none stands alone."""
    text = ""
    for part in parts:
        left = room - len(text) - 2
        if len(part) <= left:
            text += f"  {part}"
        elif not text and left >= _LEAST:
            return f"  {part[: left - 3].rstrip()}..."
        else:
            break
    return text


def shortened(text: str, width: int) -> str:
    """A text with its middle left out where it is too long."""
    if len(text) <= max(width, 8):
        return text
    kept = max(width, 8) - 3
    return f"{text[: kept - kept // 2]}...{text[len(text) - kept // 2 :]}"


def _reason(record: Record) -> str:
    inconclusive = record.by_own_metric == outcomes.INCONCLUSIVE.word
    return record.reason if inconclusive or record.reason == Reason.GAIN_WITHIN_NOISE.value else ""


def _error(record: Record, said: str) -> str:
    """Why a row could not be measured, and the job and the nodes that it happened to where the cause leaves room."""
    last = record.jobs.last
    named = _JOB.match(record.fact)
    if named is not None:  # the job has ended for a known cause, or with a code alone
        cause, said = record.fact[named.end() :], ""
    else:
        cause = _ENDED.sub("", record.fact)
    if said:
        return f"{cause.removeprefix('failed with ')}: {said}"
    if last is None or not last.id or last.id in cause:
        return cause
    return f"{cause}, job {last.id}{f' on {last.nodes}' if last.nodes else ''}"


def _job(record: Record) -> str:
    return f"job {record.jobs.last.id}" if record.jobs.last else ""


@dataclass(frozen=True)
class Told:
    """What is told of a row."""

    #: The outcome as which it is told: with ``gsw_strict`` a row that is too fast has failed.
    outcome: Outcome
    #: One line, and the whole text; empty where there is nothing to say.
    message: str
    text: str


def told(
    record: Record,
    facts: Callable[[], Sequence[tuple[str, str]]],
    *,
    strict: bool,
    verdict: Verdict | None = None,
    canaries: Sequence[str] = (),
) -> Told:
    """What pytest and JUnit are told of a row, by its verdict as it was judged, or else by that of its record.

    The facts say where its things are and how it is repeated; they are not asked for of most rows. If ``strict``, rows
    faster than the tolerance allows have failed. The canaries are those that were too slow, where that is known.
    """
    verdict = verdict or record.judged
    outcome = outcomes.of(record.outcome)
    if has_failed(record.outcome, record.reason, strict=strict):
        outcome = outcomes.REGRESSED if outcome.pytest != "failed" else outcome
    match outcome.pytest:
        case "passed":
            return Told(outcome, "", "")
        case "xfailed":
            return Told(outcome, record.fact, "")
        case "skipped" if outcome is outcomes.PROFILED:
            judged = "  ".join(figures(record))
            why = f"not judged, because {record.not_comparable} makes the figures not comparable: {judged}"
            return Told(outcome, why, why)
        case "skipped" if verdict is None:
            return Told(outcome, record.fact, f"inconclusive: {record.fact}")
        case "skipped" if verdict is not None:
            return Told(outcome, record.fact, row_text.inconclusive_text(record, verdict, canaries))
        case "failed" if verdict is not None:
            return Told(outcome, record.fact, row_text.failure_text(record, verdict, facts()))
        case _:
            return Told(outcome, record.fact, "\n".join([record.fact, "", *row_text.fact_lines(facts())]))


def has_failed(outcome: str, reason: str, *, strict: bool) -> bool:
    """Whether a judged row of this outcome and reason is told as failed; strictly, also one that is too fast."""
    is_too_fast = outcome == outcomes.IMPROVED.word or reason == Reason.TOO_GOOD.value
    return outcomes.of(outcome).pytest == "failed" or (strict and is_too_fast and outcome in outcomes.JUDGED)
