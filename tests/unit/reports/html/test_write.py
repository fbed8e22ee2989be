"""A whole report on the disk: what is in it, and what never is, whatever records and logs say."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from pytest_gsw.common.text import minute
from pytest_gsw.history.alarms import Alarm, Kind, Occurrence, State
from pytest_gsw.jobs.states import JobState
from pytest_gsw.reports.reported_row import home_of, page_names
from pytest_gsw.reports.run_report import ReportedRun
from pytest_gsw.results.record import JobFacts, Record, used_gpu_hours
from pytest_gsw.results.summary import cause_of
from tests.messages import wording
from tests.unit.history.runs import FIRST_S, job, period
from tests.unit.reports.records_of_runs import (
    BROKEN,
    CURRENT_RUN,
    FAST,
    PASSED,
    RUN_ID,
    SLOW,
    attempt,
    failed,
    history_of,
    minute_of,
    row,
    runs,
    write_report,
)
from tests.unit.results.records import PASSED_BY_ACCEPTED, varied

#: The folder of the run's pages.
HOME = home_of(RUN_ID)

HOSTILE = (
    '"><script>alert(1)</script>',
    "javascript:alert(1)",
    "../../x",
    "</title></style><img src=x onerror=alert(1)>",
    "\x00\x07\x1b[2J\x1b]0;title\x07\x9b31m",
    "\u202egnp.exe \u2066 \u200b \ufeff",
    "\N{PILE OF POO} \N{HEBREW LETTER ALEF}",
    "{{7*7}} ${7*7} %(x)s {0}",
    "' style='color:red' onclick='x",
    "]]> <!-- <?php ?> &amp; &#0;",
    "HF_TOKEN=hf_AbCdEfGhIjKlMnOpQrSt0123456789",
)

#: What Jenkins' policy does not let through, or what would run if it did.
_FORBIDDEN_TAGS = frozenset(
    {"script", "style", "iframe", "object", "embed", "form", "base", "img", "use", "foreignobject", "animate", "set"}
)
#: What a picture on a page may be made of: shapes, texts, links, and attributes that place them.
_SHAPES = frozenset({"svg", "title", "rect", "line", "polyline", "polygon", "circle", "text", "a"})
_PLACES = frozenset(
    {"x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "points", "width", "height", "class", "href", "role"}
    | {"aria-label", "aria-hidden", "viewbox", "preserveaspectratio"}
)
_VOID = frozenset({"meta", "link", "img", "br"})
_CSS_LINK = re.compile(r"url\s*\(|@import|https?:", re.IGNORECASE)


class Checked(HTMLParser):
    """Reads a page, and fails at what no page may have."""

    def __init__(self, page: Path, home: Path) -> None:
        super().__init__()
        self.page, self.home = page, home
        self.open: list[str] = []
        self.text: list[str] = []
        self.headings: list[int] = []
        self.ids: list[str] = []
        self.feed(page.read_text(encoding="utf-8"))
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        assert tag not in _FORBIDDEN_TAGS
        assert len(attributes) == len(attrs)
        for name in attributes:
            assert name != "style"
            assert not name.startswith("on")
        for name in ("href", "src"):
            if name in attributes:
                self.check_link(attributes[name] or "")
        if "svg" in self.open or tag == "svg":
            self.check_picture(tag, attributes)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if "id" in attributes:
            self.ids.append(attributes["id"] or "")
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def check_picture(self, tag: str, attributes: dict[str, str | None]) -> None:
        """A picture has a text, and nothing but shapes, texts, links and finite numbers."""
        assert tag in _SHAPES
        assert set(attributes) <= _PLACES
        if "figure" in self.open and self.open[-1] == "figure":
            assert attributes["aria-label"]
            assert attributes["role"] in {"img", "group"}
        for name in _PLACES - {"aria-label", "href", "class"}:
            assert not re.search("nan|inf", attributes.get(name) or "")

    def check_link(self, link: str) -> None:
        """Links lead to files of the report, and to what is on them."""
        parts = urlsplit(link)
        assert not parts.scheme
        assert not parts.netloc
        target = (self.page.parent / unquote(parts.path)).resolve() if parts.path else self.page
        assert target.is_relative_to(self.home.resolve())
        assert target.is_file()
        if parts.fragment:
            assert f'id="{parts.fragment}"' in target.read_text(encoding="utf-8")


def check(home: Path) -> None:
    """Every file of a report is what it is to be."""
    for path in home.rglob("*"):
        if path.is_dir():
            continue
        match path.suffix:
            case ".html":
                page = Checked(path, home)
                assert page.headings[0] == 1
                assert page.headings.count(1) == 1
                pairs = zip(page.headings, page.headings[1:], strict=False)
                assert all(following <= heading + 1 for heading, following in pairs)
                assert len(set(page.ids)) == len(page.ids)
            case suffix:
                assert (suffix, path.name) == (".css", "report.css")
                assert not _CSS_LINK.search(path.read_text())
        assert path.stat().st_size < 1_000_000
        assert re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", path.read_text()) is None


def written(directory: Path, records: Iterable[Record], before: Iterable[Record] | None = None, **facts: Any) -> Path:
    """The first page of a run's report, with a history of the runs before where these are given."""
    with nullcontext() if before is None else history_of(directory, *before) as history:
        index = write_report(records, history, directory / "out", runs=runs(directory, **facts))
    assert index == directory / "out" / "index.html"
    check(index.parent)
    return index


