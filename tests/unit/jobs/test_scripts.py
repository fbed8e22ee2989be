"""Launch scripts: their text, their options of sbatch, and what they take from their environment."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_gsw.clusters import DEMO, Cluster
from pytest_gsw.jobs.model import JobSpec
from pytest_gsw.jobs.scripts import (
    Option,
    Scripts,
    differences,
    exported_to,
    options_in,
    script_text,
    scripts_of,
    seconds_of,
    unread,
    value_of,
)
from pytest_gsw.jobs.spec import Profile, job_environment, make_job_spec
from pytest_gsw.tables.model import Baseline, Parallelism, Recipe
from tests.messages import wording
from tests.unit.rows import LLAMA2_FP8_X128


def test_a_scripts_text_is_as_the_file_is_now(tmp_path: Path) -> None:
    script = tmp_path / "launch.sh"
    script.write_bytes(b"#!/bin/bash\n\xff\n")
    assert script_text(script) == "#!/bin/bash\n\N{REPLACEMENT CHARACTER}\n"
    script.write_text("#!/bin/bash\nexit\n")
    assert script_text(script) == "#!/bin/bash\nexit\n"


def test_a_script_of_the_same_size_and_time_is_another_one(tmp_path: Path) -> None:
    """An archive gives the files of each release one time, and its tools keep it."""
    texts = []
    for version in ("25.01", "25.02"):
        (tmp_path / version).write_text(f"GSW_VERSION={version}\n")
        os.utime(tmp_path / version, (1, 1))
        (tmp_path / version).rename(tmp_path / "launch.sh")
        texts.append(script_text(tmp_path / "launch.sh"))
    assert texts == ["GSW_VERSION=25.01\n", "GSW_VERSION=25.02\n"]


def test_what_is_no_file_has_no_text(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")  # whoever opened it would wait for a writer
    assert [script_text(tmp_path / name) for name in ("pipe", "gone.sh", ".", "pipe/launch.sh")] == [None] * 4


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("--partition=batch", [("partition", "batch")]),
        ("--partition batch", [("partition", "batch")]),
        ("--part=batch", [("partition", "batch")]),
        ("--part batch", [("partition", "batch")]),
        ("-p batch", [("partition", "batch")]),
        ("-pbatch", [("partition", "batch")]),
        ("-Hpbatch --hold", [("hold", None), ("partition", "batch"), ("hold", None)]),
        ("-QHt 30", [("quiet", None), ("hold", None), ("time", "30")]),
        # As sbatch has it: the sign is part of the value.
        ("-p=batch", [("partition", "=batch")]),
        ("--time=30", [("time", "30")]),
        ("--time-m=5", [("time-min", "5")]),
        ("--exclusive=user --exclusive", [("exclusive", "user"), ("exclusive", None)]),
        ("-koff -N2", [("no-kill", None), ("nodes", "2")]),
        ("--cluster=eos", [("clusters", "eos")]),
        ("--gpus-per-n=8", [("gpus-per-node", "8")]),
        ("-p", [("partition", "")]),
        # Ambiguous, or of no release that is known: as it is written.
        ("--tim=30", [("tim", "30")]),
        ("--of-a-site=7 --flag", [("of-a-site", "7"), ("flag", None)]),
        ("hetjob", [("", None)]),
        ("-Z7", [("", None)]),
        ("- --", [("", None), ("", None)]),
    ],
)
def test_options(words: str, options: list[tuple[str, str | None]]) -> None:
    assert [(option.name, option.value) for option in options_in(tuple(words.split()))] == options


def test_an_option_is_shown_as_it_was_written() -> None:
    assert list(options_in(("--arr", "1-2", "-Ha3"))) == [
        Option("array", "1-2", "--arr 1-2"),
        Option("hold", None, "-Ha3"),
        Option("array", "3", "-Ha3"),
    ]


def test_the_last_one_counts() -> None:
    words = ("-p", "first", "--account=eng", "--part", "last", "--exclusive")
    assert (value_of(words, "partition"), value_of(words, "exclusive"), value_of(words, "qos")) == ("last", "", None)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 1800),
        ("30:15", 1815),
        ("1:00:00", 3600),
        ("2-12", 216000),
        ("1-01:02", 90120),
        ("1-01:02:03", 90123),
        ("UNLIMITED", math.inf),
        ("INFINITE", math.inf),
        ("", None),
        ("soon", None),
        ("1:2:3:4", None),
    ],
)
def test_times_as_slurm_writes_them(text: str, seconds: float | None) -> None:
    assert seconds_of(text) == seconds


# -- what scripts take from their environment, and what of it a row fixes -----------------------------


LAUNCH = """\
#!/bin/bash
#SBATCH --exclusive
# ${HIDDEN:-1} is no more than a comment
export GSW_VERSION=25.01
export DTYPE=${DTYPE:-fp8}
RESULT_DIR=${RUN_CONF_RESULT_DIR:-$STAGE_PATH/results/$GSW_VERSION/$DTYPE}
export SRUN_OUTPUT=${SRUN_OUTPUT-$RESULT_DIR/log_%j.out}
export SRUN_ERROR=${SRUN_ERROR-$RESULT_DIR/log_%j.err}
srun --container-mounts $STAGE_PATH/configure.sh:/etc/configure.sh bash -c "source /etc/configure.sh && train"
"""
CONFIGURE = """\
export NAME=${GSW_VERSION?"has to be set"}
PP=4
steps=${MAX_STEPS:-50}
[[ -n ${TP-} ]] && options+=" tensor=$TP"
batch=${GBS:=$((128 * GPUS))}
[[ -n ${VP+x} ]] && options+=" stages=$VP"
"""
ROW = replace(
    LLAMA2_FP8_X128,
    parallelism=Parallelism(tp=8, pp=9),
    batch=replace(LLAMA2_FP8_X128.batch, global_batch_size=252),
    recipe=Recipe("own", steps=50),
)


@pytest.fixture
def stage(tmp_path: Path) -> Path:
    (tmp_path / "own").mkdir()
    (tmp_path / "own/launch.sh").write_text(LAUNCH)
    (tmp_path / "own/configure.sh").write_text(CONFIGURE)
    return tmp_path / "own"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A launch script that says nothing, alone."""
    script = tmp_path / "launch.sh"
    script.write_text("#!/bin/bash\ntrain\n")
    return script


