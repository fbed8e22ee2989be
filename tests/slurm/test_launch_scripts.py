"""Recipes that submit their job themselves, and configured ones, on a real Slurm."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from pytest_gsw.results.record import read_record, used_gpu_hours
from tests.integration.conftest import tiny_table
from tests.messages import wording

from .cluster import SlurmCluster
from .recipes import CLUSTERS, NAMED, TABLE, configured, nemo_run
from .sessions import PASSED, REGRESSED, Misfortune, Session, Site, error


class Launched:
    """Projects whose recipe is launched in one of these ways."""

    def __init__(self, site: Site, cluster: SlurmCluster, root: Path) -> None:
        self._site = site
        self.cluster = cluster
        self.directory = root / "project"

    def run(
        self,
        script: str,
        *options: str,
        launcher: str = "nemo-run",
        table: str = TABLE,
        given: Mapping[str, str] = MappingProxyType({}),
        defaults: Mapping[str, float] = MappingProxyType({}),
    ) -> Session:
        """Start a session."""
        directory = self.directory
        files = {
            "clusters.yaml": CLUSTERS.replace("nemo-run", launcher),
            "recipes/tiny/launch.sh": script.replace("READY", f'echo "$SLURM_JOB_ID" >{directory}/ready'),
        }
        files |= given
        misfortune = Misfortune("", options=options, table=table, files=files, defaults=defaults)
        return self._site.run(self.cluster, misfortune, directory)

    def jobs(self, *options: str) -> list[str]:
        """All jobs that this project's scripts have submitted, ``id|name|state``."""
        told = self.cluster.run("sacct", "-X", "-n", "-P", "-o", "JobID,JobName,State", *options)
        return told.splitlines()


@pytest.fixture
def launched(tmp_path: Path, slurm8: SlurmCluster) -> Iterator[Launched]:
    site = Site(tmp_path)
    yield Launched(site, slurm8, tmp_path)
    site.close()
    slurm8.cancel_all()


def test_a_script_that_submits_its_job_itself(launched: Launched) -> None:
    session = launched.run(nemo_run())
    told = session.end()
    assert told.seen == PASSED, session.output


def test_a_slow_run_is_a_regression(launched: Launched) -> None:
    slow = "SECONDS_PER_STEP=1.250 " + 'steps "${LOG}_${SLURM_JOB_ID}_0.out"'
    assert launched.run(nemo_run(slow)).end().seen == REGRESSED


def test_a_job_that_its_script_names_itself_is_followed(launched: Launched) -> None:
    session = launched.run(nemo_run(sbatch="--job-name=of-its-own"))
    told = session.end()
    assert told.seen == PASSED, session.output
    assert f"{told.job}|of-its-own|COMPLETED" in launched.jobs()


@pytest.mark.parametrize(
    ("script", "fact"),
    [
        (
            "#!/bin/bash\necho done\n",
            "submitted nothing, although its exit code is 0: its output has no line 'Task 0:'",
        ),
        ("#!/bin/bash\necho 'no token' >&2\nexit 3\n", "submitted nothing, and ended with exit code 3: no token"),
        (
            "#!/bin/bash\nprintf 'Task 0: x\\n- Job id: 999999\\nTask 1: y\\n- Job id: 999998\\n'\n",
            "its output has the tasks 0, 1, and one row is one job, task 0",
        ),
    ],
)
def test_a_script_that_names_no_job_has_submitted_none(launched: Launched, script: str, fact: str) -> None:
    session = launched.run(script)
    seen = session.end().seen
    assert (seen.outcome, seen.exit_status) == ("error", 1), session.output
    assert fact in seen.message


def test_configured_sbatch(launched: Launched) -> None:
    session = launched.run(configured(), launcher="configured-sbatch")
    told = session.end()
    assert told.seen == PASSED, session.output
    (log,) = launched.directory.glob(f"install/workloads/tiny/experiments/*/*/log-tiny_{told.job}_0.out")
    assert (log.parent / f"slurm-{told.job}.out").is_file()


def test_configured_sbatch_where_nodes_are_laid_out_by_nvlink(launched: Launched) -> None:
    """Debian's Slurm 22.05 knows no ``--segment``, and refuses a job that asks for one."""
    accelerator = "accelerator: GB200"
    session = launched.run(
        configured(),
        launcher="configured-sbatch",
        table=TABLE.replace("accelerator: H100", accelerator),
        given={
            "clusters.yaml": CLUSTERS.replace("nemo-run", "configured-sbatch").replace("accelerator: H100", accelerator)
        },
    )
    assert session.rows() == {"tiny_1b_bf16[GB200x8]": "passed"}, session.output


def test_the_log_of_the_last_start_counts(launched: Launched) -> None:
    body = 'echo "an earlier start" >"${LOG}_${SLURM_JOB_ID}_0.out"; steps "${LOG}_${SLURM_JOB_ID}_10.out"'
    session = launched.run(nemo_run(body))
    assert session.end().seen == PASSED, session.output


