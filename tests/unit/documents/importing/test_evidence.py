"""Which framework trains, by what a document says: each line of a table is a kind of sentence that READMEs have."""

from __future__ import annotations

import pytest

from pytest_gsw.documents.importing.evidence import Finding, read_evidence
from pytest_gsw.documents.importing.markdown import parse_document
from tests.unit.documents.importing.conftest import Read

FIGURES = "| GPUs | GBS | Step time (s) |\n|---|---|---|\n| 8 | 64 | 2.5 |\n"
ACCOUNT = "A HuggingFace account is required: create a token and `export HF_TOKEN=<your token>` to run the training."


def finding(text: str, table: int = 0) -> Finding:
    document = parse_document("README.md", text)
    return read_evidence(document).of(document.tables[table])


def framework(*lines: str) -> str:
    """The framework of a table below these lines."""
    return finding("\n\n".join((*lines, FIGURES))).framework


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("`Epoch 0: 100%| 50/50 [09:10<00:00, global_step=49.0, train_step_timing in s=11.00]`", "nemo"),
        ("grep 'completed step:' *.out | tail -1", "maxtext"),
        ("I0411 15:03:26 programs.py:366] [PAX STATUS]: train_step() took 0.6 seconds.", "paxml"),
        ("{'train_runtime': 12.5, 'train_samples_per_second': 9.3}", "huggingface"),
        (" iteration 9/ 50 | elapsed time per iteration (ms): 812.0 | lm loss: 9.1 |", "megatron"),
        ("Step Time : 9.09s GPU utilization: 810.0TFLOP/s/GPU", "megatron-bridge"),
        ("[rank0]: step: 10  loss:  8.1  memory: 40.1GiB(50%)  tps: 6,785  mfu: 39.7%", "torchtitan"),
        ("grep -h 'tps:' *.out", "torchtitan"),
        ("epoch=0/micro_step=8/global_step=8, RunningAvgSamplesPerSec=12.1, CurrSamplesPerSec=12.4", "deepspeed"),
        ("\t Train throughput/device/batches_per_sec: 0.41", "llm-foundry"),
        ("| INFO | Max iter time: 7.286123 seconds", "automodel"),
    ],
)
def test_a_quoted_log_line(line: str, name: str) -> None:
    found = finding(f"# Llama\n\n```\n{line}\n```\n\n{FIGURES}")
    assert (found.framework, found.line, found.what) == (name, 4, "log line")


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("It converts `nvcr.io/nvidia/nemo:24.09` to `nvidia+nemo+24.09.sqsh`.", "nemo"),
        ("enroot import docker://nvcr.io#nvidia/nemo:25.04.01", "nemo"),
        ("Container: [NeMo24.07](https://catalog.ngc.nvidia.com/orgs/nvidia/containers/nemo/tags)", "nemo"),
        ("docker pull ghcr.io/nvidia/jax:maxtext-2024-12-09", "maxtext"),
        ("The container is nvcr.io/nvidia/jax:25.10-maxtext-py3.", "maxtext"),
        ("rocm/jax-training:maxtext-v26.5", "maxtext"),
        ("ghcr.io/nvidia/jax:pax-2024-03-04", "paxml"),
        ("docker run rocm/megatron-lm:v25.8_py310", "megatron"),
        ("mosaicml/llm-foundry:2.3.1_cu121-latest", "llm-foundry"),
        ("docker run nvcr.io/nvidia/nemo-automodel:25.11", "automodel"),
        ("docker run nvcr.io/nvidia/nemo-rl:v0.4.0", "nemo-rl"),
        # From 25.09 on it holds Megatron-Bridge, too, and Megatron alone at any time.
        ("docker run nvcr.io/nvidia/nemo:25.11", ""),
        ("docker run nvcr.io/nvidia/nemo:${TAG}", ""),
        ("docker run nvcr.io/nvidia/pytorch:25.03-py3", ""),
        ("docker run rocm/primus:v26.2", ""),
        ("export STAGE_PATH=/lustre/project/nemo", ""),
    ],
)
def test_an_image(line: str, name: str) -> None:
    assert framework("# Llama", line) == name


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("torchrun --nproc-per-node 8 pretrain_gpt.py --bf16", "megatron"),
        ("deepspeed --num_gpus 8 pretrain_gpt.py", "deepspeed"),
        ("torchrun pretrain_gpt.py --deepspeed --deepspeed_config ds.json", "deepspeed"),
        ("python3 -m MaxText.train MaxText/configs/base.yml run_name=one", "maxtext"),
        ("python3 -m maxtext.trainers.pre_train.train src/maxtext/configs/base.yml", "maxtext"),
        ('CONFIG_FILE="./configs/8b.toml" ./run_train.sh --training.steps=100', "torchtitan"),
        ("torchrun torchtitan/train.py --job.config-file a.toml", "torchtitan"),
        ("composer train/train.py train/yamls/pretrain/mpt-125m.yaml", "llm-foundry"),
        ("python scripts/performance/setup_experiment.py -m llama3 -s 8b", "megatron-bridge"),
        ("python -m scripts.performance.llm.pretrain; python scripts/performance/llm/pretrain_8b.py", "nemo"),
        ("nemo llm pretrain --factory llama3_8b", "nemo"),
        ("automodel examples/llm_benchmark/qwen3.yaml --nproc-per-node 8", "automodel"),
        ("torchrun nemo_automodel/recipes/llm/benchmark.py --config a.yaml", "automodel"),
        ("uv run examples/run_grpo_math.py cluster.num_nodes=4", "nemo-rl"),
        ("EXP=examples/megatron/configs/llama3_8B.yaml bash ./examples/run_pretrain.sh", "megatron"),
        ("EXP=examples/torchtitan/configs/llama3_8B.yaml bash ./examples/run_pretrain.sh", "torchtitan"),
        ("./run_train.sh", ""),
        ("accelerate launch train.py", ""),
        ("python train.py", ""),
    ],
)
def test_a_launch_command(line: str, name: str) -> None:
    assert framework("# Llama", f"```sh\n{line}\n```") == name


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("This recipe trains Llama 3 70B with the [NVIDIA NeMo framework](https://example.com/maxtext).", "nemo"),
        ("Scripts for the Maxtext Llama2 70B training workload.", "maxtext"),
        ("Benchmarks of large language models using Megatron-Bridge on several systems.", "megatron-bridge"),
        (
            "As part of the NeMo Framework, Megatron Bridge, provides the best performance for training.",
            "megatron-bridge",
        ),
        ("As part of the NVIDIA AI platform, NeMo 2.0, provides optimal performance for training.", "nemo"),
        ("Benchmarks of large language models using NeMo AutoModel with PyTorch.", "automodel"),
        (
            "As part of the NeMo Framework, NeMo RL, provides optimal performance.\n\n* Training Backend: Megatron-core.",
            "nemo-rl",
        ),
        ("The workload runs\nin **TorchTitan**, on one node.", "torchtitan"),
        ("Measurements of MPT models trained on the MosaicML platform.", "llm-foundry"),
        ("Results of the Llama 2 Hugging Face fine-tuning workload.", "huggingface"),
        ("Llama 3 is trained with Megatron-Core.", "megatron"),
        ("Llama 3 is trained with Megatron-Core.\n\nMore on Megatron Bridge elsewhere.", "megatron-bridge"),
        ("H100, BF16, NeMo 24.09.", "nemo"),
        (ACCOUNT, ""),
        ("The model is trained from a checkpoint on the Hugging Face model hub.", ""),
        ("We run with a tokenizer of Hugging Face.", ""),
        ("Training data come from a data set that was made with NeMo.", ""),
        ("Download the benchmark's weights with NeMo.", ""),
        ("Run the conversion script: it converts to MaxText.", ""),
        ("This configuration follows those defined in NeMo Framework's performance scripts.", ""),
        ("The throughput is higher than with MaxText.", ""),
        ("NeMo-Run launches the benchmark: it is run with NeMo-Run.", ""),
        ("The performance in NeMo's documentation is another.", ""),
        ("We like NeMo.", ""),
        ("[![NeMo](https://example.com/nemo.svg)](https://example.com)", ""),
        (
            "In the [container](https://example.com/containers/nemo-other/tags). Megatron Bridge reads its checkpoints.",
            "",
        ),
    ],
)
def test_what_a_sentence_says(line: str, name: str) -> None:
    assert framework("# Llama", line) == name


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("Llama 3.1 with NeMo", "nemo"),
        ("NeMo Megatron GPT3 175B", "nemo"),
        ("Megatron-Bridge performance summary", "megatron-bridge"),
        ("Megatron-LM: Llama 3", "megatron"),
        ("Megatron-DeepSpeed GPT2", "deepspeed"),
        ("HF + DeepSpeed ZeRO", "huggingface"),
        ("DeepSeek V3 with TorchTitan", "torchtitan"),
        ("HuggingFace account", ""),
        ("26.06 NeMo Container", ""),
        ("MaxText compared with torchtitan", ""),
        ("Nemotron 340B", ""),
        ("Moving from MaxText to something else", ""),
        ("Llama 3 without NeMo", ""),
        ("Finding Nemo: Llama 2 70B", ""),
    ],
)
def test_a_title(title: str, name: str) -> None:
    assert framework(f"# {title}") == framework("# Results", f"## {title}") == name


