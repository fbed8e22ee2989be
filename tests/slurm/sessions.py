"""Sessions of one row on a real Slurm, each in a project of its own, run as users run them."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.integration.conftest import properties, tiny_table

from .cluster import SlurmCluster

ROW = "tiny_1b_bf16[H100x8]"

TABLE = tiny_table("gpus: 8, step_time_s: 1.000, line: 10")

CLUSTERS = """\
clusters:
  eos:
    scheduler: slurm
    accelerator: H100
    gpus_per_node: 8
    stage: {stage}
    recipes: {directory}/recipes
    sbatch: [{sbatch}]
"""

#: What a job can say. "perfect" is the log that passes: each step takes as long as documented.
LAUNCH = """\
#!/bin/bash
{directives}
results=$STAGE_PATH/results/24.11/$DTYPE/$MODEL_SIZE/8
log=$results/log-maxtext_tiny_1b_8_$SLURM_JOB_ID.out
mkdir -p "$results"

identity() {{
    echo "GSW: MODEL=tiny FRAMEWORK=maxtext MODEL_SIZE=$MODEL_SIZE JOB_NUM_NODES=1 GPUS_PER_NODE=8 DTYPE=$DTYPE" \\
        "JOB_ID=$SLURM_JOB_ID"
}}

steps() {{ # FIRST LAST [SECONDS [LOSS]]
    for ((step = $1; step <= $2; step++)); do
        echo "completed step: $step, seconds: ${{3:-1.000}}, TFLOP/s/device: 48.0, loss: ${{4:-9.021}}"
    done
}}

perfect() {{ {{ identity; steps 0 19; }} >>"$log"; }}

stay() {{ # until it is asked to end, which it does with exit code 0
    trap 'exit 0' TERM
    sleep 300 &
    wait
}}

{body}
"""

#: What keeps these sessions short; nothing that a verdict rests on.
CONFTEST = """\
import time

import pytest_gsw.executor.polls
import pytest_gsw.jobs.launcher
from pytest_gsw.jobs.slurm.launcher import SlurmLauncher

SlurmLauncher.log_wait_s = 3.0
"""

#: A scheduler that stays out of reach is waited for this long, not for ten minutes.
GIVES_UP_SOON = """\
pytest_gsw.jobs.launcher.Launcher.unknown_limit_s = 4.0
"""


#: A session has the plugin that is tested and none of other projects, which take longer to import than all that it does.
PLUGIN_ALONE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "pytest_gsw.plugin"}


class Seen(NamedTuple):
    """One row of one session, as a terminal, Jenkins and a shell see it."""

    outcome: str
    #: Of the JUnit test case, besides its properties.
    elements: tuple[str, ...]
    #: The first line of the element's text.
    message: str
    exit_status: int


class Told(NamedTuple):
    """What was seen, and the job's id for the messages."""

    seen: Seen
    job: str


def error(message: str) -> Seen:
    return Seen("error", ("error",), message, 1)


def failure(message: str) -> Seen:
    return Seen("failed", ("failure",), message, 1)


PASSED = Seen("passed", (), "", 0)

#: The verdict on a run whose steps took 1.25 s.
REGRESSED = failure("throughput 52,429 tokens/s is 20.0 % below the documented 65,536 (allowed 5 %)")


@dataclass(frozen=True)
class Session:
    """A pytest of its own that was started in a project's directory."""

    directory: Path
    process: subprocess.Popen[bytes]

    def end(self) -> Told:
        """Wait for its end, and look at its row."""
        self.process.wait(300)
        output = (self.directory / "output").read_text()
        summary = re.findall(r"^=+ .* in [\d.]+s\b.*$", output, re.MULTILINE)[-1]
        counts = re.findall(r"\b1 (passed|failed|error|skipped|xfailed)\b", summary)
        assert len(counts) == 1, output
        case = self.case()
        assert case.attrib["name"] == ROW, output
        said = [child for child in case if child.tag != "properties"]
        # Accounting names the user who cancelled a job, but may have the job's record later than slurmctld.
        message = re.sub(r" by \S+ \(uid \d+\)\Z", "", (said[0].text or "").split("\n")[0]) if said else ""
        seen = Seen(counts[0], tuple(child.tag for child in said), message, self.process.returncode)
        return Told(seen, properties(case).get("gsw_job_id", ""))

    def rows(self) -> dict[str, str]:
        """What a session of several rows says of each: the first line of its message, or "passed"."""
        self.process.wait(300)
        seen = {}
        for case in ET.parse(self.directory / "junit.xml").getroot().iter("testcase"):  # noqa: S314 - our own file
            said = [child for child in case if child.tag != "properties"]
            seen[case.attrib["name"]] = (said[0].text or "").split("\n")[0] if said else "passed"
        return seen

    @property
    def output(self) -> str:
        """What it has printed."""
        return (self.directory / "output").read_text()

    def case(self) -> ET.Element:
        """Its row in JUnit, once it has ended."""
        (case,) = ET.parse(self.directory / "junit.xml").getroot().iter("testcase")  # noqa: S314 - our own file
        return case

    def job_id(self) -> str:
        """The id of its job, once that has written its log."""
        ready = self.directory / "ready"
        deadline_s = time.monotonic() + 300
        while not (ready.exists() and ready.read_text().strip()):
            assert time.monotonic() < deadline_s, "the job does not get ready"
            time.sleep(0.05)
        return ready.read_text().strip()


