"""Rows to audit, and what is found in them."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_gsw.documents.audit.findings import Audit, Finding
from pytest_gsw.documents.audit.run import Source, audit
from pytest_gsw.tables.stated import StatedRow
from pytest_gsw.tables.yamlfile import Stated

#: A row whose figures follow from each other to the last digit.
LLAMA2 = {
    "model": "llama2",
    "size": "70b",
    "framework": "maxtext",
    "dtype": "bf16",
    "accelerator": "H100",
    "gpus": "64",
    "gpus_per_node": "8",
    "sequence_length": "4096",
    "global_batch_size": "128",
    "micro_batch_size": "2",
    "model_flops": "1.82e+15",
    "step_time_s": "6.999",
    "tokens_per_s": "74908.99",
    "mfu": "52.59%",
    "days_to_train_1t_tokens": "154.51",
}


def row(row_id: str = "", base: dict[str, str] | None = None, **changes: str | None) -> StatedRow:
    """A row like :data:`LLAMA2` with other values; ``None`` leaves one out. Keys may have ``__`` for a dot."""
    texts = dict(LLAMA2 if base is None else base)
    for key, text in changes.items():
        name = key.replace("__", ".")
        if text is None:
            texts.pop(name, None)
        else:
            texts[name] = text
    name = row_id or f"{texts['model']}_{texts['size']}_{texts['dtype']}[{texts['accelerator']}x{texts['gpus']}]"
    values = {key: Stated(text, 10 + place, 3) for place, (key, text) in enumerate(texts.items())}
    return StatedRow(name, "t.yaml", values)


def found(*rows: StatedRow, lines: Iterable[str] | None = None) -> tuple[Finding, ...]:
    """What an audit of these rows, and of this text, finds."""
    return run(*rows, lines=lines).findings


def run(*rows: StatedRow, lines: Iterable[str] | None = None) -> Audit:
    """The audit of these rows, and of this text."""
    name = "t.yaml" if lines is None else "README.md"
    placed = tuple(StatedRow(one.id, name, one.values, one.acknowledged) for one in rows)
    return audit([Source(name, placed, None if lines is None else tuple(lines))])


def told(finding: Finding) -> tuple[str, str, str, str, str]:
    """The essence of a finding."""
    first = finding.explanation
    return (
        finding.identity,
        finding.severity.value,
        finding.documented,
        finding.computed,
        f"{first.kind.value}: {first.text}",
    )
