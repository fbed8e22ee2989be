"""A run on a real Slurm: 62 rows with faults of every kind, and the runs before it in the history.

The jobs are real ones, of 8 to 2304 GPUs that nobody has; what they run is the simulated recipe.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest_gsw.demo
from pytest_gsw.demo import FIRST_LINE
from pytest_gsw.history.location import open_history
from pytest_gsw.jobs.states import JobState
from pytest_gsw.results.record import JobFacts, Record, read_record
from pytest_gsw.tables.bundled import bundled_baselines
from pytest_gsw.tables.load import load_tables
from pytest_gsw.tables.model import Baseline
from tests.slurm.cluster import SlurmCluster
from tests.slurm.sessions import PLUGIN_ALONE
from tests.unit.history.runs import imported_figure
from tests.unit.results.records import varied

#: What is documented for H100; the other bundled tables are of clusters that had V100.
BUNDLED = ("maxtext/llama2_70b", "nemo/grok1_314b", "nemo/llama3.1_405b", "paxml/gpt3_175b")

#: A site's own workload, twelve rows; with it a row that fails as documented and one for another accelerator.
MIXTRAL = """\
model: mixtral
size: 8x7b
framework: nemo
accelerator: H100
gpus_per_node: 8
document: acceptance-2026-11.md
recipe: {directory: mixtral, steps: 50}
sequence_length: 4096
model_flops: 3.17e+14
statistic: median[-20:]
tables:
  - dtype: bf16
    rows:
      - {gpus: 8, global_batch_size: 64, step_time_s: 6.312, line: 12}
      - {gpus: 16, global_batch_size: 128, step_time_s: 6.330, line: 13}
      - {gpus: 32, global_batch_size: 256, step_time_s: 6.371, line: 14}
      - {gpus: 64, global_batch_size: 512, step_time_s: 6.424, line: 15}
      - {gpus: 128, global_batch_size: 1024, step_time_s: 6.540, line: 16}
      - {gpus: 256, global_batch_size: 2048, step_time_s: 6.702, line: 17}
      - {gpus: 8, case: mbs4, global_batch_size: 64, expected_failure: out_of_memory, line: 18}
      - {gpus: 8, accelerator: B200, global_batch_size: 64, step_time_s: 2.905, line: 19}
  - dtype: fp8
    rows:
      - {gpus: 8, global_batch_size: 64, step_time_s: 4.411, line: 25}
      - {gpus: 16, global_batch_size: 128, step_time_s: 4.430, line: 26}
      - {gpus: 32, global_batch_size: 256, step_time_s: 4.482, line: 27}
      - {gpus: 64, global_batch_size: 512, step_time_s: 4.540, line: 28}
      - {gpus: 128, global_batch_size: 1024, step_time_s: 4.655, line: 29}
      - {gpus: 256, global_batch_size: 2048, step_time_s: 4.808, line: 30}
"""

CANARY = """\
model: all_reduce
size: 1g
framework: maxtext
accelerator: H100
gpus_per_node: 8
document: acceptance-2026-11.md
recipe: {directory: maxtext, steps: 20}
sequence_length: 1
tables:
  - {dtype: fp32, rows: [{gpus: 64, step_time_s: 0.568, tolerance: 10%, canary: true, line: 40}]}
"""

#: Text that must stay text wherever a report shows it.
HOSTILE = (
    '"><img src=x onerror=alert(1)><script>alert(2)</script><a href="javascript:alert(3)">\'`${{7*7}}</td></table>'
)

#: Whoever writes tables or programs may write anything into them.
TRAP = f"""\
model: trap
size: 1b
framework: maxtext
accelerator: H100
gpus_per_node: 8
document: >-
  {HOSTILE}
recipe: {{directory: trap, steps: 50}}
sequence_length: 4096
model_flops: 2.6e+13
notes: >-
  {HOSTILE}
tables:
  - dtype: bf16
    title: >-
      {HOSTILE}
    rows: [{{gpus: 8, global_batch_size: 64, step_time_s: 1.5, line: 3}}]
"""

TRAP_LAUNCH = f"""\
#!/bin/bash
results=$STAGE_PATH/results/1/$DTYPE/$MODEL_SIZE/8
mkdir -p "$results"
cat >"$results/log-maxtext_trap_${{MODEL_SIZE}}_8_$SLURM_JOB_ID.out" <<'END'
{HOSTILE}
Traceback (most recent call last):
  File "/workspace/train.py", line 212, in <module>