def spec(stage: Path, row: Baseline = ROW, profile: Profile | None = None, **changes: Any) -> JobSpec:
    cluster = Cluster(name="eos", scheduler="slurm", stage=str(stage), path=Path("clusters.yaml"))
    return make_job_spec(row, replace(cluster, **changes), run_id="r1", profile=profile)


def test_what_scripts_take(stage: Path) -> None:
    found = scripts_of(stage / "launch.sh")
    of_launch = {"DTYPE", "RUN_CONF_RESULT_DIR", "SRUN_OUTPUT", "SRUN_ERROR"}
    assert found == Scripts(frozenset(of_launch | {"GSW_VERSION", "MAX_STEPS", "TP", "GBS", "VP"}), "25.01")
    (stage / "configure.sh").unlink()
    (stage / "cfg").mkdir()
    (stage / "cfg/configure.sh").write_text("source launch.sh; source gone.sh; echo ${TP:-1}")
    assert scripts_of(stage / "launch.sh").taken == of_launch | {"TP"}


@pytest.mark.parametrize("text", ["", "export GSW_VERSION=$1\n", "GSW_VERSION=1\nGSW_VERSION=2\n", "\x00$HOME"])
def test_scripts_that_say_nothing(stage: Path, text: str) -> None:
    (stage / "launch.sh").write_text(text)
    assert scripts_of(stage / "launch.sh") == Scripts()
    assert scripts_of(stage / "gone.sh") == Scripts()
    assert scripts_of(stage) == Scripts()


def test_what_the_users_shell_exports_does_not_change_the_row(stage: Path) -> None:
    shell = {
        "TP": "4",
        "PP": "2",
        "VP": "3",
        "GBS": "16",
        "MAX_STEPS": "20",
        "RUN_CONF_RESULT_DIR": "/tmp",
        "HOME": "/me",
    }
    environment = job_environment(shell, spec(stage))
    names = ("TP", "GBS", "MAX_STEPS", "HOME")
    assert {name: environment[name] for name in names} == {"TP": "8", "GBS": "252", "MAX_STEPS": "50", "HOME": "/me"}
    # The row has no virtual stages: the recipe's own are the row's.
    assert not {"VP", "RUN_CONF_RESULT_DIR"} & environment.keys()
    # The scripts take no PP, and so whatever the shell has of it changes nothing.
    assert environment["PP"] == "2"
    # What the cluster's file says is said on purpose.
    assert spec(stage, environment={"TP": "2", "VP": "5"}).environment["TP"] == "2"
    assert "VP" not in spec(stage, environment={"TP": "2", "VP": "5"}).unset


