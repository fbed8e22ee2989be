"""Files next to a job's log: llmb-run's task, and Megatron-Bridge's configuration.

llmb-run writes ``llmb-config_<job id>.yaml``. NeMo-Run mounts the experiment's directory into the container, and
Megatron-Bridge's launch scripts write the configuration of the run there, ``configs/ConfigContainer.yaml``. It is
YAML of a known shape; a few keys of its first two levels are read.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pytest_gsw.common.files import read_bounded
from pytest_gsw.errors import LogError
from pytest_gsw.logs.identity import NUMBERS, number_of
from pytest_gsw.logs.model import Identity
from pytest_gsw.tables.benchmark_settings import letters
from pytest_gsw.tables.model import Baseline
from pytest_gsw.validation.agreement import Compared, Evidence, is_same_model

#: The file has a page of lines ``  key: value`` below the names of its sections.
_MOST_BYTES = 256 << 10
_FACT = re.compile(r"^  ([a-z_]{1,40}): '?([^'\n]{1,200})'?$", re.MULTILINE)
_IMAGE = re.compile(r"^  images:\n  - '?([^'\n]{1,300})'?\n(?!  - )", re.MULTILINE)
#: Further settings of a task, below ``model_overrides`` and ``env_overrides``.
_OVERRIDE = re.compile(r"^    ([A-Za-z_]{1,40}): '?([^'\n]{1,200})'?$", re.MULTILINE)
_ARGUMENTS = "\n  mbridge_args:\n  - "
#: The one cluster for which llmb-run itself turns the GPUs' boost up.
_BOOSTED = "eos"

_MOST_OF_CONFIGURATION = 4 << 20
_CONFIGURED_SECTION = re.compile(r"([a-z_]{1,40}):")
_CONFIGURED = re.compile(r"  ([a-z0-9_]{1,60}): '?([A-Za-z0-9_.-]{1,60})'?")
#: Fields of an identity, by section and key.
_CONFIGURED_NUMBERS = {
    ("model", "seq_length"): "sequence_length",
    ("model", "tensor_model_parallel_size"): "tp",
    ("model", "pipeline_model_parallel_size"): "pp",
    ("model", "context_parallel_size"): "cp",
    ("model", "expert_model_parallel_size"): "ep",
    ("train", "global_batch_size"): "global_batch_size",
    ("train", "micro_batch_size"): "micro_batch_size",
}
_PRECISION = "mixed_precision"

#: The workloads whose launch scripts train fp8 with MXFP8 scaling, but for H100; all others scale each tensor.
_MX = frozenset({"deepseek-v3_671b", "gpt_oss_120b", "kimi-k2_1t", "nemotron_3_120b", "qwen3_235b"})
#: The recipes' launch.sh of Llama 3.1: 70b in fp8 on these is MXFP8 as well.
_MX_TOO = frozenset({("llama3.1_70b", "b200"), ("llama3.1_70b", "b300")})


Found = TypeVar("Found", bound=Evidence)


class Case(NamedTuple):
    """One workload in one dtype, which needs a passing run."""

    #: In lower case, as in the file: ``gb200``.
    accelerator: str
    #: With its size: ``llama3.1_70b``.
    workload: str
    dtype: str

    @property
    def name(self) -> str:
        """Its name for people."""
        return f"{self.workload} {self.dtype}"


def evidence_of_log(log: Path, job_id: str) -> list[Evidence]:
    """All evidence next to a job's log.

    Raises:
        LogError: A file is there and cannot be read, or is none of its kind: what was run is unknown.
    """
    return [
        evidence for evidence in (_task(log, job_id), _configuration(log, _configuration_in)) if evidence is not None
    ]


def _read(path: str, most_bytes: int, parse: Callable[[Path, str], Found | None]) -> Found | None:
    """The evidence in a file; ``None`` if there is no such file.

    Raises:
        LogError: It is there and cannot be read, or is none of its kind.
    """
    try:
        os.lstat(path)
        found = parse(Path(path), read_bounded(path, most_bytes).decode(errors="replace"))
    except OSError as error:
        # A link to nothing is there.
        if error.errno in {errno.ENOENT, errno.ENOTDIR} and not os.path.islink(path):  # noqa: PTH114 - Path costs more
            return None
        raise _unreadable(path, str(error.strerror)) from None
    if found is None:
        raise _unreadable(path, "it has not the keys of such a file")
    return found


def _unreadable(path: str, why: str) -> LogError:
    return LogError(
        f"{path.rpartition('/')[2]} is next to the log and cannot be read: {why}",
        (("file", path),),
        advice="let this user read it: it states what was run, which is not checked without it",
    )


@dataclass(frozen=True)
class Task(Evidence):
    """llmb-run's description of a job that it has launched."""

    facts: Mapping[str, str] = field(default_factory=dict)

    def differing(self, row: Baseline, quantization: str | None = None) -> tuple[Compared, ...]:
        """Differences from the row in facts that no log has, or has in other words.

        Args:
            row: The row.
            quantization: The format of reduced precision, by the configuration next to the log or by the log itself.
        """
        facts, model = self.facts, self.facts.get("model_name", "")
        gpu, own_gpu = letters(facts.get("gpu_type", "")), letters(row.accelerator)
        is_own_gpu = own_gpu.startswith(gpu) or gpu.startswith(own_gpu)
        proxy = facts.get("proxy") == "true" and not row.workload.proxy
        compared = (
            # A workload may be called by more than its model: llama3.1_mlperf, nemotron4-15b.
            Compared("model", model, row.workload.model, "model", agrees=is_same_model(model, row)),
            Compared("accelerator", gpu, row.accelerator, "accelerator", agrees=is_own_gpu),
            Compared("proxy", "true", "false", "proxy", agrees=not proxy),
            self._dtype(row, quantization),
        )
        return tuple(value for value in compared if not value.agrees)

    def _dtype(self, row: Baseline, quantization: str | None) -> Compared:
        """Comparison of its dtype: ``fp8`` is MXFP8 or not, as stated by the run or else by the recipe's script."""
        facts, dtype = self.facts, self.facts.get("dtype", "").lower()
        is_stated = quantization is not None and (quantization == "mxfp8" or quantization.startswith("fp8_"))
        is_mx = quantization == "mxfp8" if is_stated else None
        workload = f"{facts.get('model_name', '')}_{facts.get('model_size', '')}".lower()
        case = Case(facts.get("gpu_type", "").lower(), workload, dtype)
        return Compared("dtype", dtype, row.workload.dtype, "dtype", agrees=not dtype or has_dtype(case, row, is_mx))

    def is_of(self, row: Baseline) -> bool:
        """True if a job ran this row, by the names that llmb-run gives tasks; all of them must be there."""
        identity = self.identity
        release = not row.source.releases or identity.release is None or identity.release in row.source.releases
        is_named = {"model_name", "dtype"} <= self.facts.keys()
        same = is_named and (identity.size, identity.gpus) == (row.workload.size, row.gpus)
        if not (same and release):
            return False
        configuration = configuration_of_log(self.path)
        return not self.differing(row, None if configuration is None else configuration.identity.quantization)


