"""The rows that a session runs, and what the user selected in vain."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import pytest

from pytest_gsw.clusters import why_it_does_not_fit
from pytest_gsw.common.files import relative_path
from pytest_gsw.common.text import command, enumerated, plural
from pytest_gsw.session import release_choice, tiles
from pytest_gsw.session.collect import FACTS, BaselineItem, BlankItem
from pytest_gsw.session.settings import Settings
from pytest_gsw.session.state import SESSION
from pytest_gsw.tables.bundled import bundled_baselines, bundled_releases, models_like
from pytest_gsw.tables.releases import format_releases
from pytest_gsw.tables.value_types import misspelt, nearest


def runnable(items: Iterable[pytest.Item]) -> list[BaselineItem]:
    """The rows to run: neither this plugin nor another one has marked them to be skipped."""
    return [item for item in items if isinstance(item, BaselineItem) and not any(map(_is_skipped, item.iter_markers()))]


def _is_skipped(mark: pytest.Mark) -> bool:
    """True if a marker prevents a row from running; conditions in words are left to pytest."""
    if mark.name == "skipif":
        return any(bool(condition) for condition in mark.args if not isinstance(condition, str))
    return mark.name == "skip" or (mark.name == "xfail" and not mark.args and mark.kwargs.get("run", True) is False)


def leave_out_others(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect rows for other accelerators than the cluster's, in one line; if none is left, with the next command."""
    settings = config.stash[SESSION].settings
    cluster, rows = settings.cluster, [item for item in items if isinstance(item, (BaselineItem, BlankItem))]
    names = {_accelerator_of(item) for item in rows if cluster is not None}
    others = {str(name) for name in names if cluster and why_it_does_not_fit(name, None, cluster)}
    if cluster is None or not others:
        return
    dropped = [item for item in rows if _accelerator_of(item) in others]
    deselect(config, items, dropped)
    what = f"{plural(len(dropped), 'row')} for {enumerated(sorted(others))}"
    lines = [f"gsw: {what} left out: {cluster.name} has {cluster.accelerator}"]
    if dropped == rows:
        there, step = release_choice.bundled_rows(cluster, settings.release)
        correct = f"next: correct 'accelerator' in {relative_path(dropped[0].path)}, or name a cluster that has it"
        is_bundled = dropped[0].path.is_relative_to(bundled_baselines())
        lines += [f"gsw: {there}", f"next: {step}"] if is_bundled else [correct]
    config.stash[SESSION].notes += lines


