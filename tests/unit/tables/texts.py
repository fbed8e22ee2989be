"""Tables as text, to load and to change."""

from __future__ import annotations

from pytest_gsw.tables.model import Accepted

#: What the rows of a small table share.
HEAD = """\
model: tiny
size: 1b
framework: maxtext
accelerator: H100
gpus_per_node: 8
document: site.md
recipe: {directory: tiny, steps: 20}
sequence_length: 1024
"""
#: A small table; tests replace parts of it.
TINY = f"""\
{HEAD}\
tables:
  - dtype: bf16
    rows:
      - {{gpus: 8, step_time_s: 1.5, line: 10}}
      - {{gpus: 16, step_time_s: 0.75, line: 11}}
"""
#: What a cluster has accepted for the first row of it, and as it stands in a table.
EOS = Accepted(
    cluster="eos",
    judged=1.612,
    jobs=7,
    spread=0.0083,
    job_ids="481220, 481221",
    date="2026-11-20",
    definition="3f2a9c1d0e4b",
    image="nvidia+jax+maxtext-2024.12.09.sqsh",
)
ENTRY = """\
  - row: tiny_1b_bf16[H100x8]
    cluster: eos
    step_time_s: 1.612
    jobs: 7
    spread: 0.83%
    job_ids: "481220, 481221"
    image: nvidia+jax+maxtext-2024.12.09.sqsh
    date: 2026-11-20
    definition: "3f2a9c1d0e4b"
"""


def change(old: str, new: str) -> str:
    """The small table with another text in the place of one of its own."""
    assert TINY.count(old) == 1, old
    return TINY.replace(old, new)


def billion_laughs(levels: int) -> str:
    """A few lines that make billions of values."""
    aliases = [f"  - &a{n + 1} [{', '.join([f'*a{n}'] * 10)}]" for n in range(levels)]
    return "\n".join(["notes:", "  - &a0 ha", *aliases, ""])
