"""The certification's own file, ``exemplar.yaml``: which workloads it asks for, of which accelerator, at which scale.

It comes with NVIDIA/exemplar-performance from v25.12 on, and is read as its own reader does
(``cli/llmb-run/src/llmb_run/exemplar.py``), but for one thing: a key that is not known is a fault, since it may change
what is asked for.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pytest_gsw.errors import Fault, FileError
from pytest_gsw.tables import fields as f
from pytest_gsw.tables.yamlfile import Value, read_mapping

#: What the file's own reader takes for a scale, for repeats, and for profiling that are not given.
_SCALE, _REPEATS, _PROFILE = 512, 1, False
#: What each workload's name begins with: it is trained, and not tuned or served.
_KIND = "pretrain_"
#: Each release's file has about fifty cases of all accelerators together.
_MOST_CASES = 1000

_WORKLOAD = f.Nested(
    None,
    "One workload with its size, such as pretrain_llama3.1_70b.",
    names=r"pretrain_[a-z0-9][a-z0-9._-]{0,50}",
    wanted="a workload such as pretrain_llama3.1_70b",
    each={"dtypes": f.Sequence_(f.pattern(r"[a-z0-9_]+", "a dtype such as bf16", "Dtypes."), "Dtypes.", required=True)},
)
_FIELDS: f.Fields = {
    "config": f.Nested(
        {
            "scale": f.whole("GPUs of each job."),
            "repeats": f.whole("Jobs of each workload."),
            "profile": f.flag("Whether the last of them is profiled."),
        },
        "What all workloads share.",
        required=True,
    ),
    "workloads": f.Nested(
        None,
        "The workloads of each accelerator.",
        names=r"[a-z0-9]{1,20}",
        wanted="an accelerator such as gb200",
        required=True,
        each=f.Sequence_(_WORKLOAD, "Workloads.", required=True),
    ),
}


class Case(NamedTuple):
    """One workload in one dtype: what needs a passing run."""

    #: As the file has it, in lower case: ``gb200``.
    accelerator: str
    #: With its size: ``llama3.1_70b``.
    workload: str
    dtype: str

    @property
    def name(self) -> str:
        """What people call it."""
        return f"{self.workload} {self.dtype}"


@dataclass(frozen=True)
class Suite:
    """What a file asks for."""

    path: Path
    #: GPUs of each job.
    gpus: int
    #: Jobs of each case that are measured, the profiled one left out.
    repeats: int
    #: In the order of the file.
    cases: tuple[Case, ...]

    @property
    def accelerators(self) -> tuple[str, ...]:
        """Those that it has cases of."""
        return tuple(dict.fromkeys(case.accelerator for case in self.cases))


def read_suite(path: Path) -> Suite:
    """The suite of a file; a FileError has every fault with its line."""
    values = read_mapping(path, _FIELDS)
    config = {key: value.value for key, value in values["config"].value.items()}
    listed = values["workloads"]
    faults = tuple(_faults(listed))
    cases = () if faults else tuple(itertools.islice(_cases(listed.value), _MOST_CASES + 1))
    if len(cases) > _MOST_CASES:
        faults = (Fault(listed.line, listed.column, "workloads", f"has more than {_MOST_CASES} cases"),)
    if faults:
        raise FileError(path, faults)
    profiled = config.get("profile", _PROFILE)
    return Suite(
        path,
        config.get("scale", _SCALE),
        max(1, config.get("repeats", _REPEATS) - (1 if profiled else 0)),
        cases,
    )


def _faults(listed: Value) -> Iterator[Fault]:
    """What is wrong although each value is right."""
    if not listed.value:
        yield Fault(listed.line, listed.column, "workloads", "is empty, wanted at least one accelerator")
    for accelerator, entries in listed.value.items():
        seen: set[str] = set()
        for number, entry in enumerate(entries.value):
            key = f"workloads.{accelerator}[{number}]"
            if len(entry.value) != 1:
                yield Fault(entry.line, entry.column, key, f"has {len(entry.value)} workloads, wanted one an entry")
            for name in seen.intersection(entry.value):
                yield Fault(entry.line, entry.column, f"{key}.{name}", "is there twice")
            seen.update(entry.value)


def _cases(listed: Mapping[str, Value]) -> Iterator[Case]:
    for accelerator, entries in listed.items():
        for entry in entries.value:
            ((name, keys),) = entry.value.items()
            yield from (Case(accelerator, name.removeprefix(_KIND), dtype) for dtype in keys["dtypes"].value)