def text_of(page: Path) -> str:
    home = next(folder for folder in page.parents if (folder / "report.css").exists())
    return "".join(Checked(page, home).text)


def test_a_run_with_a_history(tmp_path: Path) -> None:
    before = [row(SLOW.row.id, number) for number in range(CURRENT_RUN)]
    before += [failed(BROKEN.row.id, BROKEN.fact, CURRENT_RUN - 1)]
    index = written(tmp_path, [PASSED, SLOW, BROKEN], before)
    text = text_of(index)
    assert f"this run; before that throughput +0.0\N{NO-BREAK SPACE}% at {minute_of(CURRENT_RUN - 1)}" in text
    runs_page = text_of(index.parent / "runs.html")
    assert f"night-{CURRENT_RUN - 1:03}✖ 1✔ 12night" in runs_page
    assert "3 rows in 30 runs before this one, the newest first" in text
    page = index.parent / HOME / "rows" / "llama2_70b_fp8_H100x128.html"
    assert "The newest 14 of 46 runs" in text_of(page)
    assert "Step time of 46 runs (s)" in text_of(page)


def test_what_is_broken_comes_before_what_drifts_and_an_alarms_figure_says_what_it_is_of(tmp_path: Path) -> None:
    seen = Occurrence("night-007", FIRST_S, math.log(4.7))
    drift = period(seen, kind=Kind.DRIFT, subject="a_row_that_drifts", usual=math.log(4.5), last_s=FIRST_S)
    over = replace(drift, kind=Kind.REGRESSION, subject="a_mended_row", fixed_s=FIRST_S, fixed_by=SLOW.run.id)
    alarms = (Alarm("1f0c92ab", drift, State.NEW, pages=True), Alarm("2f0c92ab", over, State.FIXED, pages=False))
    index = written(tmp_path, [SLOW], [row(SLOW.row.id, CURRENT_RUN - 1)], alarms=alarms)
    text, change = text_of(index), "\N{MINUS SIGN}4.3 %"
    text = text.replace("\N{NO-BREAK SPACE}", " ")
    assert f"New (1)↘ 1f0c92ab  new drift of a_row_that_drifts: {change} vs usual since 2026-11-01" in text
    assert "1 run (45 days)" in text
    # A sign of what is wrong is of what is wrong now.
    assert f"Fixed (1)1 alarm✔ 2f0c92ab  regression of a_mended_row: fixed {minute(FIRST_S)}" in text
    assert "No alarm is ongoing." in text


