"""A real Slurm cluster on this machine: real daemons, made-up GPUs.

::

    with SlurmCluster(nodes=32) as cluster:
        subprocess.run(["sbatch", …], env=cluster.environ)

Everything lives in one private directory: munge has its own key and socket, MariaDB its own data and
socket and no network, Slurm its own ports on the loopback. Nothing of a Slurm that the machine may
already run is read or written. Every daemon runs in the foreground as a child of this process, is
stopped by its process id, and is told by the kernel to end should this process be killed.

Needs root, because slurmd does, and Debian's or Ubuntu's packages; see :func:`missing_requirements`.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from types import FrameType, TracebackType

from tests.processes import environment_of, free_ports, kill_while_any, pids, processes_of

PACKAGES = ("slurmctld", "slurmd", "slurm-client", "slurmdbd", "munge", "mariadb-server")
INSTALL = "apt-get install --no-install-recommends -y " + " ".join(PACKAGES)

#: Daemons are in sbin, which is not on everybody's PATH.
PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin", "/sbin"))

_BINARIES = ("munged", "mariadbd", "mariadb-install-db", "mariadb", "slurmdbd", "slurmctld", "slurmd")
_BINARIES += ("sbatch", "squeue", "sacct", "scancel", "scontrol", "sdiag", "sinfo", "sacctmgr", "setpriv")

#: Of what MariaDB's files are, 96 MiB would be an empty log.
_SMALL_LOG = "--innodb-log-file-size=8M"

#: ``mknod`` numbers of /dev/null: slurmd refuses a plain file as a GPU but accepts any character device.
_DEV_NULL = os.makedev(1, 3)

_PREEMPTION = """\
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=low Nodes=ALL MaxTime=INFINITE PriorityTier=1 PreemptMode=CANCEL
PartitionName=requeued Nodes=ALL MaxTime=INFINITE PriorityTier=1 PreemptMode=REQUEUE
PartitionName=high Nodes=ALL MaxTime=INFINITE PriorityTier=10 PreemptMode=OFF
"""


def missing_requirements() -> str | None:
    """What this machine lacks for a :class:`SlurmCluster`, and what to type; ``None`` if nothing."""
    missing = [name for name in _BINARIES if shutil.which(name, path=PATH) is None]
    if missing:
        return f"a Slurm cluster needs {', '.join(missing)}: {INSTALL}"
    if os.geteuid() != 0:
        return f"a Slurm cluster needs root, because slurmd does: run as root, after {INSTALL}"
    return None


class ClusterError(Exception):
    """The cluster, or one of its daemons, did not do what was asked of it."""


class SlurmCluster:
    """Start a cluster on entry, end all of it on exit.

    Args:
        nodes: How many slurmd to start, named ``n001`` and so on.
        gpus_per_node: Made-up GPUs of each node.
        accounting: Whether MariaDB and slurmdbd run; without, ``sacct`` has nothing to tell.
        min_job_age_s: How long slurmctld remembers a job that has ended.
        slurmd_timeout_s: How long a node may be silent before its jobs end in NODE_FAIL.
        start_timeout_s: How long all of the start may take.
        preemption: Whether jobs of the partition ``high`` take the nodes of those in ``low``, which end
            in PREEMPTED, and in ``requeued``, which go back to the queue if they may: after ten seconds, not 120.
        limits: Whether limits of accounting hold, such as MaxSubmitJobs.
        switches: Nodes of each leaf switch, ``s1`` and so on below the switch ``root``; 0: Slurm knows no switches.
        blocks: Nodes of each block, ``b1`` and so on (Slurm 24.11); 0: Slurm knows no blocks.
    """

    def __init__(
        self,
        nodes: int = 32,
        *,
        gpus_per_node: int = 8,
        accounting: bool = True,
        min_job_age_s: int = 300,
        slurmd_timeout_s: int = 60,
        start_timeout_s: float = 120,
        preemption: bool = False,
        limits: bool = False,
        switches: int = 0,
        blocks: int = 0,
    ) -> None:
        self.node_names = tuple(f"n{number:03}" for number in range(1, nodes + 1))
        self.gpus_per_node = gpus_per_node
        self.accounting = accounting
        self.min_job_age_s = min_job_age_s
        self.slurmd_timeout_s = slurmd_timeout_s
        self.start_timeout_s = start_timeout_s
        self.preemption = preemption
        self.limits = limits
        self.switches = switches
        self.blocks = blocks
        self.directory = Path()
        self._deadline = 0.0
        self._memory_cgroup: Path | None = None
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        self._restore_sigterm: Callable[[], None] = lambda: None

    # -- life ---------------------------------------------------------------------------------

    def __enter__(self) -> SlurmCluster:  # noqa: PYI034 - typing.Self is Python 3.11's
        self._restore_sigterm = _sigterm_raises()
        try:
            self._start()
        except BaseException:  # KeyboardInterrupt too: half a cluster must not stay behind
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End every daemon and every process of every job, and remove the directory."""
        self._restore_sigterm()
        if self.directory == Path():
            return
        with _signals_wait():
            # Nodes first and at once: a slurmctld that still runs would wait for each of them.
            for role in ("slurmd", "slurmctld", "slurmdbd", "mariadbd", "munged"):
                self._end([name for name in self._daemons if name.split(" ")[0] == role])
            kill_while_any(lambda: processes_of(self.directory))
            if self._memory_cgroup is not None:
                _remove_cgroup(self._memory_cgroup)
            shutil.rmtree(self.directory, ignore_errors=True)
            self.directory = Path()

    def _start(self) -> None:
        problem = missing_requirements()
        if problem is not None:
            raise ClusterError(problem)
        self._deadline = time.monotonic() + self.start_timeout_s
        # /tmp and not TMPDIR: the path of a UNIX socket has at most 107 bytes.
        self.directory = Path(tempfile.mkdtemp(prefix="gsw-slurm-", dir="/tmp"))
        self.directory.chmod(0o755)
        own = _own_memory_cgroup()
        self._memory_cgroup = own / self.directory.name if own is not None else None
        self._configure()
        self._start_munged()
        if self.accounting:
            self._start_mariadbd()
            self.start_slurmdbd()
            self._run("sacctmgr", "-i", "add", "cluster", "gsw")
            self._run("sacctmgr", "-i", "add", "account", "eng", "Description=tests", "Organization=tests")
            self._run("sacctmgr", "-i", "add", "user", "root", "Account=eng")
        self.start_slurmctld()
        for node in self.node_names:
            self._spawn_slurmd(node)
        self.wait_until(lambda: self._idle_nodes() == len(self.node_names), "all nodes are idle")

    def _configure(self) -> None:
        for name in ("munge", "db", "db-tmp", "ctld", "spool", "log", "dev", "home"):
            (self.directory / name).mkdir(mode=0o755)
        for index in range(self.gpus_per_node):
            os.mknod(self.directory / "dev" / f"nvidia{index}", stat.S_IFCHR | 0o666, _DEV_NULL)
        key = self.directory / "munge" / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        ports = free_ports(2 + len(self.node_names))
        slurm_conf = self._slurm_conf(ports)
        (self.directory / "slurm.conf").write_text(slurm_conf)
        # A node of a busy machine may answer late; slurmctld would end the job that it is to launch. Clients are to say
        # soon that nobody answers.
        patient = slurm_conf.replace("\nMessageTimeout=5\n", "\nMessageTimeout=30\n")
        (self.directory / "daemons.conf").write_text(patient)
        (self.directory / "gres.conf").write_text(
            f"NodeName={self._node_range} Name=gpu File={self.directory}/dev/nvidia[0-{self.gpus_per_node - 1}]\n"
            if self.gpus_per_node
            else ""
        )
        (self.directory / "cgroup.conf").write_text(self._cgroup_conf())
        (self.directory / "topology.conf").write_text(self._topology_conf())
        slurmdbd_conf = self.directory / "slurmdbd.conf"
        slurmdbd_conf.write_text(self._slurmdbd_conf(ports))
        slurmdbd_conf.chmod(0o600)  # slurmdbd refuses any other mode

    def _slurm_conf(self, ports: Sequence[int]) -> str:
        slurmctld_port, slurmdbd_port, first, last = ports[0], ports[1], ports[2], ports[-1]
        host = socket.gethostname().partition(".")[0]
        accounting = (
            "AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost=127.0.0.1\n"
            f"AccountingStoragePort={slurmdbd_port}\nAccountingStorageTRES=gres/gpu\n"
            f"{'AccountingStorageEnforce=associations,limits,qos' if self.limits else ''}\n"
            # Slurm up to 22.05 at least takes the munge socket of the way to slurmdbd from here.
            f"AccountingStoragePass={self._munge_socket}\n"
            if self.accounting
            else "AccountingStorageType=accounting_storage/none\n"
        )
        memory = (
            "TaskPlugin=task/cgroup\nSelectTypeParameters=CR_Core_Memory\nDefMemPerNode=2000"
            if self.memory_limits
            else "TaskPlugin=task/none\nSelectTypeParameters=CR_Core"
        )
        return f"""\
ClusterName=gsw
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={slurmctld_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={self._munge_socket}{",cred_expire=10" if self.preemption else ""}
{accounting}
StateSaveLocation={self.directory}/ctld
SlurmctldPidFile={self.directory}/slurmctld.pid
SlurmdSpoolDir={self.directory}/spool/%n
SlurmdPidFile={self.directory}/spool/%n.pid
SlurmctldTimeout=60
SlurmdTimeout={self.slurmd_timeout_s}
MessageTimeout=5
MinJobAge={self.min_job_age_s}
KillWait=1
CompleteWait=0
ReturnToService=2
MaxJobCount=20000
MpiDefault=none
ProctrackType=proctrack/linuxproc
PrologFlags=NoHold
SlurmdParameters=config_overrides
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
{"TopologyPlugin=topology/tree" if self.switches else "TopologyPlugin=topology/block" if self.blocks else ""}
{memory}
# Without these a job waits about 3 s before it starts.
SchedulerParameters=bf_interval=1,sched_interval=1,sched_min_interval=0,batch_sched_delay=0
GresTypes=gpu
NodeName={self._node_range} NodeAddr=127.0.0.1 NodeHostname={host} Port=[{first}-{last}] \
CPUs=16 RealMemory=64000 Gres=gpu:{self.gpus_per_node} State=UNKNOWN
PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE PriorityTier=10 State=UP
{_PREEMPTION if self.preemption else ""}"""

    def _cgroup_conf(self) -> str:
        if self._memory_cgroup is None:
            return "CgroupAutomount=no\n"
        self._memory_cgroup.mkdir()
        mountpoint = self.directory / "cgroup"
        mountpoint.mkdir()
        # Below the cgroup of this very process: jobs stay within whatever limits hold for it.
        (mountpoint / "memory").symlink_to(self._memory_cgroup)
        return (
            f"CgroupAutomount=no\nCgroupPlugin=cgroup/v1\nCgroupMountpoint={mountpoint}\n"
            "ConstrainRAMSpace=yes\nAllowedSwapSpace=0\nMinRAMSpace=10\n"
        )

    def _topology_conf(self) -> str:
        size = self.switches or self.blocks
        groups = [self.node_names[first : first + size] for first in range(0, len(self.node_names), size or 1) if size]
        word, letter = ("SwitchName", "s") if self.switches else ("BlockName", "b")
        lines = [f"{word}={letter}{number} Nodes={','.join(nodes)}" for number, nodes in enumerate(groups, 1)]
        lines += [f"SwitchName=root Switches=s[1-{len(groups)}]"] if self.switches else []
        lines += [f"BlockSizes={self.blocks}"] if self.blocks else []
        return "\n".join(lines) + "\n"

    def _slurmdbd_conf(self, ports: Sequence[int]) -> str:
        return f"""\
AuthType=auth/munge
AuthInfo=socket={self._munge_socket}
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={ports[1]}
SlurmUser=root
PidFile={self.directory}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm_acct_db
"""

    @property
    def _node_range(self) -> str:
        return f"n[{self.node_names[0][1:]}-{self.node_names[-1][1:]}]"

    @property
    def _munge_socket(self) -> Path:
        return self.directory / "munge" / "socket"

    @property
    def _database_socket(self) -> Path:
        return self.directory / "db.socket"

    def _start_munged(self) -> None:
        place = self.directory / "munge"
        self._spawn(
            "munged", "munged", "--foreground", f"--socket={self._munge_socket}", f"--key-file={place}/key",
            f"--pid-file={place}/pid", f"--log-file={place}/log", f"--seed-file={place}/seed",
        )  # fmt: skip
        self.wait_until(self._munge_socket.exists, "munged listens")

    def _start_mariadbd(self) -> None:
        # A server that starts removes the temporary tables of others from a directory that they share.
        data = f"--datadir={self.directory}/db"
        scratch = f"--tmpdir={self.directory}/db-tmp"
        shutil.copytree(_installed_database(), self.directory / "db", dirs_exist_ok=True)
        self._spawn(
            "mariadbd", "mariadbd", "--no-defaults", "--user=root", data, scratch, f"--socket={self._database_socket}",
            f"--pid-file={self.directory}/db.pid", "--skip-networking", "--innodb-flush-log-at-trx-commit=0",
            _SMALL_LOG,
        )  # fmt: skip
        self.wait_until(self._database_socket.exists, "mariadbd listens")

    # -- what tests do to it ------------------------------------------------------------------

    @property
    def memory_limits(self) -> bool:
        """Whether a job that takes more memory than it asked for ends in OUT_OF_MEMORY.

        It is the kernel that ends it, so this takes a memory cgroup (version 1) that can be written.
        OverMemoryKill, which does without, was tried: Slurm 22.05 then says FAILED with 0:9.
        """
        return self._memory_cgroup is not None

    @property
    def environ(self) -> dict[str, str]:
        """The environment in which Slurm's commands talk to this cluster."""
        clean = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("SLURM", "SBATCH", "SQUEUE", "SACCT", "SCANCEL", "MYSQL"))
        }
        return clean | {
            "SLURM_CONF": f"{self.directory}/slurm.conf",
            "MYSQL_UNIX_PORT": str(self._database_socket),  # slurmdbd's client library reads it
            "PATH": PATH,
        }

    def run(self, *command: str, timeout_s: float = 60) -> str:
        """What one of Slurm's commands prints."""
        return self._run(*command, timeout_s=timeout_s)

    def start_slurmdbd(self) -> None:
        """Start slurmdbd and wait until it answers."""
        self._spawn("slurmdbd", "slurmdbd", "-D")
        self.wait_until(lambda: self._succeeds("sacctmgr", "-n", "list", "cluster"), "slurmdbd answers")

    def stop_slurmdbd(self) -> None:
        """Take accounting away: sacct fails, the rest works."""
        self._end(["slurmdbd"])

    def start_slurmctld(self) -> None:
        """Start slurmctld and wait until it answers."""
        # Slurm 26.05 does not start on what one has left that was killed before it saved the usage of associations, as
        # it does every five minutes; -i lets it.
        names = {path.name for path in (self.directory / "ctld").iterdir()}
        ignores = ["-i"] if names and "assoc_usage" not in names else []
        self._spawn("slurmctld", "slurmctld", "-D", *ignores, "-f", f"{self.directory}/daemons.conf")
        self.wait_until(lambda: "UP" in self._output("scontrol", "ping"), "slurmctld answers")

    def stop_slurmctld(self) -> None:
        """Take the controller away: sbatch, squeue and scancel fail, sacct works."""
        self._end(["slurmctld"])

    def kill_slurmctld(self) -> None:
        """Let the controller die of SIGKILL: what it has not yet saved is lost, ids it gave out among it."""
        daemon = self._daemons.pop("slurmctld")
        daemon.kill()
        daemon.wait()

    def lose_state(self) -> None:
        """Take from a controller that is stopped all that it knows: job ids start again at 1, accounting remembers."""
        shutil.rmtree(self.directory / "ctld")
        (self.directory / "ctld").mkdir(mode=0o755)

    def kill_slurmd(self, node: str) -> None:
        """Let a node fall silent, as if it had lost its power: the processes of its jobs end too."""
        daemon = self._daemons.pop(f"slurmd {node}")
        daemon.send_signal(signal.SIGSTOP)
        kill_while_any(lambda: _job_processes_of(self.directory, node))
        daemon.kill()
        daemon.wait()

    def start_slurmd(self, node: str) -> None:
        """Give a node back and wait until it is idle."""
        self._spawn_slurmd(node)
        self.wait_until(
            lambda: self._output("sinfo", "-h", "-p", "batch", "-n", node, "-o", "%T").strip() == "idle",
            f"{node} is idle",
        )

    def rpc_counts(self) -> dict[str, int]:
        """How many requests of each type slurmctld has served since :meth:`reset_rpc_counts`."""
        by_type = self._run("sdiag").partition("by message type")[2].partition("by user")[0]
        return {name: int(count) for name, count in re.findall(r"(\w+)\s*\(\s*\d+\)\s*count:(\d+)", by_type)}

    def reset_rpc_counts(self) -> None:
        """Let :meth:`rpc_counts` start at nothing."""
        self._run("sdiag", "-r")

    def purge(self, job_id: str, timeout_s: float = 60) -> None:
        """Wait until slurmctld has forgotten an ended job, as it does after MinJobAge."""
        self.wait_until(
            lambda: not self._succeeds("scontrol", "show", "job", job_id), f"job {job_id} is purged", timeout_s
        )

    def cancel_all(self) -> None:
        """End all jobs, so that the next test finds the cluster empty."""
        self._run("scancel", "--user=root")
        self.wait_until(lambda: not self._output("squeue", "-h").strip(), "the queue is empty", 60)

    def resume_all(self) -> None:
        """Take drained nodes back, so that the next test finds all nodes idle."""
        for node in self._run("sinfo", "-h", "-N", "-t", "drain", "-o", "%N").split():
            self._run("scontrol", "update", f"nodename={node}", "state=resume")
        # One that was just resumed does not respond yet: idle*.
        states = ("sinfo", "-h", "-N", "-o", "%T")
        self.wait_until(lambda: {*self._output(*states).split()} == {"idle"}, "all nodes are idle", 60)

    def copy_logs(self, target: Path) -> None:
        """Copy what each daemon has logged so far to a new directory, with the configuration."""
        shutil.copytree(self.directory / "log", target)
        shutil.copy2(self.directory / "slurm.conf", target)

    def wait_until(self, condition: Callable[[], bool], what: str, timeout_s: float | None = None) -> None:
        """Wait for a condition, or say with the daemons' last words that it never came true."""
        deadline = self._deadline if timeout_s is None else time.monotonic() + timeout_s
        deadline = max(deadline, time.monotonic() + 30)
        pause_s = 0.05  # most conditions are a command of Slurm, and asking takes the processor from what is waited for
        while not condition():
            dead = [name for name, daemon in self._daemons.items() if daemon.poll() is not None]
            if dead or time.monotonic() > deadline:
                why = f"{', '.join(dead)} ended" if dead else "it took too long"
                raise ClusterError(f"waited until {what}, but {why}\n{self._last_words(dead)}")
            time.sleep(pause_s)
            pause_s = min(1.5 * pause_s, 0.25)

    # -- processes ----------------------------------------------------------------------------

    def _spawn_slurmd(self, node: str) -> None:
        self._spawn(f"slurmd {node}", "slurmd", "-D", "-f", f"{self.directory}/daemons.conf", "-N", node)

    def _spawn(self, name: str, *command: str) -> None:
        log = self.directory / "log" / name.replace(" ", "-")
        with log.open("ab") as output:
            # A session of its own: Ctrl-C in a terminal must reach pytest alone, which then ends them
            # in order. And the kernel ends them, should pytest itself be killed.
            self._daemons[name] = subprocess.Popen(
                ["setpriv", "--pdeathsig", "TERM", *command],
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                cwd=self.directory, env=self.environ | {"HOME": f"{self.directory}/home"},
                start_new_session=True,
            )  # fmt: skip

    def _end(self, names: Sequence[str]) -> None:
        daemons = [self._daemons.pop(name) for name in names if name in self._daemons]
        for daemon in daemons:
            daemon.terminate()
        deadline = time.monotonic() + 20
        for daemon in daemons:
            with contextlib.suppress(subprocess.TimeoutExpired):
                daemon.wait(max(0.1, deadline - time.monotonic()))
            daemon.kill()  # does nothing to one that has been waited for
            daemon.wait()

    def _run(self, *command: str, timeout_s: float = 60) -> str:
        done = subprocess.run(command, env=self.environ, capture_output=True, text=True, timeout=timeout_s, check=False)
        if done.returncode != 0:
            raise ClusterError(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def _output(self, *command: str) -> str:
        try:
            return self._run(*command)
        except ClusterError:
            return ""

    def _succeeds(self, *command: str) -> bool:
        try:
            self._run(*command)
        except ClusterError:
            return False
        return True

    def _idle_nodes(self) -> int:
        return len(self._output("sinfo", "-h", "-N", "-p", "batch", "-t", "idle", "-o", "%N").split())

    def _last_words(self, names: Sequence[str]) -> str:
        logs = [self.directory / "log" / name.replace(" ", "-") for name in names or ("slurmctld", "slurmdbd")]
        return "\n".join(
            f"{log.name}: {line}"
            for log in logs
            if log.exists()
            for line in log.read_text(errors="replace").splitlines()[-15:]
        )


def _sigterm_raises() -> Callable[[], None]:
    """Let SIGTERM unwind the stack, as Ctrl-C does; what is returned undoes it."""
    if threading.current_thread() is not threading.main_thread():
        return lambda: None
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return lambda: None

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, leave)

    def restore() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    return restore


