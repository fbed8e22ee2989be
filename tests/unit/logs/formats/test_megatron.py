from __future__ import annotations

import pytest

from pytest_gsw.errors import LogError
from tests.unit.logs.conftest import Read
from tests.unit.logs.lines import NOISE, indexes, megatron, pipe, seconds

BRIDGE = b"Step Time : 9.09s GPU utilization: 663.5MODEL_TFLOP/s/GPU\n"


def test_milliseconds_become_seconds(read: Read) -> None:
    log = read("megatron", NOISE + megatron(1, "9125.5") + megatron(2, "4250.0"))
    assert seconds(log) == [9.1255, 4.25]
    assert indexes(log) == [1, 2]
    assert (log.total_steps, log.identity.global_batch_size, log.attempts) == (20, 96, 1)


def test_bigscience_writes_seconds(read: Read) -> None:
    assert seconds(read("megatron", megatron(10, "7.2310", unit="s"))) == [7.231]


def test_the_mean_of_ten_iterations_is_one_step(read: Read) -> None:
    assert indexes(read("megatron", megatron(10, "4.0") + megatron(20, "4.0"))) == [10, 20]


def test_argonne_writes_keys(read: Read) -> None:
    log = read(
        "megatron",
        b"[2031-02-03][I][megatron/training_log:402]  iteration=      4/     90 | consumed_samples=   96 | "
        b"elapsed_time_per_iteration_ms=3415.3 | global_batch_size= 6144 | lm loss=12.31 | grad_norm=1.5 | "
        b"number_of_nan_iterations=  0 |\n",
    )
    assert (seconds(log), log.total_steps, log.identity.global_batch_size) == ([3.4153], 90, 6144)


def test_gpt_neox(read: Read) -> None:
    line = (
        b" samples/sec: 147.230 | iteration        1/    1024 | elapsed time per iteration (ms): 3477.6 | "
        b"approx flops per GPU: 9.5TFLOPS | lm_loss: 1.1E+01 | number of nan iterations:   0 |\n"
    )
    assert seconds(read("megatron", line)) == [3.4776]


def test_primus_current_of_current_and_average_in_colours_and_twice(read: Read) -> None:
    head = "[\x1b[32m20310203 04:05:06\x1b[0m][\x1b[36mrank-7/8\x1b[0m][\x1b[1mINFO \x1b[0m] [-trainer.py:2560] :"
    lines = [megatron(step, "532.1/615.7", head=head).replace(b"\n", b"\x1b[0m\n") * 2 for step in (1, 2, 3)]
    log = read("megatron", b"".join(lines))
    assert seconds(log) == [0.5321, 0.5321, 0.5321]
    assert log.attempts == 1


def test_bridge_lines_alone(read: Read) -> None:
    log = read("megatron", BRIDGE + BRIDGE.replace(b"9.09", b"8.5").replace(b"MODEL_", b""))
    assert (seconds(log), indexes(log)) == ([9.09, 8.5], [None, None])


def test_two_engines_that_print_the_same_step_count_once(read: Read) -> None:
    log = read("megatron", BRIDGE + pipe(1, "9.090") + megatron(1, "9090.0") + BRIDGE + megatron(2, "9100.0"))
    assert seconds(log) == [9.09, 9.1]


@pytest.mark.parametrize("second_start", [1, 3, 5])
def test_a_counter_that_does_not_grow_is_a_restart(read: Read, second_start: int) -> None:
    first = b"".join(megatron(step, "6000.0") for step in range(1, 6))
    second = b"".join(megatron(step, "4000.0") for step in range(second_start, 9))
    log = read("megatron", first + second)
    assert log.attempts == 2
    assert indexes(log) == list(range(second_start, 9))
    assert set(seconds(log)) == {4.0}


def test_a_step_told_by_two_ranks_counts_once(read: Read) -> None:
    log = read("megatron", megatron(1, "4000.0", head="0: ") + megatron(1, "4001.0", head="1: "))
    assert (seconds(log), log.attempts) == ([4.0], 1)


def test_missing_steps_are_no_restart(read: Read) -> None:
    assert indexes(read("megatron", megatron(1, "4.0") + megatron(2, "4.0") + megatron(4, "4.0"))) == [1, 2, 4]


def test_what_a_script_computed_is_no_step(read: Read) -> None:
    log = read(
        "megatron",
        megatron(1, "4250.0") + b"0: elapsed time per iteration: 2871.657\n1: elapsed time per iteration: nan\n"
        b"1: throughput per GPU: nan\n validation loss at iteration 5 | lm loss value: 9.1\n",
    )
    assert (seconds(log), log.not_finite) == ([4.25], None)