def task_of_log(log: Path, job_id: str) -> Task | None:
    """The task of a job by llmb-run's file; ``None`` if it did not launch the job, or the file cannot be read."""
    with contextlib.suppress(LogError):
        return _task(log, job_id)
    return None


def _task(log: Path, job_id: str) -> Task | None:
    return _read(f"{log.parent}/llmb-config_{job_id}.yaml", _MOST_BYTES, _task_in)


def _task_in(path: Path, text: str) -> Task | None:
    facts = {name: value.strip() for name, value in _FACT.findall(text)}
    if not facts:
        return None
    why = None
    if facts.get("profile_enabled") == "true":
        why = f"profile_enabled in {path.name}"
    elif _ARGUMENTS in text:  # settings of Megatron-Bridge with unknown effects
        why = f"mbridge_args in {path.name}"
    boosted = facts.get("cluster_name", "").lower() == _BOOSTED
    return Task(path, _identity(text, facts), why, {"vboost": "true"} if boosted else {}, facts)


def _identity(text: str, facts: Mapping[str, str]) -> Identity:
    """The task in the form of a log's identity, but for its dtype, which names a family here."""
    image = _IMAGE.search(text)
    given: dict[str, Any] = {name.upper(): number_of(value.encode()) for name, value in _OVERRIDE.findall(text)}
    numbers = {ours: given[name] for name, ours in NUMBERS.items() if given.get(name) is not None}
    scale, release = facts.get("scale", ""), facts.get("gsw_version", "")
    return Identity.of(
        numbers,
        size=facts.get("model_size"),
        gpus=int(scale) if scale.isdecimal() else None,
        job_id=facts.get("job_id"),
        release=release.removeprefix("v") or None,
        image=image[1] if image is not None else None,
    )