#: Rows of one recipe, which run at once.
TWO = tiny_table(
    *(f"gpus: {gpus}, step_time_s: 1.000, line: {gpus}, statistic: 'mean[35:44]'" for gpus in (8, 16)),
    framework="nemo",
).replace("steps: 20", "steps: 50")


def test_two_rows_of_one_recipe_run_at_once(launched: Launched) -> None:
    # Each waits until the other runs as well.
    body = """\
touch "$EXPERIMENT/../../../running-$SLURM_JOB_ID"
until [ "$(ls "$EXPERIMENT"/../../../running-* | wc -l)" = 2 ]; do sleep 0.1; done
steps "${LOG}_${SLURM_JOB_ID}_0.out"
"""
    session = launched.run(nemo_run(body), table=TWO)
    assert list(session.rows().values()) == ["passed", "passed"], session.output


STAY = 'steps "${LOG}_${SLURM_JOB_ID}_0.out"; READY; sleep 300'


def test_ctrl_c_ends_the_job(launched: Launched) -> None:
    session = launched.run(nemo_run(STAY))
    job_id = session.job_id()
    session.process.send_signal(signal.SIGINT)
    told = session.end()
    assert told.seen.message == wording("cancelled in the queue", job=job_id, time="0s") or (
        f"job {job_id}" in told.seen.message
    ), session.output
    launched.cluster.wait_until(lambda: not launched.cluster.run("squeue", "-h").strip(), "an empty queue", 60)


def test_a_job_that_its_script_submits_is_ended_where_it_stalls(launched: Launched) -> None:
    """And what it has cost is its own run time on the row's GPUs, as Slurm has it."""
    body = 'steps "${LOG}_${SLURM_JOB_ID}_0.out" 9; sleep 300'
    session = launched.run(nemo_run(body), defaults={"stall": 0.05})
    told = session.end()
    assert told.seen._replace(message="") == error(""), session.output
    assert told.seen.message.startswith(wording("stalled", step=10, steps=50, time=""))
    said = launched.cluster.run("sacct", "-X", "-n", "-P", "-o", "State,ElapsedRaw", "-j", told.job)
    state, elapsed_s = said.strip().split("|")
    assert state.startswith("CANCELLED")
    (path,) = session.directory.glob(".gsw/runs/*/records/*.json")
    assert used_gpu_hours(read_record(path)) == pytest.approx(8 * float(elapsed_s) / 3600)
    assert float(elapsed_s) > 0


#: A script stops here until the test lets it go on.
HELD = 'mkdir -p "$LLMB_INSTALL"; touch "$LLMB_INSTALL/held"; until [ -e "$LLMB_INSTALL/go" ]; do sleep 0.05; done'


@pytest.mark.parametrize("sbatch", ["", "--job-name=of-its-own"])
@pytest.mark.parametrize("where", ["begin", "submitted"])
def test_a_session_that_is_killed_within_its_launch_script(launched: Launched, where: str, sbatch: str) -> None:
    script = nemo_run(sbatch=sbatch, **{where: HELD})
    session = launched.run(script)
    launched.cluster.wait_until((launched.directory / "install" / "held").exists, "the script", 60)
    session.process.send_signal(signal.SIGKILL)
    session.process.wait()
    resumed = launched.run(script, "--gsw-resume=last")
    launched.cluster.wait_until(lambda: "gsw: eos" in resumed.output, "a session", 60)
    (launched.directory / "install" / "go").touch()
    told = resumed.end()
    assert told.seen == PASSED, resumed.output
    name = "of-its-own" if sbatch else f"gsw-{run_of(launched)}-"
    assert len([job for job in launched.jobs() if name in job and int(job.split("|")[0]) >= int(told.job)]) == 1


def run_of(launched: Launched) -> str:
    (run,) = (launched.directory / ".gsw" / "runs").iterdir()
    return run.name


def test_ctrl_c_within_the_launch_script(launched: Launched) -> None:
    session = launched.run(nemo_run(STAY, submitted=HELD, sbatch="--job-name=of-its-own"))
    launched.cluster.wait_until((launched.directory / "install" / "held").exists, "the script", 60)
    session.process.send_signal(signal.SIGINT)
    (launched.directory / "install" / "go").touch()
    told = session.end()
    assert f"interrupted: job {told.job} was cancelled" in told.seen.message, session.output
    launched.cluster.wait_until(lambda: not launched.cluster.run("squeue", "-h").strip(), "an empty queue", 60)