def test_what_a_script_demands_and_the_row_leaves_open_is_the_users_to_say(stage: Path) -> None:
    (stage / "launch.sh").write_text(LAUNCH + "SEQ=${SEQ_LEN:?}\nSPLIT=${EP:-1}\n")
    job = spec(stage, replace(ROW, workload=replace(ROW.workload, sequence_length=None)))
    assert "EP" in job.unset
    assert job_environment({"SEQ_LEN": "4096", "EP": "2"}, job)["SEQ_LEN"] == "4096"


@pytest.mark.parametrize(
    "text",
    [
        "train --tp $TP",
        'train --tp "${TP}"',
        'if [ -z "$TP" ]; then TP=8; fi\ntrain $TP',
        '[ -z "$TP" ] && TP=8',
        "[[ -v TP ]] || TP=8",
        "if [[ $SIZE = 70b ]]; then\n  TP=8\nfi\ntrain $TP",
        "MP=$(( (TP * 2) ))",
        "TP=$TP",
        "TP=4 check\ntrain $TP",
        "INFO=\"GSW:\n  tp='$TP'\"",
        "INFO=\"don't take $TP, it's fixed\"",
        "echo ${TP#0}",
    ],
)
def test_what_a_script_uses_before_it_sets_it_is_the_rows(stage: Path, text: str) -> None:
    (stage / "configure.sh").write_text(f"{text}\n")
    job = spec(stage)
    assert job_environment({"TP": "4"}, job)["TP"] == "8"
    assert told(stage, {"TP": "4"}) == []


@pytest.mark.parametrize(
    "text",
    [
        "TP=4\ntrain $TP",
        "export TP=4\nMP=$((TP * 2))",
        "TP=4 # as in ${SIZE}\necho $TP",
        "echo 'not $TP'\nTP=4\ntrain $TP",
        "train # $TP\nTP=4\ntrain $TP",
        "train $TPU ${TP_COMM}\nTP=4",
    ],
)
def test_what_a_script_sets_first_stays_as_it_sets_it(stage: Path, text: str) -> None:
    (stage / "configure.sh").write_text(f"{text}\n")
    assert "TP" not in spec(stage).environment
    assert told(stage, {"TP": "8"}) == []


def test_what_the_launch_script_sets_is_set_in_the_scripts_that_it_names(stage: Path) -> None:
    (stage / "launch.sh").write_text(f"{LAUNCH}export TP=4\n")
    (stage / "configure.sh").write_text("train $TP\n")
    assert told(stage, {"TP": "8"}) == []


def test_what_a_script_uses_and_the_row_leaves_open_stays_and_is_told(stage: Path) -> None:
    (stage / "configure.sh").write_text("train --ep $EP\n")
    assert job_environment({"EP": "2"}, spec(stage))["EP"] == "2"
    assert told(stage, {"EP": "2"}) == [wording("exported", name="EP", script="own/launch.sh")]


def test_what_chooses_how_a_row_is_run_is_the_recipes_own(stage: Path) -> None:
    """Recipes of v25.10 and later take such variables from the shell of whoever launches them."""
    (stage / "configure.sh").write_text("v=${CONFIG_VARIANT:-v2} r=${FP8_RECIPE:-cs} o=${CONFIG_OVERRIDES:-}\n")
    exported = {"CONFIG_VARIANT": "v1", "FP8_RECIPE": "mx", "CONFIG_OVERRIDES": "-tp 2", "CUDA_GRAPH": "true"}
    assert job_environment(exported, spec(stage)) | {"CUDA_GRAPH": "true"} == job_environment(
        {"CUDA_GRAPH": "true"}, spec(stage)
    )
    assert told(stage, exported) == []
    # Who sets it in the cluster's file means it.
    assert job_environment(exported, spec(stage, environment={"CONFIG_VARIANT": "v1"}))["CONFIG_VARIANT"] == "v1"


def told(stage: Path, environ: dict[str, str], **changes: object) -> list[str]:
    return list(differences(ROW, spec(stage, **changes), environ))


def test_what_a_recipe_does_not_take_is_left_to_its_log(stage: Path) -> None:
    assert told(stage, {"TP": "4", "GBS": "16"}) == []
    # Who sets it in the cluster's file means it.
    (stage / "configure.sh").write_text("echo ${TP:-8}\n")
    assert told(stage, {}, environment={"TP": "2"}) == [wording("is set elsewhere", name="TP=2", value=8)]