def has_dtype(case: Case, row: Baseline, is_mx: bool | None = None) -> bool:
    """True if a row has a case's dtype; ``fp8`` depends on the recipe's launch script.

    Args:
        case: The case, or a job that was launched as one.
        row: The row.
        is_mx: True if its fp8 is MXFP8 by the job itself; ``None`` if not stated.
    """
    if case.dtype != "fp8":
        return row.workload.dtype == case.dtype
    stated = row.attributes.get("precision", row.workload.dtype).lower().replace("_", "-")
    if row.workload.dtype not in {"fp8", "mxfp8"}:
        return False
    return stated == "fp8" or (stated in {"mxfp8", "fp8-mx"}) == (_is_mx(case) if is_mx is None else is_mx)


def _is_mx(case: Case) -> bool:
    return (case.workload in _MX and case.accelerator != "h100") or (case.workload, case.accelerator) in _MX_TOO


def configuration_of_log(log: Path) -> Evidence | None:
    """The configuration of a log's run, by Megatron-Bridge's file; ``None`` if there is none to be read."""
    with contextlib.suppress(LogError):
        return _configuration(log, _settings_in)
    return None


def _configuration(log: Path, parse: Callable[[Path, str], Evidence | None]) -> Evidence | None:
    return _read(f"{log.parent}/configs/ConfigContainer.yaml", _MOST_OF_CONFIGURATION, parse)


def _configuration_in(path: Path, text: str) -> Evidence | None:
    is_whole = {"model", "train"} <= {section for section, _ in _configured_in(text)}
    return _settings_in(path, text) if is_whole else None


def _settings_in(path: Path, text: str) -> Evidence:
    facts = _configured_in(text)
    numbers: dict[str, Any] = {
        field: int(facts[key])
        for key, field in _CONFIGURED_NUMBERS.items()
        if re.fullmatch(r"[0-9]{1,12}", facts.get(key, ""))
    }
    return Evidence(path, Identity.of(numbers, quantization=_quantization(facts)))


def _configured_in(text: str) -> dict[tuple[str, str], str]:
    section, facts = "", {}
    for line in text.splitlines():
        head, fact = _CONFIGURED_SECTION.fullmatch(line.rstrip()), _CONFIGURED.fullmatch(line.rstrip())
        if head is not None:
            section = head[1]
        elif fact is not None:
            facts[section, fact[1]] = fact[2]
        elif line[:1].strip():
            section = ""
    return facts


def _quantization(facts: dict[tuple[str, str], str]) -> str | None:
    """The format of reduced precision: ``mxfp8``, ``nvfp4``, ``fp8_tensorwise``."""
    precision = {key: value for (section, key), value in facts.items() if section == _PRECISION}
    if "fp8" not in precision:
        return None
    if precision.get("fp4", "null") != "null":
        return precision.get("fp4_recipe", "nvfp4")
    if precision["fp8"] == "null":
        return "none"
    recipe = precision.get("fp8_recipe", "")
    return recipe if recipe == "mxfp8" else f"fp8_{recipe}"
