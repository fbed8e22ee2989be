"""Train a small Llama on synthetic tokens with Hugging Face's Trainer; ``launch.sh`` starts one process for each rank.

It knows nothing of pytest-gsw: what it is told, and what it prints, is the launch contract (docs/recipes.md).
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

try:
    import torch
    from torch.utils.data import Dataset
    from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback, TrainingArguments
except ModuleNotFoundError as error:
    install = f"pip install '.[smoke]' in a checkout of pytest-gsw for {sys.executable}"
    advice = f"{install}, or name another Python in RUN_CONF_PYTHON"
    raise ModuleNotFoundError(f"{error}: {advice}") from None

#: The architecture by MODEL_SIZE, which is the number of parameters.
SIZES: dict[str, dict[str, int]] = {
    "20m": {
        "num_hidden_layers": 4,
        "hidden_size": 512,
        "intermediate_size": 1408,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "vocab_size": 8192,
    },
    "1b": {
        "num_hidden_layers": 20,
        "hidden_size": 2048,
        "intermediate_size": 5632,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "vocab_size": 32768,
    },
}

DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}

#: A rank that waits longer than this for the others gives up: a hang is to end with the reason in the log.
COLLECTIVE_TIMEOUT_S = int(os.environ.get("COLLECTIVE_TIMEOUT_S", "120"))

#: Rows and columns of the calibration's matrices: as large as keeps the device busy.
CALIBRATION_SIZE = {"cpu": 1024, "cuda": 8192}
CALIBRATION_S = 2.0
PRODUCTS_AT_ONCE = 10


def main() -> None:
    """Train as the environment says."""
    if number("WORLD_SIZE") == 1 and os.environ["ACCELERATOR"] != "CPU":
        # Of several GPUs that a single process sees, the Trainer would take all.
        os.environ["CUDA_VISIBLE_DEVICES"] = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    if os.environ["DTYPE"] not in DTYPES:
        raise ValueError(f"DTYPE is {os.environ['DTYPE']}, wanted one of {', '.join(DTYPES)}")
    say(identity())
    device = join_group()
    torch.manual_seed(1)
    config = LlamaConfig(**SIZES[os.environ["MODEL_SIZE"]], max_position_embeddings=number("SEQ_LEN"), use_cache=False)
    arguments = training_arguments(device)
    fault, _, amount = os.environ.get("SMOKE_FAULT", "").partition(":")
    if fault:
        say(f"SMOKE_FAULT={fault}:{amount}: this training is broken on purpose")
    trainer = Trainer(
        LlamaForCausalLM(config),
        arguments,
        train_dataset=Counting(number("SEQ_LEN"), config.vocab_size, samples=number("GBS") * number("MAX_STEPS")),
        callbacks=[FAULTS[fault](amount)] if fault else [],
    )
    # Before and after: a machine that others use as well is not as fast all the time.
    before = matrix_product_flops(device)
    trainer.train()
    calibration = (before + matrix_product_flops(device)) / 2
    if arguments.process_index == 0:
        say(f"GSW: CALIBRATION_FLOPS={calibration:.4e}")
    if torch.distributed.is_initialized():
        # A rank that just ends aborts now and then: threads of its group are still at work.
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


def say(line: str) -> None:
    """Write one line to the log, whole."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def number(name: str) -> int:
    """A whole number above 0 from the environment."""
    value = int(os.environ[name])
    if value < 1:
        raise ValueError(f"{name} is {value}, wanted a whole number above 0")
    return value


def identity() -> str:
    """The line by which a log is known as this run's; every rank prints it."""
    names = ("MODEL", "FRAMEWORK", "MODEL_SIZE", "DTYPE", "GSW_VERSION", "GPUS_PER_NODE")
    facts = {name: os.environ[name] for name in names}
    facts |= {"JOB_NUM_NODES": os.environ["SLURM_JOB_NUM_NODES"], "JOB_ID": os.environ["SLURM_JOB_ID"]}
    return "GSW: " + " ".join(f"{name}={value}" for name, value in facts.items())


def join_group() -> torch.device:
    """Meet the other ranks, where there are others, and say what this one computes on: its GPU, or a core."""
    on_gpu = os.environ["ACCELERATOR"] != "CPU"
    if on_gpu and not torch.cuda.is_available():
        raise RuntimeError("No CUDA GPUs are available, and the row is of a GPU")
    if number("WORLD_SIZE") == 1:
        return torch.device("cuda" if on_gpu else "cpu")
    if "RANK" not in os.environ:  # torchrun has set it, srun has not
        os.environ.update(RANK=os.environ["SLURM_PROCID"], LOCAL_RANK=os.environ["SLURM_LOCALID"])
        os.environ.setdefault("MASTER_ADDR", os.environ["SLURM_LAUNCH_NODE_IPADDR"])
    device = torch.device("cpu")
    if on_gpu:
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
        torch.cuda.set_device(device)
    timeout = timedelta(seconds=COLLECTIVE_TIMEOUT_S)
    torch.distributed.init_process_group("nccl" if on_gpu else "gloo", timeout=timeout)
    return device


