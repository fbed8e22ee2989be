"""Outputs of thirty demo sessions, for comparing two checkouts: ``python -m tests.golden DIRECTORY``.

Each scenario is a few commands in an empty directory. What they print and write goes below ``DIRECTORY/SCENARIO`` with run
ids, job ids, times, durations and paths masked, so that ``diff -r`` of two checkouts' directories shows what a change of the
code has changed for users.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

#: A session of the demo, one job at a time, so that rows end in one order.
_RUN = "pytest -p no:cacheprovider --gsw-cluster=demo --junitxml=junit.xml"
_L2 = "-k llama2_70b_fp8"
_ONE = "-k 'llama2_70b_fp8 and x128]'"
_TWO = "-k 'llama2_70b_fp8 and (x64] or x128])'"


def _fault(fault: str, row: str = "*x128]") -> str:
    return f"{_RUN} {_ONE} '--gsw-demo={row}={fault}'"


#: By scenario, its commands. They share a directory, and with it the history.
SCENARIOS: Mapping[str, tuple[str, ...]] = {
    "healthy": (f"{_RUN} {_L2} --gsw-report=report",),
    "frameworks": (f"{_RUN} -k 'x256] and (gpt3 or grok1 or llama3)' --gsw-report=report",),
    "v100": (f"{_RUN} -k 'gpt2_52b and V100'",),
    "slow": (f"{_RUN} {_L2} --gsw-report=report '--gsw-demo=*x128]=slow:12%'",),
    "fast": (_fault("fast:12%"), _fault("fast:40%"), _fault("fast:12%") + " --gsw-clusters=strict.yaml"),
    "fail": (_fault("fail"),),
    "oom": (_fault("oom"), _fault("oom") + " --gsw-retries=1"),
    "oom-kill": (_fault("oom-kill") + " --gsw-report=report",),
    "nan": (_fault("nan"),),
    "short": (_fault("short"),),
    "wrong-identity": (_fault("wrong-identity"),),
    "wrong-settings": (_fault("wrong-settings"),),
    "no-log": (_fault("no-log"),),
    "truncated": (_fault("truncated"),),
    "cancel": (_fault("cancel"),),
    "exit": (_fault("exit:3"),),
    "confirm": (_fault("slow-once:9%") + " --gsw-confirm=2", _fault("slow:9%") + " --gsw-confirm=2"),
    "repeat": (f"{_RUN} {_TWO} --gsw-repeat=3",),
    "tolerance": (_fault("slow:12%") + " --gsw-tolerance=15%",),
    "plan": (f"pytest --gsw-cluster=demo {_L2} --gsw-plan", f"pytest --gsw-cluster=demo {_L2} --collect-only -q"),
    "replay": (
        f"{_RUN} {_TWO} '--gsw-demo=*x128]=slow:12%'",
        f"{_RUN} {_TWO} --gsw-replay=last --gsw-report=report",
        f"{_RUN} {_TWO} --gsw-replay=.gsw/runs",
    ),
    "resume": (
        f"{_RUN} {_TWO} -x '--gsw-demo=*x64]=fail'",
        f"{_RUN} --gsw-resume=last",
        "pytest-gsw report last -o out",
    ),
    "alarms": (
        f"{_RUN} {_TWO}",
        f"{_RUN} {_TWO} '--gsw-demo=*x128]=slow:12%'",
        f"{_RUN} {_TWO} '--gsw-demo=*x128]=slow:12%' --gsw-report=report",
        "pytest-gsw alarms",
        f"{_RUN} {_TWO}",
        f"{_RUN} {_TWO} --gsw-report=report",
        "pytest-gsw alarms",
        "pytest-gsw history",
        "pytest-gsw history 'llama2_70b_fp8[H100x128]'",
        "pytest-gsw nodes",
    ),
    "compare": (f"{_RUN} {_TWO}", f"{_RUN} {_TWO} '--gsw-demo=*=slow:9%'", "pytest-gsw compare last~1 last"),
    "accepted": (
        f"{_RUN} {_TWO} --gsw-repeat=4 '--gsw-demo=*x128]=slow:12%'",
        "pytest-gsw baseline propose last",
    ),
    "release": (f"{_RUN} --gsw-release=25.02 -k 'llama3.1_405b and x512'", "pytest-gsw rows --release 25.02 -k grok1"),
    "profile": (f"{_RUN} {_ONE} --gsw-profile=nsight",),
    "no-cluster": ("pytest --junitxml=junit.xml -p no:cacheprovider baselines/maxtext/llama2_70b.yaml",),
    "mistakes": (
        "pytest --gsw-cluster=dmo",
        f"{_RUN} -k llama2_70b_fp9",
        f"{_RUN} {_ONE} --gsw-demo=x",
        f"{_RUN} {_ONE} --gsw-resume=last",
        f"{_RUN} {_ONE} --gsw-tolerance=abc",
    ),
    "commands": (
        "pytest-gsw --help",
        "pytest-gsw rows -k llama2",
        f"{_RUN} {_TWO}",
        "pytest-gsw metrics LOG --baseline 'llama2_70b_fp8[H100x64]'",
    ),
}

#: Files that are compared, below a scenario's directory.
_FILES = ("junit*.xml", "report/**/*", "out/**/*", ".gsw/runs/*/records/*.json", ".gsw/runs/*/*.json*", "*.diff")
_SUFFIXES = {".xml", ".html", ".md", ".json", ".jsonl", ".prom", ".csv", ".diff"}


def main(directory: Path) -> None:
    """Run each scenario, and write its masked outputs below a directory."""
    shutil.rmtree(directory, ignore_errors=True)
    for name, commands in SCENARIOS.items():
        with tempfile.TemporaryDirectory(prefix="golden-") as scratch:
            _run(Path(scratch), commands, directory / name)
        print(name, flush=True)


def _run(scratch: Path, commands: tuple[str, ...], outputs: Path) -> None:
    bin_directory = Path(sys.executable).parent
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("GSW_", "PYTEST_", "SLURM_"))},
        "GSW_DEMO_SEED": "7",
        "COLUMNS": "120",
        "TZ": "UTC",
        "PYTHONHASHSEED": "0",
        "PATH": f"{bin_directory}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(scratch),
    }
    outputs.mkdir(parents=True)
    mask = _Mask(scratch)
    (scratch / "clusters.yaml").write_text("defaults: {max_jobs: 1}\n")
    (scratch / "strict.yaml").write_text("defaults: {max_jobs: 1, strict: true}\n")
    (scratch / "baselines").symlink_to(Path(__file__).parents[1] / "baselines")
    with (outputs / "screen.txt").open("w") as screen:
        for number, command in enumerate(commands, 1):
            words = [str(next(scratch.rglob("*.out"))) if word == "LOG" else word for word in shlex.split(command)]
            ended = subprocess.run(
                words,
                cwd=scratch,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            screen.write(f"$ {command}\n{mask.text(ended.stdout)}[exit status {ended.returncode}]\n\n")
            if (scratch / "junit.xml").is_file():
                (scratch / "junit.xml").rename(scratch / f"junit-{number}.xml")
    for path in sorted({path for pattern in _FILES for path in scratch.glob(pattern) if path.suffix in _SUFFIXES}):
        target = outputs / mask.text(str(path.relative_to(scratch)))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(mask.text(path.read_text().replace("><", ">\n<")))


class _Mask:
    """Replaces what differs from one run of a scenario to the next; ids by their order of appearance."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = str(scratch)
        self._names: dict[str, str] = {}

    def text(self, text: str) -> str:
        """A text with everything masked that two runs of one checkout do not have in common."""
        text = text.replace(self._scratch, "DIR").replace(os.uname().nodename, "HOST")
        text = re.sub(r"\d{8}-\d{6}-[0-9a-f]{6}", lambda match: self._named(match[0], "RUN"), text)
        text = re.sub(r"(?<!\d)1[789]\d{11}(?!\d)", lambda match: self._named(match[0], "JOB"), text)
        for pattern, masked in _MASKS:
            text = re.sub(pattern, masked, text)
        return text

    def _named(self, name: str, kind: str) -> str:
        number = sum(known.startswith(kind) for known in self._names.values()) + 1
        return self._names.setdefault(name, f"{kind}{number}")


_MASKS = (
    (r"\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|\+00:00)?", "TIME"),
    (r"\b20\d\d-\d\d-\d\d\b", "DATE"),
    (r"\b\d\d:\d\d(:\d\d)?\b", "CLOCK"),
    (r"\b1[789]\d{8}(\.\d+)?\b", "EPOCH"),
    (r'"(time|timestamp|duration|crc|\w+_s|saved_gpu_hours)": ?("?)[\d.e+-]+\2', r'"\1": N'),
    (r'(name="gsw_(?:job_queue_s|job_run_s|saved_gpu_hours)" value=)"[\d.]+"', r'\1"N"'),
    (r' time="[\d.]+"', ' time="N"'),
    # Alarms are named after the time of their first run.
    (r"\b[0-9a-f]{8}(?=  (new|ongoing|regression|drift|node|incident)|[` \"]*[,|] ?[`k])", "ALARM"),
    (r"\b(in|after|for|about) \d+(\.\d+)? ?(s|seconds?|saved)\b", r"\1 N \3"),
    (r"=+( .* in N s.*? )=+", r"==\1=="),
    # Where on a page a point of time is drawn.
    (r"<(svg|path|polyline|line|circle|rect|polygon|time)\b[^>]*>", r"<\1>"),
)


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
