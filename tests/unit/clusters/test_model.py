from __future__ import annotations

import pwd
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_gsw import clusters
from pytest_gsw.clusters import CLUSTER_KEYS, DEMO, Cluster, SiteSettings, Submission, check_keys, find_cluster
from pytest_gsw.errors import ConfigurationError, FileError

Find = Callable[..., Cluster]

EOS = """\
clusters:
  eos:
    scheduler: slurm
    account: ${ACCOUNT}
    partition: batch
    accelerator: H100
    gpus_per_node: 8
    gpus: 4608
    gres: gpu:8
    constraint: h100&hbm
    stage: ${HOME}/stage/{recipe}
    recipes: /lustre/recipes
    sbatch: ["--qos=${QOS}", "--reservation=a b"]
    environment: {NCCL_DEBUG: WARN, CACHE: "${HOME}/cache:${HOME}/more", RETRIES: 3}
    tolerance: 3%
"""
ENVIRON = {"ACCOUNT": "eng", "HOME": "/home/ann", "QOS": "high"}


@pytest.fixture
def find(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Find:
    """Look a cluster up in files with this content."""
    monkeypatch.chdir(tmp_path)

    def find_in(name: str, *contents: str, environ: Mapping[str, str] | None = None) -> Cluster:
        files = [Path(f"{number}.yaml") for number in range(1, len(contents) + 1)]
        for path, content in zip(files, contents, strict=True):
            path.write_text(content)
        return find_cluster(name, files, environ or {})

    return find_in


def test_a_cluster_with_every_key(find: Find) -> None:
    assert find("eos", EOS, environ=ENVIRON) == Cluster(
        name="eos",
        scheduler="slurm",
        submission=Submission(
            account="eng",
            partition="batch",
            gres="gpu:8",
            constraint="h100&hbm",
            sbatch=("--qos=high", "--reservation=a b"),
        ),
        accelerator="H100",
        gpus_per_node=8,
        gpus=4608,
        stage="/home/ann/stage/{recipe}",
        recipes="/lustre/recipes",
        environment={"NCCL_DEBUG": "WARN", "CACHE": "/home/ann/cache:/home/ann/more", "RETRIES": "3"},
        settings=SiteSettings(tolerance=0.03),
        path=Path("1.yaml"),
    )


def test_the_first_file_that_defines_a_cluster_wins(find: Find) -> None:
    one, two = "clusters: {a: {scheduler: local}}\n", "clusters: {a: {scheduler: slurm}, b: {scheduler: slurm}}\n"
    assert find("a", one, two).scheduler == "local"
    assert find("b", one, two).path == Path("2.yaml")


def test_a_broken_file_that_comes_first_is_not_passed_over(find: Find) -> None:
    with pytest.raises(FileError):
        find("a", "clusters: {a: {scheduler: 5 6}}\n", "clusters: {a: {scheduler: local}}\n")


def test_variables_that_are_not_set_are_told_at_once(find: Find) -> None:
    with pytest.raises(FileError) as error:
        find("eos", EOS, environ={"HOME": "/home/ann"})
    assert str(error.value) == (
        "1.yaml: 2 problems\n"
        "  1.yaml:4:14    clusters.eos.account: the variable ACCOUNT is not set; "
        "export ACCOUNT=… or write the value here\n"
        "  1.yaml:13:14   clusters.eos.sbatch: the variable QOS is not set; export QOS=… or write the value here"
    )


def test_a_variable_that_is_set_and_empty_is_called_empty(find: Find) -> None:
    with pytest.raises(FileError, match=r"the variable QOS is empty; export QOS=… or write the value here$"):
        find("eos", EOS, environ={**ENVIRON, "QOS": ""})


def test_variables_of_other_clusters_may_be_missing(find: Find) -> None:
    assert find("a", EOS + "  a: {scheduler: local}\n").scheduler == "local"


def test_a_dollar_sign_without_a_name_or_in_the_environment_is_itself(find: Find) -> None:
    entry = "clusters: {a: {scheduler: local, stage: '/$$/$(id)', environment: {OUT: $HOME/out}}}\n"
    cluster = find("a", entry, environ=ENVIRON)
    assert (cluster.stage, cluster.environment) == ("/$$/$(id)", {"OUT": "$HOME/out"})


def test_relative_directories_start_at_the_file(tmp_path: Path) -> None:
    path = tmp_path / "etc" / "clusters.yaml"
    path.parent.mkdir()
    path.write_text("clusters: {a: {scheduler: local, stage: '../stage/{recipe}', recipes: '{recipe}'}}\n")
    cluster = find_cluster("a", [path], {})
    assert (cluster.stage, cluster.recipes) == (f"{tmp_path}/etc/../stage/{{recipe}}", f"{tmp_path}/etc/{{recipe}}")


def test_a_tilde_is_the_users_home(find: Find) -> None:
    cluster = find("a", "clusters: {a: {scheduler: slurm, stage: ~/stage, recipes: ~root/r}}\n", environ=ENVIRON)
    assert (cluster.stage, cluster.recipes) == ("/home/ann/stage", f"{pwd.getpwnam('root').pw_dir}/r")
    assert find("a", BARE, environ={"STAGE_PATH": "~/stage", "HOME": "/home/ann"}).stage == "/home/ann/stage"


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("~/hf", "/home/ann/hf"),
        ("~root", "~root"),
        ("a~/b", "a~/b"),
        # Braces that are no placeholder are its own.
        ("'${HOME}/{recipe}'", "/home/ann/{recipe}"),
        ("'{\"x\": 1}'", '{"x": 1}'),
    ],
)
def test_a_value_of_the_environment(find: Find, written: str, value: str) -> None:
    text = f"clusters: {{a: {{scheduler: slurm, environment: {{A: {written}}}}}}}\n"
    assert find("a", text, environ=ENVIRON).environment == {"A": value}