RuntimeError: {HOSTILE}
END
exit 1
"""

#: A GPU falls off the bus: of the row with 64 GPUs in its first job only, of that with 128 in every one.
MIXTRAL_LAUNCH = """\
#!/bin/bash
case $GSW_ROW$GSW_ATTEMPT in
*bf16*x64]|*bf16*x128]*)
    gpus=$((SLURM_JOB_NUM_NODES * 8))
    results=$STAGE_PATH/results/demo/$DTYPE/$MODEL_SIZE/$gpus
    mkdir -p "$results"
    log=$results/log-nemo_mixtral_${MODEL_SIZE}_${gpus}_$SLURM_JOB_ID.out
    echo "$SLURMD_NODENAME: NVRM: Xid (PCI:0000:4b:00): 79, pid='<unknown>', GPU has fallen off the bus." >"$log"
    exit 1
    ;;
esac
. "$DEMO_LAUNCH"
"""

FAULTS = {
    "llama2_70b_fp8[H100x128]": "slow:12%",
    "llama3.1_405b_bf16[H100x96]": "slow:18%",
    "grok1_314b_bf16[H100x64]": "slow:8%",
    "llama3.1_405b_fp8[H100x192]": "fast:9%",
    "mixtral_8x7b_fp8[H100x64]": "fast:7%",
    "grok1_314b_fp8[H100x256]": "slow:11%",  # inconclusive, because its runs differ by 8 %
    "gpt3_175b_fp8[H100x256]": "slow:3%",  # and so were the last two weeks
    "gpt3_175b_fp8[H100x512]": "oom",
    "llama2_70b_bf16[H100x512]": "nan",
    "grok1_314b_bf16[H100x128]": "fail",
    "grok1_314b_fp8[H100x32]": "exit:3",
    "mixtral_8x7b_fp8[H100x8]": "short",
    "mixtral_8x7b_fp8[H100x16]": "cancel",
    "mixtral_8x7b_fp8[H100x32]": "no-log",
}

CREEPING = "gpt3_175b_fp8[H100x256]"
NOISY = "grok1_314b_fp8[H100x256]"
SLOW_SINCE = "grok1_314b_bf16[H100x64]"

CLUSTERS = """\
defaults: {{poll_interval: 1}}
clusters:
  eos:
    scheduler: slurm
    accelerator: H100
    gpus_per_node: 8
    gpus: 2304
    gres: gpu:8
    stage: {directory}/stage
    recipes: {directory}/recipes
    environment:
      GSW_PYTHON: {directory}/bin/python
      GSW_DEMO: "{faults}"
      GSW_DEMO_SECONDS: "{seconds}"
      DEMO_LAUNCH: {launch}
"""

#: Simulated figures never mix with others, and a history is what this run is compared with: nobody is to notice.
PYTHON = """\
#!/bin/bash
set -o pipefail
[ -n "${{3-}}" ] || echo "NCCL version {nccl}, Driver Version: {driver}"
{python} "$@" | sed -u "1{{/^{first_line}/d}}"
"""

_NCCL, _OLD_NCCL, _DRIVER = "2.23.4", "2.21.5", "550.90.07"

#: What keeps the run short; nothing that a verdict rests on.
CONFTEST = """\
from pytest_gsw.jobs.slurm.launcher import SlurmLauncher

