"""Tables of any number of rows, for budgets and benchmarks; nothing but Python is needed."""

from __future__ import annotations

from pathlib import Path

ROWS_PER_TABLE = 50
#: What the rows of such a table share.
HEAD = """\
model: llama2
size: 70b
framework: maxtext
accelerator: H100
gpus_per_node: 8
document: benchmark.md
recipe: {directory: maxtext, steps: 10}
sequence_length: 4096
"""
_TABLE = """\
{head}\
model_flops: 1.82e+15
tables:
  - title: Rows {first} to {last}
    dtype: fp8
    rows:
{rows}
"""
_ROW = (
    "      - {{gpus: 1, case: r{number}, global_batch_size: 2, step_time_s: 4.3, tokens_per_s: 1905.12, line: {line}}}"
)


def write_tables(directory: Path, rows: int) -> None:
    """Tables with so many rows, fifty in each."""
    directory.mkdir(parents=True)
    for first in range(0, rows, ROWS_PER_TABLE):
        numbers = range(first, min(rows, first + ROWS_PER_TABLE))
        lines = "\n".join(_ROW.format(number=number, line=number + 1) for number in numbers)
        text = _TABLE.format(head=HEAD, first=numbers[0], last=numbers[-1], rows=lines)
        (directory / f"rows-{first:05}.yaml").write_text(text)