def test_a_home_of_nobody_is_a_fault(find: Find) -> None:
    with pytest.raises(FileError) as raised:
        find("a", "clusters: {a: {scheduler: slurm, stage: ~nobody.there/stage}}\n")
    (fault,) = raised.value.faults
    assert (fault.key, fault.problem) == (
        "clusters.a.stage",
        "got '~nobody.there/stage', an unknown home; write the path itself",
    )


def test_a_relative_stage_path_starts_at_the_working_directory(find: Find, tmp_path: Path) -> None:
    assert find("a", BARE, environ={"STAGE_PATH": "stage"}).stage == str(tmp_path / "stage")


@pytest.mark.parametrize(
    ("key", "written", "problem"),
    [
        ("account", "$FOO", "got '$FOO', wanted ${FOO}"),
        ("sbatch", "[--qos=$QOS]", "got '$QOS', wanted ${QOS}"),
        ("account", "'${X:-y}'", "got '${X:-y}', wanted ${NAME}"),
        ("sbatch", "['--qos=${1}']", "got '${1}', wanted ${NAME}"),
        ("environment", "{A: '${HOME'}", "got '${HOME', wanted ${NAME}"),
        ("stage", "'/${}'", "got '${}', wanted ${NAME}"),
        ("stage", "'/x/{recipes}'", "unknown placeholder {recipes}; did you mean 'recipe'?"),
        ("recipes", "'/x/{model}'", "unknown placeholder {model}"),
        ("recipes", "'/x/{}/{recipe}'", "unknown placeholder {}"),
        ("environment", "{A: '/{workloads}/{dtype}'}", "unknown placeholder {workloads}; did you mean 'workload'?"),
        *(
            (
                "environment",
                f"{{{name}: 1}}",
                f"{name} is part of the launch contract, which sets it for each row; leave it out",
            )
            for name in (
                *("STAGE_PATH", "DTYPE", "MODEL_SIZE", "NUM_NODES", "RUN_CONF_GPU_PER_NODE"),
                *("GSW_ROW", "GSW_ROW_CASE", "GSW_BASELINE_FILE", "SLURM_JOB_ID", "SLURM_JOBID", "SBATCH_WAIT"),
            )
        ),
        *(
            (
                "sbatch",
                f"['{given}']",
                f"got '{given}', wanted options of one list entry each, such as --qos=acceptance",
            )
            for given in ("qos=high", "acceptance", "", "-", "--", "launch.sh")
        ),
        *(
            ("sbatch", f"['{entry}']", f"got {option}, which breaks the launch contract: {why}; leave it out")
            for entry, option, why in (
                ("--array=1-3", "--array", "each row is one job"),
                ("--wait", "--wait", "sbatch must answer before the job has ended"),
                ("-HW", "-W", "sbatch must answer before the job has ended"),
                ("--parsable", "--parsable", "it is always given"),
                ("--job-name=x", "--job-name", "each row has a job name of its own"),
                ("--nodes=4", "--nodes", "the row's GPUs determine it"),
                ("--export=NONE", "--export", "the launch script needs the whole environment"),
                ("--export-file=x", "--export-file", "the launch script needs the whole environment"),
                ("--test-only", "--test-only", "no job would run; --gsw-plan submits nothing"),
                ("--wrap=true", "--wrap", "what runs is the recipe's launch script"),
                ("--chd=/x", "--chd", "jobs run in the recipe's directory"),
            )
        ),
    ],
)
def test_a_value_that_breaks_the_launch_contract(find: Find, key: str, written: str, problem: str) -> None:
    with pytest.raises(FileError) as error:
        find("a", f"clusters:\n  a:\n    scheduler: slurm\n    {key}: {written}\n", environ=ENVIRON)
    (fault,) = error.value.faults
    assert (fault.line, fault.key.partition(".a.")[2].partition(".")[0], fault.problem) == (4, key, problem)


