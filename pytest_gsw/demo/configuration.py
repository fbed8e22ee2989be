"""How each framework prints what a simulated run was set up with, at the beginning of its log.

The names, their order and what stands around them are the frameworks' own; of some hundred lines each, those are here
that a reader looks for, and those that look like them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_gsw.demo.simulation import Run


def degrees(run: Run) -> Mapping[str, int]:
    """Degrees of parallelism that give the job's GPUs: the row's, as far as they can be true."""
    own, gpus = run.baseline.parallelism, run.job.gpus
    tp, cp = own.tp or 1, own.cp or 1
    pp = own.pp or 1
    if gpus % (tp * pp * cp) or (own.dp and own.pp and not own.ep and tp * pp * cp * own.dp != gpus):
        pp = max(1, gpus // (tp * cp * (own.dp or 1)))  # the document contradicts itself
    return {"tp": tp, "pp": pp, "cp": cp, "ep": own.ep or 1, "dp": max(1, gpus // (tp * pp * cp))}


def _precision(run: Run) -> str:
    """What everything is computed in that is not FP8."""
    return run.baseline.dtype if run.baseline.dtype in {"fp16", "fp32"} else "bf16"


def _layers(run: Run) -> int:
    return run.baseline.all_layers or 24


def _hidden_size(run: Run) -> int:
    return run.baseline.hidden_size or 8192


def megatron(run: Run) -> Iterator[str]:
    """Megatron-LM's table of arguments; some of them look like results, others like each other."""
    row, parallel, precision = run.baseline, degrees(run), _precision(run)
    arguments = {
        "bf16": precision == "bf16",
        "check_for_nan_in_loss_and_grad": True,
        "context_parallel_size": parallel["cp"],
        "data_parallel_size": parallel["dp"],
        "encoder_seq_length": row.sequence_length,
        "expert_model_parallel_size": parallel["ep"],
        "ffn_hidden_size": 4 * _hidden_size(run),
        "fp16": precision == "fp16",
        "fp16_lm_cross_entropy": False,
        "fp8": "hybrid" if row.dtype == "fp8" else None,
        "global_batch_size": run.global_batch_size,
        "hidden_size": _hidden_size(run),
        "log_interval": run.log_interval,
        "micro_batch_size": row.micro_batch_size or 1,
        "num_layers": _layers(run),
        "params_dtype": {"bf16": "torch.bfloat16", "fp16": "torch.float16", "fp32": "torch.float32"}[precision],
        "pipeline_model_parallel_size": parallel["pp"],
        "retriever_seq_length": 256,
        "seq_length": row.sequence_length,
        "tensor_model_parallel_size": parallel["tp"],
        "train_iters": len(run.steps_s),
        "virtual_pipeline_model_parallel_size": row.parallelism.vp,
        "world_size": run.job.gpus,
    }
    yield (
        f"using world size: {run.job.gpus}, data-parallel-size: {parallel['dp']}, tensor-model-parallel size:"
        f" {parallel['tp']}, pipeline-model-parallel size: {parallel['pp']} "
    )
    yield "------------------------ arguments ------------------------"
    yield from (f"  {name} {'.' * (48 - len(name))} {value}" for name, value in arguments.items())
    yield "-------------------- end of arguments ---------------------"


