"""pytest's hooks, each a few lines. Modules for rows are imported only by sessions that have rows.

A session has rows if an option of ``--gsw-*`` or its ini twin is given, or if it encounters one of our tables.
The hooks of such a session are those of :mod:`pytest_gsw.session.hooks`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pluggy
import pytest

from pytest_gsw import hookspecs
from pytest_gsw.session.options import COMMAND_LINE, OPTIONS, add_options, are_given

if TYPE_CHECKING:
    from pytest_gsw.clusters import Cluster
    from pytest_gsw.jobs.launcher import Launcher
    from pytest_gsw.jobs.model import JobSpec
    from pytest_gsw.logs.model import LogFormat
    from pytest_gsw.session.collect import BaselineFile
    from pytest_gsw.session.judging import JudgedLog
    from pytest_gsw.stats.cluster_effect import ClusterEffect
    from pytest_gsw.stats.measurement import Measurement
    from pytest_gsw.stats.noise import Noise
    from pytest_gsw.stats.repeats import Repeats
    from pytest_gsw.stats.verdict import Verdict
    from pytest_gsw.tables.model import Accepted, Baseline

#: Further plugins of a session with rows: its hooks, and those of NVIDIA's recipes.
_HOOKS = "pytest_gsw.session.hooks"
_WING = "pytest_gsw.nvidia.plugin"
#: The names of all options, without what each begins with.
_NAMES = {option.name for option in OPTIONS}
_DISABLED_BY = {_HOOKS: "judging", _WING: "launching"}


# pytest finds the modules of an installed plugin itself, but not those of an editable install.
pytest.register_assert_rewrite("pytest_gsw.testing")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--gsw-*`` and their ini twins."""
    add_options(parser)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Add the hooks of docs/hooks.md."""
    pluginmanager.add_hookspecs(hookspecs)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> Generator[None, object, object]:
    """If rows are requested, add their hooks before those of any conftest.py: the last ones added are called first.

    Once all are loaded, refuse options ``--gsw-*`` that are unknown, and hooks with unknown arguments.
    """
    if are_given(early_config, early_config.known_args_namespace):
        _add(early_config, _HOOKS)
    if early_config.pluginmanager.has_plugin(COMMAND_LINE):
        _add(early_config, _WING)
    try:
        result = yield
    except pluggy.PluginValidationError as error:
        _check_hooks([error.plugin])
        raise
    unknown = [hook for hook in vars(early_config.pluginmanager.hook).values() if hook.spec is None]
    unknown = [hook for hook in unknown if hook.name.startswith("pytest_gsw_")]
    _check_hooks(impl.plugin for hook in unknown for impl in hook.get_hookimpls() if not impl.optionalhook)
    if any(map(_is_meant, args)):
        words = (word.partition("=")[0] for word in parser.parse_known_and_unknown_args(args)[1])
        flags = [option.flag for option in OPTIONS]
        _refuse(early_config, (("option ", word) for word in words if _is_meant(word)), flags)
    _refuse(early_config, _keys(early_config))
    return result


def _is_meant(word: str) -> bool:
    """True for an option of this plugin, however it is written: ``--gsw_cluster``, ``--cluster``."""
    return word.startswith("--") and (word.startswith("--gsw") or word[2:].partition("=")[0] in _NAMES)


def _keys(config: pytest.Config) -> Iterator[tuple[str, str]]:
    """The keys ``gsw_*`` of the ini file and of ``-o``, each behind its place."""
    path, section = config.inipath, ""
    text = path.read_text(encoding="utf-8", errors="replace") if path else ""
    for number, line in enumerate(text.splitlines() if "gsw_" in text else (), 1):
        section = line if line.startswith("[") else section
        if path and line.startswith("gsw_") and "pytest" in section:
            yield f"{path.name}:{number}:1: key ", line.partition("=")[0].strip()
    given = getattr(config.known_args_namespace, "override_ini", None) or ()
    known = _NAMES if _has_rows(config) else ()  # in other sessions "stall" may be a key of anybody
    keys = (word.partition("=")[0] for word in given)
    yield from (("key ", key) for key in keys if key.startswith("gsw") or key.replace("_", "-") in known)


def _refuse(config: pytest.Config, given: Iterable[tuple[str, str]], known: Collection[str] = ()) -> None:
    """Refuse options (``known`` are this plugin's), or keys of the ini file, that no plugin has."""
    keys = [option.ini for option in OPTIONS]
    for place, name in given:
        if name in keys:  # whose value is checked when it is read
            continue
        with contextlib.suppress(ValueError):
            config.getini(name)
            continue
        from pytest_gsw.clusters import SETTINGS_FIELDS
        from pytest_gsw.tables.value_types import nearest

        setting = name.lstrip("-").replace("-", "_").removeprefix("gsw_")
        is_setting = setting in SETTINGS_FIELDS and f"gsw_{setting}" not in keys
        near = f"; write it into clusters.yaml, as defaults: {{{setting}: VALUE}}" if is_setting else ""
        near = near or nearest(name, known or keys)
        raise pytest.UsageError(f"{place}{name} is unknown{near}\nnext: pytest --help lists all of them")


def _check_hooks(plugins: Iterable[object]) -> None:
    """Refuse implementations of hooks ``pytest_gsw_*`` of a wrong name, or with wrong arguments."""
    for plugin in plugins:
        from pytest_gsw.hook_checks import wrong_hook  # most sessions have none to check

        problem = wrong_hook(plugin, vars(hookspecs))
        if problem is not None:
            raise pytest.UsageError(problem)


def pytest_configure(config: pytest.Config) -> None:
    """Describe the markers, and begin if rows are requested."""
    config.addinivalue_line(
        "markers",
        "gsw(workload, model, size, framework, dtype, accelerator, gpus, nodes, …): the facts of a documented "
        "row, to select by: -m \"gsw(gpus=64, dtype='fp8')\"",
    )
    config.addinivalue_line("markers", "proxy: the row is a smaller stand-in for the full model")
    config.addinivalue_line("markers", "canary: the row says whether the cluster is in its usual state")
    if _has_rows(config) or are_given(config, config.option) or any(map(_is_row_name, config.args)):
        _begin(config)
    if config.pluginmanager.has_plugin("pytester"):
        # pytester drops the modules that a session within this process imports, but their packages keep them: the
        # next session would have some of them twice. Modules imported here are not dropped.
        from pytest_gsw.jobs import local  # noqa: F401
        from pytest_gsw.jobs.slurm import launcher  # noqa: F401
        from pytest_gsw.session import hooks, reports, row, runner  # noqa: F401


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> BaselineFile | None:
    """Collect baseline tables: YAML files below the baselines' directories, or named on the command line."""
    if file_path.suffix not in {".yaml", ".yml"}:
        return None
    if not _has_rows(parent.config) and not _is_table(file_path, parent.config):
        return None
    from pytest_gsw.session.hooks import collect_table

    try:
        _begin(parent.config)
    except pytest.UsageError as error:  # not caused by an option: for example, an invalid $GSW_HISTORY
        raise parent.CollectError(str(error)) from None
    return collect_table(file_path, parent)


def _is_table(path: Path, config: pytest.Config) -> bool:
    """True if a YAML file is a table although no option names it."""
    from pytest_gsw.session.node_ids import node_id_of
    from pytest_gsw.tables.bundled import bundled_baselines

    return node_id_of(path, config, [bundled_baselines()]) is not None


def _is_row_name(argument: str) -> bool:
    """True for ``llama2_70b_fp8[H100x128]`` in place of a path, which the settings refuse with the right option."""
    return argument.endswith("]") and "::" not in argument and not os.path.exists(argument)  # noqa: PTH110 - startup


def _has_rows(config: pytest.Config) -> bool:
    return config.pluginmanager.has_plugin(_HOOKS)


def _add(config: pytest.Config, name: str) -> None:
    if not config.pluginmanager.has_plugin(name) and config.pluginmanager.register(import_module(name), name) is None:
        raise pytest.UsageError(
            f"-p no:{name} disables the {_DISABLED_BY[name]} of rows\n"
            "next: leave it out; -p no:pytest_gsw.plugin leaves out the whole plugin"
        )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config) -> None:
    """Say what a session lacks that selects rows and names no cluster."""
    if exitstatus != pytest.ExitCode.NO_TESTS_COLLECTED or _has_rows(config):
        return
    keyword, has_file = config.option.keyword, (config.invocation_params.dir / "clusters.yaml").exists()
    if not (has_file or keyword):
        return
    from pytest_gsw.common.text import command
    from pytest_gsw.tables.bundled import has_model

    if has_file or has_model(keyword):
        session = command("pytest", "--gsw-cluster=NAME", *(("-k", keyword) if keyword else ()))
        terminalreporter.write_line(f"gsw: rows run on a cluster, and none is named\nnext: {session}")


