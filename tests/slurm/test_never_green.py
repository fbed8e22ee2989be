"""Never green by accident, on a real Slurm: each misfortune has a log that would pass, and does not.

Each test is one pytest session with one row, run as users run it. Those whose job does all by itself are
started together, so that Slurm's own waits (30 s until it looks for jobs over their limit) are waited for once. What is in
a log is another file's: tests/integration/test_never_green.py has it for every log format.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.integration.conftest import properties
from tests.messages import wording

from .cluster import SlurmCluster
from .conftest import start
from .recipes import CLUSTERS, TABLE, configured, nemo_run
from .sessions import GIVES_UP_SOON, PASSED, REGRESSED, Misfortune, Seen, Session, Site, Told, error

Test = TypeVar("Test", bound=Callable[..., None])

ALONE: dict[str, Misfortune] = {}


def job(body: str, **more: Any) -> Callable[[Test], Test]:
    """What befalls a test by itself; it takes what was seen of it as its fixture ``told``."""

    def note(test: Test) -> Test:
        ALONE[test.__name__] = Misfortune(body, **more)
        return test

    return note


@pytest.fixture(scope="module")
def site(slurm8: SlurmCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    site = Site(tmp_path_factory.mktemp("never-green"))
    yield site
    site.close()
    slurm8.cancel_all()


@pytest.fixture(scope="module")
def alone(request: pytest.FixtureRequest, slurm8: SlurmCluster, site: Site) -> Iterator[dict[str, Session]]:
    """The sessions of all selected tests that need no more than their job, started at once."""
    names = {item.name for item in request.session.items if item.path == Path(__file__)}
    chosen = {name: misfortune for name, misfortune in ALONE.items() if name in names}
    lost = chosen.pop("test_the_node_is_lost", None)
    sessions = {}
    if lost is not None:  # first, because it has to wait until the node is missed
        sessions["test_the_node_is_lost"] = site.run(slurm8, lost)
        sessions["test_the_node_is_lost"].job_id()
        slurm8.kill_slurmd("n008")
    sessions |= {name: site.run(slurm8, misfortune) for name, misfortune in chosen.items()}
    yield sessions
    if lost is not None:
        slurm8.start_slurmd("n008")


@pytest.fixture
def told(request: pytest.FixtureRequest, alone: dict[str, Session]) -> Told:
    return alone[request.function.__name__].end()


@pytest.fixture
def slurm(slurm8: SlurmCluster, alone: dict[str, Session], site: Site) -> SlurmCluster:
    """The cluster when no other session needs it any more: its daemons may be stopped."""
    site.wait()
    return slurm8


def until_forgotten(cluster: SlurmCluster, *sessions: Session) -> None:
    """Let sessions sleep until their jobs have ended and the controller has forgotten them."""
    jobs = [session.job_id() for session in sessions]
    for session in sessions:
        session.process.send_signal(signal.SIGSTOP)
    for job_id in jobs:
        cluster.purge(job_id)
    for session in sessions:
        session.process.send_signal(signal.SIGCONT)


def test_the_controller_forgets_a_job_where_there_is_no_accounting(alone: dict[str, Session], site: Site) -> None:
    """On a cluster of its own, while the sessions on the other one go on."""
    for cluster in start(1, accounting=False, min_job_age_s=2):
        session = site.run(cluster, Misfortune("perfect; READY; sleep 1", conftest=GIVES_UP_SOON))
        until_forgotten(cluster, session)
        told = session.end()
    why = "left the queue, and sacct: Slurm accounting storage is disabled"
    assert told.seen == error(f"the end of job {told.job} is not known: {why}")


# -- how the job ended: the log is perfect each time ----------------------------------------------


@job("perfect; READY; stay", directives="#SBATCH --nodelist=n008 --exclusive")
def test_the_node_is_lost(told: Told, slurm8: SlurmCluster) -> None:
    assert told.seen == error(f"job {told.job} ended NODE_FAIL")
    assert sacct(slurm8, told.job).startswith("NODE_FAIL|")  # 22.05 has 0:0 there, 24.11 has 1:0 or 0:1


@job("perfect")
def test_nothing_goes_wrong(told: Told) -> None:
    """What makes all others worth their names: but for the misfortune, they would pass."""
    assert told.seen == PASSED


@job("perfect; exit 7")
def test_an_exit_code_other_than_0(told: Told) -> None:
    assert told.seen == error(f"job {told.job} failed with exit code 7")


@job("perfect; [ $SLURM_ARRAY_TASK_ID = 2 ] || exit 7", directives="#SBATCH --array=1-2")
def test_a_job_array_in_the_launch_script(told: Told) -> None:
    message = f"2 jobs are behind the one submission of job {told.job}, and one row is one job"
    assert told.seen == error(message)


@job("perfect; [ $SLURM_ARRAY_TASK_ID = 2 ] || exit 7", shims={"sbatch": 'exec /usr/bin/sbatch --array=1-2 "$@"'})
def test_a_job_array_that_a_sites_wrapper_makes(told: Told) -> None:
    message = f"2 jobs are behind the one submission of job {told.job}, and one row is one job"
    assert told.seen == error(message)


@job("perfect", shims={"sbatch": '/usr/bin/sbatch "$@"; echo 1'})
def test_a_number_behind_the_id_is_not_taken_for_it(told: Told) -> None:
    """The job is found by its name."""
    assert told.seen == PASSED
    assert told.job != "1"


@job("perfect; kill -9 $$")
def test_a_signal(told: Told) -> None:
    assert told.seen == error(f"job {told.job} failed by signal 9")


@job("perfect", directives="#SBATCH --output=/dev/null/no/%j.out")
def test_an_output_file_that_the_node_cannot_open(told: Told, slurm8: SlurmCluster) -> None:
    assert told.seen == error(wording("never ran", job=told.job))
    assert sacct(slurm8, told.job) == "FAILED|0:53"


@job("perfect; scancel $SLURM_JOB_ID; stay")
def test_cancelled_after_the_last_step(told: Told, slurm8: SlurmCluster) -> None:
    assert told.seen == error(f"job {told.job} ended CANCELLED")
    assert sacct(slurm8, told.job) == "CANCELLED by 0|0:0"


#: Ends the job by its time limit; a busy slurmctld may refuse once or twice.
OVER_ITS_LIMIT = "until scontrol update JobId=$SLURM_JOB_ID EndTime=now+1; do sleep 1; done"


@job(f"perfect; {OVER_ITS_LIMIT}; stay")
def test_over_the_time_limit_after_the_last_step(told: Told, slurm8: SlurmCluster) -> None:
    assert told.seen == error(f"job {told.job} ended TIMEOUT")
    assert sacct(slurm8, told.job) == "TIMEOUT|0:0"


LIMITED = f"""\
steps "${{LOG}}_${{SLURM_JOB_ID}}_0.out"; {OVER_ITS_LIMIT}; trap 'exit 0' TERM
sleep 300 & wait
"""


@job("", table=TABLE, files={"clusters.yaml": CLUSTERS, "recipes/tiny/launch.sh": nemo_run(LIMITED)})
def test_a_job_that_its_script_submits_over_the_time_limit(told: Told, slurm8: SlurmCluster) -> None:
    assert told.seen == error(f"job {told.job} ended TIMEOUT")
    assert sacct(slurm8, told.job) == "TIMEOUT|0:0"


@job(f"perfect; {sys.executable} -c 'bytearray(300 << 20)'; exit 0")
def test_out_of_memory_after_the_last_step(told: Told, slurm8: SlurmCluster) -> None:
    if not slurm8.memory_limits:
        pytest.skip("no memory cgroup that Slurm could use")
    assert told.seen == error(wording("ended", job=told.job, state="OUT_OF_MEMORY", signal="125: host out of memory"))


PREEMPT = "sbatch --partition=high --nodelist=$SLURMD_NODENAME --exclusive --mem=50M --wrap=true; stay"


@job(f"perfect; {PREEMPT}", directives="#SBATCH --partition=low --nodelist=n007")
def test_preempted_after_the_last_step(told: Told, slurm8: SlurmCluster) -> None:
    assert told.seen == error(f"job {told.job} ended PREEMPTED")
    assert sacct(slurm8, told.job) == "PREEMPTED|0:0"


APPENDS = "--mem=50M, --requeue, --open-mode=append"


@job(
    f'if [[ -z ${{SLURM_RESTART_COUNT:-}} ]]; then perfect; {PREEMPT}; fi; {{ identity; steps 0 8; }} >>"$log"',
    directives="#SBATCH --partition=requeued --nodelist=n006",
    sbatch=APPENDS,
)
def test_steps_before_a_preemption_that_requeued_do_not_count(told: Told) -> None:
    assert told.seen == error(wording("few steps", steps=9, needed=18, wanted=20))


@job(
    "if [[ -z ${SLURM_RESTART_COUNT:-} ]]; then perfect; scontrol requeue $SLURM_JOB_ID; stay; fi\n"
    '{ identity; steps 0 19 1.250; } >>"$log"',
    sbatch=APPENDS,
)
def test_steps_before_a_requeue_by_hand_do_not_count(told: Told) -> None:
    assert told.seen == REGRESSED


@job(
    'if [[ -z ${SLURM_RESTART_COUNT:-} ]]; then perfect; scontrol requeue $SLURM_JOB_ID; stay; fi\nidentity >>"$log"',
    sbatch=APPENDS,
)
def test_steps_before_a_requeue_do_not_count_where_none_follows(told: Told) -> None:
    """As where training finds its last checkpoint and has nothing to do."""
    assert told.seen == error(wording("no later steps"))


# -- jobs that no row owns --------------------------------------------------------------------------


#: A child of the job's own name that fails, as one that a script starts to go on where it ends.
CHILD = 'sbatch --mem=50M -J "$SLURM_JOB_NAME" --output=/dev/null --wrap="exit 7" >/dev/null'


@job(f"perfect; {CHILD}")
def test_a_job_that_submits_a_child_of_its_own_name(told: Told, slurm8: SlurmCluster) -> None:
    (child,) = children(slurm8, told.job)
    assert told.seen == error(wording("job of no submission", count="1 job", jobs=child))


@job("perfect", shims={"sbatch": '[[ $1 = --version ]] || /usr/bin/sbatch "$@" >/dev/null; exec /usr/bin/sbatch "$@"'})
def test_a_wrapper_of_sbatch_that_submits_twice_and_names_one_job(told: Told, slurm8: SlurmCluster) -> None:
    (other,) = children(slurm8, told.job)
    assert told.seen == error(wording("job of no submission", count="1 job", jobs=other))


TWICE = 'sbatch --mem=50M --output=/dev/null --wrap="sleep 300" >/dev/null'


@job(
    "",
    table=TABLE,
    files={"clusters.yaml": CLUSTERS, "recipes/tiny/launch.sh": nemo_run(begin=TWICE)},
)
def test_a_launch_script_that_submits_twice_and_names_one_job(told: Told, slurm8: SlurmCluster) -> None:
    """The other one runs on, and is ended."""
    (other,) = children(slurm8, told.job)
    assert told.seen == error(wording("job of no submission", count="1 job", jobs=other))
    assert sacct(slurm8, other).startswith("CANCELLED")


#: What llmb-run says of a job that it has given to sbatch itself, under a name of its own.
LLMB_RUN = """\
cd "$LLMB_INSTALL/workloads/tiny"
id=$(sbatch --parsable --mem=50M -J tiny_1b_bf16 --output="$PWD/slurm-%j.out" launch.sh)
echo "SUBMITTED: tiny  model_size=1b, dtype=bf16, scale=8, jobid=$id"
"""
BY_LLMB_RUN = CLUSTERS.replace("nemo-run", "llmb-run").replace("{directory}/recipes", "{directory}/install/workloads")


def in_shell(body: str) -> str:
    """A script for sbatch whose training goes to the batch shell's output."""
    return configured(body).replace("$LLMB_EXPERIMENT_DIR/log-tiny", "/dev/stdout")