def leave_out_unfit(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect rows that the tiles do not fit, in one line with those that do."""
    tiling = config.stash[SESSION].tiling
    if tiling is not None:
        unfit = [item for item in items if isinstance(item, BaselineItem) and not item.baseline.tile]
        config.stash[SESSION].notes += tiles.unfit_lines(tiling, [item.baseline for item in unfit])
        deselect(config, items, [item for item in unfit if item.baseline.id in {*tiling.unfit, *tiling.fitting}])


def _accelerator_of(item: BaselineItem | BlankItem) -> str | None:
    return item.baseline.accelerator if isinstance(item, BaselineItem) else item.blank.known.get("accelerator")


def deselect(config: pytest.Config, items: list[pytest.Item], dropped: Sequence[pytest.Item]) -> None:
    """Leave items out of the session, counted by pytest as deselected."""
    if gone := set(dropped):
        items[:] = [item for item in items if item not in gone]
        config.hook.pytest_deselected(items=dropped)


def are_rows_named(config: pytest.Config) -> bool:
    """True if the user chose rows or tables, all of which are to be judged; False for the bundled ones by default."""
    settings = config.stash[SESSION].settings
    is_bundled = settings.suite is None and settings.baselines[0].is_relative_to(bundled_baselines())
    return not is_bundled or bool(config.option.file_or_dir) or is_selective(config)


def is_selective(config: pytest.Config) -> bool:
    """True if the command line chooses among the rows of files."""
    return any(getattr(config.option, name, None) for name in ("keyword", "markexpr", "deselect", "lf", "stepwise"))


def none_selected(session: pytest.Session, items: Iterable[pytest.Item]) -> Iterator[str]:
    """Lines for a session without rows: words of ``-k`` and ``-m`` that no row has, and the nearest ones.

    ``items`` are those before the selection.
    """
    config, rows = session.config, [item for item in items if isinstance(item, (BaselineItem, BlankItem))]
    keyword, expression, ids = config.option.keyword, config.option.markexpr, [row.name for row in rows]
    settings = config.stash[SESSION].settings
    tables = settings.baselines
    if not rows and not session.testsfailed:
        yield f"gsw: there is no row in {enumerated(map(str, map(relative_path, tables)))}; tables are .yaml files"
    if not rows or not (keyword or expression):
        return
    pieces = [re.split(r"[_\[\]]", name) for name in ids]
    known = {*ids, *("_".join(part[:n]) for part in pieces for n in range(1, len(part))), *chain.from_iterable(pieces)}
    names = "\n".join(row.nodeid for row in rows).lower()
    words = [word for word in re.findall(r"[^\s()]+", keyword) if word not in {"and", "or", "not"}]
    problems = [f"-k: no row has '{word}'{nearest(word, known)}" for word in words if word.lower() not in names]
    problems += [f"-m: {problem}" for problem in _marker_problems(config, expression, rows)]
    given = [f"-k '{keyword}'" if keyword else "", f"-m '{expression}'" if expression else ""]
    yield from (f"gsw: {problem}" for problem in problems or [f"no row matches {' '.join(filter(None, given))}"])
    if not tables[0].is_relative_to(bundled_baselines()):
        yield f"next: {command('pytest-gsw', 'rows', *map(str, map(relative_path, tables)))}"
        return
    there = {row.path for row in rows}
    missed = [word for word in words if word.lower() not in names and not models_like(word, there)]
    having = [release for release, own in bundled_releases().items() if any(models_like(word, own) for word in missed)]
    if having:
        yield f"gsw: other releases have it: {', '.join(having)}"
        options = settings.cluster.options if settings.cluster else ()
        yield f"next: {command('pytest', *options, f'--gsw-release={having[-1]}', '-k', keyword)}"
    else:
        yield "next: pytest-gsw rows"


def _marker_problems(config: pytest.Config, expression: str, rows: Sequence[pytest.Item]) -> Iterator[str]:
    """Markers, and facts of rows, in ``-m`` that no row has."""
    try:
        nodes = [*ast.walk(ast.parse(expression or "gsw", mode="eval"))]
    except SyntaxError:  # pytest allows words such as 3b
        return
    known = {re.split(r"[(:]", line)[0].strip() for line in config.getini("markers")}
    yield from (
        f"unknown marker '{node.id}'{nearest(node.id, known)}"
        for node in nodes
        if isinstance(node, ast.Name) and node.id not in known
    )
    for node in nodes:
        if not isinstance(node, ast.keyword) or not isinstance(node.value, ast.Constant):
            continue
        name, value = str(node.arg), node.value.value
        there = {mark.kwargs.get(name) for row in rows for mark in row.iter_markers("gsw")} - {None}
        if name not in FACTS:
            yield f"no row has a fact '{name}'{nearest(name, FACTS)}"
        elif value not in there:
            near = misspelt(repr(value), [*map(repr, there)])
            yield f"no row has {name}={value!r}" + (f"; did you mean {near[0]}?" if near else "")


def check_faults(items: list[BaselineItem], settings: Settings) -> None:
    """Check that every fault of ``--gsw-demo`` matches a row: without a match, all rows would look healthy."""
    if not settings.faults:
        return
    from pytest_gsw.demo.simulation import parse_faults

    faults = parse_faults(";".join(settings.faults))
    nodes = settings.cluster.nodes if settings.cluster is not None else {}
    missed = [fault.pattern for fault in faults if not any(fault.matches(item.baseline.id, nodes) for item in items)]
    if missed:
        rows = [name for item in items for name in (item.baseline.workload.name, item.baseline.id)]
        rows += [f"node:{node}" for node in nodes]
        lines = [f"no selected row matches '{pattern}'{nearest(pattern, rows)}" for pattern in missed]
        raise pytest.UsageError("\n".join([*(f"--gsw-demo: {line}" for line in lines), "next: pytest-gsw rows"]))


def check_release(items: Iterable[BaselineItem], settings: Settings) -> None:
    """Check that all named rows have figures of the requested release."""
    release = settings.release
    for item in items if release is not None else ():
        own = item.baseline.source.releases
        if own and release not in own:
            raise pytest.UsageError(
                f"release {release} is asked for, and the figures of {item.nodeid} are of {format_releases(own)}\n"
                f"next: name the row with -k '{item.baseline.id.partition('[')[0]}', or ask for --gsw-release={own[-1]}"
            )
