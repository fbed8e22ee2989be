"""Toy commands of Slurm, which keep their jobs in files; they start within milliseconds, and import nothing of tests.

:mod:`tests.ssh.toy_slurm` writes the programs that call :func:`main`. The options are those that pytest-gsw gives, and
the answers have Slurm 22.05's formats.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import sys
import time
from collections.abc import Callable

VERSION = "slurm-wlm 22.05.8"
NODES = ("n001", "n002", "n003", "n004")
PARTITION = "batch"

#: Long options without a value.
_FLAGS = {
    *("--parsable", "--no-requeue", "--requeue", "--exclusive", "--hold", "--overcommit", "--version", "--me", "--all"),
    *("--contiguous", "--verbose", "--wait", "--noheader", "--quiet", "--allocations", "--parsable2", "--duplicates"),
}
#: Short options that have a meaning here.
_LONG = {
    "sbatch": {
        "-J": "--job-name",
        "-o": "--output",
        "-e": "--error",
        "-N": "--nodes",
        "-D": "--chdir",
        "-V": "--version",
    },
    "squeue": {"-j": "--jobs", "-O": "--Format", "-t": "--states", "-n": "--name", "-V": "--version"},
    "sacct": {
        "-j": "--jobs",
        "-o": "--format",
        "-X": "--allocations",
        "-S": "--starttime",
        "-u": "--user",
        "-V": "--version",
    },
    "sinfo": {"-o": "--format", "-p": "--partition", "-V": "--version"},
    "scancel": {"-Q": "--quiet", "-n": "--name", "-V": "--version"},
    "scontrol": {"-V": "--version"},
}
#: Short options without a value; all others have one.
_SHORT = {
    "sbatch": "hHkOQsVvW",
    "squeue": "ahrvV",
    "sacct": "aDhnPpXV",
    "sinfo": "adehlNrRsvV",
    "scancel": "bfiQvV",
    "scontrol": "adhoQvV",
}
_OPEN = ("PENDING", "RUNNING")
_LIMIT_S = 365 * 86400


class Jobs:
    """The jobs in a directory, of which each is a file."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def path(self, *names: str) -> str:
        """A path in the directory."""
        return os.path.join(self.directory, *names)

    def lock(self) -> int:
        """The descriptor that has the lock until it is closed."""
        descriptor = os.open(self.path("lock"), os.O_RDWR | os.O_CREAT, 0o666)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return descriptor

    def knob(self, name: str, default: str = "") -> str:
        """The value of a knob, which a test may turn at any time."""
        try:
            with open(self.path("knobs", name)) as file:
                return file.read()
        except FileNotFoundError:
            return default

    def read(self, job_id: str) -> dict | None:
        """A job; ``None`` if there is none with this id."""
        try:
            with open(self.path("jobs", job_id)) as file:
                return json.load(file)
        except FileNotFoundError:
            return None

    def write(self, job: dict) -> None:
        """Keep a job; whoever reads it meanwhile gets the whole of it as it was, or as it is."""
        path = self.path("jobs", job["id"])
        with open(f"{path}.{os.getpid()}", "w") as file:
            json.dump(job, file)
        os.rename(f"{path}.{os.getpid()}", path)

    def all(self) -> list[dict]:
        """All jobs in the order of their ids."""
        ids = sorted((name for name in os.listdir(self.path("jobs")) if name.isdigit()), key=int)
        return [job for job in map(self.read, ids) if job is not None]

    def controllers(self) -> list[dict]:
        """The jobs that slurmctld has not purged."""
        oldest_s = time.time() - float(self.knob("min_job_age_s", "300"))
        return [job for job in self.all() if job["state"] in _OPEN or job["end"] >= oldest_s]

    def end(self, job_id: str, state: str, status: int = 0) -> None:
        """Record the end of a job that has not ended, by its status of wait(2)."""
        lock = self.lock()
        job = self.read(job_id)
        if job is not None and job["state"] in _OPEN:
            now = int(time.time())
            self.write(job | {"state": state, "status": status, "end": now, "start": job["start"] or now})
        os.close(lock)