def test_what_is_exported_and_no_row_fixes_is_a_difference(stage: Path) -> None:
    (stage / "configure.sh").write_text(
        "${FLAGS-} ${MOUNTS:-} ${HF_TOKEN:-} ${API_KEY?} ${RUN_CONF_IMAGE:-x} ${EMPTY:-}\n"
    )
    exported = {
        "HF_TOKEN": "x",
        "API_KEY": "y",
        "MOUNTS": "/a:/b",
        "RUN_CONF_IMAGE": "z.sqsh",
        "EMPTY": "",
        "OTHER": "1",
    }
    assert told(stage, exported) == []
    scripts = scripts_of(spec(stage).script)
    assert exported_to(spec(stage), exported, scripts) == []
    assert exported_to(spec(stage), {"FLAGS": "--fast", "OTHER": "1"}, scripts) == ["FLAGS"]
    assert told(stage, {"FLAGS": "--fast"}) == [wording("exported", name="FLAGS", script="own/launch.sh")]


def test_what_srun_prints_goes_to_the_log_with_slurm_before_23_02_too(stage: Path) -> None:
    log = f"{stage}/results/25.01/fp8/70b/128/log-maxtext_llama2_70b_128_%j"
    environment = spec(stage).environment
    assert environment["SLURM_STDOUTMODE"] == f"{log}.out"
    assert environment["SLURM_STDERRMODE"] == f"{log}.err"
    (stage / "launch.sh").write_text(LAUNCH.replace("SRUN_ERROR", "NONE"))
    assert "SLURM_STDERRMODE" not in spec(stage).environment
    # Where that is cannot be told.
    (stage / "launch.sh").write_text(LAUNCH.replace("=25.01", "=$(date +%y.%m)"))
    assert "SLURM_STDOUTMODE" not in spec(stage).environment
    # A script that redirects what srun prints has it nowhere else.
    (stage / "launch.sh").write_text("export GSW_VERSION=25.01\nsrun train >$RESULT_DIR/log.out\n")
    assert "SLURM_STDOUTMODE" not in spec(stage).environment


def test_where_no_recipe_runs_no_script_is_read(stage: Path) -> None:
    assert "TP" not in spec(stage, scheduler="replay").environment
    assert "TP" not in make_job_spec(ROW, replace(DEMO, stage=str(stage), recipes=str(stage)), run_id="r1").environment


@pytest.mark.parametrize(
    ("directives", "limit_s"),
    [
        ("--time=1:00:00", 3600.0),
        ("--time=1-12", 129600.0),
        ("-t 90", 5400.0),
        ("-t90:30", 5430.0),
        ("--time=00:20:00", 1800.0),
        ("--time=2-00:30:01", 174601.0),
        ("--time=infinite", 1800.0),
        ("--mem=0", 1800.0),
    ],
)
def test_a_job_gets_the_time_that_its_script_asks_for(stage: Path, directives: str, limit_s: float) -> None:
    """MaxText's recipes train 15 steps for a profile before the run that is measured."""
    (stage / "launch.sh").write_text(LAUNCH.replace("--exclusive", directives))
    assert spec(stage).time_limit_s == limit_s


#: What of a variable in a script means that it is read, or passed on, as the environment has it.
READ = (
    "train -f $OWN_TYPE\n",
    "train -f ${OWN_TYPE:-lora}\n",
    "export OWN_TYPE\n",
    "if [[ -v OWN_TYPE ]]; then train; fi\n",
    "steps=$((OWN_TYPE * 2))\n",
    "srun --container-env=OWN_TYPE train\n",
    "OWN_TYPE=${OWN_TYPE,,}\n",
    "if [ $A = b ]; then\n  OWN_TYPE=lora\nfi\ntrain $OWN_TYPE\n",
    "OWN_TYPE=lora train\ntrain $OWN_TYPE\n",
    # Somebody else's file may read it: the script says which, and it is not there.
    "source gone.sh\n",
    "python3 $HOME/gone.py\n",
    # Any variable of such a name.
    'for name in "${!OWN_@}"; do echo "${!name}"; done\n',
    "env | grep OWN >settings\n",
    "printenv | sort\n",
    "for name in $(env); do echo $name; done\n",
    "mapfile -t names < <(env -0)\n",
    "set | grep ^OWN >settings\n",
    "declare -px >settings\n",
    "tr '\\0' '\\n' </proc/self/environ >settings\n",
    # A name that is put together.
    "name=${kind}_TYPE\ntrain ${!name:-lora}\n",
    "for name in TYPE SIZE; do declare -n one=OWN_$name; train $one; done\n",
    'for name in TYPE SIZE; do eval "one=\\$OWN_$name"; done\n',
    # What is not indented may be a branch's.
    "if [ $A = b ]; then\nOWN_TYPE=lora\nfi\ntrain $OWN_TYPE\n",
    "source ../settings\n",
    '. "$OWN/settings.env"\n',
)
UNREAD = (
    "train\n",
    "# OWN_TYPE is sft or lora\n",
    "train $OWN_TYPES $MY_OWN_TYPE\n",
    "OWN_TYPE=lora\ntrain $OWN_TYPE\n",
    "if [ $A = b ]; then\n  train\nfi\nOWN_TYPE=lora\ntrain $OWN_TYPE\n",
    "source ~/.bashrc\nsource $VENV/bin/activate\nenv A=b train\nset -eu\nexport -p\n",
    'for at in "${!all[@]}"; do train ${all[$at]}; done\n',
    "export OWN_TYPE='lora'\ntrain $OWN_TYPE\n",
    "train --env OWN_TYPE=lora\n",
    "sbatch $home/$1_sbatch.sh\n",
    "python3 /opt/own/train.py\n",
)


