"""A stand-in for Flux's commands: ``flux batch``, ``flux jobs`` and ``flux cancel``, with jobs as processes.

It has all that docs/examples/flux/flux_launcher.py uses, and refuses everything else; words, fields and complaints are
those of flux-batch(1), flux-jobs(1) and flux-cancel(1). ``FLUX_URI=local://DIRECTORY`` names the instance, as with Flux.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from itertools import count
from pathlib import Path

ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
OPTIONS = {"--job-name", "--nodes", "--output", "--time-limit", "--requires", "--bank", "--queue", "--exclusive"}
#: The broker of one job: in the job's own directory, when it began, its process, its exit code, and when it ended.
BROKER = """
[ -e "$0/cancel" ] || { date +%s.%N >"$0/t_run"; setsid bash "$1" >"$2" 2>&1 & echo $! >"$0/pid"; wait $!; code=$?; }
date +%s.%N >"$0/t_cleanup"; echo ${code:-1} >"$0/code"; mv "$0/code" "$0/returncode"
"""


def install(directory: Path) -> Path:
    """Put a command ``flux`` into a directory, which then belongs on the PATH."""
    command = directory / "flux"
    directory.mkdir(parents=True, exist_ok=True)
    command.write_text(
        f"#!{sys.executable} -S\nimport runpy\nrunpy.run_path({str(Path(__file__).absolute())!r}, run_name='__main__')\n"
    )
    command.chmod(0o755)
    return command


def end_all(instance: Path) -> None:
    """End all jobs of an instance."""
    for place in instance.glob("*/job.json"):
        end(place.parent)


def end(place: Path) -> None:
    """End a job early, and wait until it has ended."""
    (place / "cancel").touch()
    while not (place / "returncode").exists():
        with contextlib.suppress(OSError, ValueError):  # it may not have begun
            os.killpg(int((place / "pid").read_text()), signal.SIGKILL)
        time.sleep(0.02)


def main() -> int:
    """Run one of the commands."""
    instance = Path(os.environ.get("FLUX_URI", "").removeprefix("local://") or "/nonexistent")
    command, *words = sys.argv[1:]
    if not instance.is_dir():
        return complain(command, f"Unable to connect to Flux: broker socket {instance}/local was not found")
    return {"batch": batch, "jobs": jobs, "cancel": cancel}[command](instance, words)


def batch(instance: Path, words: list[str]) -> int:
    *options, script = words
    given = dict(word.partition("=")[::2] for word in options)
    if not OPTIONS.issuperset(given):
        return complain("batch", f"unrecognized arguments: {options}")
    for number in count():
        place = instance / f"f2{ALPHABET[number // 58]}{ALPHABET[number % 58]}"
        with contextlib.suppress(FileExistsError):
            place.mkdir()
            break
    job_id = place.name if os.environ.get("FLUX_F58_FORCE_ASCII") else f"ƒ{place.name[1:]}"
    job = {"id.f58": job_id, "name": given["--job-name"], "t_submit": time.time(), "words": words}
    (place / "job.json").write_text(json.dumps(job))
    environ = {name: text for name, text in os.environ.items() if not name.startswith(("SLURM_", "FLUX_JOB_"))}
    subprocess.Popen(
        ["bash", "-c", BROKER, place, script, given["--output"].replace("{{id}}", job_id)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**environ, "FLUX_ENCLOSING_ID": job_id},
        start_new_session=True,
    )
    return say(job_id)


def jobs(instance: Path, words: list[str]) -> int:
    form = words[words.index("-o") + 1]
    ids = [word for word in words if word[0] != "-" and word != form]
    known = {place.parent.name: fields(place.parent) for place in sorted(instance.glob("*/job.json"))}
    unknown = [complain("jobs", f"JobID {job_id} unknown") for job_id in ids if job_id not in known]
    for job_id, job in known.items():
        if job_id in ids or ("-a" in words and {f"--name={job['name']}"} >= {w for w in words if w[:6] == "--name"}):
            say(re.sub(r"{([\w.]+)}", lambda field, job=job: str(job[field[1]]), form))  # type: ignore[misc]
    return int(unknown != [] and len(unknown) == len(ids))


def cancel(instance: Path, ids: list[str]) -> int:
    problems = 0
    for job_id in ids:
        place = instance / job_id
        if not place.is_dir():
            problems += complain("cancel", f"{job_id}: unknown job id")
        elif (place / "returncode").exists():
            problems += complain("cancel", f"{job_id}: job is inactive")
        else:
            end(place)
    return min(problems, 1)


def fields(place: Path) -> dict[str, object]:
    """What is known of a job."""
    of_broker = {path.name: path.read_text().strip() for path in place.iterdir() if path.name != "job.json"}
    code, early = of_broker.get("returncode", ""), "cancel" if "cancel" in of_broker else ""
    status = ("CANCELED" if early else "COMPLETED" if code == "0" else "FAILED") if code else ""
    blank = {"t_run": 0.0, "t_cleanup": 0.0, "returncode": "", "exception.type": early if code else ""}
    seen = {"status": status or ("RUN" if "pid" in of_broker else "SCHED"), "nodelist": "tuo[1001-1002]"}
    return {**blank, **seen, **of_broker, **json.loads((place / "job.json").read_text())}


def say(text: str) -> int:
    sys.stdout.buffer.write(f"{text}\n".encode())
    return 0


def complain(command: str, what: str) -> int:
    sys.stderr.write(f"flux-{command}: ERROR: {what}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