def test_the_first_page_leads_from_what_is_wrong_to_what_to_type(tmp_path: Path) -> None:
    other = varied(PASSED, row="llama2_70b_bf16[H100x256]", node_id="t::lost", gpus=256)
    good = [row(name, number) for number in range(30, CURRENT_RUN) for name in (SLOW.row.id, BROKEN.row.id)]
    text = text_of(written(tmp_path, [SLOW, PASSED, BROKEN, other], good)).replace("\N{NO-BREAK SPACE}", " ")
    assert "rows2 of 4 at ≥ 95 % of the document (50.0 %)" in text
    assert "Rows that need no attention in 16 runs (%)" in text
    used = sum(map(used_gpu_hours, (SLOW, PASSED, BROKEN, other)))
    assert f"GPU-hours{used:,.1f} used, {used_gpu_hours(BROKEN):,.1f} of them lost in failed jobs" in text
    fact = cause_of(BROKEN)
    places = [
        text.index(part)
        for part in (
            "GPU-hours",
            *("What to type next", "What needs attention", f"1 row: {fact}", "Rows by run", "All rows"),
        )
    ]
    assert places == sorted(places)


def test_an_alarm_that_stands_is_said_where_no_row_is_broken(tmp_path: Path) -> None:
    seen = Occurrence("night-044", FIRST_S, math.log(5.0))
    slow = period(seen, subject=PASSED.row.id, usual=None, is_newest=False, last_s=FIRST_S, good_runs=1, ends_after=2)
    before = row(PASSED.row.id, CURRENT_RUN - 1, 5.0, outcome="regressed")

    def told(alarm: Alarm) -> str:
        with history_of(tmp_path, before) as history:
            return text_of(write_report([PASSED], history, tmp_path / "out", runs=runs(tmp_path, alarms=(alarm,))))

    is_active = told(Alarm("1f0c92ab", slow, State.ONGOING, pages=True))
    assert "Nothing needs attention." not in is_active
    assert "\N{HEAVY CHECK MARK} No row needs attention; 1 active alarm." in is_active
    ongoing = f"Ongoing (1)▼ 1f0c92ab  ongoing (1 of 2 passes) regression of {PASSED.row.id}: since {minute(FIRST_S)}"
    assert f"{ongoing}, 1 run (45 days)" in is_active
    assert is_active.startswith("\n" + wording("one since", count=1, rows="1 row on eos"))
    # Of an incident that this run is without, the page has nothing in the present tense.
    incident = replace(slow, kind=Kind.INCIDENT, subject="cluster eos", usual=math.log(4.5), good_runs=0)
    was = f"incident of cluster eos: \N{MINUS SIGN}10.0 % vs usual since {minute(FIRST_S)}"
    assert was in told(Alarm("2f0c92ab", incident, State.ONGOING, pages=True)).replace("\N{NO-BREAK SPACE}", " ")
    over = told(Alarm("1f0c92ab", replace(slow, fixed_s=FIRST_S), State.FIXED, pages=False))
    assert "Nothing needs attention." in over
    assert "Fixed (1)" not in over  # an earlier run has said so
    assert "1 alarm of the last days, fixed or gone" in over


def test_a_run_that_was_judged_by_another_figure_has_no_change_against_the_present_one(tmp_path: Path) -> None:
    """A cluster that accepts 5 s does not make a loss of 10 % one of nothing."""
    before = [row(SLOW.row.id, 43, 4.6), row(SLOW.row.id, 44, 5.0, outcome="regressed")]
    accepted = varied(SLOW, outcome="passed", accepted={"step_time_s": 5.0})
    index = written(tmp_path, [accepted], before)
    text = text_of(index.parent / HOME / "rows" / "llama2_70b_fp8_H100x128.html").replace("\N{NO-BREAK SPACE}", " ")
    assert "3 runs; the accepted figure is 5 swhenverdictthroughput (%)step time (s)against (s)nodes" in text
    assert "\u2714 passed+0.05.0005.000" in text
    assert "\u25bc regressed5.000pool0" in text
    assert "\u2714 passed4.600pool0" in text