def training_arguments(device: torch.device) -> TrainingArguments:
    """How the Trainer is to train, and to log."""
    on_gpu = device.type == "cuda"
    samples_at_once = number("MBS") * number("WORLD_SIZE")
    if number("GBS") % samples_at_once:
        raise ValueError(f"a global batch of {number('GBS')} is no multiple of {samples_at_once}, MBS times ranks")
    return TrainingArguments(
        output_dir=tempfile.gettempdir(),  # nothing is saved there
        save_strategy="no",
        report_to="none",
        max_steps=number("MAX_STEPS"),
        per_device_train_batch_size=number("MBS"),
        gradient_accumulation_steps=number("GBS") // samples_at_once,
        learning_rate=1e-4,
        lr_scheduler_type="constant",
        optim="adamw_torch_fused" if on_gpu else "adamw_torch",
        bf16=os.environ["DTYPE"] == "bf16",
        use_cpu=not on_gpu,
        ddp_find_unused_parameters=False,
        log_level="info",
        logging_steps=1,
        # The loss is shown as it is, be it NaN.
        logging_nan_inf_filter=False,
        disable_tqdm=True,
    )


class Counting(Dataset[dict[str, torch.Tensor]]):
    """Synthetic samples: each counts up from a first token of its own, so that there is something to learn."""

    def __init__(self, sequence_length: int, vocabulary_size: int, samples: int) -> None:
        self._tokens = torch.arange(sequence_length)
        self._vocabulary_size, self._samples = vocabulary_size, samples

    def __len__(self) -> int:
        return self._samples

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        tokens = (self._tokens + 97 * index) % self._vocabulary_size
        return {"input_ids": tokens, "labels": tokens}


def matrix_product_flops(device: torch.device, seconds: float = CALIBRATION_S) -> float:
    """FLOP/s of one rank, of all ranks that multiply matrices at the same time for so long.

    After some products each waits for the others, as in training: whatever disturbs one of them, disturbs all.
    A product of two n x n matrices has 2 n^3 floating-point operations.
    """
    size = CALIBRATION_SIZE[device.type]
    left, right = (torch.randn(size, size, device=device, dtype=DTYPES[os.environ["DTYPE"]]) for _ in range(2))
    # The first product loads libraries, and the first collective connects the ranks.
    torch.mm(left, right)
    of_slowest_rank(0.0, device)
    done, elapsed_s, start_s = 0, 0.0, time.perf_counter()
    while elapsed_s < seconds:
        for _ in range(PRODUCTS_AT_ONCE):
            torch.mm(left, right)
        if device.type == "cuda":
            torch.cuda.synchronize()
        done += PRODUCTS_AT_ONCE
        elapsed_s = of_slowest_rank(time.perf_counter() - start_s, device)
    return done * 2 * size**3 / elapsed_s


def of_slowest_rank(seconds: float, device: torch.device) -> float:
    """The largest of every rank's number, for which each waits."""
    if not torch.distributed.is_initialized():
        return seconds
    largest = torch.tensor(seconds, dtype=torch.float64, device=device)
    torch.distributed.all_reduce(largest, torch.distributed.ReduceOp.MAX)
    return float(largest)


# ---- SMOKE_FAULT: real faults, to see that they are found ------------------------------------------


class Slow(TrainerCallback):
    """Each step does more work than it should: matrix products for so much of the time that it has taken."""

    def __init__(self, share: str) -> None:
        self._share = float(share.removesuffix("%")) / 100
        self._began_s = 0.0

    def on_step_begin(self, args: TrainingArguments, *_: Any, **__: Any) -> None:
        """Look at the clock."""
        self._began_s = time.perf_counter()

    def on_optimizer_step(self, args: TrainingArguments, *_: Any, **__: Any) -> None:
        """Do the work."""
        if args.device.type == "cuda":
            torch.cuda.synchronize()
        took_s = of_slowest_rank(time.perf_counter() - self._began_s, args.device)
        matrix_product_flops(args.device, self._share * took_s)


class OutOfMemory(TrainerCallback):
    """The process gets no more memory than it has, as on a node or a GPU that somebody else has filled."""

    def __init__(self, _: str) -> None: ...

    def on_train_begin(self, args: TrainingArguments, *_: Any, **__: Any) -> None:
        """Close the door."""
        if args.device.type == "cuda":
            torch.cuda.set_per_process_memory_fraction(1e-3)
        else:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize(),) * 2)


class Diverging(TrainerCallback):
    """The learning rate is one with which every training diverges."""

    def __init__(self, _: str) -> None: ...

    def on_step_begin(self, *_: Any, **what: Any) -> None:
        """Set it."""
        for group in what["optimizer"].param_groups:
            group["lr"] = 1e30


class Hanging(TrainerCallback):
    """The last rank stops in the third step, and the others wait for it."""

    def __init__(self, _: str) -> None: ...

    def on_step_begin(self, args: TrainingArguments, state: Any, *_: Any, **__: Any) -> None:
        """Stop."""
        if state.global_step == 2 and args.process_index == args.world_size - 1:
            while True:
                time.sleep(3600)


FAULTS: dict[str, Callable[[str], TrainerCallback]] = {
    "slow": Slow,
    "oom": OutOfMemory,
    "nan": Diverging,
    "hang": Hanging,
}

if __name__ == "__main__":
    main()
