"""Programs of our own in place of the container, of what is downloaded, and of NeMo-Run."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.slurm.recipes import finetune, nemo_run

TRAINING = Path(__file__).with_name("training.py")
ROOT = TRAINING.parents[2]

#: srun with the options of the container: its command runs in a directory tree that has what the recipe mounts.
SRUN = """\
#!{python}
import os, sys
own, mounts, contained = [], "", False
words = iter(sys.argv[1:])
for word in words:
    name, given, value = word.partition("=")
    if name == "bash":
        own = [*own, *(["{bin}/container", mounts] if contained else []), word, *words]
    elif name == "--mpi":
        pass
    elif name in ("--container-writable", "--no-container-mount-home", "--pty"):
        contained = contained or name != "--pty"
    elif name.startswith("--container-"):
        contained = True
        value = value if given else next(words)
        mounts = value if name == "--container-mounts" else mounts
    else:
        own.append(word)
os.execv({srun!r}, ["srun", *own])
"""

#: The first rank of each node: in a mount namespace of its own, below a root with the mounts.
CONTAINER = """\
#!/bin/bash
[ "${{SLURM_LOCALID:-0}}" = 0 ] || exit 0
faults=,${{GSW_STANDIN-}}, row=${{GSW_ROW-}}
if [[ $faults = *,container,* || ( $faults =~ ,([^,]*)\\*=container, && $row = "${{BASH_REMATCH[1]}}"* ) ]]; then
    echo "slurmstepd: error: pyxis: child 77 failed with error code: 1" >&2
    exit 1
