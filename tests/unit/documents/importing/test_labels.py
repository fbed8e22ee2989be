from __future__ import annotations

import pytest

from pytest_gsw.documents.importing.labels import (
    Label,
    accelerator,
    attribute_name,
    gpu_count,
    is_inference,
    is_measured,
    node_count,
    read_label,
)


@pytest.mark.parametrize(
    ("text", "key", "unit"),
    [
        ("Training step time (seconds per step)", "step_time_s", "s"),
        ("Throughput in tokens per second", "tokens_per_s", ""),
        ("Model flops utilization", "mfu", ""),
        ("MFU (%)", "mfu", "%"),
        ("Time to train 1T tokens in days", "days_to_train_1t_tokens", ""),
        ("Time to train 1T tokens(days)", "days_to_train_1t_tokens", ""),
        ("Training samples per second", "samples_per_s", ""),
        ("TFLOPS_per_GPU", "tflops_per_gpu", ""),
        ("TFlops", "tflops_per_gpu", ""),
        ("TFLOP/s/GPU", "tflops_per_gpu", ""),
        ("Speed", "speed", ""),
        ("Iteration time (ms)", "step_time_s", "ms"),
        ("s/step", "step_time_s", "s"),
        ("ms/iter", "step_time_s", "ms"),
        ("Avg. step time [s]", "step_time_s", "s"),
        ("Tokens/s", "tokens_per_s", ""),
        ("tokens/sec/GPU", "tokens_per_s_per_gpu", ""),
        ("Throughput per GPU (tokens/s)", "tokens_per_s_per_gpu", ""),
        ("Time (ms)", "time_s", "ms"),
        ("GPUs", "gpus", ""),
        ("# GPUs", "gpus", ""),
        ("Nodes", "nodes", ""),
        ("Model Size", "size", ""),
        ("Precision", "dtype", ""),
        ("SeqLen", "sequence_length", ""),
        ("PP Chunks", "gradient_accumulation_steps", ""),
        ("GAS", "gradient_accumulation_steps", ""),
        ("Mic-BS", "micro_batch_size", ""),
        ("Glob-BS", "global_batch_size", ""),
        ("Global Batch Size (GBS)", "global_batch_size", ""),
        ("VP", "vp", ""),
        ("Notes", "notes", ""),
        ("MicroBatchSize", "micro_batch_size", ""),
        ("MicroBatchSize (S)", "micro_batch_size", ""),
        ("GlobalBatchSize (S)", "global_batch_size", ""),
        ("SeqLen (T)", "sequence_length", ""),
        ("Throughput (T/s)", "tokens_per_s", ""),
        ("Throughput (S/s)", "samples_per_s", ""),
        ("Throughput (T/s/GPU)", "tokens_per_s_per_gpu", ""),
        ("Tokens / sec / GPU", "tokens_per_s_per_gpu", ""),
        ("Model TFLOP / sec / GPU", "tflops_per_gpu", ""),
        ("#-GPUs", "gpus", ""),
        ("System", "accelerator", ""),
        ("TPS/GPU", "tokens_per_s_per_gpu", ""),
        ("Throughput (TPS/GPU)", "tokens_per_s_per_gpu", ""),
        ("TPS per chip", "tokens_per_s_per_gpu", ""),
        ("tok/s/device", "tokens_per_s_per_gpu", ""),
        ("Throughput per chip (tokens/s)", "tokens_per_s_per_gpu", ""),
        ("Throughput (k tokens/s)", "tokens_per_s", "k"),
        ("kTok/s/GPU", "tokens_per_s_per_gpu", "k"),
        ("TFLOP/s per chip", "tflops_per_gpu", ""),
        ("TFLOP/chip/sec", "tflops_per_gpu", ""),
        ("TFLOPs/s/device", "tflops_per_gpu", ""),
        ("Model TFLOP/sec/GPU", "tflops_per_gpu", ""),
        ("Per-GPU TFLOPs", "tflops_per_gpu", ""),
        ("Achieved teraFLOP/s per GPU", "tflops_per_gpu", ""),
        ("Time per step", "step_time_s", ""),
        ("s/it", "step_time_s", "s"),
        ("Elapsed time per iteration (ms)", "step_time_s", "ms"),
        ("Chips", "gpus", ""),
        ("# of GPUs", "gpus", ""),
        ("World size", "gpus", ""),
        ("Nodes × GPUs", "gpus", ""),  # noqa: RUF001
        ("NUM_NODES", "nodes", ""),
        ("# of nodes", "nodes", ""),
        ("Datatype", "dtype", ""),
        ("Llama3.1 Model Size", "size", ""),
        ("Packed Sequence Length", "sequence_length", ""),
        ("Tensor MP size", "tp", ""),
        ("Pipeline parallel degree", "pp", ""),
    ],
)
def test_labels(text: str, key: str, unit: str) -> None:
    assert read_label(text) == Label(key, unit)