@pytest.mark.parametrize(
    "entry", ["--wait-all-nodes=1", "--nodelist=n1", "--export-x", "-n8", "-pbatch", "-H", "-t 5", "-Meos", "--no-kill"]
)
def test_other_options_are_handed_on(find: Find, entry: str) -> None:
    cluster = find("a", f"clusters: {{a: {{scheduler: slurm, sbatch: ['{entry}']}}}}\n")
    assert cluster.submission.sbatch == (entry,)


def test_other_variables_are_handed_on(find: Find) -> None:
    environment = {"SLURM_CPU_BIND": "none", "GSW_PYTHON": "python3", "ENABLE_PROFILE": "false"}
    given = ", ".join(f"{name}: '{value}'" for name, value in environment.items())
    assert find("a", f"clusters: {{a: {{scheduler: slurm, environment: {{{given}}}}}}}\n").environment == environment


@pytest.mark.parametrize("key", CLUSTER_KEYS)
def test_every_key_is_read(key: str) -> None:
    here = Path(clusters.__file__)
    texts = [path.read_text() for path in here.parent.rglob("*.py") if path != here]
    read = re.compile(rf"(cluster|submission|checks|site)\.{key}\b")
    assert any(map(read.search, texts))


BARE = "clusters: {a: {scheduler: slurm}}\n"
OF_SLURM = {"SLURM_ACCOUNT": "eng", "SLURM_PARTITION": "batch", "SLURM_GPUS_PER_NODE": "8"}
TOLD = {"submission": Submission(account="eng", partition="batch"), "gpus_per_node": 8}


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, {}),
        (OF_SLURM | {"STAGE_PATH": "/stage"}, {**TOLD, "stage": "/stage"}),
        (
            OF_SLURM | {"SBATCH_ACCOUNT": "sb", "SBATCH_PARTITION": "p"},
            {**TOLD, "submission": Submission(account="sb", partition="p")},
        ),
        (OF_SLURM | {"SBATCH_GPUS_PER_NODE": "4"}, {**TOLD, "gpus_per_node": 4}),
        ({"SLURM_ACCOUNT": "", "SLURM_GPUS_PER_NODE": "null", "STAGE_PATH": ""}, {}),
        ({"SLURM_GPUS_PER_NODE": "h100:8"}, {}),
        ({"SLURM_GPUS_PER_NODE": "0"}, {}),
    ],
)
def test_what_a_file_leaves_out_the_documents_variables_say(
    find: Find, environ: dict[str, str], expected: dict[str, Any]
) -> None:
    assert find("a", BARE, environ=environ) == Cluster("a", "slurm", path=Path("1.yaml"), **expected)


def test_what_a_file_says_is_not_overridden_by_variables(find: Find) -> None:
    environ = {**ENVIRON, "SLURM_ACCOUNT": "other", "SLURM_GPUS_PER_NODE": "4", "STAGE_PATH": "/other"}
    assert find("eos", EOS, environ=environ) == find("eos", EOS, environ=ENVIRON)


