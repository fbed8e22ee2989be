"""Logs of other runs: of another model, size, precision, job, release or format."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_gsw.tables.release_rows import other_release
from pytest_gsw.tables.releases import releases_of
from tests.truth.contradictions import other_settings
from tests.truth.logs import as_bytes
from tests.truth.model import Case
from tests.truth.trial import Trial
from tests.writers import TRAININGS

#: One that no table is of.
_RELEASE = "23.01"


def of_others(trial: Trial) -> Iterator[Case]:
    """Logs of another run than the row's."""
    row, job = trial.baseline, trial.job
    jobs = {
        "model size": replace(job, size="8b" if job.size != "8b" else "70b"),
        "dtype": replace(job, dtype="bf16" if row.workload.dtype != "bf16" else "fp8"),
        "GPUs": replace(job, nodes=job.nodes * 2),
        "job": replace(job, id=str(int(job.id) - 1)),
    }
    rows = {
        "model": replace(row, workload=replace(row.workload, model="another")),
        "framework": replace(row, workload=replace(row.workload, framework="another")),
    }
    if (
        row.workload.log_format not in {"paxml", "olmo-core"} and row.batch.global_batch_size is not None
    ):  # whose logs do not say it
        rows["global batch size"] = replace(
            row, batch=replace(row.batch, global_batch_size=row.batch.global_batch_size * 2)
        )
    runs = {name: replace(trial.run, job=other) for name, other in jobs.items()}
    runs |= {name: replace(trial.run, baseline=other) for name, other in rows.items()}
    for name, run in runs.items():
        fact = f"the log belongs to another run, by its {name}"
        log = as_bytes(trial.events(run))
        yield trial.broken(f"other-{name.replace(' ', '-')}", f"the log is of another {name}", log, fact)
    if row.source.releases:
        log = as_bytes(trial.events(replace(trial.run, job=replace(job, version=_RELEASE))))
        fact = other_release(row, releases_of(_RELEASE), "the log", "").fact
        yield trial.broken("other-release", "the log is of another release of the recipe", log, fact)
    for name, other, fact in other_settings(row):
        log = as_bytes(trial.events(replace(trial.run, baseline=other)))
        yield trial.broken(f"other-{name.replace(' ', '-')}", f"the run was of another {name}", log, fact)
    # Megatron under DeepSpeed prints DeepSpeed's lines as well.
    unlike = {row.workload.log_format} | ({"megatron"} if row.workload.framework == "deepspeed" else set())
    writer = trial.random.choice([name for name in TRAININGS if name not in unlike])
    log = as_bytes(tuple(TRAININGS[writer](trial.run)))
    yield trial.broken("other-format", f"the log is one of {writer}", log, trial.no_steps)
