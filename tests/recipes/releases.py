"""What is run of each release: recipes, rows, and where a release has no public figures, tables of our own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple


@dataclass(frozen=True)
class Release:
    """What is run of a release."""

    tag: str
    #: By row: the recipe's directory, and what is said of the row.
    rows: Mapping[str, tuple[str, str]]
    launcher: str = "sbatch"
    #: Whether a release is staged by LLMB_INSTALL, and not by STAGE_PATH.
    installed: bool = False
    accelerator: str = "H100"
    #: Tables of our own, where none of the release is bundled.
    tables: tuple[str, ...] = ()
    #: Whether the five documents' rows run, as without an option, and not those of the release.
    documents: bool = False
    #: What the user's shell exports besides.
    exported: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.tag.removeprefix("v")

    @property
    def remark(self) -> str:
        """What is special about the session."""
        told = "the documents' rows" if self.documents else ""
        return told or ", ".join(f"{name}={value}" for name, value in self.exported.items())


PASSED = "judged: passed"
REFUSED = "refused: "
OWN = """\
model: {model}
size: {size}
framework: {framework}
accelerator: {accelerator}
gpus_per_node: {gpus_per_node}
document: own.md
sequence_length: 8192
global_batch_size: 512
model_flops: 2.0e+12
recipe: {{directory: {directory}, steps: 50}}
tables:
  - dtype: {dtype}
    rows:
      - {{gpus: {gpus}, step_time_s: 10.00, line: 1, statistic: 'mean[35:44]'}}
