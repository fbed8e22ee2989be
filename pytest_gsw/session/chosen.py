"""Which of the collected rows a session is about: those that run, and of an earlier run those that it had."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import pytest

from pytest_gsw.clusters.model import why_it_does_not_fit
from pytest_gsw.common.words import command, counted, enumerated
from pytest_gsw.demo.faults import parse_faults
from pytest_gsw.session.item import BaselineItem, BlankItem
from pytest_gsw.session.node_ids import row_of
from pytest_gsw.session.release import bundled_rows
from pytest_gsw.session.settings import Settings
from pytest_gsw.session.stash import OF_SELECTION, SETTINGS
from pytest_gsw.tables.fields import nearest
from pytest_gsw.tables.releases import in_words

if TYPE_CHECKING:
    from pytest_gsw.jobs.journal import Past
    from pytest_gsw.results.record import Record

#: What the replayed run recorded, once it was read.
_RECORDED = pytest.StashKey["dict[str, Record] | None"]()


def runnable(items: Iterable[pytest.Item]) -> list[BaselineItem]:
    """The rows that are to run: neither this plugin nor anybody else has marked them as ones that are not."""
    return [item for item in items if isinstance(item, BaselineItem) and not _is_left_out(item)]


def _is_left_out(row: BaselineItem) -> bool:
    """Whether a marker keeps pytest from running a row; conditions in words are pytest's own affair."""
    return any(map(_leaves_out, row.iter_markers()))


def _leaves_out(mark: pytest.Mark) -> bool:
    if mark.name == "skipif":
        return any(bool(condition) for condition in mark.args if not isinstance(condition, str))
    return mark.name == "skip" or (mark.name == "xfail" and not mark.args and mark.kwargs.get("run", True) is False)


def recorded_rows(config: pytest.Config) -> dict[str, Record] | None:
    """What a replayed run's directory recorded, by row; ``None`` if it is no such directory. It is read once."""
    if _RECORDED not in config.stash:
        config.stash[_RECORDED] = _read_recorded(config.stash[SETTINGS])
    return config.stash[_RECORDED]


def _read_recorded(settings: Settings) -> dict[str, Record] | None:
    if settings.replay is None:
        return None
    from pytest_gsw.results.record import read_records

    try:
        if not (settings.replay / "records").is_dir():
            return None
        records = read_records(settings.replay)
    except ValueError as error:
        raise pytest.UsageError(f"--gsw-replay: {error}") from None
    except OSError as error:
        raise pytest.UsageError(f"--gsw-replay: {error.filename}: {error.strerror}") from None
    _check_cluster(settings, records)
    return {record.row.id: record for record in records}


def _check_cluster(settings: Settings, records: Iterable[Record]) -> None:
    """Make sure that a replayed run is not taken for one of another cluster, by whose figures it would be judged."""
    if settings.cluster is None:
        return
    from pytest_gsw.results.facts import NO_CLUSTER

    name = settings.cluster.name
    # A replay without a cluster has left open where its logs are from.
    other = next((record for record in records if record.run.cluster not in {name, NO_CLUSTER}), None)
    if other is not None:
        raise pytest.UsageError(
            f"--gsw-replay: the run {other.run.id} was of the cluster '{other.run.cluster}', not '{name}'\n"
            f"next: give {command(*other.run.cluster_options)}, or leave it out to judge by the document"
        )


def runs_nothing(config: pytest.Config) -> bool:
    """Whether pytest only shows what it would set up."""
    return bool(config.option.setuponly or config.option.setupplan)


def run_before(config: pytest.Config) -> Past | None:
    """The run that is replayed or resumed; of a replayed one only the rows are known, judged or not."""
    settings, recorded = config.stash[SETTINGS], recorded_rows(config)
    if recorded is None or settings.replay is None:
        return settings.past
    from pytest_gsw.jobs.journal import Past
    from pytest_gsw.results.junit_names import read_noted

    node_ids = [*read_noted(settings.replay).classes, *(record.row.node_id for record in recorded.values())]
    return Past("", tuple(dict.fromkeys(node_ids)))


def leave_out_others(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect rows of other accelerators than the cluster's, in one line; if no row is left, with the next command."""
    settings = config.stash[SETTINGS]
    cluster, rows = settings.cluster, [item for item in items if isinstance(item, (BaselineItem, BlankItem))]
    names = {_accelerator_of(item) for item in rows if cluster is not None}
    others = {str(name) for name in names if cluster and why_it_does_not_fit(name, None, cluster)}
    if cluster is None or not others:
        return
    dropped = [item for item in rows if _accelerator_of(item) in others]
    _deselect(config, items, dropped)
    what = f"{counted(len(dropped), 'row')} for {enumerated(sorted(others))}"
    lines = [f"gsw: {what} left out: {cluster.name} has {cluster.accelerator}"]
    if dropped == rows:
        there, step = bundled_rows(cluster, settings.release)
        lines += [f"gsw: {there}", f"next: {step}"]
    tell_of_selection(config, lines)


def _accelerator_of(item: BaselineItem | BlankItem) -> str | None:
    return item.baseline.accelerator if isinstance(item, BaselineItem) else item.blank.known.get("accelerator")


def _deselect(config: pytest.Config, items: list[pytest.Item], dropped: Sequence[pytest.Item]) -> None:
    if gone := set(dropped):
        items[:] = [item for item in items if item not in gone]
        config.hook.pytest_deselected(items=dropped)


def keep_rows_of_run(config: pytest.Config, items: list[pytest.Item], past: Past | None) -> None:
    """Of a run that is replayed or resumed, keep the rows that it had."""
    rows = [item for item in items if isinstance(item, (BaselineItem, BlankItem))]
    if past is not None:
        had = {row_of(node_id) for node_id in past.rows}
        _deselect(config, items, [item for item in rows if item.name not in had])


def tell_of_selection(config: pytest.Config, lines: Iterable[str]) -> None:
    """Have lines told once all is collected."""
    config.stash.setdefault(OF_SELECTION, []).extend(lines)


def check_faults(items: list[BaselineItem], settings: Settings) -> None:
    """Make sure that every fault of ``--gsw-demo`` is some row's: a row that is not broken looks healthy."""
    faults = parse_faults(";".join(settings.faults))
    missed = [fault.pattern for fault in faults if not any(fault.matches(item.baseline.id) for item in items)]
    if missed:
        rows = [name for item in items for name in (item.baseline.workload, item.baseline.id)]
        lines = [f"no selected row matches '{one}'{nearest(one, rows)}" for one in missed]
        raise pytest.UsageError("\n".join(f"--gsw-demo: {line}" for line in lines))


def check_release(items: Iterable[BaselineItem], settings: Settings) -> None:
    """Make sure that no row was named whose figures are of another release than the one that is asked for."""
    release = settings.release
    for item in items if release is not None else ():
        own = item.baseline.source.releases
        if own and release not in own:
            raise pytest.UsageError(
                f"release {release} is asked for, and the figures of {item.nodeid} are of {in_words(own)}\n"
                f"next: name the row with -k '{item.baseline.id.partition('[')[0]}', or ask for --gsw-release={own[-1]}"
            )
