"""The rows as ReFrame's tests: sanity is the last step in the job's own log, performance its time."""

# ruff: noqa: F821, RUF012 - ReFrame puts parameter and the like into a test's namespace, and looks after its values
# mypy: ignore-errors

import os

import reframe as rfm
import reframe.utility.sanity as sn

JOBS = int(os.environ["BENCH_JOBS"])


@rfm.simple_test
class Row(rfm.RunOnlyRegressionTest):
    number = parameter(range(JOBS))
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    sourcesdir = None
    executable = os.environ["BENCH_SCRIPT"]
    reference = {"*": {"step_time": (4.3, None, 0.053, "s")}}
    require_reference = True

    @property
    def log(self):
        name = f"log-maxtext_llama2_70b_1_{self.job.jobid}.out"
        return os.path.join(os.environ["STAGE_PATH"], "results/25.01/fp8/70b/1", name)  # noqa: PTH118

    @sanity_function
    def ran_to_its_last_step(self):
        return sn.assert_found(r"completed step: 9, ", self.log)

    @performance_function("s")
    def step_time(self):
        return sn.extractsingle(r"completed step: 9, seconds: (\S+),", self.log, 1, float)
