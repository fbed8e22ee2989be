"""An MFU above one: whether it is the log's fault, or the table's, whose own figures give it, too."""

from __future__ import annotations

from pytest_gsw.common.words import at_line
from pytest_gsw.errors import LogError, TableError
from pytest_gsw.performance.figures import figures, model_flops
from pytest_gsw.tables.model import Baseline

_ADVICE = "correct {} there, or leave it out: the verdict does not rest on it"


def impossible_table(baseline: Baseline, peak_flops: float | None) -> TableError | None:
    """That the documented step time and model FLOPs give an MFU above one; ``None`` where they do not.

    No job needs to run for it.
    """
    step_time_s = baseline.documented.step_time_s
    mfu = figures(baseline, step_time_s, peak_flops).mfu
    if mfu is None or mfu <= 1:
        return None
    fact = (
        f"the table contradicts itself: MFU {mfu * 100:.1f} % is impossible, and its own {step_time_s:.4g} s gives it"
    )
    return TableError(fact, _evidence(baseline, peak_flops), advice=_ADVICE.format(model_flops(baseline)[1]))


def impossible_measurement(
    baseline: Baseline,
    mfu: float,
    judged_s: float,
    peak_flops: float | None,
    evidence: tuple[tuple[str, str], ...],
) -> TableError | LogError:
    """Whose fault a measured MFU above one is: the documented MFU tells what the step time would give without FLOPs."""
    documented = baseline.documented
    table = impossible_table(baseline, peak_flops)
    if table is not None:
        return table
    if documented.mfu is not None and documented.step_time_s is not None:
        by_document = documented.mfu * documented.step_time_s / judged_s
        if by_document <= 1:
            return TableError(
                f"the table contradicts itself: {judged_s:.4g} s is an MFU of {by_document * 100:.1f} % by its mfu, "
                f"and of {mfu * 100:.1f} % by its {model_flops(baseline)[1]}",
                (*_evidence(baseline, peak_flops), *evidence),
                advice=_ADVICE.format(model_flops(baseline)[1]),
            )
    return LogError(
        f"MFU {mfu * 100:.1f} % is impossible: no hardware takes {judged_s:.4g} s for a step",
        evidence=evidence,
        advice="the log shows when steps were dispatched, not how long they took; check its statistic",
    )


def _evidence(baseline: Baseline, peak_flops: float | None) -> tuple[tuple[str, str], ...]:
    """Where the figures stand, and what they are."""
    documented, computed = baseline.documented, figures(baseline, baseline.documented.step_time_s, peak_flops)
    mfu = "" if documented.mfu is None else f", an MFU of {documented.mfu * 100:.4g} %"
    batch = baseline.global_batch_size or 1
    formula = (
        f"{batch} * {(model_flops(baseline)[0] or 0) / batch:.4g} FLOPs / {documented.step_time_s:.4g} s"
        f" / {baseline.gpus} GPUs / {peak_flops or 0:.4g} FLOP/s = {(computed.mfu or 0) * 100:.1f} %"
    )
    return (
        ("baseline", str(baseline.location)),
        ("document", at_line(baseline.source.document, baseline.source.line)),
        ("documented", f"{documented.step_time_s:.4g} s a step{mfu}"),
        ("computed", formula),
    )