def of_three_jobs(number: int, *jobs_s: float, **changes: Any) -> Record:
    """A row's run of which the second job was the median."""
    ran = [job(number, s, id=f"{number}00{n}", nodes=f"pool0-001{n}") for n, s in enumerate(jobs_s, 1)]
    told = {"outcome": "regressed", "repeats": (ran[0], ran[1]), "job": ran[2], **changes}
    return row(SLOW.row.id, number, jobs_s[1], **told)


def test_a_run_of_several_jobs_has_one_figure_on_all_pages_and_the_nodes_of_all_its_jobs(tmp_path: Path) -> None:
    before, current_run = of_three_jobs(CURRENT_RUN - 1, 5.3, 5.2, 5.1), of_three_jobs(CURRENT_RUN, 5.05, 5.0, 4.98)
    good = of_three_jobs(CURRENT_RUN - 2, 4.8, 4.5, 4.4, outcome="passed")
    index = written(tmp_path, [current_run], [good, before])
    page = index.parent / HOME / "rows" / "llama2_70b_fp8_H100x128.html"
    text, first = text_of(page), text_of(index)
    nodes = "pool0-0011, pool0-0012, pool0-0013"
    change = "\N{MINUS SIGN}10.0\N{NO-BREAK SPACE}%"
    jobs = f"{CURRENT_RUN}001,\n{CURRENT_RUN}002,\n{CURRENT_RUN}003"
    lines = nodes.replace(" ", "\n")
    run = f"▼ regressed\N{MINUS SIGN}10.05.0004.500{lines}{jobs}{RUN_ID}"
    assert run in text
    assert "▼ regressed\N{MINUS SIGN}13.55.2004.500pool0-0011" in text
    assert (
        f"5 s, {minute_of(CURRENT_RUN)}, median of jobs {CURRENT_RUN}001, {CURRENT_RUN}002, {CURRENT_RUN}003, regressed"
        in text
    )
    for of_page in (text, first):
        assert f"{change} throughput" in of_page
        assert f"nodes of 3 jobs{nodes}" in of_page
        assert f"before that throughput +0.0\N{NO-BREAK SPACE}% at {minute_of(CURRENT_RUN - 2)}" in of_page
    assert f"{lines}{jobs}" in first.partition("the worst first")[2]


def test_the_pages_of_a_row_in_several_runs_lead_to_each_other(tmp_path: Path) -> None:
    runs = [row(SLOW.row.id, 3, outcome="regressed"), row(SLOW.row.id, 4), SLOW]
    with history_of(tmp_path, *runs) as history:
        index = write_report(runs, history, tmp_path / "out")
    check(index.parent)
    name = "rows/llama2_70b_fp8_H100x128.html"
    found = [link for link in links_of(index.parent / HOME / name) if "night-" in link]
    assert found == [
        *[f"../../../runs/night-{run}/{name}" for run in ("003", "004")],  # in the picture
        *[f"../../../runs/night-{run}/{name}" for run in ("004", "003")],  # in the table
    ]
    # From the matrix, too: that of the first page, and that of the workload's.
    for page in (index, index.parent / "workloads" / "llama2_70b.html"):
        assert {f"night-{run}/{name}" for run in ("003", "004")} <= {
            link.partition("runs/")[2] for link in links_of(page)
        }


def links_of(page: Path) -> list[str]:
    return re.findall('href="([^"#]+)"', page.read_text())