@job(
    "",
    table=TABLE,
    shims={"llmb-run": LLMB_RUN},
    files={"clusters.yaml": BY_LLMB_RUN, "install/workloads/tiny/launch.sh": in_shell('steps "$LOG"; exit 7')},
)
def test_a_job_that_llmb_run_has_given_to_sbatch_fails(told: Told) -> None:
    """It is the row's, although nothing says where it writes."""
    assert told.seen == error(f"job {told.job} failed with exit code 7")


@job(
    "",
    table=TABLE,
    shims={"llmb-run": LLMB_RUN},
    files={"clusters.yaml": BY_LLMB_RUN, "install/workloads/tiny/launch.sh": in_shell('steps "$LOG" 9')},
)
def test_a_job_that_llmb_run_has_given_to_sbatch_is_cut(told: Told) -> None:
    assert told.seen == error(wording("few steps", steps=10, needed=45, wanted=50))


def children(cluster: SlurmCluster, job_id: str) -> list[str]:
    """The other jobs of a job's name, once accounting has one: slurmctld sends it new jobs every few seconds."""

    def recorded() -> list[str]:
        told = cluster.run("sacct", "-X", "-n", "-P", "-o", "JobIDRaw,JobName").splitlines()
        names = dict(line.split("|", 1) for line in told)
        return [other for other, name in names.items() if name == names.get(job_id) and other != job_id]

    cluster.wait_until(lambda: bool(recorded()), f"another job of job {job_id}'s name is recorded")
    return recorded()