@pytest.mark.parametrize("text", READ)
def test_a_variable_that_a_script_reads(script: Path, text: str) -> None:
    script.write_text(f"#!/bin/bash\n{text}")
    assert unread(["OWN_TYPE"], script) is None


@pytest.mark.parametrize("text", UNREAD)
def test_a_variable_that_no_script_reads(tmp_path: Path, script: Path, text: str) -> None:
    script.write_text(f"#!/bin/bash\nexport FT_TYPE=${{FT_TYPE:-lora}} HF_HOME=${{HF_HOME:-/}}\n{text}")
    (tmp_path / "README.md").write_text("OWN_TYPE is sft or lora\n")
    (tmp_path / "setup.py").touch()
    (tmp_path / "own.patch").write_text("--- a/elsewhere.py\n")  # what a patch names runs nowhere
    assert unread(["HF_HOME", "OWN_TYPE"], script) == ("OWN_TYPE", "FT_TYPE")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("train.py", 'scheme = os.environ["OWN_TYPE"]\n'),
        ("own/deep/train.py", 'scheme = os.getenv("OWN_TYPE")\n'),
        ("own/anything.py", "for name, value in os.environ.items():\n"),
        ("own/anything.py", "from os import environ\nfor name in sorted(environ):\n"),
        ("own/anything.py", 'value = os.environ[f"OWN_{name}"]\n'),
        ("own/anything.py", 'value = os.environ.get("OWN_" + name)\n'),
        ("own/anything.py", 'value = os.getenv(prefix + "TYPE")\n'),
        ("own/anything.py", 'model_config = {"env_prefix": "OWN_"}\n'),
        ("conf/train.yaml", "scheme: ${oc.env:OWN_TYPE}\n"),
        ("cfg/configure.sh", "echo $OWN_TYPE\n"),
    ],
)
def test_a_variable_that_another_file_of_the_recipe_reads(tmp_path: Path, script: Path, name: str, text: str) -> None:
    script.write_text("#!/bin/bash\nsource configure.sh\nOWN_TYPE=lora\npython3 $STAGE_PATH/train.py\n")
    for file in ("train.py", "cfg/configure.sh", name):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    (tmp_path / "other.py").write_text('import os\none = os.environ["A"] + os.getenv("B", "") + os.environ.get("C")\n')
    assert unread(["OWN_TYPE"], script) is not None
    (tmp_path / name).write_text(text)
    assert unread(["OWN_TYPE"], script) is None


def test_a_variable_of_the_recipe_that_lies_beside_all_recipes(tmp_path: Path) -> None:
    for name, text in {"own/launch.sh": "source ../common/utils.sh\n", "common/utils.sh": "echo ${OWN_TYPE}\n"}.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    assert unread(["OWN_TYPE"], tmp_path / "own" / "launch.sh") is None


@pytest.mark.parametrize("name", ["NCCL_DEBUG", "SLURM_MPI_TYPE", "PATH", "https_proxy", "GPU_TYPE"])
def test_a_variable_that_is_no_scripts_to_read(script: Path, name: str) -> None:
    assert unread([name], script) is None
    assert unread([f"X_{name}"], script) is not None or name.islower()


def test_what_cannot_be_read_is_no_reason_to_refuse(tmp_path: Path, script: Path) -> None:
    assert unread(["OWN_TYPE"], tmp_path / "gone.sh") is None
    assert unread(["OWN_TYPE"], script) is not None
    for number in range(300):
        (tmp_path / f"{number}.out").touch()
    assert unread(["OWN_TYPE"], script) is None