def test_an_error_without_a_known_cause_says_what_looks_like_it_in_any_of_its_files(tmp_path: Path) -> None:
    log, batch = tmp_path / "log.out", tmp_path / "batch" / "slurm-481265.out"
    log.write_text("Epoch 0: : 100%|##########| 50/50 [18:11<00:00, reduced_train_loss=6.600]\n")  # which is no cause
    batch.parent.mkdir()
    batch.write_text("srun: error: Unable to create step\nlaunch.sh: nvidia-smi: command not found <b>\nbye\n")
    broken = varied(BROKEN, fact="job 481265 failed with exit code 1", log=str(log))
    index = written(tmp_path, [broken])
    of_row = text_of(index.parent / HOME / "rows" / "llama2_70b_fp8_H100x64.html")
    for text in (text_of(index), of_row):
        assert text.partition("its log says")[2].startswith("launch.sh: nvidia-smi")
    assert "reduced_train_loss" in of_row.partition("Last lines of the log")[2]
    batch.unlink()
    assert "its log says" not in text_of(written(tmp_path, [broken]))


def test_an_error_that_another_job_would_meet_again_has_its_advice_in_place_of_a_command(tmp_path: Path) -> None:
    step = "correct what the recipe is given"
    said = text_of(written(tmp_path, [varied(BROKEN, fact="the run was not the row's", advice=step)]))
    card = said.partition("What needs attention")[2]
    assert step in card
    assert "pytest --gsw-cluster" not in card.partition("All rows")[0]


def row_names(*records: Record) -> list[str]:
    """The names of rows' pages."""
    return list(page_names(record.row.node_id for record in records).values())


SLOW_OTHER = row("llama2_70b_bf16[H100x256]", judged=5.2, outcome="regressed")


def run_after_run(directory: Path, numbers: Iterable[int]) -> Path:
    """The report of the last of some runs, written over those of the others."""
    home = directory / "out"
    for number in numbers:
        records = [row(SLOW.row.id, number), row(PASSED.row.id, number)]
        with history_of(directory, *records) as history:
            write_report(records, history, home)
        check(home)
    return home


def test_a_report_that_is_written_over_another_one_leaves_the_pages_of_the_runs_before(tmp_path: Path) -> None:
    home = run_after_run(tmp_path, (1, 2))
    before = {path: path.read_bytes() for path in home.glob("runs/*/**/*.html")}
    assert {path.parent.name for path in before} >= {"night-001", "night-002"}
    run_after_run(tmp_path, (3,))
    assert {path: path.read_bytes() for path in before} == before
    names = sorted(path.name for path in (home / "runs").iterdir())
    assert names == [f"night-00{n}" for n in (1, 2, 3)]

    def links(page: str) -> set[str]:
        return set(re.findall(r'href="([^"#]+)', (home / page).read_text()))

    for name in names:
        assert {"../../index.html", "../../runs.html", "../../workloads/llama2_70b.html"} <= links(
            f"runs/{name}/index.html"
        )
    assert {"runs.html", "nodes.html", *(f"runs/night-00{n}/index.html" for n in (1, 2, 3))} <= links("index.html")
    assert {"runs/night-001/index.html", "runs/night-002/index.html", "index.html"} <= links("runs.html")
    assert "../runs.html" in links("workloads/llama2_70b.html")
    text = text_of(home / "runs.html")
    assert "3 runs, the newest first" in text
    assert "runpassedrowskindwhennight-003✔ 22night2026-11-04" in text


def test_a_workloads_page_names_its_cluster(tmp_path: Path) -> None:
    home = run_after_run(tmp_path, (1,))
    of_dgx = row(SLOW.row.id, 2, cluster="dgx", run_id="dgx")
    with history_of(tmp_path, of_dgx) as history:
        write_report([of_dgx], history, home)
    assert '"../../workloads/llama2_70b.html#' in (home / "runs" / "night-001" / "index.html").read_text()
    assert "llama2_70b on dgx: 1 row" in text_of(home / "workloads" / "llama2_70b.html")


def test_a_row_that_has_been_mended_keeps_the_pages_of_its_bad_runs(tmp_path: Path) -> None:
    for number, outcome in enumerate(("regressed", "passed", "passed")):
        record = row(SLOW.row.id, number, outcome=outcome)
        with history_of(tmp_path, record) as history:
            write_report([record], history, tmp_path / "out")
        check(tmp_path / "out")
    folders = [(tmp_path / "out" / "runs" / f"night-00{number}" / "rows").is_dir() for number in range(3)]
    assert folders == [True, True, False]  # the second is the first run that passed