# -- steps ------------------------------------------------------------------------------------------

#: A training step in the background, which writes the whole log, and another that COMPLETED meanwhile. That ran for less
#: than half of the other's time, however late a busy machine starts and ends it. Slurm ends the processes of a step one
#: after the other: a shell that waits for its sleep alone would end with 0 where the sleep is the first.
TRAINING = """\
export log results; export -f identity steps perfect
srun --overlap -n1 bash -c '{begin}perfect; touch "$results/begun"; {stay}' & training=$!
until [ -e "$results/begun" ]; do sleep 0.1; done
begun=$SECONDS
srun --overlap -n1 sleep 2
while squeue -h -s -j $SLURM_JOB_ID -o %i | grep -q '[.]1$'; do sleep 0.1; done
took=$((SECONDS - begun + 1))
until ((SECONDS - begun > 2 * took)); do sleep 0.1; done
"""


@job(TRAINING.format(begin="", stay="exec sleep 300") + "kill $training; wait; exit 0")
def test_a_training_step_that_its_script_ends_is_no_helper(told: Told) -> None:
    assert told.seen.outcome == "error"
    assert told.seen.message.startswith(
        f"job {told.job} completed, but " + wording("step ended", number=0, name="bash", state="CANCELLED", signal="")
    )


@job(TRAINING.format(begin="", stay="exec sleep 300") + "exit 0")
def test_a_training_step_that_outlives_its_script_is_no_helper(told: Told) -> None:
    assert told.seen.outcome == "error"
    assert told.seen.message.startswith(
        f"job {told.job} completed, but " + wording("step ended", number=0, name="bash", state="CANCELLED", signal="")
    )