def main(directory: str) -> None:
    """Do what the program's name and its arguments say."""
    jobs, name, arguments = Jobs(directory), os.path.basename(sys.argv[0]), sys.argv[1:]
    options, words = _parse(name, arguments)
    if "--version" in options:
        print(VERSION)
        sys.exit(0)
    if problem := jobs.knob(f"{name}_error"):
        _fail(problem)
    if name != "sbatch" and (wait_s := jobs.knob(f"{name}_sleep_s")):
        time.sleep(float(wait_s))
    sys.exit(_COMMANDS[name](jobs, options, words))


def _parse(name: str, arguments: list[str]) -> tuple[dict[str, str], list[str]]:
    """Options by their long names, and the words from the first one on that is none."""
    options: dict[str, str] = {}
    index = 0
    while index < len(arguments) and arguments[index].startswith("-"):
        option = arguments[index]
        index += 1
        if option == "--":
            break
        if option.startswith("--"):
            option, equals, value = option.partition("=")
            has_value = option not in _FLAGS and not equals
        else:
            option, value = option[:2], option[2:]
            has_value = option[1] not in _SHORT[name] and not value
            option = _LONG[name].get(option, option)
        if has_value:
            value = arguments[index]
            index += 1
        options[option] = value
    return options, arguments[index:]


def _fail(text: str, code: int = 1) -> None:
    sys.stderr.write(text if text.endswith("\n") else f"{text}\n")
    sys.exit(code)


# -- sbatch -----------------------------------------------------------------------------------------


def _sbatch(jobs: Jobs, options: dict[str, str], words: list[str]) -> int:
    try:
        with open(words[0]) as file:
            script = file.read()
    except OSError:
        _fail(f"sbatch: error: Unable to open file {words[0]}")
    for line in script.split("\n"):
        if line.startswith("#SBATCH "):
            options = _parse("sbatch", line.split()[1:])[0] | options
    time.sleep(float(jobs.knob("sbatch_sleep_before_s", "0")))
    directory = options.get("--chdir", os.getcwd())
    job = {
        "name": options.get("--job-name", os.path.basename(words[0])),
        "directory": directory,
        "output": os.path.join(directory, options.get("--output", "slurm-%j.out")),
        "error": options.get("--error", "") and os.path.join(directory, options["--error"]),
        "nodes": int(options.get("--nodes", "1").partition("-")[0]),
        "tasks": options.get("--ntasks-per-node", ""),
        "script": os.path.abspath(words[0]),
        "arguments": words[1:],
        "session": os.getsid(0),
        "state": "PENDING",
        "status": 0,
        "submit": int(time.time()),
        "start": 0,
        "end": 0,
        "group": 0,
    }
    lock = jobs.lock()
    with open(jobs.path("submissions"), "a+") as file:
        file.seek(0)
        job["id"] = str(len(file.readlines()) + 1)
        for key in ("output", "error"):
            job[key] = job[key].replace("%j", job["id"]).replace("%x", job["name"])
        jobs.write(job)
        file.write(f"{job['id']} {job['submit']} {job['name']}\n")
    os.close(lock)
    if jobs.knob("runs") == "1":
        with open(jobs.path("scripts", job["id"]), "w") as file:
            file.write(script)
        os.chmod(file.name, 0o700)
        _in_background(lambda: _run(jobs, job))
    time.sleep(float(jobs.knob("sbatch_sleep_after_s", "0")))
    if problem := jobs.knob("sbatch_error_after"):
        _fail(problem)
    print(job["id"] if "--parsable" in options else f"Submitted batch job {job['id']}", flush=True)
    return 0


def _in_background(run: Callable[[], None]) -> None:
    """Run a function in a process that is no child of this one, and holds none of its files."""
    if child := os.fork():
        os.waitpid(child, 0)
        return
    try:
        os.setsid()
        if os.fork() == 0:
            nothing = os.open(os.devnull, os.O_RDWR)
            for descriptor in range(3):
                os.dup2(nothing, descriptor)
            os.closerange(3, 256)
            run()
    finally:
        os._exit(0)