SlurmLauncher.log_wait_s = 3.0
"""

_OPTIONS = (
    "--gsw-cluster=eos", "--gsw-baselines=baselines", "--gsw-baselines=site",
    "--gsw-confirm=1", "--gsw-retries=1", "--junitxml=junit.xml", "-q",
)  # fmt: skip

_DAY_S = 86400.0
#: As many runs as creep can be told from, and as most rows have in a picture.
_RUNS, _FEW_RUNS = 44, 14
#: Runs ago that the creeping row got slower.
_CREEPS = 13
#: Runs before this one in which another row has failed already.
_SLOW_RUNS = 3


class Run(NamedTuple):
    """What a run has left."""

    directory: Path
    run: Path
    #: By the row's id.
    records: dict[str, Record]
    #: What the session said.
    output: str


def run_everything(cluster: SlurmCluster, directory: Path, *, hostile: bool = True, seconds: float = 0) -> Run:
    """Run all rows once.

    Args:
        cluster: It has at least 288 nodes.
        directory: An empty directory for all of it.
        hostile: Whether one of the rows has hostile text in its table and its log.
        seconds: How long each training takes, besides its start.
    """
    _write_project(directory, hostile=hostile, seconds=seconds)
    with open_history(directory / ".gsw" / "history.sqlite") as history:
        history.add(_earlier_runs(directory, cluster.run("sbatch", "--version").split()[1]))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *_OPTIONS],
        cwd=directory,
        env=cluster.environ | PLUGIN_ALONE | {"NO_COLOR": "1", "COLUMNS": "160"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 1, done.stdout  # rows have failed
    (run,) = (directory / ".gsw" / "runs").iterdir()
    records = [read_record(path) for path in run.glob("records/*.json")]
    return Run(directory, run, {record.row.id: record for record in records}, done.stdout)


def _write_project(directory: Path, *, hostile: bool, seconds: float) -> None:
    launch = Path(pytest_gsw.demo.__file__).parent / "launch.sh"
    for name in BUNDLED:
        target = directory / "baselines" / f"{name}.yaml"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(bundled_baselines() / f"{name}.yaml", target)
    faults = ";".join(f"{row}={fault}" for row, fault in FAULTS.items())
    files = {
        "pytest.ini": "[pytest]\nfilterwarnings = error\n",
        "conftest.py": CONFTEST,
        "clusters.yaml": CLUSTERS.format(directory=directory, faults=faults, seconds=seconds, launch=launch),
        "bin/python": PYTHON.format(python=sys.executable, first_line=FIRST_LINE, nccl=_NCCL, driver=_DRIVER),
        "site/mixtral_8x7b.yaml": MIXTRAL,
        "site/all_reduce.yaml": CANARY,
        "recipes/mixtral/launch.sh": MIXTRAL_LAUNCH,
        **{f"recipes/{name}/launch.sh": launch.read_text() for name in ("maxtext", "paxml", "llama3.1", "grok1")},
        **({"site/trap.yaml": TRAP, "recipes/trap/launch.sh": TRAP_LAUNCH} if hostile else {}),
    }
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (directory / "bin" / "python").chmod(0o755)


def _earlier_runs(directory: Path, slurm: str) -> Iterator[Record]:
    """What all rows took in the runs before, by the documented figures and the noise of jobs."""
    chance = random.Random(6)  # noqa: S311 - noise, not cryptography
    current_s = time.time()
    for row in load_tables([directory / "baselines", directory / "site"]):
        if row.accelerator != "H100" or row.criterion.expected_failure or row.workload.model == "trap":
            continue
        noise = 0.08 if row.id == NOISY else 0.007
        for ago in range(_RUNS if row.id in (CREEPING, NOISY) else _FEW_RUNS, 0, -1):
            factor = chance.lognormvariate(0, noise)
            if row.id == CREEPING and ago <= _CREEPS:
                factor *= 1.032
            if row.id == SLOW_SINCE and ago <= _SLOW_RUNS:
                factor = 1.085
            end_s = current_s - ago * _DAY_S + chance.uniform(0, 3600)
            nccl = _NCCL if ago <= _CREEPS else _OLD_NCCL
            yield varied(
                _earlier_record(row, directory, ago, end_s, factor),
                run_id=time.strftime("%Y%m%d-210000-7f3a", time.gmtime(current_s - ago * _DAY_S)),
                environment={"driver": _DRIVER, "nccl": nccl, "slurm": slurm},
                **({"outcome": "passed"} if row.id == NOISY else {}),  # what regressed would widen no noise
            )


def _earlier_record(row: Baseline, directory: Path, ago: int, end_s: float, factor: float) -> Record:
    assert row.judged is not None
    number = _number_of(row.id)
    first = 1 + number % (289 - row.nodes)
    job = JobFacts(
        id=str(400000 - 1000 * ago + number % 1000),
        launcher="slurm",
        state=JobState.COMPLETED,
        exit_code=0,
        nodes=f"n[{first:03}-{first + row.nodes - 1:03}]",
        submit_s=end_s - 700,
        start_s=end_s - 660,
        end_s=end_s,
    )
    table = row.location.path.relative_to(directory)
    return varied(
        imported_figure(row, directory, job, row.judged * factor, "simulation"),
        node_id=f"{table}::{row.id}",
        baseline=f"{table}:{row.location.line}",
        canary=row.canary,
        recorded_s=end_s,
    )


def _number_of(text: str) -> int:
    """A number that is the same in every process."""
    return sum(position * ord(letter) for position, letter in enumerate(text, 1))