#: Accounting that does not answer the first question of how steps ended.
SILENT_ONCE = """\
if [[ " $* " != *" -X "* && ! -e $0.asked ]]; then
    touch "$0.asked"
    echo "sacct: error: Problem talking to the database: Connection timed out" >&2
    exit 1
fi
exec /usr/bin/sacct "$@"
"""


@job(TRAINING.format(begin="", stay="exec sleep 300") + "exit 0", shims={"sacct": SILENT_ONCE})
def test_a_training_step_that_accounting_tells_of_when_it_is_asked_again(told: Told) -> None:
    """The controller alone does not tell it from a helper."""
    assert told.seen.outcome == "error"
    assert told.seen.message.startswith(
        f"job {told.job} completed, but " + wording("step ended", number=0, name="bash", state="CANCELLED", signal="")
    )


#: Of a shell that ends itself.
TRAPPED = TRAINING.format(begin='trap "exit 1" TERM; ', stay="while true; do sleep 300 & wait; done")


@job(TRAPPED + "kill $training; wait; exit 0")
def test_a_training_step_that_ends_itself_as_it_is_ended_is_no_helper(told: Told) -> None:
    assert told.seen.outcome == "error"
    assert told.seen.message.startswith(f"job {told.job} completed, but its step 0 (bash) ")


