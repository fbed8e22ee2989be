"""The cluster that all contenders share, and what it saw of each of them."""

from __future__ import annotations

import re
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from contenders import Contender, Work, job_environ, set_up
from processes import BenchmarkError, Usage, clean_environ, run, running

from tests.slurm.cluster import SlurmCluster as _TestCluster
from tests.slurm.cluster import missing_requirements

__all__ = ["Cancelled", "Seen", "SlurmCluster", "cancel_all", "cancelled", "measured", "missing_requirements"]

#: What jobs and nodes themselves, and this benchmark, ask of slurmctld. Whatever is not named here is a query.
_NO_QUERIES = re.compile(r"MESSAGE_|REQUEST_COMPLETE_|REQUEST_STEP_COMPLETE|REQUEST_STATS_INFO|REQUEST_PING")
_SUBMISSION = "REQUEST_SUBMIT_BATCH_JOB"
#: What squeue and scontrol ask besides, each time; one such command is one query.
_BESIDES = frozenset({"REQUEST_PARTITION_INFO", "REQUEST_FED_INFO"})


class SlurmCluster(_TestCluster):
    """The tests' cluster, with more patience.

    32 nodes that start jobs on a few cores may answer late. slurmctld then ends a job that could not be started as
    CANCELLED, which says nothing of whoever submitted it.
    """

    def _slurm_conf(self, ports: Sequence[int]) -> str:
        return super()._slurm_conf(ports).replace("MessageTimeout=5\n", "MessageTimeout=30\n")


@dataclass(frozen=True)
class Seen:
    """One contender's run, from outside."""

    usage: Usage
    #: Requests to slurmctld but submissions and cancellations, by type.
    controller: dict[str, int]
    #: Questions to slurmdbd, which sacct asks.
    accounting: int
    #: From the last line in the last job's log to the end of the process, seconds.
    after_s: float

    @property
    def queries(self) -> int:
        """Questions to slurmctld and to slurmdbd: squeue, scontrol and sacct are one each.

        One after the partitions that is not squeue's is a question of its own.
        """
        of_jobs = sum(count for kind, count in self.controller.items() if kind.startswith("REQUEST_JOB_"))
        partitions = max(0, self.controller.get("REQUEST_PARTITION_INFO", 0) - of_jobs)
        others = sum(count for kind, count in self.controller.items() if kind not in _BESIDES)
        return others + partitions + self.accounting


@dataclass(frozen=True)
class Cancelled:
    """What followed a Ctrl-C."""

    #: From the signal to the end of the process, and until no job was pending or running, nor in the queue at all,
    #: seconds; ``None`` where the time limit came first.
    process_s: float | None
    stopped_s: float | None
    gone_s: float | None
    #: Jobs still there when it was given up.
    left: int


def measured(cluster: SlurmCluster, contender: Contender, work: Work, timeout_s: float = 1800) -> Seen:
    """Let a contender run its jobs on a quiet cluster, and make sure that each of them ended well.

    Raises:
        BenchmarkError: The contender, or accounting, tells of something else.
    """
    _settle(cluster)
    with tempfile.TemporaryDirectory(prefix="gsw-bench-", ignore_cleanup_errors=True) as name:
        directory = Path(name)
        set_up(directory)
        environ = _environ(cluster, contender, directory, work)
        command = contender.prepare(directory, work)
        output = directory / "output"
        first, since = _next_job_id(cluster), _now()
        cluster.reset_rpc_counts()
        cluster.run("sacctmgr", "-i", "clear", "stats")
        usage = run(command, directory, environ, output, timeout_s=timeout_s)
        after_s = time.time() - max(log.stat().st_mtime for log in (directory / "stage").rglob("log-*.out"))
        counts = cluster.rpc_counts()
        accounting = _accounting_questions(cluster)
        contender.check(output, work)
        _check_jobs(cluster, contender, range(first, _next_job_id(cluster)), work.jobs, since, "COMPLETED|0:0")
        submitted = counts.get(_SUBMISSION, 0)
        if submitted != work.jobs:
            raise BenchmarkError(f"{contender.name} submitted {submitted} jobs, wanted {work.jobs}")
        queries = {kind: count for kind, count in counts.items() if not _NO_QUERIES.match(kind) and kind != _SUBMISSION}
        return Seen(usage, queries, accounting, after_s)