def test_the_strongest_counts() -> None:
    log = "grep train_step_timing *.out"
    image, title, text = "docker pull ghcr.io/nvidia/jax:maxtext-24", "# Llama with torchtitan", "Trained with paxml."
    assert framework(title, text, image, log) == "nemo"
    assert framework(title, text, image) == "maxtext"
    assert framework(title, text) == "torchtitan"
    assert framework("# Llama", text) == "paxml"


def test_an_account_is_no_evidence_beside_an_image() -> None:
    found = finding(f"# Llama\n\n{ACCOUNT}\n\n`nvcr.io/nvidia/nemo:25.04.01`\n\n{FIGURES}")
    assert (found.framework, found.line, found.what) == ("nemo", 5, "container image")


def test_weaker_evidence_decides_between_what_stronger_evidence_fits() -> None:
    image = "docker run nvcr.io/nvidia/nemo:25.11"
    assert framework("# Llama 3 with Megatron-Bridge", image) == "megatron-bridge"
    assert framework("# Llama 3 with NeMo", image) == "nemo"
    assert framework("# Llama 3 with MaxText", image) == ""
    address = "It has the settings of [their scripts](https://example.org/Megatron-Bridge/scripts)."
    assert framework("# Llama 3", "Llama 3 is trained with Megatron-Core.", address) == "megatron"
    log = "`iteration 9/ 50 | elapsed time per iteration (ms): 812.0 |`"
    assert framework("# Megatron-Bridge", log) == "megatron-bridge"
    within = finding(f"# DeepSpeed\n\n{log}\n\n{FIGURES}")
    assert (within.framework, within.log_format, within.log_line) == ("deepspeed", "megatron", 3)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("# Llama", "no line of the document says what trains"),
        (
            "# Llama\n\n`-m MaxText.train base.yml`\n\n`torchtitan/train.py`",
            "line 3 (launch command) is of maxtext, line 5 (launch command) is of torchtitan",
        ),
        (
            "# Llama\n\n`nvcr.io/nvidia/nemo:24.09`\n\n`torchrun pretrain_gpt.py`",
            "line 3 (container image) is of nemo, line 5 (launch command) is of deepspeed or megatron",
        ),
        (
            "# Llama\n\nTrained with NeMo.\n\nTrained with MaxText.",
            "line 3 (text) is of nemo, line 5 (text) is of maxtext",
        ),
        (
            "# Llama\n\n`nvcr.io/nvidia/nemo:25.11`",
            "line 3 (container image) is of megatron or megatron-bridge or nemo",
        ),
    ],
)
def test_why_there_is_none(text: str, problem: str) -> None:
    assert finding(f"{text}\n\n{FIGURES}") == Finding(problem=problem)