BOOST = """\
srun -n1 hostname >/dev/null
srun -n1 --error="{place}/vboost.err" bash -c "sudo: nvidia-smi boost-slider --vboost 1"
export -f steps
export LOG="${{LOG}}_${{SLURM_JOB_ID}}_0.out"
srun -n1 bash -c 'sleep 5; {training}'
"""


def boosted(training: str, place: str = '"$EXPERIMENT"/..') -> dict[str, str]:
    script = nemo_run(BOOST.format(training=training, place=place)).replace("{{", "{").replace("}}", "}")
    return {"clusters.yaml": CLUSTERS, "recipes/tiny/launch.sh": script}


@job("", table=TABLE, files=boosted('steps "$LOG"'))
def test_a_boost_that_was_not_set_is_no_failed_training(told: Told, alone: dict[str, Session]) -> None:
    assert told.seen == PASSED
    session = alone["test_a_boost_that_was_not_set_is_no_failed_training"]
    assert properties(session.case())["gsw_environment_vboost"] == "boost not set"


@job("", table=TABLE, files=boosted('SECONDS_PER_STEP=1.250 steps "$LOG"'))
def test_a_slow_training_whose_boost_was_not_set(told: Told, alone: dict[str, Session]) -> None:
    assert told.seen == REGRESSED
    text = "".join(alone["test_a_slow_training_whose_boost_was_not_set"].case().itertext())
    assert "vboost     boost not set: /" in text
    assert "/vboost.err\n" in text


@job("", table=TABLE, files=boosted('steps "$LOG"; exit 1'))
def test_a_training_that_fails_where_the_boost_was_not_set(told: Told, alone: dict[str, Session]) -> None:
    assert told.seen == error(wording("failed", job=told.job, code="1: command not found"))
    session = alone["test_a_training_that_fails_where_the_boost_was_not_set"]
    assert "/vboost.err:1\n" in "".join(session.case().itertext())


# -- what the job left: it ended in COMPLETED with exit code 0 each time --------------------------


@job("true")
def test_a_log_that_never_appears(told: Told) -> None:
    assert told.seen == error(f"no log of job {told.job}")


@job('>"$log"')
def test_an_empty_log(told: Told) -> None:
    assert told.seen == error(wording("log is empty", name=f"log-maxtext_tiny_1b_8_{told.job}.out"))


@job('{ identity; steps 0 11; } >"$log"')
def test_fewer_steps_than_documented(told: Told) -> None:
    assert told.seen == error(wording("few steps", steps=12, needed=18, wanted=20))


@job('{ identity; steps 0 18; } >"$log"')
def test_all_but_the_last_step(told: Told) -> None:
    assert told.seen == error(wording("ended before its last", step=18, last=19))


@job('{ identity; steps 0 18; steps 19 19 1.000 | head -c 33; } >"$log"')
def test_a_log_that_ends_in_the_middle_of_a_line(told: Told) -> None:
    """What is left of the last line is ``completed step: 19, seconds: 1.``."""
    assert told.seen == error(wording("ended before its last", step=18, last=19))


@job("SLURM_JOB_ID=$((SLURM_JOB_ID + 1)); log=${log/%_*.out/_$SLURM_JOB_ID.out}; perfect")
def test_a_log_of_another_job_in_the_same_directory(told: Told) -> None:
    assert told.seen == error(f"no log of job {told.job}")


@job("SLURM_JOB_ID=$((SLURM_JOB_ID - 1)); log=${log/%_*.out/_$SLURM_JOB_ID.out}; perfect; touch -d yesterday $log")
def test_last_runs_log_of_the_same_row(told: Told) -> None:
    assert told.seen == error(f"no log of job {told.job}")