@dataclass(frozen=True)
class Misfortune:
    """What befalls the one row of a session."""

    #: What its job does.
    body: str
    #: Of its launch script, and of the cluster's file.
    directives: str = ""
    sbatch: str = "--mem=50M"
    #: Python that the session runs first.
    conftest: str = ""
    #: Commands of Slurm that do something else in this session.
    shims: Mapping[str, str] = field(default_factory=dict)
    #: Settings of all clusters.
    defaults: Mapping[str, float] = field(default_factory=dict)
    #: Further options of pytest.
    options: tuple[str, ...] = ()
    #: The rows; by default one.
    table: str = TABLE
    #: Further files of the project, or others in the place of its own; ``{directory}`` in them is the project's.
    files: Mapping[str, str] = field(default_factory=dict)


#: Rows of one, two and four nodes, and what a step of each takes.
_SWEPT = {8: 4.000, 16: 2.050, 32: 1.100}
_SWEPT_ROWS = [f"gpus: {gpus}, step_time_s: {step_s:.3f}, line: {gpus}" for gpus, step_s in _SWEPT.items()]

#: A recipe whose steps take longer on slow nodes. Each job of a node list has noise of its own: the first one always the
#: same, the second one always another, whatever the jobs' ids are.
_SWEEP = """\
#!/bin/bash
export LC_ALL=C
declare -A documented=({documented})
gpus=$((SLURM_JOB_NUM_NODES * 8))
results=$STAGE_PATH/results/24.11/$DTYPE/$MODEL_SIZE/$gpus
mkdir -p "$results" "{directory}/draws"
number=1
until mkdir "{directory}/draws/$SLURM_JOB_NODELIST.$number" 2>/dev/null; do ((number += 1)); done
read -r hash _ < <(md5sum <<<"{seed} $SLURM_JOB_NODELIST $number")

nodes=" $(scontrol show hostnames "$SLURM_JOB_NODELIST" | tr '\n' ' ')"
own=1 shared=1
while read -r first second third; do
    if [[ $first == switch ]]; then
        below=0
        for node in $(scontrol show hostnames "$second"); do [[ $nodes != *" $node "* ]] || ((below += 1)); done
        ((below < 2)) || shared+=" $third"
    else
        [[ $nodes != *" $first "* ]] || own+=" $second"
    fi
done <"{directory}/slow"

{
    echo "GSW: MODEL=tiny FRAMEWORK=maxtext MODEL_SIZE=$MODEL_SIZE JOB_NUM_NODES=$SLURM_JOB_NUM_NODES GPUS_PER_NODE=8" \
        "DTYPE=$DTYPE JOB_ID=$SLURM_JOB_ID"
    awk -v step_s="${documented[$gpus]}" -v own="$own" -v shared="$shared" -v sigma="{sigma}" \
        -v u="$((16#${hash:0:8}))" -v v="$((16#${hash:8:8}))" 'BEGIN {
            count = split(own, factors, " ")
            for (i = 1; i <= count; i++) if (factors[i] > slowest) slowest = factors[i] + 0
            count = split(shared, factors, " ")
            for (i = 1; i <= count; i++) slowest *= factors[i]
            normal = sqrt(-2 * log((u + 0.5) / 2 ^ 32)) * cos(8 * atan2(1, 1) * v / 2 ^ 32)
            for (step = 0; step < 20; step++)
                printf "completed step: %d, seconds: %.6f, TFLOP/s/device: 48.0, loss: 9.021\\n", step, \
                    step_s * slowest * exp(sigma * normal)
        }'
} >"$results/log-maxtext_tiny_1b_${gpus}_$SLURM_JOB_ID.out"
"""