@contextlib.contextmanager
def _signals_wait() -> Iterator[None]:
    """Put Ctrl-C and SIGTERM off: a second Ctrl-C must not leave the daemons of the first behind."""
    waiting = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, waiting)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, waiting)


@cache
def _installed_database() -> Path:
    """The files of a database without data, which take seconds to make: made once for all clusters of this process."""
    place = Path(tempfile.mkdtemp(prefix="gsw-mariadb-", dir="/tmp"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    data, scratch = place / "db", place / "db-tmp"
    data.mkdir()
    scratch.mkdir()
    command = ["mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={data}", f"--tmpdir={scratch}"]
    command += ["--skip-test-db", "--auth-root-authentication-method=socket", _SMALL_LOG]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise ClusterError(f"mariadb-install-db: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return data


def _own_memory_cgroup() -> Path | None:
    """The memory cgroup (version 1) of this process, if cgroups can be made below it."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            place = Path(f"/sys/fs/cgroup/memory{path}")
            if controllers == "memory" and place.is_dir() and os.access(place, os.W_OK):
                return place
    return None


def _remove_cgroup(place: Path) -> None:
    for directory, _, _ in os.walk(place, topdown=False):
        with contextlib.suppress(OSError):
            os.rmdir(directory)  # noqa: PTH106


def _job_processes_of(directory: Path, node: str) -> list[int]:
    """The job processes on one node, and the slurmstepd above them."""
    in_jobs = {
        pid
        for pid in pids()
        if f"SLURMD_NODENAME={node}\0" in environment_of(pid) and f"SLURM_CONF={directory}/" in environment_of(pid)
    }
    # A slurmstepd writes its title over its environment; its children tell which node it serves.
    return sorted(in_jobs | {parent for parent in map(_parent, in_jobs) if _is_slurmstepd(parent)})


def _parent(pid: int) -> int:
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def _is_slurmstepd(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").startswith("slurmstepd")
    return False
