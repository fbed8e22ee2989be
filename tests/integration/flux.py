"""A stand-in for Flux's commands: ``flux batch``, ``flux jobs`` and ``flux cancel``, with jobs as processes.

It knows what the launcher of docs/flux.md asks for, and refuses everything else; words, fields and complaints are those of
flux-batch(1), flux-jobs(1) and flux-cancel(1). ``FLUX_URI=local://DIRECTORY`` names the instance, as with Flux.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
#: What is empty of a job that has not begun.
BLANK = {"returncode": "", "nodelist": "", "exception.type": "", "t_run": 0.0, "t_cleanup": 0.0}
#: What each way to end a job early makes of it.
EARLY = {"cancel": "CANCELED", "timeout": "TIMEOUT"}


def install(directory: Path) -> Path:
    """Put a command ``flux`` into a directory, which then belongs on the PATH."""
    command = directory / "flux"
    directory.mkdir(parents=True, exist_ok=True)
    command.write_text(
        f"#!{sys.executable} -S\nimport runpy, sys\n"
        f"sys.argv[0] = {str(command)!r}\nrunpy.run_path({str(Path(__file__).absolute())!r}, run_name='__main__')\n"
    )
    command.chmod(0o755)
    return command


def end_all(instance: Path) -> None:
    """End all jobs of an instance, and wait until each has ended."""
    for place in instance.glob("*/job.json"):
        (place.parent / "cancel").touch()
    deadline_s = time.monotonic() + 60
    while any(_read(place.parent)["status"] in {"SCHED", "RUN"} for place in instance.glob("*/job.json")):
        assert time.monotonic() < deadline_s, "a job of the stand-in does not end"
        time.sleep(0.02)


def main() -> int:
    """Run one of the commands."""
    instance = Path(os.environ.get("FLUX_URI", "").removeprefix("local://") or "/nonexistent")
    command, *words = sys.argv[1:]
    if command == "run-job":
        return _run_job(instance / words[0])
    if not instance.is_dir():
        return _complain(command, f"Unable to connect to Flux: broker socket {instance}/local was not found")
    return {"batch": _batch, "jobs": _jobs, "cancel": _cancel}[command](instance, words)


def _batch(instance: Path, words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="flux-batch", allow_abbrev=False)
    for option in ("--job-name", "--nodes", "--output", "--time-limit", "--requires", "--bank", "--queue"):
        parser.add_argument(option)
    parser.add_argument("--exclusive", action="store_true")
    parser.add_argument("script")
    given = parser.parse_args(words)
    if not Path(given.script).is_file():
        return _complain("batch", f"No such file or directory: '{given.script}'")
    job_id, place = _new_job(instance)
    limit = re.fullmatch(r"([0-9.]+)s", given.time_limit or "")
    _write(
        place,
        {
            **BLANK,
            "id.f58": job_id,
            "name": given.job_name,
            "status": "SCHED",
            "t_submit": time.time(),
            "words": words,
            "limit_s": float(limit[1]) if limit else None,
            "output": given.output.replace("{{id}}", job_id),
            "script": given.script,
        },
    )
    subprocess.Popen(
        [sys.executable, "-S", __file__, "run-job", place.name],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    sys.stdout.buffer.write(f"{job_id}\n".encode())
    return 0


def _new_job(instance: Path) -> tuple[str, Path]:
    number = 734016966
    while True:
        digits, rest = "", number
        while rest:
            rest, digit = divmod(rest, 58)
            digits = ALPHABET[digit] + digits
        try:
            (instance / f"f{digits}").mkdir()
        except FileExistsError:
            number += 58 * 58 + 1
        else:
            return ("f" if os.environ.get("FLUX_F58_FORCE_ASCII") else "ƒ") + digits, instance / f"f{digits}"


def _jobs(instance: Path, words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="flux-jobs", allow_abbrev=False)
    parser.add_argument("-a", action="store_true")
    parser.add_argument("-n", action="store_true", required=True)
    parser.add_argument("-o", required=True)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--name")
    parser.add_argument("ids", nargs="*")
    given = parser.parse_args(words)
    jobs = [_read(place.parent) for place in sorted(instance.glob("*/job.json"))]
    if given.ids:
        known = {job["id.f58"]: job for job in jobs}
        for job_id in given.ids:
            if job_id not in known:
                sys.stderr.write(f"JobID {job_id} unknown\n")
        jobs = [known[job_id] for job_id in given.ids if job_id in known]
        if not jobs:
            return 1
    elif not given.a:
        jobs = [job for job in jobs if job["status"] in {"SCHED", "RUN"}]
    for job in jobs:
        if given.name in {None, job["name"]}:
            line = re.sub(r"{([\w.]+)}", lambda field, job=job: str(job[field[1]]), given.o)  # type: ignore[misc]
            sys.stdout.buffer.write(f"{line}\n".encode())
    return 0


def _cancel(instance: Path, ids: list[str]) -> int:
    problems = 0
    for job_id in ids:
        place = instance / job_id
        if not place.is_dir():
            problems += _complain("cancel", f"{job_id}: unknown job id")
        elif _read(place)["status"] not in {"SCHED", "RUN"}:
            problems += _complain("cancel", f"{job_id}: job is inactive")
        else:
            (place / "cancel").touch()
    return min(problems, 1)


def _run_job(place: Path) -> int:
    """Be the broker of one job: run its script, and write down how that fares."""
    job = _read(place)
    unset = ("SLURM_", "FLUX_JOB_")  # as the broker does, but for more of them
    environment = {name: value for name, value in os.environ.items() if not name.startswith(unset)}
    environment["FLUX_ENCLOSING_ID"] = job["id.f58"]
    _write(place, job := {**job, "status": "RUN", "t_run": time.time(), "nodelist": "tuo[1001-1002]"})
    with Path(job["output"]).open("wb") as output:
        script = subprocess.Popen(
            ["bash", job["script"]],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            start_new_session=True,
        )
        early = _watch(script, place, job["limit_s"])
    code = script.returncode if script.returncode >= 0 else 128 - script.returncode
    status = EARLY.get(early, "COMPLETED" if code == 0 else "FAILED")
    _write(place, {**job, "status": status, "returncode": code, "exception.type": early, "t_cleanup": time.time()})
    return 0


def _watch(script: subprocess.Popen[bytes], place: Path, limit_s: float | None) -> str:
    """Wait for a script's end; why it was ended early, empty where it was not."""
    began_s, early = time.monotonic(), ""
    while script.poll() is None:
        if not early and (place / "cancel").exists():
            early = "cancel"
        elif not early and limit_s is not None and time.monotonic() - began_s > limit_s:
            early = "timeout"
        if early:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(script.pid, signal.SIGKILL)
        time.sleep(0.02)
    return early


def _read(place: Path) -> dict[str, Any]:
    job: dict[str, Any] = json.loads((place / "job.json").read_bytes())
    return job


def _write(place: Path, job: dict[str, Any]) -> None:
    new = place / "job.json.new"
    new.write_text(json.dumps(job))
    new.replace(place / "job.json")


def _complain(command: str, what: str) -> int:
    sys.stderr.write(f"flux-{command}: ERROR: {what}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
