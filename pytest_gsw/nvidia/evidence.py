"""What is written beside a job's log: by llmb-run, which task it was, and by Megatron-Bridge, what was configured.

llmb-run writes ``llmb-config_<job id>.yaml``. NeMo-Run mounts the experiment's directory into the container, and
Megatron-Bridge's launch scripts have the configuration that ran written there, ``configs/ConfigContainer.yaml``. It is
YAML of a known shape; a few keys of its first two levels are read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pytest_gsw.common.files import text_of
from pytest_gsw.logs.identity import NUMBERS, number_of
from pytest_gsw.logs.model import Identity
from pytest_gsw.tables.model import Baseline
from pytest_gsw.validation.agreement import Compared, Evidence

#: The file has a page of lines ``  key: value`` below the names of its sections.
_MOST_BYTES = 256 << 10
_FACT = re.compile(r"^  ([a-z_]{1,40}): '?([^'\n]{1,200})'?$", re.MULTILINE)
_IMAGE = re.compile(r"^  images:\n  - '?([^'\n]{1,300})'?\n(?!  - )", re.MULTILINE)
#: What a task was given besides, below ``model_overrides`` and ``env_overrides``.
_OVERRIDE = re.compile(r"^    ([A-Za-z_]{1,40}): '?([^'\n]{1,200})'?$", re.MULTILINE)
_ARGUMENTS = "\n  mbridge_args:\n  - "
#: The one cluster for which llmb-run itself turns the GPUs' boost up.
_BOOSTED = "eos"

_MOST_OF_CONFIGURATION = 4 << 20
_CONFIGURED_SECTION = re.compile(r"([a-z_]{1,40}):")
_CONFIGURED = re.compile(r"  ([a-z0-9_]{1,60}): '?([A-Za-z0-9_.-]{1,60})'?")
#: By section and key, the field of an identity.
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


def evidence_beside(log: Path, job_id: str) -> list[Evidence]:
    """All that is written beside a log of its job."""
    return [one for one in (task_beside(log, job_id), configuration_beside(log)) if one is not None]


@dataclass(frozen=True)
class Task(Evidence):
    """What llmb-run says of a job that it has launched."""

    facts: Mapping[str, str] = field(default_factory=dict)

    def differing(self, row: Baseline, quantization: str | None = None) -> tuple[Compared, ...]:
        """What of it no log says, or in other words, and is not the row's.

        Args:
            row: The row.
            quantization: What is computed in fewer bits, by the configuration beside the log or by the log itself.
        """
        facts = self.facts
        gpu, own_gpu = letters(facts.get("gpu_type", "")), letters(row.accelerator)
        model, own = letters(facts.get("model_name", "")), (letters(row.model), letters(row.workload))
        proxy = facts.get("proxy") == "true" and not row.proxy
        compared = (
            # A workload may be called by more than its model: llama3.1_mlperf, nemotron4-15b.
            Compared("model", model, row.model, "model", agrees=any(model in one or one in model for one in own)),
            Compared(
                "accelerator", gpu, row.accelerator, "", agrees=own_gpu.startswith(gpu) or gpu.startswith(own_gpu)
            ),
            Compared("proxy", "true", "false", "", agrees=not proxy),
            self._dtype(row, quantization),
        )
        return tuple(one for one in compared if not one.agrees)

    def _dtype(self, row: Baseline, quantization: str | None) -> Compared:
        """Its dtype: ``fp8`` is MXFP8 or not, as the run states, else as the recipe's launch script makes it."""
        facts, dtype = self.facts, self.facts.get("dtype", "").lower()
        says = quantization is not None and (quantization == "mxfp8" or quantization.startswith("fp8_"))
        is_mx = quantization == "mxfp8" if says else None
        workload = f"{facts.get('model_name', '')}_{facts.get('model_size', '')}".lower()
        case = Case(facts.get("gpu_type", "").lower(), workload, dtype)
        return Compared("dtype", dtype, row.dtype, "dtype", agrees=not dtype or has_dtype(case, row, is_mx))

    def is_of(self, row: Baseline) -> bool:
        """Whether a job was of this row, by what llmb-run calls tasks by; all of it must be there."""
        said = self.identity
        release = not row.source.releases or said.release is None or said.release in row.source.releases
        same = (said.size, said.gpus) == (row.size, row.gpus) and {"model_name", "dtype"} <= self.facts.keys()
        if not (same and release):
            return False
        configuration = configuration_beside(self.path)
        return not self.differing(row, None if configuration is None else configuration.identity.quantization)