@job(
    'log=$results/log-maxtext_teeny_1b_8_$SLURM_JOB_ID.out; perfect; log=${log/bf16/fp8}; mkdir -p "${log%/*}"; perfect'
)
def test_logs_of_another_model_and_dtype_with_the_jobs_id(told: Told) -> None:
    assert told.seen == error(f"no log of job {told.job}")


#: A file server that shows the end of a log only a while after its job's, by the session's own clock.
LATE = """
import threading
from pathlib import Path

def show(job_id):
    (log,) = Path("stage").glob(f"results/*/*/*/*/log-*_{{job_id}}.out")
    log.write_text(log.read_text() + {end!r})

def pytest_gsw_job_state_changed(job_id, status):
    if status.state.value == "COMPLETED":
        threading.Timer(1.5, show, [job_id]).start()
"""
REST = "".join(f"completed step: {step}, seconds: 1.000, TFLOP/s/device: 48.0, loss: 9.021\n" for step in range(10, 20))


@job('{ identity; steps 0 9; } >"$log"', conftest=LATE.format(end=REST))
def test_a_log_whose_end_is_shown_late(told: Told) -> None:
    assert told.seen == PASSED


@job('{ identity; steps 0 9; } >"$log"', conftest=LATE.format(end=f"{REST}RuntimeError: CUDA error: unknown error\n"))
def test_a_log_whose_last_words_are_shown_late(told: Told) -> None:
    assert told.seen == error(wording("hidden failure", job=told.job, where="its log", cause="an error"))


@job('{ identity; steps 0 9; printf "completed step: 10, sec"; } >"$log"')
def test_a_log_whose_end_never_comes(told: Told) -> None:
    assert told.seen == error(wording("few steps", steps=10, needed=18, wanted=20))


@job('perfect; echo "started $(date +%FT%T)" | cat - "$log" >$log.new; mv $log.new $log; touch -d yesterday "$log"')
def test_a_log_that_is_dated_back_and_bears_its_jobs_id_and_start(told: Told) -> None:
    assert told.seen == PASSED


@job(
    'perfect; echo "started 2026-01-01 00:00:00" | cat - "$log" >$log.new; mv $log.new $log; touch -d yesterday "$log"'
)
def test_a_log_that_is_dated_back_and_bears_another_start(told: Told) -> None:
    assert told.seen.message.startswith(f"no log of job {told.job} but an older one")


# -- Slurm out of reach ---------------------------------------------------------------------------

#: sbatch submits the job and does not come back in time to say so; the second line is of a wait that is short enough.
LOST = '/usr/bin/sbatch "$@" >/dev/null; echo "sbatch: error: Socket timed out on send/recv operation" >&2; exit 1'
SOON = """
import pytest_gsw.executor.submitter
pytest_gsw.executor.submitter.BACK_OFF_S = 1.0
SlurmLauncher.lost_wait_s = 6.0
"""
#: Lists no job by its name for ever, or in the first seconds.
NEVER = '[[ "$*" == *--name=* ]] || exec /usr/bin/COMMAND "$@"'
LATER = 'find {directory}/recipes -mmin +0.06 | grep -q . || [[ "$*" != *--name=* ]] && exec /usr/bin/COMMAND "$@"'
OFF = '[[ "$*" == *--name=* ]] || exec /usr/bin/sacct "$@"; echo "Slurm accounting storage is disabled" >&2; exit 1'
UNLISTED = "whether tiny_1b_bf16[H100x8] was submitted is not known: sbatch did not answer"


def jobs_of(slurm: SlurmCluster, project: Path) -> int:
    """How many jobs a project's one run has had."""
    (run,) = (project / ".gsw" / "runs").iterdir()
    return slurm.run("sacct", "-X", "-n", "-P", "-o", "JobName").count(f"gsw-{run.name}-")