PARTS = f"""\
# GPT experiments

## Megatron

{FIGURES}
### Megatron + DeepSpeed

{FIGURES}
## HF + DeepSpeed

{FIGURES}
## Scripts

`elapsed time per iteration` is averaged over the log.

{FIGURES}"""


def test_headings_that_name_several_frameworks() -> None:
    found = [finding(PARTS, table) for table in range(4)]
    assert [one.framework for one in found] == ["megatron", "deepspeed", "huggingface", "megatron"]
    assert [one.log_format for one in found] == ["", "megatron", "", ""]


def test_what_stands_below_another_frameworks_heading() -> None:
    text = (
        f"# Llama\n\n## MaxText\n\n{FIGURES}\n## torchtitan\n\n`step: 10  loss: 8.1  tps: 6,785  mfu: 1%`\n\n{FIGURES}"
    )
    assert [finding(text, table).framework for table in (0, 1)] == ["maxtext", "torchtitan"]


def test_a_heading_of_what_a_framework_is_built_on() -> None:
    text = f"# Recipe\n\ngrep train_step_timing *.out\n\n## Megatron GPT3\n\n{FIGURES}\n## MaxText\n\n{FIGURES}"
    assert [finding(text, table).framework for table in (0, 1)] == ["nemo", "maxtext"]