fi
export GSW_MOUNTS=$1
shift
exec unshare --mount "{bin}/contained" "$@"
"""
CONTAINED = """\
#!/bin/bash
set -eu
root=$(mktemp -d -p {bin})
mount -t tmpfs tmpfs "$root"
for path in /*; do
    if [ -L "$path" ]; then cp -a "$path" "$root$path"
    elif [ -d "$path" ] && [ "$path" != /opt ]; then mkdir "$root$path"; mount --rbind "$path" "$root$path"
    fi
done
mkdir -p "$root"/opt/{{NeMo,paxml/workspace,maxtext}} "$root/opt/NeMo-Framework-Launcher/launcher_scripts"
touch "$root/opt/NeMo-Framework-Launcher/requirements.txt"
IFS=,
for mount in $GSW_MOUNTS; do
    mount=${{mount%:r[ow]}}
    from=${{mount%%:*}} to=$root${{mount#*:}}
    if [ "$from" = "${{mount#*:}}" ]; then continue; fi
    if [ -d "$from" ]; then mkdir -p "$to"; else mkdir -p "${{to%/*}}"; touch "$to"; fi
    mount --bind "$from" "$to"
done
unset IFS
export PATH={bin}/in-container:$PATH PYTHONPATH=
exec chroot "$root" env --chdir="$PWD" "$@"
"""

#: Of the frameworks' python3, their scripts of one line that say a setting, and the training.
PYTHON = """\
#!/bin/bash
case "$*" in
    *conditional_cfgs.py*) echo 0 ;;
    *pgo_nsys_converter.py*) ;;
    *) exec {python} {training} {ranks} "$@" ;;
esac
"""
#: What starts a program, with options of its own before it.
PREFIX = """\
#!/bin/bash
until [ "${1##*/}" = python3 ] || [ "${1##*/}" = python ]; do shift; done
exec "$@"
"""
#: The virtual environment's Python, where it has NeMo-Run itself.
NEMO = """\
#!/bin/bash
PYTHONPATH={root} exec {python} {root}/tests/recipes/nemo.py {clones} "$@"
"""
#: Of a launch script's sbatch: Slurm before 23.11 does not know the segment that NeMo-Run writes for GB200. A test may
#: hold it before or behind the submission.
SBATCH = """\
#!/bin/bash
hold() {{
    if [ "${{GSW_STANDIN_HELD-}}" = "$1" ]; then touch {bin}/held; until [ -e {bin}/go ]; do sleep 0.1; done; fi
}}
sed -i '/^#SBATCH --segment=/d' "${{@: -1}}"
hold before
{sbatch} "$@"
hold behind
"""
#: What a setup downloads.
GIT = """\
#!/bin/bash
[ "$1" = clone ] || exit 0
place=${3:-$(basename "$2" .git)}
mkdir -p "$place/scripts/performance/llm" "$place/scripts/llm/performance"
mkdir -p "$place/chat_assistant/sft/training/configs"
printf '#!/bin/bash\\n' >"$place/reinstall.sh"
chmod +x "$place/reinstall.sh"
"""
ENROOT = """\
#!/bin/bash
touch "$3"
"""
NOTHING = "#!/bin/bash\n"


def install(directory: Path, slurm: Path, real: Path | None) -> Path:
    """Write them all below a directory, which is to come first in PATH.

    Args:
        directory: The session's.
        slurm: Where Slurm's own programs are.
        real: Where NeMo-Run itself is, if it is to be run; see :mod:`tests.recipes.nemo`.
    """
    place = directory / "bin"
    python = sys.executable
    training = PYTHON.format(python=python, training=TRAINING, ranks=directory / "ranks")
    nemo = NEMO.format(python=python, root=ROOT, clones=real) if real else _nemo_run(place)
    texts = {
        "srun": SRUN.format(python=python, bin=place, srun=str(slurm / "srun")),
        "container": CONTAINER.format(bin=place),
        "contained": CONTAINED.format(bin=place),
        "in-container/python3": training,
        "in-container/python": training,
        "in-container/accelerate": training,
        "in-container/nsys": PREFIX,
        "in-container/numactl": PREFIX,
        "in-container/git": NOTHING,
        "in-container/pip": NOTHING,
        "setup/git": GIT,
        "setup/enroot": ENROOT,
        "setup/pip": NOTHING,
        "setup/python3": NOTHING,
        "setup/huggingface-cli": NOTHING,
        "venv/bin/sbatch": SBATCH.format(sbatch=slurm / "sbatch", bin=place),
        "finetune": _finetune(),
        **{f"venv/bin/{name}": nemo for name in ("python", "python3")},
    }
    for name, text in texts.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    return place


#: What fine-tunes is asked for the kind by an argument.
FINETUNES = """
case "$1" in
    *_finetune.py)
        until [ "$1" = -f ]; do shift; done
        FT_TYPE=$2 exec {place}/finetune
        ;;
esac
"""


def _finetune() -> str:
    """The same where a model is fine-tuned: the row is that of the kind that was asked for."""
    row = 'GSW_ROW=$(sed "s/finetuning-[a-z]*/finetuning-$KIND/" <<<"$GSW_ROW")'
    return finetune(f'{row} exec {sys.executable} {TRAINING} "" >"${{LOG}}_${{SLURM_JOB_ID}}_0.out"')


def _nemo_run(place: Path) -> str:
    """NeMo-Run as a script starts it, which submits the job."""
    body = f'exec {sys.executable} {TRAINING} "" >"${{LOG}}_${{SLURM_JOB_ID}}_${{SLURM_RESTART_COUNT:-0}}.out"'
    own = FINETUNES.format(place=place) + ': "${LLMB_INSTALL=$STAGE_PATH}" "${GPU_TYPE=h100}" "${GPUS_PER_NODE=8}"'
    script = nemo_run(body, begin=own)
    refused = 'if [ -n "${STAGE_PATH+x}" ]; then echo "STAGE_PATH is deprecated"; exit 1; fi\n'
    head = ': "${ADDITIONAL_SLURM_PARAMS=}" "${SBATCH_PARTITION:?}" "${JOB_TOTAL_GPUS:?}" "${GPU_TYPE:?}"\n'
    assert refused in script
    assert head in script
    return script.replace(refused, "").replace(head, ': "${ADDITIONAL_SLURM_PARAMS=}"\n')