@pytest.mark.parametrize(
    ("squeue", "sacct", "seen", "jobs"),
    [
        (NEVER, "", PASSED, 1),
        (LATER, LATER, PASSED, 1),
        (NEVER, OFF, error(UNLISTED), 1),
        (NEVER, NEVER, error(UNLISTED), 2),  # Slurm itself says that there is none, once
    ],
    ids=["squeue", "late", "no-accounting", "neither"],
)
def test_a_submission_without_an_answer_is_not_repeated_before_slurm_has_listed_it(
    slurm8: SlurmCluster, site: Site, squeue: str, sacct: str, seen: Seen, jobs: int
) -> None:
    shims = {"sbatch": f"[[ $1 = --version ]] && exec /usr/bin/sbatch $1\n{LOST}"}
    shims |= {name: body.replace("COMMAND", name) for name, body in (("squeue", squeue), ("sacct", sacct)) if body}
    session = site.run(slurm8, Misfortune("perfect", conftest=SOON, shims=shims))
    told = session.end()
    assert told.seen == seen, session.output
    assert jobs_of(slurm8, session.directory) == jobs
    assert ("may run" in session.output) is (seen != PASSED)


SLOW = '{ identity; steps 0 19 1.250; } >"$log"'

SILENT = 'echo "slurm_load_jobs error: Socket timed out on send/recv operation" >&2; exit 1'


@job("perfect; exit 7", shims={"squeue": SILENT})
def test_squeue_never_answers(told: Told) -> None:
    """Accounting alone tells how the job ended."""
    assert told.seen == error(f"job {told.job} failed with exit code 7")


@job("perfect", shims={"squeue": SILENT, "sacct": "exit 1"}, conftest=GIVES_UP_SOON)
def test_squeue_and_sacct_never_answer(told: Told) -> None:
    why = "squeue: Socket timed out on send/recv operation"
    assert told.seen == error(f"the end of job {told.job} is not known: {why}")


@job("perfect", shims={"squeue": "exit 0", "sacct": "exit 0"}, conftest=GIVES_UP_SOON)
def test_squeue_and_sacct_say_nothing(told: Told) -> None:
    """Both succeed without a word: an empty answer is no end."""
    why = f"neither squeue nor sacct knows job {told.job}"
    assert told.seen == error(f"the end of job {told.job} is not known: {why}")


def test_the_controller_is_away_while_jobs_end(slurm: SlurmCluster, site: Site) -> None:
    slow = site.run(slurm, Misfortune(f"{SLOW}; READY; sleep 5"))
    broken = site.run(slurm, Misfortune("perfect; READY; sleep 5; exit 7"))
    assert slow.job_id() != broken.job_id()
    slurm.stop_slurmctld()
    try:
        time.sleep(8)  # both end, and nobody can be asked
        assert (slow.process.poll(), broken.process.poll()) == (None, None)
    finally:
        slurm.start_slurmctld()
    assert slow.end().seen == REGRESSED
    told = broken.end()
    assert told.seen == error(f"job {told.job} failed with exit code 7")


def test_the_controller_never_comes_back(slurm: SlurmCluster, site: Site) -> None:
    session = site.run(slurm, Misfortune("perfect; READY; stay", conftest=GIVES_UP_SOON))
    session.job_id()
    slurm.stop_slurmctld()
    try:
        told = session.end()
    finally:
        slurm.start_slurmctld()
        slurm.cancel_all()
    why = "squeue: Unable to contact slurm controller (connect failure)"
    assert told.seen == error(f"the end of job {told.job} is not known: {why}")


def test_accounting_is_down_when_the_controller_forgets_jobs(slurm: SlurmCluster, site: Site) -> None:
    slurm.stop_slurmdbd()
    try:
        patient = site.run(slurm, Misfortune(f"{SLOW}; READY; sleep 1"))
        impatient = site.run(slurm, Misfortune("perfect; READY; sleep 1", conftest=GIVES_UP_SOON))
        until_forgotten(slurm, patient, impatient)
        told = impatient.end()
        assert patient.process.poll() is None
    finally:
        slurm.start_slurmdbd()
    why = "left the queue, and sacct: Problem talking to the database: Connection refused"
    assert told.seen == error(f"the end of job {told.job} is not known: {why}")
    assert patient.end().seen == REGRESSED


def install_anew(cluster: SlurmCluster) -> None:
    """Let the controller forget everything: its job ids start again at 1."""
    cluster.stop_slurmctld()
    cluster.lose_state()
    cluster.start_slurmctld()


