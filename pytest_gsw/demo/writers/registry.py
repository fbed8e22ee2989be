"""The writer of each log format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pytest_gsw.demo.simulation import Run
from pytest_gsw.demo.writers.automodel import automodel
from pytest_gsw.demo.writers.composer import composer
from pytest_gsw.demo.writers.deepspeed import deepspeed
from pytest_gsw.demo.writers.events import Event, Writer, lines, preamble
from pytest_gsw.demo.writers.huggingface import huggingface
from pytest_gsw.demo.writers.maxtext import maxtext
from pytest_gsw.demo.writers.megatron import megatron
from pytest_gsw.demo.writers.nemo import nemo
from pytest_gsw.demo.writers.paxml import paxml
from pytest_gsw.demo.writers.torchtitan import torchtitan


def _whole(writer: Writer) -> Writer:
    """A writer whose runs say first who they are, and last the documented calibration, where the row has one."""

    def write(run: Run) -> Iterator[Event]:
        yield from preamble(run)
        at_s = 0.0
        for event in writer(run):
            at_s = event.at_s
            yield event
        if run.baseline.calibration_flops is not None:
            yield from lines(at_s, f"GSW: CALIBRATION_FLOPS={run.baseline.calibration_flops!r}")

    return write


_TRAINERS: Mapping[str, Writer] = {
    "paxml": paxml,
    "nemo": nemo,
    "maxtext": maxtext,
    "megatron": megatron,
    "torchtitan": torchtitan,
    "automodel": automodel,
    "composer": composer,
    "deepspeed": deepspeed,
    "huggingface": huggingface,
}
#: The writer of each log format.
WRITERS: Mapping[str, Writer] = {name: _whole(writer) for name, writer in _TRAINERS.items()}
