"""The log formats by name, in the order in which a log is tested for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_gsw.common.blocks import Block
    from pytest_gsw.logs.model import LogFormat

#: In the order of precedence if a log fits several: a framework before the engine that it runs on. Megatron's lines
#: come before those of DeepSpeed's pipeline engine, which have the same steps; Hugging Face's summary of the run before
#: DeepSpeed's rates; steps before figures, since a job may test NCCL before it trains. Each has a module of its name.
_NAMES = (
    *("maxtext", "paxml", "nemo", "megatron", "torchtitan", "automodel", "composer", "huggingface", "deepspeed"),
    *("nanotron", "olmo-core", "nemo-rl", "nccl-tests", "serving", "mllog"),
)


class _Formats(Mapping[str, "LogFormat"]):
    """The formats, whose modules and patterns are loaded on access: most sessions need one."""

    def __getitem__(self, name: str) -> LogFormat:
        if name not in _NAMES:
            raise KeyError(name)
        own = name.replace("-", "_")
        log_format: LogFormat = getattr(import_module(f"pytest_gsw.logs.formats.{own}"), own.upper())
        return log_format

    def __iter__(self) -> Iterator[str]:
        return iter(_NAMES)

    def __len__(self) -> int:
        return len(_NAMES)


FORMATS: Mapping[str, LogFormat] = _Formats()


def format_of(name: str, read: Block | None, key: str) -> LogFormat | None:
    """The log format of a row: by its name, or by the block that its table has for the figure ``key``."""
    if read is None:
        return FORMATS.get(name)
    from pytest_gsw.logs.formats.blocks import block_format

    return block_format(read, key, name)