def nemo(run: Run) -> Iterator[str]:
    """NeMo 1's configuration, as OmegaConf writes it below a message."""
    row, parallel = run.baseline, degrees(run)
    yield from (
        "    name: megatron_gpt",
        "    trainer:",
        f"      num_nodes: {run.job.nodes}",
        "      precision: " + {"bf16": "bf16", "fp16": "16", "fp32": "32"}[_precision(run)],
        f"      max_steps: {len(run.steps_s)}",
        "    exp_manager:",
        "      log_step_timing: true",
        "      step_timing_kwargs:",
        "        sync_cuda: true",
        "        buffer_size: 5",
        "    model:",
        f"      micro_batch_size: {row.micro_batch_size or 1}",
        f"      global_batch_size: {run.global_batch_size}",
        f"      tensor_model_parallel_size: {parallel['tp']}",
        f"      pipeline_model_parallel_size: {parallel['pp']}",
        f"      virtual_pipeline_model_parallel_size: {row.parallelism.vp or 'null'}",
        f"      context_parallel_size: {parallel['cp']}",
        f"      expert_model_parallel_size: {parallel['ep']}",
        f"      encoder_seq_length: {row.sequence_length}",
        "      max_position_embeddings: ${.encoder_seq_length}",
        f"      num_layers: {_layers(run)}",
        f"      hidden_size: {_hidden_size(run)}",
        f"      fp8: {str(row.dtype == 'fp8').lower()}",
        "      fp8_amax_history_len: 1024",
        "      data:",
        f"        seq_length: {row.sequence_length}",
    )


def maxtext(run: Run, steps: int) -> Iterator[str]:
    """MaxText's parameters, in the order of the alphabet."""
    row = run.baseline
    fsdp = row.parallelism.fsdp or run.job.gpus
    inner = math.gcd(fsdp, run.job.gpus_per_node)
    parameters = {
        "base_num_decoder_layers": _layers(run),
        "dcn_data_parallelism": -1,
        "dcn_fsdp_parallelism": fsdp // inner,
        "dtype": {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}[_precision(run)],
        "emb_dim": _hidden_size(run),
        "global_batch_size_to_load": run.global_batch_size,
        "global_batch_size_to_train_on": run.global_batch_size,
        "ici_fsdp_parallelism": inner,
        "learning_rate_schedule_steps": steps,
        "max_target_length": row.sequence_length,
        "num_decoder_layers": _layers(run),
        "per_device_batch_size": run.global_batch_size / run.job.gpus,
        "quantization": "fp8" if row.dtype == "fp8" else "",
        "steps": steps,
        "weight_dtype": "float32",
    }
    yield from (f"Config param {name}: {value}" for name, value in parameters.items())


def paxml(run: Run) -> Iterator[tuple[str, str]]:
    """Fiddle's configuration of Paxml, each line with the place in ``train.py`` that prints it."""
    row, model = run.baseline, "model.lm_tpl"
    yield "train.py:186", f"  input.seq_len : {row.sequence_length}"
    lines = {
        "model.dtype": "type/jax.numpy/float32",
        "model.fprop_dtype": "dtype[bfloat16]",
        f"{model}.fprop_dtype": "NoneType",
        f"{model}.model_dims": _hidden_size(run),
        f"{model}.stacked_transformer_tpl.block.num_layers": 1,
        f"{model}.stacked_transformer_tpl.x_times": _layers(run),
        "train.num_train_steps": len(run.steps_s),
    }
    yield from (("train.py:189", f"  {name} : {value}") for name, value in lines.items())


def deepspeed(run: Run) -> Iterator[str]:
    """What DeepSpeed prints of its own configuration; its ``world_size`` counts data-parallel ranks."""
    row = run.baseline
    settings = {
        "bfloat16_enabled": _precision(run) == "bf16",
        "fp16_auto_cast": None,
        "fp16_enabled": _precision(run) == "fp16",
        "train_batch_size": run.global_batch_size,
        "train_micro_batch_size_per_gpu": row.micro_batch_size or 1,
        "world_size": degrees(run)["dp"],
    }
    yield from (f"  {name} {'.' * (29 - len(name))} {value}" for name, value in settings.items())


def training_arguments(run: Run) -> Iterator[str]:
    """What scripts of Hugging Face print of their ``TrainingArguments``."""
    yield "TrainingArguments("
    yield f"bf16={_precision(run) == 'bf16'},"
    yield "bf16_full_eval=False,"
    yield f"fp16={_precision(run) == 'fp16'},"
    yield f"per_device_train_batch_size={run.baseline.micro_batch_size or 1},"
    yield ")"