@pytest.mark.parametrize(
    "text",
    [
        "Checkpoint Size",
        "Supported Scales",
        "Run Command",
        "DS",
        "Throughput",
        "Peak",
        "Batch size",
        "GlobalBatchSize (T)",
        "HFU",
        "MFU/HFU",
        "HFU (%)",
        "WPS",
        "TPS",
        "Tokens/s/node",
        "Tokens/step",
        "Median tokens/s",
        "it/s",
        "Steps/s",
        "PFLOP/s",
        "Aggregate TFLOP/s",
        "Peak TFLOPS",
        "SeqLen (K)",
        "Learning rate",
        "x" * 200,
    ],
)
def test_other_words_are_no_labels(text: str) -> None:
    assert read_label(text) is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("128x H100 GPUs (GBS=256)", 128),
        ("Throughput on 256 H100 GPUs", 256),
        ("512x GB200 GPUs (GBS=512) Strong Scaling", 512),
        ("64 GPUs", 64),
        ("1,024 GPUs", 1024),
        ("8xH100", 8),
        ("8 nodes x 8 GPUs", 64),
        ("16 nodes of 4 GPUs", 64),
        ("4x8 GPUs", 32),
        ("2x8 H100", 16),
        ("128-GPU", 128),
        ("H100 x 64", 64),
        ("GPUs: 512", 512),
        ("2 servers x 8 GPUs", 16),
        ("2 VMs x 8 GPUs", 16),
        ("2 nodes x 8 H100", 16),
        ("8 GPUs x 2 nodes", 16),
        ("8 H100s x 2 nodes", 16),
        ("8 GPUs per node x 2 nodes", 16),
        ("2 nodes, 16 H100 per node", 32),
        ("16 H100 (2x8)", 16),
        ("2 Knoten x 8 GPUs", None),
        ("2 racks*8 GPUs", None),
        ("8 GPUs/node", None),
        ("8 GPUs per node", None),
        ("8 GPUs each", None),
        ("8 H100 x 2", None),
        ("DGX H100 x 8", None),
        ("64-128 GPUs", None),
        ("64/128 GPUs", None),
        ("64 - 128 GPUs", None),
        ("Llama 3 H100 GPUs", None),
        ("2x DGX H100", None),
        ("BF16 H100", None),
        ("FP8 H100 GPUs", None),
        ("Llama 2 70b H100", None),
        ("0 GPUs", None),
        ("64", None),
    ],
)
def test_gpu_counts(text: str, found: int | None) -> None:
    assert gpu_count(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [("16 nodes", 16), ("16-node", 16), ("2x DGX H100", 2), ("4 DGX nodes", 4), ("64 GPUs", None), ("nodes", None)],
)
def test_node_counts(text: str, found: int | None) -> None:
    assert node_count(text) == found


@pytest.mark.parametrize("text", ["TTFT", "ISL/OSL", "Concurrency", "inter-token latency"])
def test_words_of_inference(text: str) -> None:
    assert is_inference(text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        *((text, True) for text in ("tokens/s/node", "Peak throughput", "Step Time Std", "WPS", "TPS", "HFU")),
        *((text, False) for text in ("tokens/s", "Peak")),
    ],
)
def test_words_of_measurements(text: str, found: bool) -> None:
    assert is_measured(text) is found


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("H100", "H100"),
        ("H100s", "H100"),
        ("V100 32GB", "V100-32GB"),
        ("v100-16gb", "V100-16GB"),
        ("h100_80gb", "H100"),
        ("DGX-H100", "H100"),
        ("GH200x", None),
        ("", None),
    ],
)
def test_accelerators(text: str, name: str | None) -> None:
    assert accelerator(text) == name


@pytest.mark.parametrize(
    ("text", "name"),
    [("GPU M", "gpu_m"), ("PA_CPU", "pa_cpu"), ("ScatEmb", "scat_emb"), ("1st", "column_1st"), ("%", "column")],
)
def test_attribute_names(text: str, name: str) -> None:
    assert attribute_name(text) == name