def test_text_glued_after_the_line(read: Read) -> None:
    log = read("megatron", megatron(1, "4250.0").replace(b"   0 |\n", b"   0 | > padded vocab (size: 50257) with 47\n"))
    assert (seconds(log), log.not_finite) == ([4.25], None)


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        ("lm loss: 9.500000E+00", "lm loss: NAN", "loss: NAN"),
        ("grad norm: 1.250", "grad norm: inf", "grad norm: inf"),
        ("nan iterations:   0", "nan iterations:   1", "number of nan iterations:   1"),
    ],
)
def test_what_is_not_finite_is_told(read: Read, before: str, after: str, text: str) -> None:
    log = read("megatron", megatron(1, "4.0") + megatron(2, "4.0").replace(before.encode(), after.encode()))
    assert log.not_finite == (2, text)


def test_a_line_without_a_loss_that_was_not_skipped(read: Read) -> None:
    lost = megatron(2, "4.0").replace(b" lm loss: 9.500000E+00 |", b"")
    log = read("megatron", megatron(1, "4.0") + lost)
    assert log.not_finite == (2, "no loss, though none was skipped")
    skipped = lost.replace(b"skipped iterations:   0", b"skipped iterations:   1")
    assert read("megatron", megatron(1, "4.0") + skipped).not_finite is None
    # DeepSpeed's scaler skips steps without a word in this line.
    scaled = lost.replace(b"loss scale: 1.0", b"loss scale: 8192.0")
    assert read("megatron", megatron(1, "4.0") + scaled).not_finite is None


@pytest.mark.parametrize("other", ["load_balancing_loss", "z_loss", "moe loss", "mtp_1 loss", "load balancing loss"])
def test_another_loss_does_not_stand_for_the_models(read: Read, other: str) -> None:
    """Megatron leaves out a loss that is NaN, and prints those of its experts all the same."""
    lost = megatron(2, "4.0").replace(b"lm loss", other.encode())
    assert read("megatron", megatron(1, "4.0") + lost).not_finite == (2, "no loss, though none was skipped")
    both = megatron(2, "4.0", rest=f" {other}: 1.020000E+00 |")
    assert list(read("megatron", megatron(1, "4.0") + both).losses or ()) == [9.5, 9.5]


def test_a_line_that_counts_no_skipped_iterations_has_a_loss(read: Read) -> None:
    first, second = (megatron(step, "4.0").partition(b" grad norm")[0] + b"\n" for step in (1, 2))
    assert read("megatron", first + second).without_loss == ()
    assert read("megatron", first + second.replace(b" lm loss: 9.500000E+00 |", b"")).without_loss == (2,)


def test_no_nan_iterations_and_an_infinite_loss_scale_are_fine(read: Read) -> None:
    assert read("megatron", megatron(1, "4.0").replace(b"scale: 1.0", b"scale: inf")).not_finite is None


def test_checkpoint_saves_of_the_last_attempt_in_seconds(read: Read) -> None:
    old = b"time (ms) | save-checkpoint: 17960.68\n"
    log = read(
        "megatron",
        megatron(5, "4.0") + b"time (ms) | save-checkpoint: 99999.99\n" + megatron(1, "4.0") + old
        + b"time (ms) | forward: 1.0 | save checkpoint: 2000.0 | backward: 3.0\n"
        + b"(min, max) time across ranks (ms):\n    save-checkpoint ............................: (3000.10, 3000.50)\n"
        + b"    load-checkpoint ................................: (1.00, 1.00)\n"
        + b"0: time (ms) | save_checkpoint: 4000.0\n",
    )  # fmt: skip
    assert log.checkpoint_saves_s == (17.96068, 2.0, 3.0005, 4.0)


def test_crlf(read: Read) -> None:
    assert seconds(read("megatron", (megatron(1, "1.0") + megatron(2, "2000.0")).replace(b"\n", b"\r\n"))) == [0.001, 2]


def test_an_unterminated_last_line_never_counts(read: Read) -> None:
    whole = megatron(1, "2874.6")
    for cut in range(1, len(whole)):
        log = read("megatron", whole + megatron(2, "2861.4")[:-cut])
        assert seconds(log) == [2.8746]


# ---- Megatron-Bridge by what its first rank alone prints -------------------------------------------