@pytest.mark.parametrize("sbatch", ["", "--job-name=of-its-own"])
def test_a_session_that_is_killed_while_its_job_runs(launched: Launched, sbatch: str) -> None:
    body = 'READY; until [ -e "$LLMB_INSTALL/go" ]; do sleep 0.05; done; steps "${LOG}_${SLURM_JOB_ID}_0.out"'
    session = launched.run(nemo_run(body, sbatch=sbatch))
    job_id = session.job_id()
    session.process.kill()
    session.process.wait()
    resumed = launched.run(nemo_run(body, sbatch=sbatch), "--gsw-resume=last")
    launched.cluster.wait_until(lambda: "collected 1 item" in resumed.output, "a session", 60)
    (launched.directory / "install" / "go").touch()
    told = resumed.end()
    assert told.seen == PASSED, resumed.output
    assert told.job == job_id


TWICE = 'sbatch --mem=50M --output=/dev/null --wrap="sleep 300" >/dev/null'
#: Prints the id of a further job with a name of its own.
SECOND = 'sbatch --parsable --mem=50M --job-name=second --output=/dev/null --wrap="sleep 300"'


def test_a_session_that_is_killed_and_whose_script_has_submitted_twice(launched: Launched) -> None:
    """Neither job can be taken over: both are ended."""
    script = nemo_run(STAY, submitted=TWICE)
    session = launched.run(script)
    session.job_id()
    session.process.kill()
    session.process.wait()
    seen = launched.run(script, "--gsw-resume=last").end().seen
    assert (seen.outcome, seen.exit_status) == ("error", 1)
    assert seen.message.startswith(wording("jobs of a name", count=2, name=""))
    launched.cluster.wait_until(lambda: not launched.cluster.run("squeue", "-h").strip(), "an empty queue", 60)


@pytest.mark.parametrize("logs", ["$LLMB_WORKLOAD/logs", "elsewhere"])
def test_a_script_that_names_its_log(launched: Launched, tmp_path: Path, logs: str) -> None:
    """Below the staging area, or anywhere else."""
    logs = logs.replace("elsewhere", f"{tmp_path}/elsewhere")
    session = launched.run(NAMED.format(logs=logs, name="${RUN_TIMESTAMP}_%j"), launcher="sbatch")
    told = session.end()
    assert told.seen == PASSED, session.output
    place = Path(logs.replace("$LLMB_WORKLOAD", f"{launched.directory}/install/workloads/tiny"))
    (path,) = session.directory.glob(".gsw/runs/*/records/*.json")
    assert Path(str(read_record(path).run.log)) in place.glob(f"tiny_8gpus_*_{told.job}.out")
    again = launched.run(NAMED.format(logs=logs, name="%j"), "--gsw-replay=last", launcher="sbatch")
    assert list(again.rows().values()) == ["passed"], again.output


def test_a_log_without_the_jobs_id_uses_no_node(launched: Launched) -> None:
    before = launched.jobs()
    session = launched.run(NAMED.format(logs="$LLMB_WORKLOAD/logs", name="${RUN_TIMESTAMP}"), launcher="sbatch")
    assert session.end().seen == error(wording("no log name", script="launch.sh")), session.output
    assert "write _%j into the name" in session.output
    assert launched.jobs() == before


@pytest.mark.parametrize("is_there", [True, False])
def test_a_script_that_names_another_job_than_the_rows(launched: Launched, is_there: bool) -> None:
    """The row's is ended; the other one, which the user submitted while the script ran, goes on."""
    session = launched.run(nemo_run(STAY, begin=HELD, submitted='id=$(cat "$LLMB_INSTALL/id")'))
    install = launched.directory / "install"
    launched.cluster.wait_until((install / "held").exists, "the script", 60)
    mine = ("sbatch", "--parsable", "--mem=50M", "--job-name=mine", "--output=/dev/null", "--wrap=sleep 300")
    other = launched.cluster.run(*mine).strip() if is_there else "999999"
    (install / "id").write_text(other)
    (install / "go").touch()
    seen = session.end().seen
    assert (seen.outcome, seen.exit_status) == ("error", 1)
    assert re.fullmatch(wording("job of another name", script="launch.sh", job=other, others="\\d+"), seen.message)
    left = [other] if is_there else []
    launched.cluster.wait_until(lambda: launched.cluster.run("squeue", "-h", "-o", "%i").split() == left, "one job", 60)


@pytest.mark.parametrize(
    ("sbatch", "submitted", "fact"),
    [
        ("", f"id=$({SECOND})", "which is not "),
        ("--job-name=of-its-own", f'echo "Task 1: x"; echo "- Job id: $({SECOND})"', "its output has the tasks 1, 0"),
    ],
)
def test_all_jobs_of_a_script_that_submits_several_are_ended(
    launched: Launched, sbatch: str, submitted: str, fact: str
) -> None:
    """Whatever their names are."""
    seen = launched.run(nemo_run(STAY, sbatch=sbatch, submitted=submitted)).end().seen
    assert (seen.outcome, seen.exit_status) == ("error", 1)
    assert fact in seen.message
    assert "; cancelled: " in seen.message
    launched.cluster.wait_until(lambda: not launched.cluster.run("squeue", "-h").strip(), "an empty queue", 60)