def task_beside(log: Path, job_id: str) -> Task | None:
    """The task that a job was by llmb-run's own word; ``None`` where it did not launch the job."""
    path = Path(f"{log.parent}/llmb-config_{job_id}.yaml")
    text = text_of(str(path), _MOST_BYTES)
    if text is None:
        return None
    facts = {name: value.strip() for name, value in _FACT.findall(text)}
    why = None
    if facts.get("profile_enabled") == "true":
        why = f"profile_enabled in {path.name}"
    elif _ARGUMENTS in text:  # settings of Megatron-Bridge, of which nobody knows what they change
        why = f"mbridge_args in {path.name}"
    boosted = facts.get("cluster_name", "").lower() == _BOOSTED
    return Task(path, _identity(text, facts), why, {"vboost": "true"} if boosted else {}, facts)


def _identity(text: str, facts: Mapping[str, str]) -> Identity:
    """Which task a job was, as logs say it; but for its dtype, whose word stands for a family here."""
    image = _IMAGE.search(text)
    given: dict[str, Any] = {name.upper(): number_of(value.encode()) for name, value in _OVERRIDE.findall(text)}
    scale, release = facts.get("scale", ""), facts.get("gsw_version", "")
    return Identity(
        size=facts.get("model_size"),
        gpus=int(scale) if scale.isdecimal() else None,
        job_id=facts.get("job_id"),
        release=release.removeprefix("v") or None,
        image=image[1] if image is not None else None,
        **{ours: given[name] for name, ours in NUMBERS.items() if name in given},
    )


def has_dtype(case: Case, row: Baseline, is_mx: bool | None = None) -> bool:
    """Whether a row is of a case's dtype: ``fp8`` is what the recipe's launch script makes of it.

    Args:
        case: The case, or a job that was launched as one.
        row: The row.
        is_mx: Whether its fp8 is MXFP8 by what the job itself states; ``None`` where it does not.
    """
    if case.dtype != "fp8":
        return row.dtype == case.dtype
    stated = row.attributes.get("precision", row.dtype).lower().replace("_", "-")
    if row.dtype not in {"fp8", "mxfp8"}:
        return False
    return stated == "fp8" or (stated in {"mxfp8", "fp8-mx"}) == (_is_mx(case) if is_mx is None else is_mx)


def _is_mx(case: Case) -> bool:
    return (case.workload in _MX and case.accelerator != "h100") or (case.workload, case.accelerator) in _MX_TOO


def letters(name: str) -> str:
    """A name as all spellings have it: ``llama3.1`` and ``Llama-3.1`` differ in nothing else."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def configuration_beside(log: Path) -> Evidence | None:
    """How a log's run was set up, by Megatron-Bridge's own configuration; ``None`` where there is none."""
    place = f"{log.parent}/configs/ConfigContainer.yaml"
    text = text_of(place, _MOST_OF_CONFIGURATION)
    if text is None:
        return None
    facts = _configured_in(text)
    numbers: dict[str, Any] = {
        field: int(facts[key])
        for key, field in _CONFIGURED_NUMBERS.items()
        if re.fullmatch(r"[0-9]{1,12}", facts.get(key, ""))
    }
    return Evidence(Path(place), Identity(quantization=_quantization(facts), **numbers))


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
    """What is computed in fewer bits, by name: ``mxfp8``, ``nvfp4``, ``fp8_tensorwise``."""
    said = {key: value for (section, key), value in facts.items() if section == _PRECISION}
    if "fp8" not in said:
        return None
    if said.get("fp4", "null") != "null":
        return said.get("fp4_recipe", "nvfp4")
    if said["fp8"] == "null":
        return "none"
    recipe = said.get("fp8_recipe", "")
    return recipe if recipe == "mxfp8" else f"fp8_{recipe}"