def test_the_nearest_title_counts() -> None:
    assert framework("# Llama with NeMo", "## DeepSpeed") == "deepspeed"
    assert framework("# Llama with NeMo", "## Megatron GPT") == "nemo"


def test_a_table_of_versions() -> None:
    versions = "| what | which |\n|---|---|\n| image | nvcr.io/nvidia/nemo:24.09 |\n"
    assert finding(f"# Llama\n\n{versions}\n{FIGURES}", 1).framework == "nemo"


IMAGES = """\
# Llama 3.1 8b BF16 on H100

Sequence length is 4096.

| GPUs | GBS | Step time (s) | Image |
|---|---|---|---|
| 8 | 64 | 2.5 | nvcr.io/nvidia/nemo:24.09 |
| 16 | 64 | 1.3 | ghcr.io/nvidia/jax:maxtext-24 |
| 32 | 64 | 0.7 | mine |
"""


def test_a_rows_own_cell(read: Read) -> None:
    found = read(IMAGES)
    named = {row.values["gpus"].text: row.values["framework"].text for row in found.rows if "framework" in row.values}
    assert named == {"8": "nemo", "16": "maxtext"}
    reasons = {reason for _, _, key, reason in found.blanks if key == "framework"}
    assert reasons == {"line 7 (container image) is of nemo, line 8 (container image) is of maxtext"}


MODELS = """\
# Llama 3.1 8b BF16 on H100

Sequence length is 4096.

| Model | GPUs | GBS | Step time (s) |
|---|---|---|---|
| MaxText Llama2 70b | 8 | 64 | 2.5 |
| NeMo Llama2 70b | 16 | 64 | 1.3 |
| HF Llama2 70b | 32 | 64 | 0.7 |
"""


def test_a_models_cell_that_names_a_framework(read: Read) -> None:
    rows = read(MODELS).rows
    named = {row.values["gpus"].text: row.values["framework"].text for row in rows if "framework" in row.values}
    assert named == {"8": "maxtext", "16": "nemo"}


def test_the_yaml_says_what_it_rests_on(read: Read) -> None:
    text = f"# Llama 3.1 8b BF16 on H100\n\n`nvcr.io/nvidia/nemo:24.09`\n\nSequence length is 4096.\n\n{FIGURES}"
    (yaml,) = read(text).yaml_text.values()
    assert "framework: nemo  # line 3: container image\n" in yaml
    (blank,) = read(text.replace("24.09", "25.11")).yaml_text.values()
    reason = "line 3 (container image) is of megatron or megatron-bridge or nemo"
    assert f"framework:  # BLANK: {reason}\n" in blank


def test_the_title_decides_what_a_container_of_several_frameworks_runs() -> None:
    """NeMo's containers hold AutoModel, too."""
    assert framework("# NeMo AutoModel", "docker run nvcr.io/nvidia/nemo:25.07") == "automodel"
    assert framework("# Llama with NeMo", "docker run nvcr.io/nvidia/nemo:25.07") == "nemo"