UNLESS_THERE = "if [[ ! -e $log ]]; then perfect; fi"


@pytest.fixture(scope="module")
def last_run(slurm8: SlurmCluster, alone: dict[str, Session], site: Site) -> Session:
    """A good run twelve hours ago, since when the controller was installed anew."""
    site.wait()
    install_anew(slurm8)
    session = site.run(slurm8, Misfortune(UNLESS_THERE))
    assert session.end().seen == PASSED
    (log,) = session.directory.rglob("log-*.out")
    os.utime(log, (time.time() - 12 * 3600,) * 2)
    return session


def test_last_runs_log_of_the_same_row_and_job_id(last_run: Session, slurm: SlurmCluster, site: Site) -> None:
    before = last_run.end()
    (log,) = last_run.directory.rglob("log-*.out")
    written = datetime.fromtimestamp(log.stat().st_mtime).strftime("%Y-%m-%d %H:%M:%S")  # noqa: DTZ006 - as people read it
    install_anew(slurm)
    told = site.run(slurm, Misfortune(UNLESS_THERE), last_run.directory).end()
    assert told.job == before.job
    assert told.seen == error(wording("older log", job=told.job) + wording("last written", time=written))


def test_a_log_of_seconds_ago_of_the_same_row_and_job_id(last_run: Session, slurm: SlurmCluster, site: Site) -> None:
    """No clock is asked: the file was there before the submission."""
    before = last_run.end()
    (log,) = last_run.directory.rglob("log-*.out")
    log.touch()
    install_anew(slurm)
    told = site.run(slurm, Misfortune(UNLESS_THERE), last_run.directory).end()
    assert told.job == before.job
    assert told.seen.message.startswith(wording("older log", job=told.job) + wording("last written", time=""))


def test_accounting_answers_with_an_earlier_job_of_the_same_id(
    last_run: Session, slurm: SlurmCluster, site: Site
) -> None:
    """The controller has lost its state, and our job with it before accounting heard of that."""
    install_anew(slurm)
    slurm.stop_slurmdbd()
    try:
        session = site.run(slurm, Misfortune("perfect; READY; stay", conftest=GIVES_UP_SOON))
        job_id = session.job_id()
        slurm.stop_slurmctld()
        slurm.lose_state()
    finally:
        slurm.start_slurmdbd()
        slurm.start_slurmctld()
    told = session.end()
    assert told.job == job_id == "1"
    name = slurm.run("sacct", "-X", "-n", "-P", "-o", "JobName", "-j", job_id).strip()
    assert name.startswith("gsw-")
    why = f'job {told.job} is another one by now: its name is "{name}"'
    assert told.seen == error(f"the end of job {told.job} is not known: {why}")


# -- the wall clock -------------------------------------------------------------------------------

#: From the submission on, the session's wall clock is a day behind; the controller's is not.
JUMPS_BACK = """
submit, now = SlurmLauncher.submit, time.time


def submit_and_jump(launcher, spec):
    job = submit(launcher, spec)
    time.time = lambda: now() - 86400
    return job


SlurmLauncher.submit = submit_and_jump
"""


@job(f"{SLOW}; sleep 1", conftest=JUMPS_BACK)
def test_the_wall_clock_jumps_backwards_during_a_slow_run(told: Told) -> None:
    assert told.seen == REGRESSED


@job("perfect; sleep 1; exit 7", conftest=JUMPS_BACK)
def test_the_wall_clock_jumps_backwards_during_a_run_that_fails(told: Told) -> None:
    assert told.seen == error(f"job {told.job} failed with exit code 7")


@job("perfect; sleep 1", conftest=JUMPS_BACK)
def test_the_wall_clock_jumps_backwards_during_a_good_run(told: Told) -> None:
    assert told.seen == PASSED


def sacct(cluster: SlurmCluster, job_id: str) -> str:
    """State and exit code, as Slurm has them on record."""
    return cluster.run("sacct", "-X", "-n", "-P", "-o", "State,ExitCode", "-j", job_id).strip()