def test_the_demo_needs_no_file() -> None:
    assert find_cluster("demo", [], {}) == DEMO
    assert (DEMO.scheduler, DEMO.gpus, DEMO.simulated, len(DEMO.nodes)) == ("local", 4608, True, 16)
    assert [node for node, leaf in DEMO.nodes.items() if leaf == "leaf2"] == [
        "demo-05",
        "demo-06",
        "demo-07",
        "demo-08",
    ]


def test_a_file_can_define_a_demo_of_its_own(find: Find) -> None:
    cluster = find("demo", "clusters: {demo: {scheduler: slurm}}\n")
    assert (cluster.scheduler, cluster.simulated) == ("slurm", False)


def test_an_unknown_cluster(find: Find) -> None:
    find("a", BARE, "clusters: {selene: {scheduler: slurm}}\n")
    with pytest.raises(ConfigurationError) as error:
        find_cluster("eod", [Path("1.yaml"), Path("2.yaml"), Path("3.yaml")], {}, others=["eos"])
    assert str(error.value) == (
        "no cluster 'eod'; did you mean 'eos'?\n"
        "known: a, demo, eos, local, selene\n"
        "looked in:\n"
        "  1.yaml\n"
        "  2.yaml\n"
        "  3.yaml (not there)\n"
        "next: define 'eod' in one of these files, or give another with --gsw-clusters=FILE"
    )


SEVERAL_FAULTS = """\
clusters:
  a: {scheduler: Slurm, acount: eng, gpus_per_node: eight}
  b: {tolerance: 3, sbatch: --qos=x}
"""


@pytest.mark.parametrize(
    ("content", "faults"),
    [
        (f"{BARE}limits: {{}}\n", ["2:1     limits: unknown key"]),
        (
            "defaults: {account: eng, stall: x}\n",
            [
                "1:12    defaults.account: unknown key",
                "1:33    defaults.stall: got 'x', wanted a number of minutes such as 30",
            ],
        ),
        ("a: {scheduler: slurm}\n", ["1:1     is of another kind, by its keys a: wanted defaults, clusters"]),
        (
            SEVERAL_FAULTS,
            [
                (
                    "2:18    clusters.a.scheduler: got 'Slurm', wanted slurm, local, or a name that a plugin provides; "
                    "did you mean 'slurm'?"
                ),
                "2:25    clusters.a.acount: unknown key; did you mean 'account'?",
                "2:53    clusters.a.gpus_per_node: got 'eight', wanted a whole number above 0, such as 64",
                "3:6     clusters.b: missing 'scheduler'",
                "3:18    clusters.b.tolerance: got '3', wanted a percentage such as 5%",
                "3:29    clusters.b.sbatch: wanted a list",
            ],
        ),
        (
            "clusters: {a: {scheduler: slurm, sbatch: [[-x]], environment: {B-C: 1}}}\n",
            [
                "1:43    clusters.a.sbatch[0]: wanted a text",
                "1:64    clusters.a.environment.B-C: wanted a name of letters, digits and '_'",
            ],
        ),
    ],
)
def test_a_file_of_clusters_that_is_wrong(find: Find, content: str, faults: list[str]) -> None:
    with pytest.raises(FileError) as error:
        find("eos", content)
    noun = "problem" if len(faults) == 1 else "problems"
    assert str(error.value) == "\n".join([f"1.yaml: {len(faults)} {noun}", *(f"  1.yaml:{fault}" for fault in faults)])


def test_keys_that_a_launcher_does_not_use_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "clusters.yaml"
    path.write_text(
        "clusters:\n  here:\n    scheduler: local\n    gpus: 8\n    partition: batch\n    sbatch: [--qos=x]\n    stage: s\n"
    )
    cluster = find_cluster("here", [path], {"SLURM_ACCOUNT": "eng"})
    check_keys(cluster, "own", {"partition", "sbatch"})
    with pytest.raises(FileError) as found:
        check_keys(cluster, "local", ())
    why = "the launcher 'local' of the scheduler 'local' does not use it; leave it out"
    assert str(found.value).splitlines() == [
        f"{path}: 2 problems",
        f"  {path}:5:16    clusters.here.partition: {why}",
        f"  {path}:6:13    clusters.here.sbatch: {why}",
    ]
