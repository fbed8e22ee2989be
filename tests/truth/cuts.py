"""Logs that are cut, or that hold more than one run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

from pytest_gsw.demo.writers import Event, before_training, damage, identity
from pytest_gsw.logs.identity import RECIPE_MARKER
from pytest_gsw.results import outcomes
from tests.messages import wording
from tests.truth.logs import as_bytes, figure_start, restarted, steps_of
from tests.truth.model import Case
from tests.truth.trial import Trial
from tests.truth.truth import logged_steps

_TOO_FEW = "the log holds * needed"
_BEGAN_AGAIN = wording("began again", step="*")
_OF_FEWER = "*the run was to do * steps, * needed"
_ENDS_EARLY = "the log ends at step *, the run's last step is *"
_ENDS_EARLY_BY_ITSELF = "the log ends at step *, and states * as its last step"
_IN_A_LINE = "the log ends in the middle of a line"
_ENDS_UNTOLD = ("the log lacks what * prints when a run has ended", "the log announces * checkpoint saves, *")


def cut(trial: Trial) -> Iterator[Case]:
    """Logs that end too early, from an empty one to one that lacks the last digit."""
    events, none = trial.events(trial.run), trial.no_steps
    last = max(event.step for event in events)
    end = next(number for number, event in enumerate(events) if event.step == last and event.figure_end)
    yield trial.broken("no-log", "no log is left", None, "the log does not exist: *")
    yield trial.broken("empty", "the log is empty", b"", "the log is empty: *")
    yield trial.broken("no-steps", "the log ends before the first step", as_bytes(before_training(events)), none)
    few = _few(trial, events)
    if few is not None:
        steps, log = few
        what = "saves" if trial.saves else "steps"
        yield trial.broken(
            "few", f"the log ends after {steps} of {trial.baseline.criterion.min_steps} needed {what}", log, _TOO_FEW
        )
    short = as_bytes(damage(events, trial.run, "short"))
    yield trial.broken("short", "the log ends after 60 % of the steps", short, *_facts_of_short(trial))
    yield from _cut_in_a_figure(trial, events, end)
    if trial.saves or trial.baseline.workload.log_format == "paxml":
        log = as_bytes(events[:end])
        yield trial.broken("line", "the log ends with the line before the last figure", log, *_ENDS_UNTOLD, _TOO_FEW)
    elif trial.end_known or trial.end_named:
        log = as_bytes(events[: end + 1])
        at = trial.random.randrange(1, len(log))
        # Cut off within the profiling run of MaxText, its end is the one that the log names.
        facts = (none, _TOO_FEW, _OF_FEWER, _ENDS_EARLY if trial.end_known else _ENDS_EARLY_BY_ITSELF)
        yield trial.broken("cut", f"the log is cut off behind byte {at:,}", log[:at], *facts)


def _few(trial: Trial, events: Sequence[Event]) -> tuple[int, bytes] | None:
    """The log with one step less than needed; ``None`` where a log holds but one number."""
    if trial.one_number:
        return None
    # A single line of a log with every tenth iteration does not tell that it stands for ten.
    fewest = 0 if trial.saves else 1
    steps = max(fewest, (trial.baseline.criterion.min_steps - 1) // trial.run.log_interval)
    numbers = steps_of(events)
    upto = numbers[steps - 1] if steps else 1
    return steps, as_bytes(takewhile(lambda event: event.step <= upto, events))


def _facts_of_short(trial: Trial) -> tuple[str, ...]:
    """Why a part of the steps is not measured."""
    if trial.one_number:
        return (trial.no_steps,)
    return (_ENDS_EARLY_BY_ITSELF, _TOO_FEW) if trial.end_named else (_TOO_FEW,)


def _cut_in_a_figure(trial: Trial, events: Sequence[Event], end: int) -> Iterator[Case]:
    """What is left of the last figure, in the event of this number, looks like another one, which must not count."""
    if trial.one_number:
        facts: tuple[str, ...] = (trial.no_steps,)
    elif trial.end_known:
        facts = (_ENDS_EARLY, _TOO_FEW)
    elif trial.end_named and not trial.saves:
        facts = (_ENDS_EARLY_BY_ITSELF, _TOO_FEW)
    elif trial.steps_known and len(logged_steps(trial.run)) == trial.baseline.criterion.min_steps:
        facts = (_TOO_FEW,)
    else:
        facts = (_IN_A_LINE,)
    first_digit = as_bytes(events[:end]) + events[end].data[: figure_start(events[end]) + 1]
    done = "the log is cut off in the last step's figure,"
    truncated = as_bytes(damage(events, trial.run, "truncated"))
    yield trial.broken("truncated", f"{done} before its last digit", truncated, *facts)
    yield trial.broken("digit", f"{done} behind its first digit", first_digit, *facts)


def of_two_runs(trial: Trial) -> Iterator[Case]:
    """Two runs in one file, as a requeued job leaves them: the last one counts, however it ended."""
    healthy = as_bytes(trial.events(trial.run))
    slow = trial.at((1 - trial.baseline.criterion.tolerance) * trial.random.uniform(0.5, 0.9))
    # Not every log says whose it is: where it counts anew, that alone tells.
    again = tuple(restarted(event) for event in trial.events(slow) if RECIPE_MARKER not in event.data)
    yield trial.judged(
        "then-slow", "a slow run behind it", slow, outcomes.REGRESSED.word, log=healthy + as_bytes(again)
    )
    healed = tuple(restarted(event) for event in trial.events(trial.run))
    first = as_bytes(trial.events(slow))
    yield trial.judged(
        "slow-then", "a slow run before it", trial.run, outcomes.PASSED.word, log=first + as_bytes(healed)
    )
    numbers = steps_of(again)
    upto = numbers[len(numbers) // 2 - 1]
    log = healthy + as_bytes(takewhile(lambda event: event.step <= upto, again))
    done = "a slow run behind it, cut off half way"
    if trial.one_number:
        log = healthy + as_bytes(damage(again, slow, "short"))
    yield trial.broken("then-cut", done, log, *_facts_of_short(trial))
    if trial.steps_known and not trial.one_number:
        events = trial.events(trial.run)
        before = tuple(takewhile(lambda event: event.step <= upto, events))
        log = as_bytes(before) + f"{identity(trial.run)}\n".encode() + as_bytes(events[len(before) :])
        done = "half of the steps are of a run before, which had saved them"
        yield trial.broken("resumed", done, log, _TOO_FEW, _BEGAN_AGAIN)