def _begin(config: pytest.Config) -> None:
    from pytest_gsw.session.hooks import begin

    _add(config, _WING)
    begin(config)
    _add(config, _HOOKS)


@pytest.fixture
def gsw_judge(request: pytest.FixtureRequest) -> Callable[..., JudgedLog]:
    """Judge a log as a run of a documented row, ``gsw_judge(LOG, ROW)``: the test fails unless the row is green.

    It takes the arguments of :func:`pytest_gsw.judge`; with ``check=False`` the test itself looks at the outcome.
    """
    _add(request.config, _WING)
    from pytest_gsw.session.judge_fixture import judge_for

    return judge_for(request.config, request.node)


# -- the built-in implementations of the hooks of docs/hooks.md -------------------------------


@pytest.hookimpl(trylast=True)
def pytest_gsw_make_launcher(config: pytest.Config, cluster: Cluster, run_directory: Path) -> Launcher | None:
    """The built-in launchers; the batch shells of jobs on this machine write to the run's directory."""
    from pytest_gsw.jobs.spec import session_environment
    from pytest_gsw.session.state import SESSION

    state, directory = config.stash.get(SESSION, None), run_directory / "batch"
    environ = session_environment() if state is None else state.environ
    if cluster.mirror is not None:
        from pytest_gsw.jobs.ssh.launcher import SshLauncher
        from pytest_gsw.jobs.ssh.login import login_to

        return SshLauncher(login_to(cluster), directory)
    if cluster.scheduler == "slurm":
        from pytest_gsw.jobs.run_lock import SubmissionLock
        from pytest_gsw.jobs.slurm.launcher import SlurmLauncher

        return SlurmLauncher(environ, lock=SubmissionLock(run_directory.name), work_directory=directory)
    if cluster.scheduler == "local":
        from pytest_gsw.clusters import uses_gpus
        from pytest_gsw.jobs.local import LocalLauncher

        return LocalLauncher(
            cluster.gpus or len(list(Path("/dev").glob("nvidia[0-9]*"))),
            work_directory=directory,
            real_gpus=uses_gpus(cluster),
            nodes=tuple(cluster.nodes),
            down=cluster.down,
            # Simulated jobs sleep; each needs a core only for the start of its Python.
            max_processes=(8 if cluster.simulated else 2) * (os.cpu_count() or 1),
            environ=environ,
        )
    return None