"""


class Own(NamedTuple):
    """A row of our own, with a figure of nobody: what is tried is the way, not the figure."""

    directory: str
    model: str
    size: str
    dtype: str = "bf16"
    outcome: str = PASSED
    accelerator: str = "H100"
    gpus: int = 64

    @property
    def id(self) -> str:
        return f"{self.model}_{self.size}_{self.dtype}[{self.accelerator}x{self.gpus}]"

    def table(self, framework: str) -> str:
        return OWN.format(framework=framework, gpus_per_node=gpus_per_node(self.accelerator), **self._asdict())


def gpus_per_node(accelerator: str) -> int:
    return 4 if accelerator.startswith("GB") else 8


#: What a user prepares besides: the data sets of recipes that do not train on synthetic data.
DATA = ("gpt3-dataset", "llama3.1-dataset", "datasets/c4")
#: Directory, model and size of what is trained on H100 by releases of which no figure is public.
V25_08 = [
    Own("deepseek_v3/pretrain", "deepseek-v3", "671b"),
    Own("grok1", "grok1", "314b"),
    Own("llama3.1", "llama3.1", "405b"),
    Own("llama4/pretrain", "llama4-maverick", "400b"),
    Own("nemotron", "nemotron4", "15b"),
    Own("nemotron-h", "nemotron-h", "56b"),
]
V26_06_01 = [
    Own("deepseek_v3/pretrain/megatron_bridge", "deepseek-v3", "671b"),
    Own("gpt-oss/pretrain", "gpt_oss", "120b"),
    Own("kimi-k2", "kimi-k2", "1t", "bf16", REFUSED + "./launch.sh submitted nothing, and ended with exit code 1"),
    Own("llama3.1", "llama3.1", "70b"),
    Own("llama3/finetune", "llama3", "70b"),
    Own("nemotron-h", "nemotron-h", "56b", "fp8"),
    Own("nemotron3", "nemotron_3", "30b"),
    Own("qwen3/pretrain", "qwen3", "30b"),
]
V26_08 = [
    Own("deepseek_v3/pretrain/megatron_bridge", "deepseek-v3", "671b"),
    Own("gpt-oss/pretrain/megatron_bridge", "gpt_oss", "120b"),
    Own("kimi-k2", "kimi-k2", "1t", "fp8", REFUSED + "./launch.sh submitted nothing, and ended with exit code 1"),
    Own("llama3.1/pretrain/megatron_bridge", "llama3.1", "70b"),
    Own("llama3/finetune", "llama3", "70b", gpus=16),
    Own("nemotron-h", "nemotron-h", "56b", "fp8"),
    Own("nemotron3", "nemotron_3", "30b"),
    Own("qwen3/pretrain", "qwen3", "30b"),
]
#: Of the same release, what is trained on GB200 alone.
V26_08_GB200 = [
    Own("gpt-oss/pretrain/mlperf", "gpt_oss_mlperf", "20b", "fp8", accelerator="GB200", gpus=72),
    Own("kimi-k2", "kimi-k2", "1t", "fp8", accelerator="GB200"),
    Own("llama2/finetune", "llama2_mlperf", "70b", "fp8", accelerator="GB200", gpus=8),
    Own("llama3.1/pretrain/mlperf", "llama3.1_mlperf", "8b", "nvfp4", accelerator="GB200", gpus=8),
]
TORCHTITAN = Own("deepseek_v3/pretrain/torchtitan", "deepseek-v3-torchtitan", "671b")
#: Of the five documents, a row of each recipe that was in v24.11.1, under other releases.
DOCUMENTS = ("v24.11.1", "v25.02.02", "v25.04", "v25.05", "v25.08", "v26.08.00")
OTHER = REFUSED + "the staged recipe is of release"
GONE = REFUSED + "the recipe's directory is not there"
MOVED = REFUSED + "the launch script is not there"
#: For each of these releases: judged, of another release, or gone.
FOUR = {
    "llama2_70b_bf16[H100x64]": ("maxtext", (PASSED, OTHER, OTHER, GONE, GONE, GONE)),
    "llama3.1_405b_bf16[H100x32]": ("llama3.1", (PASSED, OTHER, OTHER, OTHER, OTHER, MOVED)),
    "grok1_314b_bf16[H100x8]": ("grok1", (OTHER, PASSED, PASSED, OTHER, OTHER, GONE)),
    "gpt3_175b_fp8[H100x128]": ("paxml", (PASSED, GONE, GONE, GONE, GONE, GONE)),
}
#: What befalls unedited scripts, and what is said.
OLD = {"grok1_314b_bf16[H100x8]": ("grok1", ""), "gpt3_5b_fp8[H100x16]": ("paxml", "")}
FAULTS = {"slow:12%": "judged: failed", "memory": "CUDA out of memory", "container": "container import"}
#: What is run of releases with the same rows.
V24_11 = {
    "grok1_314b_bf16[H100x8]": ("grok1", PASSED),
    "llama3.1_8b_bf16[H100x8]": ("llama3.1", PASSED),
    "llama3.1_405b_bf16[H100x32]": ("llama3.1", PASSED),
    "llama2_70b_bf16[H100x64]": ("maxtext", PASSED),
    "gpt3_175b_fp8[H100x128]": ("paxml", PASSED),
    "gpt3_5b_fp8[H100x16]": ("paxml", PASSED),
    "megatron_175b_bf16[H100x128]": ("nemo_megatron", PASSED),
    "nemotron4_15b_bf16[H100x16]": ("nemotron", PASSED),
    "llama2_70b_bf16[H100x8-hf]": ("hf-llama2", PASSED),
    "mistral_7b_bf16[H100x8-hf]": ("hf-mistral", PASSED),
}
V25_02 = {
    "grok1_314b_bf16[H100x8]": ("grok1", PASSED),
    "llama3.1_8b_bf16[H100x8]": ("llama3.1", PASSED),
    "llama3_70b_bf16[H100x128]": ("maxtext", PASSED),
    "megatron_175b_bf16[H100x128]": ("nemo_megatron", PASSED),
    "nemotron4_15b_bf16[H100x16]": ("nemotron", PASSED),
    "llama3_8b_bf16[H100x8-finetuning-sft]": ("llama3/finetuning", PASSED),
    "llama3_8b_bf16[H100x16-finetuning-lora]": ("llama3/finetuning", PASSED),
}

V25_04 = {
    "grok1_314b_bf16[H100x8]": ("grok1", PASSED),
    "llama3.1_8b_bf16[H100x8]": ("llama3.1", PASSED),
    "llama3_70b_bf16[H100x128]": ("maxtext", PASSED),
    "megatron_175b_bf16[H100x128]": ("nemo_megatron", PASSED),
    "nemotron4_15b_bf16[H100x16]": ("nemotron", PASSED),
    "llama3_8b_bf16[H100x8-finetuning-sft]": ("ft_llama3", PASSED),
    "llama3_8b_bf16[H100x16-finetuning-lora]": ("ft_llama3", PASSED),
}


def own(tag: str, rows: list[Own], *, framework: str = "megatron-bridge", launcher: str = "nemo-run") -> Release:
    """What is run of a release by tables of our own."""
    return Release(
        tag,
        {row.id: (row.directory, row.outcome) for row in rows},
        launcher=launcher,
        installed=True,
        accelerator=rows[0].accelerator,
        tables=tuple(row.table(framework) for row in rows),
    )


def befallen(release: Release, *models: str) -> Release:
    """One row of each of these models, which is slow, out of memory, or without a container; the others are left out."""
    faults = {model: fault for model, fault in zip(models, FAULTS, strict=False) if model}
    rows = {
        row: (recipe, FAULTS[fault])
        for model, fault in faults.items()
        for row, (recipe, _) in release.rows.items()
        if row.startswith(model)
    }
    tables = tuple(table for table, row in zip(release.tables, release.rows, strict=False) if row in rows)
    exported = {"GSW_STANDIN": ",".join(f"{model}*={fault}" for model, fault in faults.items())}
    return replace(release, rows=rows, tables=tables, exported=exported)


RELEASES = [
    *(Release(tag, V24_11) for tag in ("v24.11.1", "v25.01", "v25.01.1")),
    *(Release(tag, V25_02) for tag in ("v25.02.02", "v25.03")),
    Release("v25.04", V25_04),
    Release("v25.04.02", dict(list(V25_04.items())[-2:])),
    Release(
        "v25.05",
        {
            "nemotron4_15b_bf16[H100x16]": ("nemotron", PASSED),
            "nemotron-h_56b_fp8[H100x32]": ("nemotronh", PASSED),
        },
        installed=True,
    ),
    Release(
        "v25.05",
        {
            "deepseek_v3_671b_bf16[GB200x128]": ("deepseek_v3/pretraining", PASSED),
            "grok1_314b_bf16[GB200x128]": ("grok1", PASSED),
            "llama3.1_405b_bf16[GB200x128]": ("llama3.1", PASSED),
            "llama4_maverick_400b_bf16[GB200x128]": ("llama4", PASSED),
        },
        installed=True,
        accelerator="GB200",
    ),
    own("v25.08", V25_08, framework="nemo"),
    own("v26.06.01", V26_06_01),
    own("v26.08.00", V26_08),
    own("v26.08.00", V26_08_GB200),
    own("v26.06.01", [V26_08_GB200[1]]),
    *(
        own(tag, [TORCHTITAN], framework="torchtitan", launcher="configured-sbatch")
        for tag in ("v26.06.01", "v26.08.00")
    ),
    own(
        "v25.12",
        [TORCHTITAN._replace(outcome=REFUSED + "launch.sh names its log without the job's id")],
        framework="torchtitan",
        launcher="sbatch",
    ),
    *(
        Release(
            tag,
            {row: (recipe, outcomes[number]) for row, (recipe, outcomes) in FOUR.items()},
            documents=True,
            installed=tag >= "v25.05",
        )
        for number, tag in enumerate(DOCUMENTS)
    ),
    *(
        Release(
            "v24.11.1", OLD | {row: (recipe, said) for row, (recipe, _) in OLD.items()}, exported={"GSW_STANDIN": fault}
        )
        for fault, said in FAULTS.items()
    ),
    befallen(Release("v25.03", V25_02), "grok1", "llama3.1", "llama3_70b"),
    befallen(Release("v25.04", V25_04), "llama3.1", "nemotron4", "llama3_8b"),
    befallen(own("v25.08", V25_08, framework="nemo"), "deepseek-v3", "grok1", "llama3.1"),
    befallen(own("v26.08.00", V26_08), "qwen3", "llama3.1", "gpt_oss"),
    *(
        befallen(own("v26.08.00", [TORCHTITAN], framework="torchtitan", launcher="configured-sbatch"), *models)
        for models in (("deepseek",), ("", "deepseek"), ("", "", "deepseek"))
    ),
    *(
        replace(release, exported={"GSW_STANDIN": "together"})
        for release in (
            Release("v24.11.1", dict(list(V24_11.items())[1:3])),
            own("v26.08.00", [V26_08[3], V26_08[3]._replace(size="8b", gpus=8)]),
        )
    ),
]
#: What a shell has left of another run.
LEFT_OVER = [
    Release(tag, {"llama3.1_8b_bf16[H100x8]": ("llama3.1", PASSED)}, exported={"TP": "4", "MAX_STEPS": "7"})
    for tag in ("v24.11.1", "v25.04")
]
LEFT_OVER.append(replace(own("v26.08.00", [V26_08[3]]), exported={"TP": "2", "GBS": "64", "MAX_STEPS": "7"}))
#: The largest rows that READMEs have, and as large a one of today's way to launch.
LARGE = [
    Release(
        "v24.11.1",
        {
            "llama3.1_405b_bf16[H100x2304]": ("llama3.1", PASSED),
            "llama2_70b_fp8[H100x2048]": ("maxtext", PASSED),
        },
    ),
    Release("v25.05.02", {"grok1_314b_bf16[H100x512]": ("grok1", PASSED)}, installed=True),
    own("v26.08.00", [V26_08[3]._replace(size="405b", gpus=2304)]),
]