BEGINS = b"[after dataloaders are built] datetime: 2031-02-03 04:05:06 \ndone with setup ...\n"
STARTS = b"Starting training loop at iteration 0\n"


@pytest.mark.parametrize("head", [BEGINS, STARTS, BEGINS + STARTS], ids=["until 2025", "loop", "both"])
def test_bridge_begins_anew_where_its_training_does(read: Read, head: bytes) -> None:
    log = read("megatron", head + 7 * BRIDGE + NOISE + head + 12 * BRIDGE.replace(b"9.09", b"8.5"))
    assert (seconds(log), log.attempts) == ([8.5] * 12, 2)


def test_bridge_that_began_anew_and_logged_nothing(read: Read) -> None:
    with pytest.raises(LogError, match="the last of 2 runs in the log has no megatron step time: "):
        read("megatron", BEGINS + 7 * BRIDGE + BEGINS)


def test_a_first_attempt_of_bridge_that_diverged(read: Read) -> None:
    first = BEGINS + 2 * BRIDGE + BRIDGE.replace(b"9.09", b"nan")
    log = read("megatron", first + STARTS + BRIDGE)
    assert (seconds(log), log.not_finite) == ([9.09], None)
    assert [(one.attempt, one.text, one.end) for one in log.diverged] == [(1, "step time nan", len(first))]


@pytest.mark.parametrize("head", [BEGINS, STARTS])
def test_bridge_says_its_end(read: Read, head: bytes) -> None:
    end = b"[after training is done] datetime: 2031-02-03 04:05:06 \n"
    assert read("megatron", head + 3 * BRIDGE).has_end_marker is False
    assert read("megatron", head + 3 * BRIDGE + end).has_end_marker
    assert read("megatron", 3 * BRIDGE).has_end_marker is None


def test_bridge_says_in_its_configuration_how_many_steps_it_does(read: Read) -> None:
    assert read("megatron", b"  train_iters: 100\n  train_samples: null\n" + BRIDGE).total_steps == 100
    assert read("megatron", b"  train_iters: null\n" + BRIDGE).total_steps is None


EVALUATION = b" validation loss at iteration 2 | lm loss value: %b | lm loss PPL: 3.033300E+03 | \n"


@pytest.mark.parametrize("figure", ["NAN", "nan", "INF", "-INF", "-1.#IND", "1.#QNAN00"])
@pytest.mark.parametrize("place", ["first", "between", "last"])
def test_a_validation_loss_that_is_not_finite_beside_finite_losses(read: Read, figure: str, place: str) -> None:
    evaluation = EVALUATION % figure.encode()
    at = {"first": 0, "between": 1, "last": 2}[place]
    steps = [megatron(1, "4000.0"), megatron(2, "4000.0")]
    log = read("megatron", b"".join((*steps[:at], evaluation, *steps[at:])))
    assert log.not_finite == (None, f"validation loss at iteration 2 | lm loss value: {figure}")
    assert (seconds(log), log.attempts, log.diverged) == ([4.0, 4.0], 1, ())


@pytest.mark.parametrize(
    "evaluation",
    [
        " validation results at iteration 2 | lm_loss value: NAN | lm_loss_ppl value: 5.025450E+01 | ",
        " validation loss at the end of training for val data | lm loss value: NAN | lm loss PPL: 6.498161E+04 | ",
        " test loss at iteration 2 on test set | lm loss value: 1.1E+01 | mtp_1 loss value: INF | lm loss PPL: 6.5E+04 | ",
    ],
)
def test_evaluations_of_megatrons_relatives(read: Read, evaluation: str) -> None:
    log = read("megatron", megatron(1, "4000.0") + evaluation.encode() + b"\n")
    assert log.not_finite is not None


def test_an_evaluation_that_is_sound(read: Read) -> None:
    assert read("megatron", megatron(1, "4000.0") + EVALUATION % b"8.017406E+00").not_finite is None
    # Its perplexity may be out of bounds.
    endless = EVALUATION.replace(b"3.033300E+03", b"INF") % b"8.017406E+02"
    assert read("megatron", megatron(1, "4000.0") + endless).not_finite is None


def test_the_evaluation_of_an_attempt_before_the_last(read: Read) -> None:
    first = megatron(1, "4000.0") + EVALUATION % b"NAN"
    log = read("megatron", first + megatron(1, "5000.0") + megatron(2, "4000.0"))
    assert (log.not_finite, log.attempts) == (None, 2)
    assert [one.text for one in log.diverged] == ["validation loss at iteration 2 | lm loss value: NAN"]