def sweep(slow: str = "", *, sigma: float = 0.0, seed: int = 1, sbatch: str = "--exclusive") -> Misfortune:
    """Sessions of rows of one, two and four nodes, whose steps depend on the nodes of their job.

    Args:
        slow: Lines of the file ``slow`` of the project, which jobs read when they run: ``n017 1.111`` is a node and the
            factor of its step time; ``switch n[009-012] 1.1`` is that of jobs on two or more of these nodes.
        sigma: Standard deviation of the logarithm of a job's step time.
        seed: Another one gives all jobs other noise.
        sbatch: Options of the cluster's file.
    """
    documented = " ".join(f"[{gpus}]={step_s}" for gpus, step_s in _SWEPT.items())
    script = _SWEEP.replace("{documented}", documented).replace("{seed}", str(seed)).replace("{sigma}", str(sigma))
    return Misfortune(
        "",
        sbatch=sbatch,
        table=tiny_table(*_SWEPT_ROWS),
        files={"recipes/tiny/launch.sh": script, "slow": f"{slow.strip()}\n"},
    )


def sweep_project(directory: Path, slow: str = "", *, sigma: float = 0.0, seed: int = 1) -> Path:
    """The directory of a project for :func:`sweep`, in which the caller runs pytest."""
    _write_project(directory, sweep(slow, sigma=sigma, seed=seed), directory / "stage")
    return directory


class Site:
    """Starts sessions on one cluster, and leaves none behind."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._numbers = itertools.count(1)
        self._sessions: list[Session] = []

    def run(
        self, cluster: SlurmCluster, misfortune: Misfortune, directory: Path | None = None, *, stage: Path | None = None
    ) -> Session:
        """Start a session in a project of its own, or in one that has been run before."""
        directory = directory or self._root / str(next(self._numbers))
        _write_project(directory, misfortune, stage or directory / "stage")
        options = ("--gsw-cluster=eos", "--gsw-baselines=site", "--junitxml=junit.xml")
        # What a session says is read while it runs.
        environ = cluster.environ | PLUGIN_ALONE | {"NO_COLOR": "1", "COLUMNS": "200", "PYTHONUNBUFFERED": "1"}
        environ["PATH"] = f"{directory}/bin{os.pathsep}{environ['PATH']}"
        for name in ("STAGE_PATH", "ENABLE_PROFILE", "ENABLE_NCCL_TRACE", "PYTEST_ADDOPTS"):
            environ.pop(name, None)
        with (directory / "output").open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "pytest", *options, *misfortune.options],
                cwd=directory,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self._sessions.append(Session(directory, process))
        return self._sessions[-1]

    def wait(self) -> None:
        """Wait until every session has ended."""
        for session in self._sessions:
            session.process.wait(150)

    def close(self) -> None:
        """End what a failed test has left running."""
        for session in self._sessions:
            session.process.kill()
            session.process.wait()


def _write_project(directory: Path, misfortune: Misfortune, stage: Path) -> None:
    script = LAUNCH.format(
        directives=misfortune.directives,
        body=misfortune.body.replace("READY", f'echo "$SLURM_JOB_ID" >{directory}/ready'),
    )
    files = {
        "pytest.ini": "[pytest]\nfilterwarnings = error\n",
        "conftest.py": CONFTEST + misfortune.conftest,
        "clusters.yaml": CLUSTERS.format(directory=directory, stage=stage, sbatch=misfortune.sbatch),
        "site/tiny.yaml": misfortune.table,
        "recipes/tiny/launch.sh": script,
        **{f"bin/{command}": f"#!/bin/bash\n{body}\n" for command, body in misfortune.shims.items()},
        **misfortune.files,
    }
    defaults = json.dumps({"poll_interval": 1, **misfortune.defaults})
    files["clusters.yaml"] = f"defaults: {defaults}\n{files['clusters.yaml']}"
    for name, form in files.items():
        path, text = directory / name, form.replace("{directory}", str(directory))
        if path.is_file() and path.read_text() == text:
            continue  # a shell may be reading it
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
