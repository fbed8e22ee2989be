"""Each format's steps, as their frameworks write them."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from pytest_gsw.errors import LogError
from pytest_gsw.logs.formats.registry import FORMATS
from pytest_gsw.logs.model import StepLog
from tests.messages import wording
from tests.unit.logs.conftest import Read
from tests.unit.logs.lines import (
    NOISE,
    automodel,
    bar,
    composer,
    dll,
    indexes,
    maxtext,
    megatron,
    paxml,
    paxml_start,
    pipe,
    printer,
    seconds,
    summary,
    throughput,
    titan,
)


def test_no_other_name_is_a_format() -> None:
    assert FORMATS.get("registry") is None
    assert len(FORMATS) == len(list(FORMATS))


def test_a_format_that_is_not_asked_for_is_not_loaded() -> None:
    program = (
        "import sys; from pytest_gsw.logs.formats.registry import FORMATS; FORMATS['maxtext'];"
        "print([name.rpartition('.')[2] for name in sys.modules if name.startswith('pytest_gsw.logs.formats.')])"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout == "['registry', 'base', 'maxtext']\n"


def test_steps_with_their_numbers_and_offsets(read: Read) -> None:
    first = maxtext(0, "9.125")
    log = read("maxtext", NOISE + first + NOISE + maxtext(1, "4.250"))
    assert log.format == "maxtext"
    assert [(step.index, step.seconds) for step in log.steps] == [(0, 9.125), (1, 4.25)]
    assert [step.offset for step in log.steps] == [len(NOISE), 2 * len(NOISE) + len(first)]
    assert log.attempts == 1
    assert log.total_steps is None


def test_a_step_is_the_median_over_the_ranks(read: Read) -> None:
    log = read("maxtext", maxtext(0, "4.000") + maxtext(0, "5.000") + maxtext(0, "4.100"))
    assert seconds(log) == [4.1]


def test_a_later_run_of_maxtext(read: Read) -> None:
    # A lagging rank in each of two runs.
    one_run = b"".join(
        maxtext(step, "4.100") + maxtext(step + 1, "4.200") if step % 2 == 0 else b"" for step in range(10)
    ) + b"".join(maxtext(step, "4.300") for step in (8, 9))
    log = read("maxtext", one_run.replace(b"4.", b"6.") + one_run)
    assert log.attempts >= 2
    assert max(seconds(log)) < 5
    # A resumed run is a new attempt.
    ranks = range(8)
    before = b"".join(maxtext(step, "6.000") for step in range(12) for _ in ranks)
    after = b"".join(maxtext(step, "4.000") for step in range(11, 14) for _ in ranks)
    log = read("maxtext", before + after)
    assert (log.attempts, indexes(log), seconds(log)) == (2, [11, 12, 13], [4.0, 4.0, 4.0])


def test_older_forms_prefixes_and_glued_lines(read: Read) -> None:
    # Older forms and prefixes.
    log = read(
        "maxtext",
        b"completed step: 1, seconds: 8.5, TFLOP/s: 1.731, loss: 9.206\n"
        b"# completed step: 2, seconds: 0.5, TFLOP/s/device: 4.9, loss: 875.4\n"
        b" 12: I0203 04:05:06.789012 139 metric_logger.py:226] completed step: 3, seconds: 0.25, live slice count: 2,\n"
        b"[Rampup Batch Size Phase], completed step: 4, seconds: 0.125, total_weights: 4, loss: 9.1\n",
    )
    assert seconds(log) == [8.5, 0.5, 0.25, 0.125]
    # Lines glued by ranks are parted.
    log = read("maxtext", maxtext(0, "4.250").rstrip(b"\n") + maxtext(1, "4.500"))
    assert seconds(log) == [4.25, 4.5]


def test_evaluations_profiler_lines_and_the_shell_trace_are_no_steps(read: Read) -> None:
    log = read(
        "maxtext",
        b"Completed eval step: 5, seconds: 1.2, TFLOP/s/device: 1.0\n"
        b"completed profiler activation/deactivation step: 9\n"
        b"completed step: 101, ...\n"
        b"+ grep 'completed step: 3, seconds: 1.0' run.log\n"
        b"12: + echo completed step: 3, seconds: 1.0, loss: 1\n" + maxtext(0, "4.250"),
    )
    assert seconds(log) == [4.25]


def test_an_infinite_perplexity_is_no_problem(read: Read) -> None:
    line = maxtext(0, "4.250").replace(b"\n", b", perplexity: inf\n")
    assert read("maxtext", line).not_finite is None


BRIDGE = b"Step Time : 9.09s GPU utilization: 663.5MODEL_TFLOP/s/GPU\n"


def test_milliseconds_become_seconds(read: Read) -> None:
    log = read("megatron", NOISE + megatron(1, "9125.5") + megatron(2, "4250.0"))
    assert seconds(log) == [9.1255, 4.25]
    assert indexes(log) == [1, 2]
    assert (log.total_steps, log.identity.global_batch_size, log.attempts) == (20, 96, 1)


def test_iterations_of_megatrons_relatives(read: Read) -> None:
    # BigScience writes seconds.
    assert seconds(read("megatron", megatron(10, "7.2310", unit="s"))) == [7.231]
    # Argonne writes keys.
    log = read(
        "megatron",
        b"[2031-02-03][I][megatron/training_log:402]  iteration=      4/     90 | consumed_samples=   96 | "
        b"elapsed_time_per_iteration_ms=3415.3 | global_batch_size= 6144 | lm loss=12.31 | grad_norm=1.5 | "
        b"number_of_nan_iterations=  0 |\n",
    )
    assert (seconds(log), log.total_steps, log.identity.global_batch_size) == ([3.4153], 90, 6144)
    # GPT-NeoX.
    line = (
        b" samples/sec: 147.230 | iteration        1/    1024 | elapsed time per iteration (ms): 3477.6 | "
        b"approx flops per GPU: 9.5TFLOPS | lm_loss: 1.1E+01 | number of nan iterations:   0 |\n"
    )
    assert seconds(read("megatron", line)) == [3.4776]


def test_what_is_one_iteration(read: Read) -> None:
    # The mean of ten iterations is one step.
    assert indexes(read("megatron", megatron(10, "4.0") + megatron(20, "4.0"))) == [10, 20]
    # Two engines that print the same step count once.
    log = read("megatron", BRIDGE + pipe(1, "9.090") + megatron(1, "9090.0") + BRIDGE + megatron(2, "9100.0"))
    assert seconds(log) == [9.09, 9.1]
    # A step told by two ranks counts once.
    log = read("megatron", megatron(1, "4000.0", head="0: ") + megatron(1, "4001.0", head="1: "))
    assert (seconds(log), log.attempts) == ([4.0], 1)
    # Missing steps are no restart.
    assert indexes(read("megatron", megatron(1, "4.0") + megatron(2, "4.0") + megatron(4, "4.0"))) == [1, 2, 4]


def test_primus_current_of_current_and_average_in_colours_and_twice(read: Read) -> None:
    head = "[\x1b[32m20310203 04:05:06\x1b[0m][\x1b[36mrank-7/8\x1b[0m][\x1b[1mINFO \x1b[0m] [-trainer.py:2560] :"
    lines = [megatron(step, "532.1/615.7", head=head).replace(b"\n", b"\x1b[0m\n") * 2 for step in (1, 2, 3)]
    log = read("megatron", b"".join(lines))
    assert seconds(log) == [0.5321, 0.5321, 0.5321]
    assert log.attempts == 1


def test_bridge_lines_alone(read: Read) -> None:
    log = read("megatron", BRIDGE + BRIDGE.replace(b"9.09", b"8.5").replace(b"MODEL_", b""))
    assert (seconds(log), indexes(log)) == ([9.09, 8.5], [None, None])
    # Bridge says in its configuration how many steps it does.
    assert read("megatron", b"  train_iters: 100\n  train_samples: null\n" + BRIDGE).total_steps == 100
    assert read("megatron", b"  train_iters: null\n" + BRIDGE).total_steps is None


@pytest.mark.parametrize("second_start", [1, 3, 5])
def test_a_counter_that_does_not_grow_is_a_restart(read: Read, second_start: int) -> None:
    first = b"".join(megatron(step, "6000.0") for step in range(1, 6))
    second = b"".join(megatron(step, "4000.0") for step in range(second_start, 9))
    log = read("megatron", first + second)
    assert log.attempts == 2
    assert indexes(log) == list(range(second_start, 9))
    assert set(seconds(log)) == {4.0}


def test_what_is_no_iteration_of_megatron(read: Read) -> None:
    # What a script computed is no step.
    log = read(
        "megatron",
        megatron(1, "4250.0") + b"0: elapsed time per iteration: 2871.657\n1: elapsed time per iteration: nan\n"
        b"1: throughput per GPU: nan\n validation loss at iteration 5 | lm loss value: 9.1\n",
    )
    assert (seconds(log), log.not_finite) == ([4.25], None)
    # Text glued after the line.
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
    assert log.not_finite == (2, wording("no loss though"))
    skipped = lost.replace(b"skipped iterations:   0", b"skipped iterations:   1")
    assert read("megatron", megatron(1, "4.0") + skipped).not_finite is None
    # DeepSpeed's scaler skips steps without a word in this line.
    scaled = lost.replace(b"loss scale: 1.0", b"loss scale: 8192.0")
    assert read("megatron", megatron(1, "4.0") + scaled).not_finite is None


@pytest.mark.parametrize("other", ["load_balancing_loss", "z_loss", "moe loss", "mtp_1 loss", "load balancing loss"])
def test_another_loss_does_not_stand_for_the_models(read: Read, other: str) -> None:
    """Megatron leaves out a loss that is NaN, and prints those of its experts all the same."""
    lost = megatron(2, "4.0").replace(b"lm loss", other.encode())
    assert read("megatron", megatron(1, "4.0") + lost).not_finite == (2, wording("no loss though"))
    both = megatron(2, "4.0", rest=f" {other}: 1.020000E+00 |")
    assert list(read("megatron", megatron(1, "4.0") + both).losses or ()) == [9.5, 9.5]


def test_lines_of_megatron_that_are_fine(read: Read) -> None:
    # A line that counts no skipped iterations has a loss.
    first, second = (megatron(step, "4.0").partition(b" grad norm")[0] + b"\n" for step in (1, 2))
    assert read("megatron", first + second).without_loss == ()
    assert read("megatron", first + second.replace(b" lm loss: 9.500000E+00 |", b"")).without_loss == (2,)
    # No nan iterations and an infinite loss scale are fine.
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


# ---- Megatron-Bridge by what its first rank alone prints -------------------------------------------

BEGINS = b"[after dataloaders are built] datetime: 2031-02-03 04:05:06 \ndone with setup ...\n"
STARTS = b"Starting training loop at iteration 0\n"


@pytest.mark.parametrize("head", [BEGINS, STARTS, BEGINS + STARTS], ids=["until 2025", "loop", "both"])
def test_bridge_begins_anew_where_its_training_does(read: Read, head: bytes) -> None:
    log = read("megatron", head + 7 * BRIDGE + NOISE + head + 12 * BRIDGE.replace(b"9.09", b"8.5"))
    assert (seconds(log), log.attempts) == ([8.5] * 12, 2)


def test_an_attempt_of_bridge_that_logged_nothing_or_diverged(read: Read) -> None:
    # Bridge that began anew and logged nothing.
    with pytest.raises(LogError, match=wording("no step time of a run", runs=2, log_format="megatron") + ": "):
        read("megatron", BEGINS + 7 * BRIDGE + BEGINS)
    # A first attempt of Bridge that diverged.
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


EVALUATION = b" validation loss at iteration 2 | lm loss value: %b | lm loss PPL: 3.033300E+03 | \n"


@pytest.mark.parametrize("figure", ["NAN", "nan", "INF", "-INF", "-1.#IND", "1.#QNAN00"])
@pytest.mark.parametrize("place", ["first", "between", "last"])
def test_a_validation_loss_that_is_not_finite_beside_finite_losses(read: Read, figure: str, place: str) -> None:
    evaluation = EVALUATION % figure.encode()
    at = {"first": 0, "between": 1, "last": 2}[place]
    steps = [megatron(1, "4000.0"), megatron(2, "4000.0")]
    log = read("megatron", b"".join((*steps[:at], evaluation, *steps[at:])))
    assert log.not_finite == (None, wording("not finite line", step=2, loss=figure))
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


def test_an_evaluation_that_is_sound_or_of_an_attempt_before(read: Read) -> None:
    # An evaluation that is sound.
    assert read("megatron", megatron(1, "4000.0") + EVALUATION % b"8.017406E+00").not_finite is None
    # Its perplexity may be out of bounds.
    endless = EVALUATION.replace(b"3.033300E+03", b"INF") % b"8.017406E+02"
    assert read("megatron", megatron(1, "4000.0") + endless).not_finite is None
    # The evaluation of an attempt before the last.
    first = megatron(1, "4000.0") + EVALUATION % b"NAN"
    log = read("megatron", first + megatron(1, "5000.0") + megatron(2, "4000.0"))
    assert (log.not_finite, log.attempts) == (None, 2)
    assert [one.text for one in log.diverged] == [wording("not finite line", step=2, loss="NAN")]


def bars(*repaints: bytes) -> bytes:
    return b"".join(b"\r" + repaint for repaint in repaints) + b"\n"


def test_the_first_repaint_still_shows_the_step_before(read: Read) -> None:
    log = read(
        "nemo",
        bars(
            bar(1, "0.000", "21.40"),
            bar(2, "0.000", "21.40"), bar(2, "1.000", "12.80"),
            bar(3, "1.000", "12.80"), bar(3, "2.000", "9.980"),
        ),
    )  # fmt: skip
    assert (indexes(log), seconds(log), log.attempts, log.total_steps) == ([0, 1, 2], [21.4, 12.8, 9.98], 1, 50)


def test_repaints_of_a_bar(read: Read) -> None:
    # The last bar is told three times.
    last = bar(50, "49.00", "12.80")
    assert seconds(read("nemo", bars(last, last) + last + b"[NeMo I 2031-02-03] Removing checkpoint\n")) == [12.8]
    # Step numbers of three digits.
    log = read("nemo", bars(*(bar(done, "2e+3", "6.500", total="2000") for done in (1998, 1999, 2000))))
    assert (indexes(log), log.total_steps) == ([1997, 1998, 1999], 2000)
    # Cursor moves part repaints.
    log = read("nemo", bar(1, "0.000", "21.40") + b"\x1b[A\x1b[K" + bar(2, "1.000", "12.80") + b"\x1b[A\n")
    assert seconds(log) == [21.4, 12.8]
    # A bar that begins anew is a restart.
    log = read("nemo", bars(bar(8, "7.000", "9.000"), bar(9, "8.000", "9.000"), bar(6, "5.000", "4.250")))
    assert (log.attempts, indexes(log), seconds(log)) == (2, [5], [4.25])


def test_beyond_999_each_step_counts_once_and_at_its_own_time(read: Read) -> None:
    repaints = []
    for step in range(990, 1030):
        shown = f"{step:.3g}".replace("e+0", "e+") if step > 999 else f"{step}.0"
        before = f"{step - 1:.3g}".replace("e+0", "e+") if step > 1000 else f"{step - 1}.0"
        repaints += [bar(step + 1, before, f"{step - 1}.00"), bar(step + 1, shown, f"{step}.00")]
    log = read("nemo", bars(*repaints))
    assert seconds(log) == [989.0, *map(float, range(990, 1030))]
    assert indexes(log) == list(range(989, 1030))
    assert log.attempts == 1


def test_a_run_of_several_epochs_ends_with_an_epoch(read: Read) -> None:
    assert read("nemo", printer(19, 19, "7.5") + printer(0, 20, "7.75", epoch=1)).total_steps == 40
    assert (
        read("nemo", bars(bar(50, "49.00", "4.5"), bar(1, "49.00", "4.5"), bar(1, "50.00", "4.5"))).total_steps == 100
    )
    # Resumed, NeMo 2 shows the run's end in each epoch.
    resumed = printer(0, 7, "7.5", epoch=1) + printer(6, 13, "7.5", epoch=1)
    assert read("nemo", resumed).total_steps == 20
    # The step's number has but three digits, and the bar's counter is that of an epoch.
    assert read("nemo", bars(bar(7, "2e+3", "4.5"))).total_steps is None


def test_where_a_bar_ends(read: Read) -> None:
    # The first repaint of the last bar is not the last step.
    log = read("nemo", bars(bar(49, "48.00", "4.5"), bar(50, "48.00", "4.5")))
    assert (indexes(log), log.total_steps) == ([48], 50)
    assert read("nemo", bars(bar(50, "48.00", "4.5"))).total_steps == 50
    # Bars that count batches of which several make a step name no end.
    assert read("nemo", bars(bar(40, "9.000", "4.5", total="160"))).total_steps is None
    assert read("nemo", printer(16, 3, "4.5")).total_steps is None


def test_lightning_says_when_it_stops_before_the_end_of_an_epoch(read: Read) -> None:
    stopped = b"`Trainer.fit` stopped: `max_steps=%d` reached.\n"
    steps = bars(*(bar(done, f"{done - 1}.000", "4.5", total="5000") for done in range(1, 9)))
    assert read("nemo", steps).total_steps == 5000
    assert read("nemo", steps + b"0: " + stopped % 8).total_steps == 8
    assert read("nemo", steps[:-1] + stopped % 8).total_steps == 8
    assert read("nemo", printer(3, 3, "7.5") + stopped % 4).total_steps == 4
    again = bars(bar(1, "0.000", "4.5", total="5000"))
    assert read("nemo", steps + stopped % 8 + again).total_steps == 5000


def test_dllogger(read: Read) -> None:
    # DLLogger is preferred to the bar it is glued to.
    log = read(
        "nemo", bar(1, "0.000", "21.40") + dll(0, "21.367358684539795") + bar(2, "1.000", "12.80") + dll(1, "12.8175")
    )
    assert (seconds(log), indexes(log), log.total_steps) == ([21.367359, 12.8175], [0, 1], 50)

    # DLLogger's JSON.
    def record(step: int, time: float) -> bytes:
        data = {"reduced_train_loss": 9.5, "global_step": float(step), "train_step_timing in s": time, "epoch": 0}
        return f"DLLL {json.dumps({'type': 'LOG', 'step': step, 'data': data})}\n".encode()

    config = b'DLLL {"type": "LOG", "step": "PARAMETER", "data": {"cfg/global_batch_size": 2048}}\n'
    log = read("nemo", config + record(0, 107.25) + record(1, 32.5))
    assert (seconds(log), indexes(log), log.identity.global_batch_size) == ([107.25, 32.5], [0, 1], 2048)


def test_nemo_2_lines(read: Read) -> None:
    log = read("nemo", printer(0, 0, "10.51") + printer(1, 1, "1.249e+03"))
    assert (seconds(log), log.identity.global_batch_size, log.total_steps) == ([10.51, 1249.0], 256, 20)
    # NeMo 2 iterations begin anew in each epoch global steps do not.
    log = read("nemo", printer(18, 18, "7.5") + printer(0, 19, "7.75", epoch=1))
    assert (log.attempts, indexes(log)) == (1, [18, 19])
    # NeMo 2 without global step.
    lines = printer(18, 18, "7.5") + printer(19, 19, "7.6") + printer(0, 20, "7.75", epoch=1)
    plain = b"\n".join(line.replace(b"global_step", b"other") for line in lines.split(b"\n"))
    assert indexes(read("nemo", plain)) == [18, 19, 20]


def test_nemo_2_resumed_after_a_crash(read: Read) -> None:
    before = b"".join(printer(step, step, "7.6") for step in range(16))
    after = b"".join(printer(step, step, "7.5") for step in range(10, 20))
    log = read("nemo", before + after)
    assert (log.attempts, indexes(log), set(seconds(log))) == (2, list(range(10, 20)), {7.5})


def test_what_is_no_step_of_nemo(read: Read) -> None:
    # Validation is no step.
    log = read(
        "nemo",
        b"Validation: iteration 1/20\nStep 3: validation_step_timing in s=2.034\nlog_train_step_timing: True\n"
        b"  train_step_timing: true\nStep 12: train_step_timing in s=2.25\n",
    )
    assert (seconds(log), indexes(log)) == ([2.25], [12])
    # The list at the end where there is nothing better.
    line = b"[NeMo I 2031-02-03 04:05:06 nemo_logging:393] train_step_timing in s: [21.37, 12.82, 9.98]\n"
    assert seconds(read("nemo", line)) == [21.37, 12.82, 9.98]
    assert seconds(read("nemo", bar(1, "0.000", "21.40") + b"\r" + line)) == [21.4]


def test_plain_lightning_bars_number_their_steps_over_epochs(read: Read) -> None:
    def plain(epoch: int, done: int, time: str, total: str = "3") -> bytes:
        values = f"0.37it/s, v_num=1, train_step_timing in s={time}"
        return f"Epoch {epoch}:  33%|███▎ | {done}/{total} [00:02<00:05, {values}]".encode()

    log = read(
        "nemo",
        bars(
            plain(0, 1, "2.710"), plain(0, 2, "2.710"), plain(0, 2, "0.250"), plain(0, 3, "0.375"),
            plain(1, 0, "0.375"), plain(1, 1, "0.375"), plain(1, 1, "0.500", total="?"),
        ),
    )  # fmt: skip
    assert (seconds(log), indexes(log), log.attempts) == ([2.71, 0.25, 0.375, 0.5], [0, 1, 2, 3], 1)


def test_plain_bars_whose_heads_other_lines_took_away(read: Read) -> None:
    def headless(done: int, head: str = "[NeMo I 2031-02-03 nemo_logging:393]     ") -> bytes:
        return f"{head}| {done}/41 [00:02<00:24, 1.53it/s, train_step_timing in s=0.250]\n".encode()

    one_epoch = b"".join(headless(done) for done in (4, 24, 4, 39))
    log = read("nemo", one_epoch + headless(41, "Epoch 0: 100%") + one_epoch + headless(41, "Epoch 1: 100%"))
    assert log.attempts == 1
    assert indexes(log) == [3, 23, 27, 62, 64, 68, 88, 92, 127, 129]
    again = read("nemo", headless(8, "Epoch 1:  20%") + headless(2, "Epoch 0:   5%") + headless(3, "Epoch 0:   7%"))
    assert (again.attempts, indexes(again)) == (2, [1, 2])


def test_mlperf_records_count_tokens_not_steps(read: Read) -> None:
    def record(time: float, tokens: float, key: str = "train_step_timing in s") -> bytes:
        value = {"key": "tracked_stats", "value": {key: time, "reduced_train_loss": 7.5}, "metadata": {"step": tokens}}
        return f"  0: :::MLLOG {json.dumps(value)}\n".encode()

    log = read("nemo", record(10.75, 4194304) + record(10.5, 8388608))
    assert (seconds(log), indexes(log)) == ([10.75, 10.5], [None, None])
    newer = read("nemo", record(20.25, 896.0, "train_step_time") + record(19.5, 1792.0, "train_step_time"))
    assert seconds(newer) == [20.25, 19.5]
    again = read("nemo", record(10.75, 4194304) + record(10.5, 8388608) + record(9.5, 4194304))
    assert (seconds(again), again.attempts) == ([9.5], 2)


def test_steps_of_paxml_have_no_numbers(read: Read) -> None:
    # Steps have no numbers.
    log = read("paxml", paxml("9.125000") + paxml("4.25"))
    assert (seconds(log), indexes(log), log.attempts) == ([9.125, 4.25], [None, None], 1)
    # Other status lines are no steps.
    log = read(
        "paxml",
        b"[PAX STATUS]: Checkpoint load / variable init took 12 seconds\n"
        b"[PAX STATUS]: E2E time: Elapsed time for <_main>: 117.65 seconds  (@ <main.py:486>)\n"
        b"[PAX STATUS] step_i: 10, training loss: 6.5\n" + paxml("4.25"),
    )
    assert (seconds(log), log.not_finite) == ([4.25], None)


def test_one_rank_of_paxml(read: Read) -> None:
    # One rank by label.
    log = read(
        "paxml", paxml("9.5", 7, "0: ") + paxml("8.5", 7, "1: ") + paxml("4.25", 7, "1: ") + paxml("5.5", 7, "0: ")
    )
    assert seconds(log) == [9.5, 5.5]
    # One rank by thread the one with most lines.
    log = read("paxml", paxml("9.5", 7) + paxml("8.5", 8) + paxml("4.25", 8) + paxml("5.5", 7) + paxml("4.5", 8))
    assert seconds(log) == [8.5, 4.25, 4.5]
    # Ranks that nothing tells apart are counted by their starts.
    steps = b"".join(paxml(time) for time in ("9.1", "9.2", "9.3", "4.1", "4.3", "4.2", "5.0"))
    log = read("paxml", paxml_start() * 3 + steps)
    assert seconds(log) == [9.2, 4.2]


def test_a_requeued_run_of_paxml(read: Read) -> None:
    # A requeued run appends to the log.
    first = paxml_start(1) + paxml_start(2) + (paxml("9.5", 1) + paxml("9.4", 2)) * 5
    again = paxml_start(3) + paxml_start(4) + (paxml("4.5", 3) + paxml("4.4", 4)) * 3
    log = read("paxml", first + again)
    assert (log.attempts, seconds(log)) == (2, [4.5] * 3)
    # A requeued run with the same label and thread.
    first = paxml_start(1, "0: ") + paxml("9.5", 1, "0: ") * 5
    log = read("paxml", first + paxml_start(1, "0: ") + paxml("4.5", 1, "0: ") * 2)
    assert (log.attempts, seconds(log)) == (2, [4.5, 4.5])


def test_nan_loss_of_the_last_attempt_is_told(read: Read) -> None:
    bad = b"[PAX STATUS] step_i: 10, training loss: nan\n"
    assert read("paxml", paxml("4.5") + bad).not_finite == (10, "[PAX STATUS] step_i: 10, training loss: nan")
    assert read("paxml", paxml("4.5", 1) + bad + paxml_start(1) + paxml("4.5", 1)).not_finite is None
    assert (
        read("paxml", paxml("4.5") + b"[PAX STATUS] Applying nan_to_num, isnan: maybe_inf_to_nan\n").not_finite is None
    )


# ---- NeMo AutoModel's benchmark: the number of an iteration in one line, its time in another -----


def test_iterations_of_automodel(read: Read) -> None:
    # Iterations and their times.
    log = read("automodel", automodel(0, "9.125000") + automodel(1, "4.250001"))
    assert (indexes(log), seconds(log), list(log.losses or ())) == ([0, 1], [9.125, 4.250001], [7.5, 7.5])
    # A time without its iteration is no step.
    stray = automodel(9, "1.000000").splitlines(keepends=True)[3]
    log = read("automodel", stray + automodel(0, "9.125000") + stray + automodel(1, "4.250000"))
    assert seconds(log) == [9.125, 4.25]
    # The line that begins an iteration has no time.
    begun = automodel(2, "1.000000").splitlines(keepends=True)[0]
    assert indexes(read("automodel", automodel(0, "9.125000") + automodel(1, "4.250000") + begun)) == [0, 1]


def test_a_second_run_begins_anew(read: Read) -> None:
    log = read(
        "automodel",
        automodel(0, "9.125000") + automodel(1, "4.250000") + automodel(2, "4.250000") + automodel(0, "8.000000"),
    )
    assert (log.attempts, seconds(log)) == (2, [8.0])


# ---- Composer's console log: a block of lines for each batch -------------------------------------


def rates(log: StepLog) -> list[float | None]:
    return [step.tokens_per_s_per_gpu for step in log.steps]


def test_blocks_of_composer(read: Read) -> None:
    # A block for each batch.
    log = read("composer", composer(11, "410.2500") + composer(12, "6785.0000"))
    assert (indexes(log), rates(log), list(log.losses or ())) == ([11, 12], [410.25, 6785.0], [7.5, 7.5])
    # The first batches have no rate.
    first = composer(1, "0").partition(b"\t Train throughput")[0]
    log = read("composer", first + composer(2, "410.2500"))
    assert (indexes(log), log.attempts, log.without_loss) == ([2], 1, ())
    # Samples where the data counts no tokens.
    log = read("composer", composer(1, "410.0000").replace(b"device/tokens", b"device/batches"))
    assert [step.samples_per_s for step in log.steps] == [12.5]
    # An evaluation is no batch.
    evaluation = composer(3, "9.0000").replace(b"[batch=", b"[Eval batch=")
    assert indexes(read("composer", composer(1, "410.0000") + evaluation + composer(2, "410.0000"))) == [1, 2]
    # Every node prints.
    text = b"".join(
        composer(batch, f"{400 + rank}.0000", head=f"{rank}: ") for batch in (1, 2, 3) for rank in (0, 8, 16)
    )
    assert rates(read("composer", text)) == [408.0, 408.0, 408.0]


def test_an_epoch_counts_its_batches_anew(read: Read) -> None:
    text = b"".join(
        composer(batch, f"{epoch}.{batch:04}", total=2).replace(b"[batch=", b"[epoch=%d][batch=" % epoch)
        for epoch in (1, 2)
        for batch in (1, 2)
    )
    log = read("composer", text)
    assert (indexes(log), log.attempts) == ([1, 2, 3, 4], 1)


def test_an_attempt_of_composer_before_the_last(read: Read) -> None:
    # An attempt that ends before its first rate is one.
    first = composer(1, "0").partition(b"\t Train throughput")[0]
    with pytest.raises(LogError) as caught:
        read("composer", composer(1, "410.0000") + composer(2, "410.0000") + composer(3, "410.0000") + first)
    assert caught.value.fact.startswith(wording("no step time of a run", runs=2, log_format="composer"))
    # An earlier attempt that diverged.
    text = b"".join(
        composer(batch, "410.0000", loss=loss) for batch, loss in ((1, "7.1000"), (2, "nan"), (3, "7.1000"))
    )
    log = read("composer", text + composer(1, "410.0000") + composer(2, "410.0000"))
    assert ([one.text for one in log.diverged], log.not_finite) == (["loss/train/total: nan"], None)


def test_a_loss_that_is_not_finite_before_the_first_rate(read: Read) -> None:
    first = composer(1, "0", loss="nan").partition(b"\t Train throughput")[0]
    assert read("composer", first + composer(2, "410.0000")).not_finite == (1, "loss/train/total: nan")


# ---- Formats that log a rate: DeepSpeed, Hugging Face Trainer, torchtitan ------------------------

STEPS = throughput(10, "12.25") + throughput(20, "12.5")
START = b"***** Running training *****\n"
QUOTED = b"\r      \x1b[A{'train_runtime': '1.07', 'train_samples_per_second': '1.2e+03', 'epoch': '1'}\n"
BLOCK = b"***** train metrics *****\n  train_runtime            = 0:00:01.07\n  train_samples_per_second =   1203.955\n"
RESUMED = b"[INFO|trainer.py:2170] >>   Continuing training from global step 800\n"

#: What a log holds, and the steps' numbers and rates.
RATES = {
    "the current rate, not the average": ("deepspeed", STEPS, [(10, 12.25), (20, 12.5)]),
    "older forms of DeepSpeed": (
        "deepspeed",
        (
            b"worker-0: [INFO 2020-02-03 04:05:06] 0/50, SamplesPerSec=1292.5\n"
            b"[INFO] [timer.py:157:stop] 0/100, SamplesPerSec=1300.5, MemAllocated=1.0GB, MaxMemAllocated=2.0GB\n"
            b"[INFO] [timer.py:198:stop] 0/150, RunningAvgSamplesPerSec=1296.0, CurrSamplesPerSec=1301.5, MemAllocated=1\n"
        ),
        [(50, 1292.5), (100, 1300.5), (150, 1301.5)],
    ),
    "DeepSpeed's chat and profiler": (
        "deepspeed",
        b"|E2E latency=3.73s |Training time=0.74s |CurSamplesPerSec=17.17 |AvgSamplesPerSec=10.92\n"
        b"samples/second: 12.86\n[Rank 0] time (ms) | fwd: 0.18 | bwd: 0.71 | step: 2.65\n" + throughput(10, "12.5"),
        [(10, 12.5)],
    ),
    "a summary that each node prints": ("huggingface", summary("3.663") * 7 + summary("3.664") * 2, [(None, 3.663)]),
    "a summary that is quoted and rounded": ("huggingface", QUOTED, [(None, 1200.0)]),
    "a block behind it": ("huggingface", QUOTED + BLOCK, [(None, 1203.955)]),
    "a block through a logger": (
        "huggingface",
        b"[INFO|trainer_pt_utils.py:912] 2031-02-03 04:05:06,789 >>   train_samples_per_second   =      1.147\n",
        [(None, 1.147)],
    ),
    "an evaluation is no summary": (
        "huggingface",
        b"{'eval_loss': 1.0, 'eval_samples_per_second': 99.0}\n  eval_samples_per_second = 98.0\n" + summary("3.5"),
        [(None, 3.5)],
    ),
    "tokens of one device": (
        "torchtitan",
        titan(1, "410", "[rank0]:[titan] 2031-02-03 04:05:06,789 - root - INFO - ") + titan(2, "6,785"),
        [(1, 410), (2, 6785)],
    ),
    "torchtitan before November 2024": ("torchtitan", titan(117, "1,710", word="wps"), [(117, 1710)]),
    "the median over ranks": (
        "torchtitan",
        b"".join(titan(step, f"{6000 + rank}", f"{rank}: ") for step in (1, 2) for rank in range(3)),
        [(1, 6001), (2, 6001)],
    ),
    "a validation is no step": (
        "torchtitan",
        titan(1, "410") + titan(2, "9,999").replace(b"step:", b"validate step:") + titan(2, "6,785"),
        [(1, 410), (2, 6785)],
    ),
}


@pytest.mark.parametrize("name", RATES)
def test_rates(read: Read, name: str) -> None:
    log_format, content, rates = RATES[name]
    log = read(log_format, content)
    assert indexes(log) == [index for index, _ in rates]
    per_gpu = log_format == "torchtitan"
    assert [(step.seconds, step.samples_per_s, step.tokens_per_s_per_gpu) for step in log.steps] == [
        (None, None, rate) if per_gpu else (None, rate, None) for _, rate in rates
    ]


def test_deepspeed_pipe_engine(read: Read) -> None:
    # DeepSpeed's pipeline engine with further losses.
    further = "9.1250 aux_loss: 0.5000 z loss: 0.2500"
    log = read("deepspeed", pipe(1, "9.125", loss=further) + pipe(2, "4.250", loss=further))
    assert (seconds(log), indexes(log), log.not_finite) == ([9.125, 4.25], [1, 2], None)
    bad = read("deepspeed", pipe(1, "9.125") + pipe(2, "4.250", loss=further.replace("0.5000", "nan")))
    assert (seconds(bad), bad.not_finite) == ([9.125, 4.25], (2, "aux_loss: nan"))
    # DeepSpeed's pipeline engine of a line that was cut and glued to the next.
    log = read("deepspeed", b"steps: 1 loss: 9.1250 " + pipe(2, "4.250"))
    assert (seconds(log), indexes(log)) == ([4.25], [2])
    # DeepSpeed's pipeline engine is preferred to the timer.
    log = read("deepspeed", pipe(5, "9.125") + throughput(5, "12.5") + pipe(10, "4.250"))
    assert seconds(log) == [9.125, 4.25]


# -- what is not finite --


@pytest.mark.parametrize(
    "line",
    [
        b"step: 7, loss: nan\n",
        b"worker-0: [2, 12000] loss: inf\n",
        b"Epoch: 0, Step: 7, Rank: 0, loss = nan\n",
        b"[2031-02-03 04:05:06,789] [INFO] [logging.py:96:log_dist] [Rank 0] Loss: nan\n",
        b"step 7 loss=nan\n",
        b"step 7 Loss: inf lr: 1e-4\n",
        b"{'loss': nan, 'learning_rate': 1e-05}\n",
        b"iter 7 loss: tensor(nan, device='cuda:0')\n",
        b"epoch: 0|step: 1|ppo_ep: 1|act_loss: nan|cri_loss: 0.5|unsuper_loss: 0.0\n",
        b"step 7 Loss: NaN\n",
        b"best_val_loss: nan\n",
    ],
)
@pytest.mark.parametrize("after", [0, 1, 2])
def test_deepspeed_nan_loss_in_the_scripts_own_line(read: Read, line: bytes, after: int) -> None:
    steps = [throughput(10, "12.25"), throughput(20, "12.5")]
    log = read("deepspeed", b"".join([*steps[:after], line, *steps[after:]]))
    assert log.not_finite is not None
    assert (log.not_finite[0], len(log.steps)) == (None, 2)
    healthy = line.replace(b"nan", b"1.5").replace(b"inf", b"1.5").replace(b"NaN", b"1.5")
    assert read("deepspeed", healthy + STEPS).not_finite is None


@pytest.mark.parametrize(
    ("log_format", "content", "not_finite"),
    [
        # A best loss of so far, and steps that the loss scaler skips, are fine.
        ("deepspeed", b"best_val_loss: inf, best loss: inf\n" + STEPS, None),
        ("deepspeed", b"[INFO] [loss_scaler.py:183:update_scale] [deepspeed] OVERFLOW! Rank 0 Skipping step.\n" + STEPS, None),
        ("huggingface", summary("3.5", loss="nan"), "'train_loss': nan"),
        ("huggingface", b"{'loss': 0.0, 'grad_norm': nan, 'epoch': 0.5}\n" + summary("3.5", loss="0.0"), "'grad_norm': nan"),
        ("huggingface", BLOCK.replace(b"runtime            = 0:00:01.07", b"loss =        nan"), "train_loss =        nan"),
        # Of any node; one that starts late says so behind what the first one has printed.
        ("huggingface", START * 2 + summary("3.5") + summary("3.4", loss="nan"), "'train_loss': nan"),
        ("huggingface", START * 2 + summary("3.4", loss="nan") + summary("3.5"), "'train_loss': nan"),
        ("huggingface", START + summary("3.5") + START + summary("3.4", loss="nan"), "'train_loss': nan"),
        ("huggingface", START + summary("3.4", loss="nan") + START + summary("3.5"), None),
    ],
)  # fmt: skip
def test_what_is_not_finite(read: Read, log_format: str, content: bytes, not_finite: str | None) -> None:
    assert read(log_format, content).not_finite == (not_finite and (None, not_finite))


def test_the_last_of_two_runs(read: Read) -> None:
    again = b"".join(throughput(step, "12.5") for step in (3, 4, 5))
    log = read("deepspeed", again + b"step: 5, loss: nan\n" + again)
    assert (log.attempts, log.not_finite) == (2, None)
    log = read("huggingface", START * 2 + summary("3.5", loss="nan") * 2 + START * 2 + summary("4.5") * 2)
    assert ([step.samples_per_s for step in log.steps], log.attempts, log.not_finite) == ([4.5], 2, None)


# -- what a run says of itself --


def test_huggingface_facts(read: Read) -> None:
    log = read(
        "huggingface",
        b"[config.py:752:print]   train_batch_size ............. 2048\n***** Running training *****\n"
        b"  Total train batch size (w. parallel, distributed & accumulation) = 1,024\n"
        b"  Total optimization steps = 8\n" + summary("3.5"),
    )
    assert (log.identity.global_batch_size, log.total_steps) == (1024, 8)
    # It says where it went on from a checkpoint.
    assert read("huggingface", START + summary("3.5")).resumed_at is None
    assert read("huggingface", START + RESUMED + summary("3.5")).resumed_at == 800
    assert read("huggingface", START + RESUMED.replace(b"800", b"0") + summary("3.5")).resumed_at is None
    assert read("huggingface", START + RESUMED + summary("3.5") + START + summary("3.5")).resumed_at is None