def _run(jobs: Jobs, job: dict) -> None:
    nodes = [NODES[number % len(NODES)] for number in range(job["nodes"])]
    environment = {
        **os.environ,
        "SLURM_JOB_ID": job["id"],
        "SLURM_JOBID": job["id"],
        "SLURM_JOB_NAME": job["name"],
        "SLURM_JOB_NUM_NODES": str(job["nodes"]),
        "SLURM_NNODES": str(job["nodes"]),
        "SLURM_JOB_NODELIST": ",".join(nodes),
        "SLURM_JOB_PARTITION": PARTITION,
        "SLURM_SUBMIT_DIR": job["directory"],
        **({"SLURM_NTASKS_PER_NODE": job["tasks"]} if job["tasks"] else {}),
    }
    ready, go = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setpgid(0, 0)
            os.close(go)
            if not os.read(ready, 1):  # cancelled before its start
                os._exit(0)
            os.chdir(job["directory"])
            for path, descriptors in ((job["output"], (1, 2)), (job["error"], (2,))):
                opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666) if path else -1
                for descriptor in descriptors if path else ():
                    os.dup2(opened, descriptor)
            program = jobs.path("scripts", job["id"])
            os.execve(program, [program, *job["arguments"]], environment)
        except OSError:
            os._exit(127)
    os.close(ready)
    lock = jobs.lock()
    current = jobs.read(job["id"])
    if current["state"] == "PENDING":
        os.setpgid(child, child)
        started = {"state": "RUNNING", "start": int(time.time()), "group": child, "node_list": ",".join(nodes)}
        jobs.write(current | started)
        os.write(go, b"1")
    os.close(lock)
    os.close(go)
    status = os.waitpid(child, 0)[1]
    jobs.end(job["id"], "FAILED" if status else "COMPLETED", status)


# -- Queries ----------------------------------------------------------------------------------------


def _chosen(jobs: list[dict], options: dict[str, str]) -> list[dict]:
    """The jobs of these ids and names."""
    ids, names = (list(filter(None, options.get(name, "").split(","))) for name in ("--jobs", "--name"))
    return [job for job in jobs if (not ids or job["id"] in ids) and (not names or job["name"] in names)]


def _moment(seconds: int, nothing: str) -> str:
    if not seconds:
        return nothing
    if os.environ.get("SLURM_TIME_FORMAT") == "%s":
        return str(seconds)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(seconds))


def _code(status: int) -> str:
    return f"{status >> 8}:{status & 0x7F}"


def _reason(job: dict) -> str:
    if job["state"] == "FAILED":
        return "JobLaunchFailure" if job["status"] & 0x7F else "NonZeroExitCode"
    return "Resources" if job["state"] == "PENDING" else "None"


def _squeue(jobs: Jobs, options: dict[str, str], words: list[str]) -> int:
    known = jobs.controllers()
    ids = options.get("--jobs", "")
    if ids.isdigit() and not any(job["id"] == ids for job in known):
        _fail("slurm_load_jobs error: Invalid job id specified")
    shown = known if options.get("--states") == "all" else [job for job in known if job["state"] in _OPEN]
    for job in _chosen(shown, options):
        values = {
            "JobID": job["id"],
            "State": job["state"],
            "exit_code": str(job["status"]),
            "Reason": _reason(job),
            "NodeList": job.get("node_list", ""),
            "SubmitTime": _moment(job["submit"], "N/A"),
            "StartTime": _moment(job["start"], "N/A"),
            # Of a running job, that of its limit.
            "EndTime": _moment(job["end"] or (job["start"] and job["start"] + _LIMIT_S), "N/A"),
            "Name": job["name"],
        }
        fields = [field.partition(":") for field in options["--Format"].split(",")]
        print("".join(values[name] + end if colon else f"{values[name]:<20}" for name, colon, end in fields))
    return 0