@pytest.mark.parametrize(
    ("before", "now", "has_own"),
    [
        ((), {}, False),
        (({},), {}, False),
        (({}, {"outcome": "regressed"}), {}, True),
        (({"outcome": "regressed"}, {}), {}, False),
        (({},), {"outcome": "regressed"}, True),
        (({},), {"outcome": "improved", "judged": 4.0}, True),
        (({},), {"attempts": (attempt("7", "node failure", "n1"),)}, True),
    ],
    ids=["new", "passed", "fixed", "fixed before", "regressed", "improved", "repeated"],
)
def test_a_row_that_passed_as_before_is_on_its_workloads_page(
    tmp_path: Path, before: Sequence[dict[str, Any]], now: dict[str, Any], has_own: bool
) -> None:
    runs = [row(SLOW.row.id, CURRENT_RUN - len(before) + number, **each) for number, each in enumerate(before)]
    current_run = [row(SLOW.row.id, **now), SLOW_OTHER]
    with history_of(tmp_path, *runs, *current_run) as history:
        index = write_report(current_run, history, tmp_path / "out")
    check(index.parent)
    (name,) = row_names(SLOW)
    assert (index.parent / HOME / "rows" / f"{name}.html").exists() == has_own
    assert (f'href="workloads/llama2_70b.html#row-{name}"' in index.read_text()) != has_own
    shared = index.parent / "workloads" / "llama2_70b.html"
    text = text_of(shared)
    assert SLOW.row.id in text
    assert SLOW_OTHER.row.id in text  # which leads to its page
    assert ("Step time of" in text) == (bool(before) and not has_own)
    assert ("pytest-gsw history" in text) != has_own
    assert (f'id="figures-{name}-caption"' in shared.read_text()) != has_own


def test_a_page_of_a_workload_has_so_many_rows(tmp_path: Path) -> None:
    records = [row(f"llama2_70b_fp8[H100x{number}]") for number in range(8, 8 + 45)]
    index = written(tmp_path, records)
    check(index.parent)
    pages = {path.name: path.read_text().count("<h2 id=") for path in (index.parent / "workloads").iterdir()}
    assert pages == {"llama2_70b.html": 40, "llama2_70b-2.html": 5}
    assert not (index.parent / HOME / "rows").exists()


def test_what_else_lies_among_kept_pages_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_gsw.reports.pages.KEPT", 1)
    home = run_after_run(tmp_path, (1,))
    places = ("other.html", "night-000/records/a.json", "night-001/notes.txt")
    for other in (home / "runs" / place for place in places):
        other.parent.mkdir(parents=True, exist_ok=True)
        other.write_text("mine")
    for number in (2, 3):
        write_report([row(SLOW.row.id, number)], None, home)
    assert [(home / "runs" / place).read_text() for place in places] == ["mine"] * 3
    assert not (home / "runs" / "night-002").exists()


def test_pages_of_so_many_runs_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_gsw.reports.pages.KEPT", 2)
    home = run_after_run(tmp_path, (1, 2, 3, 4))
    assert sorted(path.name for path in (home / "runs").iterdir()) == ["night-003", "night-004"]
    assert "night-001" in text_of(home / "runs.html")


def test_a_run_of_nothing(tmp_path: Path) -> None:
    text = text_of(written(tmp_path, []))
    assert "No row on no cluster" in text


