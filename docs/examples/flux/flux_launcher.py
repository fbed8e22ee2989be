"""A launcher for Flux (flux batch, flux jobs, flux cancel), whole, in one file, and a pattern for another scheduler.

Copy it as conftest.py, or install it as a module and name it with ``-p flux_launcher``. A cluster then states:

    clusters:
      tuo: {scheduler: flux, account: eng, partition: pbatch, gpus_per_node: 4, stage: "/p/stage/{recipe}"}

It follows the manual of flux-core 0.88. The project's tests run this file against a simulation of Flux's commands. It
has not run on a Flux system.

A recipe under Flux
    Flux removes all variables ``SLURM_*`` from a batch script's environment, and has no ``srun``. A launch script that
    runs under both schedulers begins with:

        if [[ -n ${FLUX_ENCLOSING_ID:-} ]]; then
            export SLURM_JOB_ID=$FLUX_ENCLOSING_ID SLURM_JOB_NUM_NODES=$NUM_NODES
            start=(flux run -N "$NUM_NODES" --tasks-per-node="$GPUS_PER_NODE")
        else
            start=(srun --ntasks-per-node="$GPUS_PER_NODE" --kill-on-bad-exit=1)
        fi

    The launcher sets ``FLUX_F58_FORCE_ASCII``, and Flux hands it on: ``FLUX_ENCLOSING_ID`` is ``f2ABC``, not ``ƒ2ABC``.

Exit codes
    Flux returns the exit code of the batch script alone, and no list of steps. ``flux run … | tee log`` therefore needs
    ``set -o pipefail``, or a failure of the training is hidden.

Unknown jobs
    Flux forgets finished jobs after ``inactive-age-limit``, if the administrator has set it. A run that is resumed
    later finds such a job unknown: an unlisted job does not count as finished.
"""

import math
import os
import re
import subprocess
import time
from pathlib import Path

from pytest_gsw import (
    FoundJob,
    Job,
    JobError,
    JobState,
    JobStatus,
    Launcher,
    RefusedError,
    SchedulerUnreachableError,
    SubmissionError,
    SubmissionLock,
    job_environment,
)

# The name is last, because another program's job name may contain a bar.
FIELDS = "{id.f58}|{status}|{returncode}|{t_submit}|{t_run}|{t_cleanup}|{nodelist}|{exception.type}|{name}"
# Any other word is UNKNOWN, never an end. In CLEANUP the result is not known yet.
STATES = {
    "DEPEND": JobState.PENDING,
    "PRIORITY": JobState.PENDING,
    "SCHED": JobState.PENDING,
    "RUN": JobState.RUNNING,
    "CLEANUP": JobState.RUNNING,
    "COMPLETED": JobState.COMPLETED,
    "FAILED": JobState.FAILED,
    "CANCELED": JobState.CANCELLED,
    "TIMEOUT": JobState.TIMEOUT,
}
JOB_ID = re.compile(r"[ƒf]([1-9A-HJ-NP-Za-km-z]{1,12})")
AWAY = re.compile(r"connect to Flux|broker socket|Connection (?:refused|reset)|Broken pipe|timed out")
GONE = ("inactive", "unknown job")
ANSWER_S = 60.0


