"""One record, to vary with :func:`dataclasses.replace`."""

from __future__ import annotations

from pytest_gsw.results.record import JobFacts, Record

JOB = JobFacts(
    id="481221",
    launcher="slurm",
    state="COMPLETED",
    exit_code=0,
    nodes="pool0-[0017-0032]",
    submit_s=1795212000.0,
    start_s=1795212030.0,
    end_s=1795212692.0,
    queue_s=30.0,
    run_s=662.0,
)

SLOW = Record(
    run_id="20261120-221000-7f3a",
    row="llama2_70b_fp8[H100x128]",
    node_id="baselines/maxtext/llama2_70b.yaml::llama2_70b_fp8[H100x128]",
    baseline="baselines/maxtext/llama2_70b.yaml:41",
    document="readme.md",
    document_line=31,
    cluster="eos",
    simulated=False,
    outcome="regressed",
    fact="throughput 205,201 tokens/s is 10.8 % below the documented 230,153 (allowed 5 %)",
    tolerance=0.05,
    workload="llama2_70b",
    framework="maxtext",
    dtype="fp8",
    accelerator="H100",
    gpus=128,
    documented={
        "step_time_s": 4.556,
        "tokens_per_s": 230152.77,
        "mfu": 0.404,
        "days_to_train_1t_tokens": 50.29,
        "tflops_per_gpu": None,
        "checkpoint_save_time_s": None,
    },
    measured={
        "step_time_s": 5.11,
        "tokens_per_s": 205200.78,
        "mfu": 0.36025,
        "days_to_train_1t_tokens": 56.4043,
        "tflops_per_gpu": 712.94,
        "checkpoint_save_time_s": None,
    },
    statistic="last",
    steps=49,
    first_s=9.8,
    last_s=5.11,
    median_s=5.1,
    p90_s=5.14,
    series_s=(9.8, 5.1, 5.11),
    job=JOB,
    log="/stage/results/24.11/fp8/70b/128/log-maxtext_llama2_70b_128_481221.out",
)
