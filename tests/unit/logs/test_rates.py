"""Formats that log a rate: DeepSpeed, Hugging Face Trainer, torchtitan."""

from __future__ import annotations

import pytest

from tests.unit.logs.conftest import Read
from tests.unit.logs.lines import indexes, pipe, seconds, summary, throughput, titan


def test_deepspeed_pipe_engine_with_further_losses(read: Read) -> None:
    further = "9.1250 aux_loss: 0.5000 z loss: 0.2500"
    log = read("deepspeed", pipe(1, "9.125", loss=further) + pipe(2, "4.250", loss=further))
    assert (seconds(log), indexes(log), log.not_finite) == ([9.125, 4.25], [1, 2], None)
    bad = read("deepspeed", pipe(1, "9.125") + pipe(2, "4.250", loss=further.replace("0.5000", "nan")))
    assert (seconds(bad), bad.not_finite) == ([9.125, 4.25], (2, "aux_loss: nan"))


def test_deepspeed_pipe_engine_of_a_line_that_was_cut_and_glued_to_the_next(read: Read) -> None:
    log = read("deepspeed", b"steps: 1 loss: 9.1250 " + pipe(2, "4.250"))
    assert (seconds(log), indexes(log)) == ([4.25], [2])


def test_deepspeed_pipe_engine_is_preferred_to_the_timer(read: Read) -> None:
    log = read("deepspeed", pipe(5, "9.125") + throughput(5, "12.5") + pipe(10, "4.250"))
    assert seconds(log) == [9.125, 4.25]


def test_deepspeed_current_rate_not_the_average(read: Read) -> None:
    log = read("deepspeed", throughput(10, "12.25") + throughput(20, "12.5"))
    assert [(step.index, step.samples_per_s, step.seconds) for step in log.steps] == [
        (10, 12.25, None),
        (20, 12.5, None),
    ]


def test_deepspeed_older_forms(read: Read) -> None:
    log = read(
        "deepspeed",
        b"worker-0: [INFO 2020-02-03 04:05:06] 0/50, SamplesPerSec=1292.5\n"
        b"[INFO] [timer.py:157:stop] 0/100, SamplesPerSec=1300.5, MemAllocated=1.0GB, MaxMemAllocated=2.0GB\n"
        b"[INFO] [timer.py:198:stop] 0/150, RunningAvgSamplesPerSec=1296.0, CurrSamplesPerSec=1301.5, MemAllocated=1\n",
    )
    assert [step.samples_per_s for step in log.steps] == [1292.5, 1300.5, 1301.5]
    assert indexes(log) == [50, 100, 150]


def test_deepspeed_chat_and_profiler_lines_are_no_steps(read: Read) -> None:
    log = read(
        "deepspeed",
        b"|E2E latency=3.73s |Training time=0.74s |CurSamplesPerSec=17.17 |AvgSamplesPerSec=10.92\n"
        b"samples/second: 12.86\n[Rank 0] time (ms) | fwd: 0.18 | bwd: 0.71 | step: 2.65\n" + throughput(10, "12.5"),
    )
    assert indexes(log) == [10]


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
    ],
)
@pytest.mark.parametrize("after", [0, 1, 2])
def test_deepspeed_nan_loss_in_the_scripts_own_line(read: Read, line: bytes, after: int) -> None:
    steps = [throughput(10, "12.25"), throughput(20, "12.5")]
    log = read("deepspeed", b"".join([*steps[:after], line, *steps[after:]]))
    assert log.not_finite is not None
    assert (log.not_finite[0], len(log.steps)) == (None, 2)
    healthy = [line.replace(b"nan", b"1.5").replace(b"inf", b"1.5"), *steps]
    assert read("deepspeed", b"".join(healthy)).not_finite is None


def test_deepspeed_best_loss_so_far(read: Read) -> None:
    steps = throughput(10, "12.25") + throughput(20, "12.5")
    assert read("deepspeed", b"best_val_loss: inf, best loss: inf\n" + steps).not_finite is None
    assert read("deepspeed", b"best_val_loss: nan\n" + steps).not_finite is not None
    assert read("deepspeed", b"step 7 Loss: NaN\n" + steps).not_finite is not None


def test_deepspeed_nan_loss_of_an_earlier_attempt_does_not_count(read: Read) -> None:
    again = b"".join(throughput(step, "12.5") for step in (3, 4, 5))
    bad = throughput(3, "12.5") + throughput(4, "12.5") + throughput(5, "12.5") + b"step: 5, loss: nan\n"
    log = read("deepspeed", bad + again)
    assert (log.attempts, log.not_finite) == (2, None)


def test_deepspeed_steps_that_the_loss_scaler_skips_are_fine(read: Read) -> None:
    skipped = b"[INFO] [loss_scaler.py:183:update_scale] [deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536\n"
    assert read("deepspeed", skipped * 2 + throughput(10, "12.5")).not_finite is None


def test_huggingface_summary_printed_by_each_node_counts_once(read: Read) -> None:
    log = read("huggingface", summary("3.663") * 7 + summary("3.664") * 2)
    assert [(step.index, step.samples_per_s) for step in log.steps] == [(None, 3.663)]