class FluxLauncher(Launcher):
    name = "flux"
    log_wait_s = 60.0
    parallel_submissions = 4
    jobs_outlive_session = True
    cluster_keys = frozenset({"account", "partition"})

    def __init__(self, run_id, options=()):
        # Job ids become parts of file names: with an ASCII f.
        self._environ = {**os.environ, "FLUX_F58_FORCE_ASCII": "1"}
        self._options = tuple(options)
        self._lock = SubmissionLock(run_id)

    def command(self, spec):
        without = ",".join((*spec.excluded_nodes, *spec.avoided_nodes))
        return (
            *("flux", "batch", f"--job-name={spec.name}", f"--nodes={spec.nodes}", "--exclusive"),
            f"--output={self._output(spec, '{{id}}')}",
            *((f"--time-limit={math.ceil(spec.time_limit_s)}s",) if spec.time_limit_s else ()),
            *((f"--requires=-hosts:{without}",) if without else ()),
            *self._options,
            *spec.options,
            str(spec.script),
        )

    def submit(self, spec):
        submitted_s = time.time()
        # A flux batch that outlives a killed session holds the lock, and find() waits for it.
        held = (self._lock.descriptor(),)
        environment = job_environment(self._environ, spec)
        answer = self._flux(*self.command(spec), env=environment, cwd=spec.directory, pass_fds=held)
        job_id = JOB_ID.fullmatch(answer.stdout.strip())
        if answer.returncode == 0 and job_id is not None:
            return Job(f"f{job_id[1]}", spec, submitted_s)
        uncertain = answer.returncode <= 0 or AWAY.search(answer.stderr)
        raise (SchedulerUnreachableError if uncertain else RefusedError)(
            f"flux batch gave no job: {problem(answer) or 'no job id'}",
            (("directory", str(spec.directory)),),
            tail=tuple((answer.stdout + answer.stderr).strip().split("\n")),
            advice=f"flux jobs -a --name={spec.name} shows whether Flux has the job",
        )

    def find(self, spec, since_s):
        jobs = self._own_jobs(f"--name={spec.name}")
        # If the name is not unique, an earlier session's job may have it as well.
        since_s = 0 if spec.unique_name else since_s - 1
        found = [job for job in jobs if job.name == spec.name and (job.status.submit_s or 0) >= since_s]
        if len(found) > 1:
            raise SubmissionError(
                f"{len(found)} jobs have the name that only one can have: {spec.name}",
                advice=f"flux cancel {' '.join(job.id for job in found)}",
            )
        return Job(found[0].id, spec, found[0].status.submit_s or since_s) if found else None

    def named(self, specs, since_s):
        return self._own_jobs()

    def poll(self, jobs):
        ids = dict.fromkeys(job.id for job in jobs)
        answer = self._flux("flux", "jobs", "-n", "-o", FIELDS, *ids) if ids else None
        found = {job.id: job for job in listed(answer.stdout)} if answer else {}
        statuses = {}
        for job in jobs:
            seen = found.get(job.id)
            is_own = seen is not None and seen.name == job.spec.name
            unknown = JobStatus(JobState.UNKNOWN, reason=problem(answer) or "flux does not list it")
            statuses[job.spec.row_id] = seen.status if is_own else unknown
        return statuses

    def cancel(self, jobs):
        ids = dict.fromkeys(job.id for job in jobs)
        answer = self._flux("flux", "cancel", *ids) if ids else None
        if answer is None or answer.returncode == 0:
            return
        complaints = answer.stderr.strip().split("\n")
        serious = [line for line in complaints if not any(word in line for word in GONE)]
        if serious:
            raise JobError(f"jobs may still run: {serious[-1]}", advice=f"flux cancel {' '.join(ids)}")

    def batch_output(self, job):
        output = Path(self._output(job.spec, job.id))
        return output if output.is_file() else None

    def close(self):
        self._lock.close()

    def _output(self, spec, job_id):
        return (spec.batch_output or f"{spec.directory}/flux-%j.out").replace("%j", job_id)

    def _own_jobs(self, *options):
        if not self._lock.wait_for_orphans():
            raise SubmissionError(
                "a flux batch of the resumed session still hangs, and may yet submit its job",
                advice="end it (pgrep -a flux), and resume again",
            )
        answer = self._flux("flux", "jobs", "-a", "--count=0", "-n", "-o", FIELDS, *options)
        if answer.returncode != 0:
            raise SchedulerUnreachableError(f"flux cannot list its jobs: {problem(answer)}")
        return tuple(listed(answer.stdout))

    def _flux(self, *command, env=None, **options):
        try:
            return subprocess.run(
                command,
                env=env or self._environ,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=ANSWER_S,
                check=False,
                start_new_session=True,  # Ctrl-C goes to all processes of a terminal
                **options,
            )
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(command, -1, "", f"flux gave no answer within {ANSWER_S:g} s")
        except OSError as error:
            return subprocess.CompletedProcess(command, 127, "", f"flux could not be run: {error.strerror}")


def problem(answer):
    lines = answer.stderr.strip().split("\n")
    return lines[-1] or (f"exit code {answer.returncode}" if answer.returncode else "")


def listed(text):
    for line in text.split("\n"):
        fields = line.split("|", 8)
        job_id = JOB_ID.fullmatch(fields[0])
        if len(fields) == 9 and job_id is not None:
            yield FoundJob(f"f{job_id[1]}", fields[8], status_of(*fields[1:8]))


def status_of(word, code, submit, run, cleanup, nodes, why):
    state = STATES.get(word, JobState.UNKNOWN)
    number = int(code) if state.ended and re.fullmatch(r"-?[0-9]{1,9}", code) else None
    return JobStatus(
        state,
        raw_state=word,
        exit_code=number if number is not None and number >= 0 else None,
        # Below 0 it is a signal; -128 means that the job never ran.
        signal=-number if number is not None and -128 < number < 0 else 0,
        reason=why,
        nodes=nodes,
        submit_s=seconds(submit),
        start_s=seconds(run),
        end_s=seconds(cleanup) if state.ended else None,
    )


def seconds(text):
    return float(text) or None if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text) else None


def pytest_gsw_make_launcher(cluster, run_directory):
    if cluster.scheduler != "flux":
        return None
    options = {"--bank": cluster.account, "--queue": cluster.partition}
    given = [f"{option}={value}" for option, value in options.items() if value]
    return FluxLauncher(run_directory.name, given)