def cancelled(
    cluster: SlurmCluster, contender: Contender, work: Work, limit_s: float, *, by_hand: bool = False
) -> Cancelled:
    """Interrupt a contender once all of its jobs are in the queue, or end them with one scancel by hand.

    Raises:
        BenchmarkError: The jobs are not all there, or some ended otherwise.
    """
    _settle(cluster)
    with tempfile.TemporaryDirectory(prefix="gsw-bench-", ignore_cleanup_errors=True) as name:
        directory = Path(name)
        set_up(directory)
        environ = _environ(cluster, contender, directory, work)
        first, since = _next_job_id(cluster), _now()
        output = directory / "output"
        with running(contender.prepare(directory, work), directory, environ, output) as process:
            deadline_s = time.monotonic() + 600
            while len(_queued(cluster)) < work.jobs:
                if process.ended() or time.monotonic() > deadline_s:
                    raise BenchmarkError(f"{contender.name} did not submit all jobs\n{process.last_words()}")
                time.sleep(0.5)
            _wait_for_full_nodes(cluster, work)
            time.sleep(3 + (work.interval_s or 0))  # for it to have read the last answers, and to wait
            watch = _QueueWatch(cluster)
            start_s = time.monotonic()
            if not by_hand:
                process.interrupt()
            watch.start()
            if by_hand:
                cluster.run("scancel", "--user=root")
            process_s: float | None = None
            while time.monotonic() < start_s + limit_s and (process_s is None or watch.gone_s is None):
                if process_s is None and process.ended():
                    process_s = time.monotonic() - start_s
                time.sleep(0.01)
            watch.end()
            left = len(_queued(cluster))
            if process_s is None:
                process.kill()
        cancel_all(cluster)
        _check_jobs(cluster, contender, range(first, _next_job_id(cluster)), work.jobs, since, "CANCELLED")
        stopped, gone = (None if at_s is None else at_s - start_s for at_s in (watch.stopped_s, watch.gone_s))
        return Cancelled(process_s, stopped, gone, left)


def cancel_all(cluster: SlurmCluster) -> None:
    """End all jobs and wait until they are gone."""
    cluster.run("scancel", "--user=root")
    cluster.wait_until(lambda: not _queued(cluster), "the queue is empty", 120)


class _QueueWatch(threading.Thread):
    """Notes when no job is pending or running any more, and when none is in the queue at all."""

    def __init__(self, cluster: SlurmCluster) -> None:
        super().__init__(daemon=True)
        self._cluster = cluster
        self._over = threading.Event()
        self.stopped_s: float | None = None
        self.gone_s: float | None = None

    def run(self) -> None:
        while self.gone_s is None and not self._over.wait(0.1):
            states = _queued(self._cluster)
            now_s = time.monotonic()
            if self.stopped_s is None and not {"PENDING", "RUNNING"} & set(states):
                self.stopped_s = now_s
            if not states:
                self.gone_s = now_s

    def end(self) -> None:
        self._over.set()
        self.join()


def _environ(cluster: SlurmCluster, contender: Contender, directory: Path, work: Work) -> dict[str, str]:
    return clean_environ(cluster.environ) | job_environ(directory, work) | dict(contender.environ)


def _queued(cluster: SlurmCluster) -> list[str]:
    """The states of all jobs in the queue, those that are completing too."""
    return cluster.run("squeue", "-h", "-o", "%T").split()


def _wait_for_full_nodes(cluster: SlurmCluster, work: Work) -> None:
    gpus = len(cluster.node_names) * cluster.gpus_per_node
    wanted = min(gpus, work.jobs)
    cluster.wait_until(lambda: _queued(cluster).count("RUNNING") >= wanted, f"{wanted} jobs run", 120)


def _settle(cluster: SlurmCluster) -> None:
    """Wait until nothing is left of the run before: no job, no busy node, no record on its way to accounting."""

    def quiet() -> bool:
        idle = cluster.run("sinfo", "-h", "-p", "batch", "-t", "idle", "-o", "%D").split()
        waiting = re.search(r"DBD Agent queue size:\s*(\d+)", cluster.run("sdiag"))
        return idle == [str(len(cluster.node_names))] and waiting is not None and waiting[1] == "0"

    cluster.wait_until(lambda: not _queued(cluster) and quiet(), "the cluster is quiet", 120)
    time.sleep(1)


def _next_job_id(cluster: SlurmCluster) -> int:
    found = re.search(r"NEXT_JOB_ID\s*=\s*(\d+)", cluster.run("scontrol", "show", "config"))
    assert found is not None
    return int(found[1])


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() - 1))


def _accounting_questions(cluster: SlurmCluster) -> int:
    found = re.search(r"DBD_GET_JOBS_COND\s*\(\s*\d+\)\s*count:(\d+)", cluster.run("sacctmgr", "show", "stats"))
    return 0 if found is None else int(found[1])


def _check_jobs(
    cluster: SlurmCluster, contender: Contender, ids: Sequence[int], jobs: int, since: str, wanted: str
) -> None:
    """Make sure that accounting has so many jobs that ended so."""
    deadline_s = time.monotonic() + 60
    ends: dict[str, int] = {}
    while time.monotonic() < deadline_s:
        ends = {}
        for line in cluster.run("sacct", "-X", "-n", "-P", "-S", since, "-o", "JobIDRaw,State,ExitCode").splitlines():
            job_id, _, end = line.partition("|")
            if int(job_id) in ids:
                key = wanted if end.startswith(wanted) else end
                ends[key] = ends.get(key, 0) + 1
        if ends == {wanted: jobs}:
            return
        time.sleep(1)
    raise BenchmarkError(f"{contender.name}: wanted {jobs} jobs that ended {wanted}, accounting has {ends}")