def _sacct(jobs: Jobs, options: dict[str, str], words: list[str]) -> int:
    if jobs.knob("accounting", "1") != "1":
        _fail("Slurm accounting storage is disabled")
    since_s = 0.0
    if "--starttime" in options:
        since_s = time.mktime(time.strptime(options["--starttime"], "%Y-%m-%dT%H:%M:%S"))
    elif "--jobs" not in options:
        since_s = time.mktime((*time.localtime()[:3], 0, 0, 0, 0, 0, -1))
    for job in _chosen(jobs.all(), options):
        if job["end"] and job["end"] < since_s:
            continue
        state = "CANCELLED by 0" if job["state"] == "CANCELLED" else job["state"]
        whole = {
            "JobIDRaw": job["id"],
            "State": state,
            "ExitCode": "0:0" if job["state"] == "CANCELLED" else _code(job["status"]),
            "DerivedExitCode": "0:0",
            "Reason": "None",
            "NodeList": job.get("node_list", "None assigned"),
            "Submit": _moment(job["submit"], "Unknown"),
            "Start": _moment(job["start"], "Unknown"),
            "End": _moment(job["end"], "Unknown"),
            "JobName": job["name"],
        }
        batch = whole | {
            "JobIDRaw": f"{job['id']}.batch",
            "State": "CANCELLED" if job["status"] & 0x7F else job["state"],
            "ExitCode": _code(job["status"]),
            "DerivedExitCode": "",
            "Reason": "",
            "JobName": "batch",
        }
        has_steps = "node_list" in job and "--allocations" not in options
        for values in (whole, batch) if has_steps else (whole,):
            print("|".join(values[name] for name in options["--format"].split(",")))
    return 0


def _scontrol(jobs: Jobs, options: dict[str, str], words: list[str]) -> int:
    requests = [words] if words else [line.split() for line in sys.stdin]
    code = 0
    for request in requests:
        if not words:
            print(f"scontrol: {' '.join(request)}")
        if request == ["ping"]:
            print(f"Slurmctld(primary) at {os.uname().nodename} is UP")
        elif request[:2] == ["show", "job"]:
            known = [job for job in jobs.controllers() if request[2:] in ([], [job["id"]])]
            for job in known:
                print(_job_line(job))
            if not known and request[2:]:
                sys.stderr.write("slurm_load_jobs error: Invalid job id specified\n")
                code = 1
        elif request[:2] == ["show", "partition"]:
            print(f"PartitionName={PARTITION} AllowGroups=ALL Default=YES Nodes={','.join(NODES)} State=UP")
        elif request[:2] == ["show", "reservation"]:
            print("No reservations in the system")
        elif request[:2] == ["show", "topology"]:
            sys.stderr.write("scontrol: error: No topology information available\n")
        else:
            sys.stderr.write(f"invalid keyword: {' '.join(request)}\n")
            code = 1
    return code


def _job_line(job: dict) -> str:
    values = {
        "JobId": job["id"],
        "JobName": job["name"],
        "UserId": f"user({os.getuid()})",
        "JobState": job["state"],
        "Reason": _reason(job),
        "Dependency": "(null)",
        "DerivedExitCode": "0:0",
        "ExitCode": _code(job["status"]),
        "SubmitTime": _moment(job["submit"], "Unknown"),
        "StartTime": _moment(job["start"], "Unknown"),
        "EndTime": _moment(job["end"], "Unknown"),
        "Partition": PARTITION,
        "AllocNode:Sid": f"{os.uname().nodename}:{job['session']}",
        "NodeList": job.get("node_list", ""),
        "NumNodes": job["nodes"],
        "TimeMin": "N/A",
        "Command": job["script"],
        "WorkDir": job["directory"],
        "StdErr": job["error"] or job["output"],
        "StdIn": "/dev/null",
        "StdOut": job["output"],
    }
    return " ".join(f"{name}={value}" for name, value in values.items())


def _sinfo(jobs: Jobs, options: dict[str, str], words: list[str]) -> int:
    for node in NODES:
        line = options.get("--format", "%N|%T|%P|%f|%E")
        for mark, value in (("%N", node), ("%T", "idle"), ("%P", f"{PARTITION}*"), ("%f", "(null)"), ("%E", "none")):
            line = line.replace(mark, value)
        print(line)
    return 0


# -- scancel ----------------------------------------------------------------------------------------


def _scancel(jobs: Jobs, options: dict[str, str], words: list[str]) -> int:
    if not words and "--name" not in options:
        _fail("scancel: error: No job identification provided")
    for job in _chosen(jobs.controllers(), options):
        if (not words or job["id"] in words) and job["state"] in _OPEN:
            jobs.end(job["id"], "CANCELLED", signal.SIGTERM)
            if group := (jobs.read(job["id"]) or job)["group"]:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(group, signal.SIGKILL)
    return 0


_COMMANDS = {
    "sbatch": _sbatch,
    "squeue": _squeue,
    "sacct": _sacct,
    "scontrol": _scontrol,
    "sinfo": _sinfo,
    "scancel": _scancel,
}