@pytest.hookimpl(trylast=True)
def pytest_gsw_make_job_spec(config: pytest.Config, baseline: Baseline, cluster: Cluster) -> JobSpec:
    """The recipe's own launch contract."""
    from pytest_gsw.jobs.spec import make_job_spec
    from pytest_gsw.session.state import settings_of

    settings = settings_of(config)
    return make_job_spec(
        baseline, cluster, run_id=settings.run_id, profile=settings.profile, time_limit_s=settings.jobs.time_limit_s
    )


@pytest.hookimpl(trylast=True)
def pytest_gsw_log_format(config: pytest.Config, baseline: Baseline) -> LogFormat | None:
    """The log formats that are part of pytest-gsw."""
    from pytest_gsw.logs.formats.registry import format_of

    criterion = baseline.criterion
    return format_of(baseline.workload.log_format, criterion.read, criterion.key_at(criterion.metric))


@pytest.hookimpl(trylast=True)
def pytest_gsw_peak_flops(config: pytest.Config, accelerator: str, dtype: str) -> float | None:
    """The table of peaks in :mod:`pytest_gsw.stats.figures`."""
    from pytest_gsw.stats.figures import peak_flops

    return peak_flops(accelerator, dtype)


@pytest.hookimpl(trylast=True)
def pytest_gsw_judge(
    config: pytest.Config,
    baseline: Baseline,
    measurement: Measurement,
    tolerance: float,
    accepted: Accepted | None,
    noise: Noise | None,
    repeats: Repeats,
    max_gain: float,
    cluster_effect: ClusterEffect | None,
) -> Verdict:
    """The tolerance on throughput, the noise between jobs, and plausible gains; see docs/decisions.md."""
    from pytest_gsw.stats.verdict import verdict_of

    return verdict_of(baseline, measurement, tolerance, accepted, noise, repeats, max_gain, cluster_effect)
