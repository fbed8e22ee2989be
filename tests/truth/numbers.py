"""Numbers that are none, times that cannot be, and runs that trained nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_gsw.demo.simulation import DemoFault
from pytest_gsw.results import outcomes
from pytest_gsw.tables.metrics import MFU
from tests.truth.logs import as_bytes, restarted, steps_of, with_all_figures, with_figure
from tests.truth.model import Case
from tests.truth.trial import Trial
from tests.truth.truth import loss_count
from tests.truth.untrained import untrained

_NOT_FINITE = "the loss or a step time is not finite*"
#: So many losses have a first and a last tenth.
_TENTHS = 10


def not_finite(trial: Trial) -> Iterator[Case]:
    """A loss or a figure that is NaN or infinite."""
    run = trial.simulate(DemoFault(trial.baseline.id, "nan"))
    yield trial.broken("nan", "the loss is NaN from half way on", as_bytes(trial.events(run)), _NOT_FINITE)
    events = trial.events(trial.run)
    step = trial.random.choice(steps_of(events))
    for text in ("nan", "inf"):
        facts = [_NOT_FINITE]
        if trial.one_number:
            facts = [f"no step time in the {trial.baseline.workload.log_format} log is finite: *"]
        log = as_bytes(with_figure(events, text, step))
        yield trial.broken(f"step-{text}", f"the figure of step {step} is {text}", log, *facts)


def impossible_times(trial: Trial) -> Iterator[Case]:
    """Times of zero, or without end, and times that no hardware can have."""
    events = trial.events(trial.run)
    rates = trial.baseline.workload.log_format in {"deepspeed", "huggingface", "torchtitan", "composer", "olmo-core"}
    what = "rate" if rates else "time"
    fact = f"{'inf' if rates else '0'} s is no time of a step"
    yield trial.broken("zero", f"every {what} is zero", with_all_figures(events, "0.0"), fact)
    # NeMo shows each step twice, and the other time would still be right.
    if trial.baseline.workload.log_format != "nemo" and not trial.saves and not trial.one_number:
        step = trial.random.choice(steps_of(events))
        log = as_bytes(with_figure(events, "0.0", step))
        yield trial.broken("one-zero", f"the {what} of step {step} is zero", log, fact)
    if trial.mfu is not None:
        wanted = trial.random.uniform(1.02, 5)
        log = as_bytes(trial.events(trial.at(wanted / trial.mfu)))
        yield trial.broken(MFU.key, f"an MFU of {wanted:.0%}", log, "MFU * is impossible: *")


def untrained_runs(trial: Trial) -> Iterator[Case]:
    """Runs whose steps were skipped, or whose loss is missing or was NaN in an attempt before."""
    nan = trial.events(trial.simulate(DemoFault(trial.baseline.id, "nan")))
    stuck = as_bytes(trial.events(replace(trial.run, losses=(7.0,) * len(trial.run.losses))))
    for name, done, log, fact in untrained(trial.run, [restarted(e) for e in trial.events(trial.run)], nan, stuck):
        yield trial.broken(name, done, log, fact)


def loss_to_fall(trial: Trial) -> Iterator[Case]:
    """A table may ask for it, and then a loss that stays as it is, or of which nothing tells, is an error."""
    row, run = replace(trial.baseline, criterion=replace(trial.baseline.criterion, loss="falls")), trial.run
    count = loss_count(run)
    if count is None:
        fact = f"the row asks that the loss falls, and {row.workload.log_format} prints no loss"
    elif count < _TENTHS:
        fact = "the log holds *, too few to tell whether it falls"
    else:
        fact = "the loss does not fall: *"
        case = trial.judged("loss-falls", "the loss is to fall, and does", run, outcomes.PASSED.word)
        yield replace(case, baseline=row)
    log = as_bytes(trial.events(replace(run, losses=(7.0,) * len(run.losses))))
    yield replace(trial.broken("loss-stays", "the loss is to fall, and stays as it is", log, fact), baseline=row)
