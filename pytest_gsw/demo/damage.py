"""What a fault leaves of a healthy log, and the last words that it adds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile

from pytest_gsw.demo.simulation import Run
from pytest_gsw.demo.writers import Event

_XLA_FORMATS = frozenset({"paxml", "maxtext"})
_STEPS_BEFORE_FAILURE = 3


def damage(healthy: Sequence[Event], run: Run, word: str) -> tuple[Event, ...]:
    """The events of a run with a fault; faults that do not show in the log leave it whole."""
    count = run.logged_steps
    match word:
        case "oom":
            return _ending(before_training(healthy), _out_of_memory(run))
        case "fail":
            return _ending(_until(healthy, min(_STEPS_BEFORE_FAILURE, count - 1)), _TRACEBACK)
        case "oom-kill":
            killed = f"slurmstepd: error: Detected 1 oom_kill event in StepId={run.job.id}.0"
            return _ending(_until(healthy, count // 3), (f"{killed}. Some of the step tasks have been OOM Killed.",))
        case "stall":
            return _until(healthy, count // 2)
        case "short":
            return _until(healthy, count * 6 // 10)
        case "truncated":
            return tuple(_truncated(healthy, count))
        case "no-log":
            return ()
        case _:
            return tuple(healthy)


def before_training(events: Sequence[Event]) -> tuple[Event, ...]:
    """The events before the first that tells of a step."""
    return tuple(takewhile(lambda event: not event.step and not event.figure_end, events))


def _until(events: Sequence[Event], steps: int) -> tuple[Event, ...]:
    """The events up to the last that reports the given step."""
    return tuple(takewhile(lambda event: event.step <= steps, events))


def _ending(events: tuple[Event, ...], lines: Iterable[str]) -> tuple[Event, ...]:
    at_s = events[-1].at_s
    # A crash does not wait for a progress bar to end its line.
    return (*events, *(Event(at_s, f"{line}\n".encode()) for line in ("", *lines)))


def _truncated(events: Sequence[Event], last: int) -> Iterator[Event]:
    """All up to the last character of the last step's figure: what is left looks like a (smaller) number."""
    for event in events:
        if event.step == last and event.figure_end:
            yield event._replace(data=event.data[: event.figure_end])
            return
        yield event


_TRACEBACK = (
    "Traceback (most recent call last):",
    '  File "/workspace/train.py", line 212, in <module>',
    "    main()",
    '  File "/workspace/train.py", line 187, in main',
    "    loss = train_step(state, next(batches))",
    "RuntimeError: shape '[4096, 8192]' is invalid for input of size 33550336",
)

_XLA_OUT_OF_MEMORY = (
    "Traceback (most recent call last):",
    '  File "/opt/train/train.py", line 431, in train_loop',
    "    state, metrics = p_train_step(state, batch, rng)",
    "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8.00GiB.",
    "BufferAssignment OOM Debugging.",
)


def _out_of_memory(run: Run) -> tuple[str, ...]:
    if run.baseline.log_format in _XLA_FORMATS:
        return _XLA_OUT_OF_MEMORY
    rank = min(3, run.job.gpus - 1)
    error = _old_cuda_error(rank) if run.baseline.accelerator.startswith("V100") else _cuda_error(rank)
    trace = (
        "Traceback (most recent call last):",
        '  File "/workspace/pretrain.py", line 118, in <module>',
        "    trainer.fit(model)",
        '  File "/usr/lib/python3/dist-packages/torch/nn/modules/linear.py", line 117, in forward',
        "    return F.linear(input, self.weight, self.bias)",
        error,
    )
    return tuple(f"[rank{rank}]: {line}" for line in trace)


def _cuda_error(rank: int) -> str:
    return (
        f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU {rank} has a total capacity"
        " of 79.11 GiB of which 829.50 MiB is free. Including non-PyTorch memory, this process has 78.29 GiB memory"
        " in use. Of the allocated memory 70.52 GiB is allocated by PyTorch, and 5.83 GiB is reserved by PyTorch but"
        " unallocated."
    )


def _old_cuda_error(rank: int) -> str:
    """The wording of the PyTorch releases that trained on V100s."""
    return (
        f"RuntimeError: CUDA out of memory. Tried to allocate 1.50 GiB (GPU {rank}; 31.75 GiB total capacity;"
        " 28.34 GiB already allocated; 829.50 MiB free; 29.90 GiB reserved in total by PyTorch)"
    )