def test_huggingface_5_quotes_and_rounds_so_the_block_is_taken(read: Read) -> None:
    quoted = b"\r      \x1b[A{'train_runtime': '1.07', 'train_samples_per_second': '1.2e+03', 'epoch': '1'}\n"
    block = (
        b"***** train metrics *****\n  train_runtime            = 0:00:01.07\n  train_samples_per_second =   1203.955\n"
    )
    assert [step.samples_per_s for step in read("huggingface", quoted).steps] == [1200.0]
    assert [step.samples_per_s for step in read("huggingface", quoted + block).steps] == [1203.955]


def test_huggingface_block_through_a_logger(read: Read) -> None:
    line = b"[INFO|trainer_pt_utils.py:912] 2031-02-03 04:05:06,789 >>   train_samples_per_second   =      1.147\n"
    assert [step.samples_per_s for step in read("huggingface", line).steps] == [1.147]


def test_huggingface_evaluation_is_no_summary(read: Read) -> None:
    lines = b"{'eval_loss': 1.0, 'eval_samples_per_second': 99.0}\n  eval_samples_per_second = 98.0\n"
    assert [step.samples_per_s for step in read("huggingface", lines + summary("3.5")).steps] == [3.5]


def test_huggingface_facts(read: Read) -> None:
    log = read(
        "huggingface",
        b"[config.py:752:print]   train_batch_size ............. 2048\n***** Running training *****\n"
        b"  Total train batch size (w. parallel, distributed & accumulation) = 1,024\n"
        b"  Total optimization steps = 8\n" + summary("3.5"),
    )
    assert (log.identity.global_batch_size, log.total_steps) == (1024, 8)


def test_huggingface_last_of_two_runs(read: Read) -> None:
    start = b"***** Running training *****\n"
    log = read("huggingface", start * 2 + summary("3.5", loss="nan") * 2 + start * 2 + summary("4.5") * 2)
    assert ([step.samples_per_s for step in log.steps], log.attempts, log.not_finite) == ([4.5], 2, None)


def test_huggingface_nan(read: Read) -> None:
    assert read("huggingface", summary("3.5", loss="nan")).not_finite == (None, "'train_loss': nan")
    lines = b"{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 1e-05, 'epoch': 0.5}\n" + summary("3.5", loss="0.0")
    assert read("huggingface", lines).not_finite == (None, "'grad_norm': nan")


def test_huggingface_says_where_it_went_on_from_a_checkpoint(read: Read) -> None:
    start = b"***** Running training *****\n"
    resumed = b"[INFO|trainer.py:2170] >>   Continuing training from global step 800\n"
    assert read("huggingface", start + summary("3.5")).resumed_at is None
    assert read("huggingface", start + resumed + summary("3.5")).resumed_at == 800
    assert read("huggingface", start + resumed.replace(b"800", b"0") + summary("3.5")).resumed_at is None
    assert read("huggingface", start + resumed + summary("3.5") + start + summary("3.5")).resumed_at is None


def test_huggingface_nan_of_any_node(read: Read) -> None:
    start = b"***** Running training *****\n"
    good, bad = summary("3.5"), summary("3.4", loss="nan")
    assert read("huggingface", start * 2 + good + bad).not_finite == (None, "'train_loss': nan")
    assert read("huggingface", start * 2 + bad + good).not_finite == (None, "'train_loss': nan")
    # A node that starts late says so behind what the first one has printed.
    assert read("huggingface", start + good + start + bad).not_finite == (None, "'train_loss': nan")
    assert read("huggingface", start + bad + start + good).not_finite is None


def test_huggingface_nan_in_the_block(read: Read) -> None:
    block = (
        b"***** train metrics *****\n  train_loss               =        nan\n  train_samples_per_second =   1203.955\n"
    )
    assert read("huggingface", block).not_finite == (None, "train_loss               =        nan")


def test_torchtitan_tokens_of_one_device(read: Read) -> None:
    log = read(
        "torchtitan", titan(1, "410", "[rank0]:[titan] 2031-02-03 04:05:06,789 - root - INFO - ") + titan(2, "6,785")
    )
    assert [(step.index, step.tokens_per_s_per_gpu, step.seconds) for step in log.steps] == [
        (1, 410, None),
        (2, 6785, None),
    ]


def test_torchtitan_before_november_2024(read: Read) -> None:
    assert [step.tokens_per_s_per_gpu for step in read("torchtitan", titan(117, "1,710", word="wps")).steps] == [1710]


def test_torchtitan_median_over_ranks(read: Read) -> None:
    log = read(
        "torchtitan", b"".join(titan(step, f"{6000 + rank}", f"{rank}: ") for step in (1, 2) for rank in range(3))
    )
    assert [step.tokens_per_s_per_gpu for step in log.steps] == [6001, 6001]


def test_torchtitan_validation_is_no_step(read: Read) -> None:
    validation = titan(2, "9,999").replace(b"step:", b"validate step:")
    log = read("torchtitan", titan(1, "410") + validation + titan(2, "6,785"))
    assert [step.tokens_per_s_per_gpu for step in log.steps] == [410, 6785]


def test_torchtitan_nan(read: Read) -> None:
    assert read("torchtitan", titan(1, "410").replace(b" 7.50000", b" nan")).not_finite == (1, "loss:  nan")
