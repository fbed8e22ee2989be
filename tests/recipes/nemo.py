"""What a recipe's launch script starts with its virtual environment's Python: NeMo-Run as the recipe pins it.

A script of Megatron-Bridge is run as it is. Those of NeMo need PyTorch; what they do with NeMo-Run is done here: one Slurm
job of the row's nodes, submitted from this machine; where a model is fine-tuned, one before it on one node, which imports.

::

    nemo.py CLONES ARGUMENTS...
    nemo.py submit ARGUMENTS...

CLONES is a directory with NeMo-Run's files below the name of each commit.
"""

from __future__ import annotations

import copy
import os
import re
import sys
from pathlib import Path

SCRIPT = "scripts/performance/setup_experiment.py"


def start(clones: Path, arguments: list[str]) -> None:
    """Go on in a process that has the pinned NeMo-Run."""
    from tests.recipes.clones import pin

    places = (Path(os.environ.get("OLDPWD", "")), Path.cwd())
    commit = next(filter(None, (pin(place, "NeMo-Run") for place in places)))
    environ = os.environ | {"PYTHONPATH": str(clones / commit)}
    print(*arguments, flush=True)  # noqa: T201 - what the script asks for
    script = arguments if Path(SCRIPT).is_file() else [__file__, "submit", *arguments]
    os.execve(sys.executable, [sys.executable, *script], environ)  # noqa: S606 - an argument list


def submit(arguments: list[str]) -> None:
    """Submit the job, and tell of it. What is fine-tuned, and so what the log is of, is what the arguments ask for."""
    import nemo_run as run

    environ = os.environ
    nodes = -(-int(environ["JOB_TOTAL_GPUS"]) // int(environ["GPUS_PER_NODE"]))
    home = environ["NEMORUN_HOME"]
    kind = arguments[arguments.index("-f") + 1] if arguments[0].endswith("_finetune.py") else ""
    title = f"{kind or 'pretrain'}_{environ['MODEL_SIZE']}_{environ['DTYPE']}"
    row = re.sub(r"finetuning-\w+", f"finetuning-{kind}", environ["GSW_ROW"])
    parameters = dict(word.split("=") for word in environ.get("ADDITIONAL_SLURM_PARAMS", "").split(";") if word)
    executor = run.SlurmExecutor(
        account=environ["SBATCH_ACCOUNT"],
        partition=environ["SBATCH_PARTITION"],
        tunnel=run.LocalTunnel(job_dir=f"{home}/experiments"),
        nodes=nodes,
        ntasks_per_node=int(environ["GPUS_PER_NODE"]),
        container_image="/nemo.sqsh",
        container_mounts=[f"{home}:{home}"],
        env_vars={"GSW_ROW": row},
        srun_args=["--mpi=pmix"],
        time=environ.get("TIME_LIMIT", "00:30:00"),
        mem="0",
        exclusive=True,
        packager=run.Packager(),
        additional_parameters=parameters,
    )
    imports = copy.deepcopy(executor)
    imports.nodes = imports.ntasks_per_node = 1
    with run.Experiment(title) as experiment:
        if kind:
            experiment.add(run.Script(inline="true"), executor=imports, name="import_ckpt_exp")
        experiment.add(run.Script(inline="python -m train"), executor=executor, name=title)
        experiment.run(sequential=True, detach=True)


if __name__ == "__main__":
    if sys.argv[1] == "submit":
        submit(sys.argv[2:])
    else:
        start(Path(sys.argv[1]), sys.argv[2:])
