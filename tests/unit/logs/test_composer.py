"""Composer's console log: a block of lines for each batch."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytest_gsw.errors import LogError
from pytest_gsw.logs.model import StepLog
from tests.unit.logs.lines import composer, indexes

Read = Callable[[str, bytes], StepLog]


def rates(log: StepLog) -> list[float | None]:
    return [step.tokens_per_s_per_gpu for step in log.steps]


def test_a_block_for_each_batch(read: Read) -> None:
    log = read("composer", composer(11, "410.2500") + composer(12, "6785.0000"))
    assert (indexes(log), rates(log), list(log.losses or ())) == ([11, 12], [410.25, 6785.0], [7.5, 7.5])


def test_the_first_batches_have_no_rate(read: Read) -> None:
    first = composer(1, "0").partition(b"\t Train throughput")[0]
    log = read("composer", first + composer(2, "410.2500"))
    assert (indexes(log), log.attempts, log.without_loss) == ([2], 1, ())


def test_samples_where_the_data_counts_no_tokens(read: Read) -> None:
    log = read("composer", composer(1, "410.0000").replace(b"device/tokens", b"device/batches"))
    assert [step.samples_per_s for step in log.steps] == [12.5]


def test_an_epoch_counts_its_batches_anew(read: Read) -> None:
    text = b"".join(
        composer(batch, f"{epoch}.{batch:04}", total=2).replace(b"[batch=", b"[epoch=%d][batch=" % epoch)
        for epoch in (1, 2)
        for batch in (1, 2)
    )
    log = read("composer", text)
    assert (indexes(log), log.attempts) == ([1, 2, 3, 4], 1)


def test_an_evaluation_is_no_batch(read: Read) -> None:
    evaluation = composer(3, "9.0000").replace(b"[batch=", b"[Eval batch=")
    assert indexes(read("composer", composer(1, "410.0000") + evaluation + composer(2, "410.0000"))) == [1, 2]


def test_an_attempt_that_ends_before_its_first_rate_is_one(read: Read) -> None:
    first = composer(1, "0").partition(b"\t Train throughput")[0]
    with pytest.raises(LogError) as caught:
        read("composer", composer(1, "410.0000") + composer(2, "410.0000") + composer(3, "410.0000") + first)
    assert caught.value.fact.startswith("the last of 2 runs in the log has no composer step time")


def test_a_loss_that_is_not_finite_before_the_first_rate(read: Read) -> None:
    first = composer(1, "0", loss="nan").partition(b"\t Train throughput")[0]
    assert read("composer", first + composer(2, "410.0000")).not_finite == (1, "loss/train/total: nan")


def test_an_earlier_attempt_that_diverged(read: Read) -> None:
    text = b"".join(
        composer(batch, "410.0000", loss=loss) for batch, loss in ((1, "7.1000"), (2, "nan"), (3, "7.1000"))
    )
    log = read("composer", text + composer(1, "410.0000") + composer(2, "410.0000"))
    assert ([one.text for one in log.diverged], log.not_finite) == (["loss/train/total: nan"], None)


def test_every_node_prints(read: Read) -> None:
    text = b"".join(
        composer(batch, f"{400 + rank}.0000", head=f"{rank}: ") for batch in (1, 2, 3) for rank in (0, 8, 16)
    )
    assert rates(read("composer", text)) == [408.0, 408.0, 408.0]


@pytest.mark.parametrize("figure", ["410", "410.", "410.25", "410.250"])
def test_a_figure_with_fewer_decimals_was_cut(read: Read, figure: str) -> None:
    assert indexes(read("composer", composer(1, "410.2500") + composer(2, figure))) == [1]