def test_a_row_that_passed_by_an_accepted_figure_alone_is_counted_and_marked(tmp_path: Path) -> None:
    index = written(tmp_path, [varied(PASSED_BY_ACCEPTED, run_id=RUN_ID), FAST])
    text = text_of(index)
    assert "▲ 1 improved✔ 1 passed (1 by an accepted figure)run " in text
    assert "✓ accepted\N{MINUS SIGN}4.1" in text.partition("2 rows, the worst first")[2]
    assert "Nothing needs attention.Faster than allowed▲ Improved (1)" in text
    page = text_of(index.parent / HOME / "rows" / "llama2_70b_fp8_H100x128.html")
    assert "✓ accepted" in page
    assert wording("passed by accepted", cluster="eos", change="10.8", side="% below", metric="throughput") in page


def test_the_logs_last_lines_are_shown_and_what_they_say_is_text(tmp_path: Path) -> None:
    log = tmp_path / "log.out"
    log.write_text("\n".join([*HOSTILE, "RuntimeError: NCCL error <b>", "x" * 10_000_000]))
    index = written(tmp_path, [varied(BROKEN, log=str(log))])
    page = index.parent / HOME / "rows" / "llama2_70b_fp8_H100x64.html"
    assert "Last lines of the log" in text_of(page)


def test_of_rows_of_one_cause_twelve_are_named(tmp_path: Path) -> None:
    rows = [failed(f"a_bf16[H100x{8 * number}]", "job 1 ended NODE_FAIL") for number in range(1, 15)]
    text = text_of(written(tmp_path, rows))
    assert "14 rows: job ended NODE_FAIL" in text
    assert "and 2 more, in the list of all rows" in text


def test_a_log_that_is_gone_or_no_file_is_not_shown(tmp_path: Path) -> None:
    for number, log in enumerate([str(tmp_path), str(tmp_path / "gone"), "\x00", "/dev/zero"]):
        index = write_report([varied(SLOW, log=log)], None, tmp_path / f"{number}")
        assert "Last lines" not in (index.parent / HOME / "rows" / "llama2_70b_fp8_H100x128.html").read_text()


@pytest.mark.sampled(5)
@pytest.mark.parametrize("text", [*HOSTILE, "x" * 100_000], ids=lambda text: repr(text[:12]))
def test_what_others_write_stays_text(tmp_path: Path, text: str) -> None:
    facts = dict.fromkeys(("fact", "baseline", "document", "workload", "framework", "dtype", "accelerator"), text)
    other = {
        "cluster": text,
        "image": text,
        "definition": text,
        "accepted_note": text,
        "statistic": text,
    }
    job = JobFacts(
        JobState.COMPLETED,
        id=text,
        launcher=text,
        reason=text,
        nodes=text,
        submit_s=1e9,
        end_s=1e9 + 60,
        why_repeated=text,
    )
    records = [
        varied(one, row=text, node_id=f"t.yaml::{text}{number}", **facts, **other, job=job, environment={text: text})
        for number, one in enumerate([PASSED, SLOW, FAST, BROKEN, replace(PASSED, drift=text, not_comparable=text)])
    ]
    index = written(tmp_path, records, missing={text: text})
    assert "hf_AbCdEfGh" not in index.read_text()
    assert {path.name for path in tmp_path.iterdir()} == {"out"}


def test_a_run_may_be_called_anything(tmp_path: Path) -> None:
    names = ["../../x", "/etc", "..", "a/b", RUN_ID]
    records = [varied(SLOW, run_id=name, recorded_s=1e9 + number) for number, name in enumerate(names)]
    index = write_report(records, None, tmp_path / "out", runs={name: ReportedRun(tmp_path) for name in names})
    check(index.parent)
    assert {path.name for path in tmp_path.iterdir()} == {"out"}


def test_jobs_that_were_repeated(tmp_path: Path) -> None:
    repeated = varied(SLOW, attempts=(attempt("7", "node failure", "pool0-0017"),))
    index = written(tmp_path, [repeated])
    text = text_of(index.parent / HOME / "rows" / "llama2_70b_fp8_H100x128.html")
    assert "slurm 7NODE_FAIL" in text
    assert "failed: NODE_FAIL" in text_of(index.parent / HOME / "jobs.html").replace("\n", "")
