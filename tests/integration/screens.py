"""What every screen says of the rows, the alarms and the nodes of a run, as values that can be compared."""

from __future__ import annotations

import html
import json
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.integration.conftest import Gsw, junit, properties, unwrapped

#: What is said, of whom, by which screen: ``("row x", "since")`` is ``{"screen": "2026-11-18 22:04"}``.
Statements = dict[tuple[str, str], dict[str, str]]

_OUTCOMES = ("PASSED", "IMPROVED", "REGRESSED", "INCONCLUSIVE", "ERROR")
_SINCE = re.compile(r"(?P<when>this run|[-\d]{10} [\d:]{5})( or before)?(, (?P<runs>\d+) runs?)?")
_ALARM = re.compile(
    r"(?P<id>[0-9a-f]{8})  (?P<state>new|worse|ongoing)( \(.*?\))? (?P<what>slow node|(regression|drift|incident) of) "
    r"(?P<subject>cluster \w+|\S+):.*? since (?P<since>.*?, \d+ runs?)"
)
_FIXED = re.compile(r"(?P<id>[0-9a-f]{8})  (slow node|(regression|drift|incident) of) (cluster \w+|\S+): fixed ")
_DRIFT = re.compile(r"since about (?P<since>[-\d]{10} [\d:]{5})(.*?; changed then: (?P<changed>[^;]*))?")


def minute(time_s: float) -> str:
    """A time as texts have it."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(time_s))


@dataclass
class Screens:
    """Collects statements; of each there may be one value."""

    begin: str
    said: Statements

    def add(self, screen: str, subject: str, **facts: str | None) -> None:
        """Note what a screen says; ``None`` is not said."""
        for name, value in facts.items():
            if value is not None:
                self.said.setdefault((subject, name), {})[screen] = value.strip()

    def since(self, screen: str, subject: str, text: str) -> None:
        """Note when something began, and the number of runs if the text has it."""
        found = _SINCE.match(text)
        assert found is not None, (screen, subject, text)
        is_this = found["when"] == "this run"
        runs = "1" if is_this else found["runs"]
        self.add(screen, subject, since=self.begin if is_this else found["when"], runs=runs)

    def drift(self, screen: str, row: str, text: str) -> None:
        """Note a sentence on a drift."""
        found = _DRIFT.search(text)
        assert found is not None, text
        self.add(screen, f"drift {row}", since=found["since"], changed=found["changed"] or "", drifts="True")

    def contradictions(self) -> list[str]:
        """Statements with more than one value."""
        return [f"{of}: {values}" for of, values in self.said.items() if len(set(values.values())) > 1]


def read_screen(found: Screens, lines: Iterable[str], rows: Iterable[str]) -> None:
    """The text of the session itself."""
    whole = unwrapped(lines)
    for row in rows:
        (line,) = (one for one in whole if re.match(rf"{re.escape(row)} +({'|'.join(_OUTCOMES)})  ", one))
        found.add("screen", f"row {row}", state=line.split()[1].lower())
    row, section = "", ""
    for line in whole:
        if heading := re.match(r"_+ (?:ERROR at setup of )?(\S+)  _+$", line):
            row = heading[1]
        elif title := re.match(r"=+ (.*?) =+$", line):
            row, section = "", title[1]
        elif row and line.startswith("since      "):
            found.since("screen", f"row {row}", line[11:])
            found.add("screen", f"row {row}", changed="")
        elif row and line.startswith("changed    "):
            found.add("screen", f"row {row}", changed=line[11:])
        elif section == "alarms":
            read_alarm(found, "screen", line)
        elif section == "drift" and not line.startswith(("cluster", "next")):
            found.drift("screen", line.split()[0], line)
        elif section == "slow nodes" and line.startswith("node "):
            read_node(found, "screen", line)


def read_alarm(found: Screens, screen: str, text: str) -> None:
    """A line on an alarm."""
    for one in _ALARM.finditer(text):
        found.add(screen, f"alarm {one['id']}", of=one["subject"], active="yes", state=one["state"])
        found.since(screen, f"alarm {one['id']}", one["since"])
    for one in _FIXED.finditer(text):
        found.add(screen, f"alarm {one['id']}", active="no")


def read_node(found: Screens, screen: str, text: str) -> None:
    """A line on a slow node: ``node n1 (-9.8 %, 41 jobs) since 2026-11-18 22:04``."""
    if one := re.match(r"node (\S+) \((\S+ %), (\d+) jobs?\) since ([-\d]{10} [\d:]{5})", text):
        found.add(screen, f"node {one[1]}", change=one[2], jobs=one[3], since=one[4])


def read_junit(found: Screens, path: Path, screen: str) -> None:
    """A JUnit file."""
    for row, case in junit(path).items():
        said = properties(case)
        if "gsw_outcome" not in said:
            continue
        found.add(screen, f"row {row}", state=said["gsw_outcome"])
        read_alarm(found, screen, said.get("gsw_alarm", ""))
        if "gsw_drift" in said:
            found.drift(screen, row, said["gsw_drift"])
        text = "\n".join(one.text or "" for one in case if one.tag in {"failure", "error"})
        if since := re.search(r"^since      (.*)$", text, re.MULTILINE):
            found.since(screen, f"row {row}", since[1])
            changed = re.search(r"^changed    (.*)$", text, re.MULTILINE)
            found.add(screen, f"row {row}", changed=changed[1] if changed else "")


def read_markdown(found: Screens, text: str, screen: str) -> None:
    """A summary of the run."""
    for line in text.splitlines():
        cells = [one.strip().replace("`", "") for one in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 7 and cells[0] not in {"row", "---"} and not cells[0].startswith("cluster "):
            kind = re.match(r"\*\*(\w+)\*\*|(\w+)", cells[1])
            assert kind is not None, line
            word = kind[1] or kind[2]
            if word == "drift":
                found.drift(screen, cells[0], cells[1])
                continue
            found.add(screen, f"row {cells[0]}", state=word)
            read_since(found, screen, f"row {cells[0]}", cells[5])
        elif len(cells) == 9 and re.fullmatch("[0-9a-f]{8}", cells[0]):
            read_alarm_cells(found, screen, cells)


def read_since(found: Screens, screen: str, subject: str, text: str) -> None:
    """``2026-11-18 22:04, 3 runs; changed then: nccl 2.21.5 -> 2.23.4``."""
    if text:
        found.since(screen, subject, text)
        found.add(screen, subject, changed=re.split("; changed(?: then)?: ", text + "; changed: ")[1])


def read_alarm_cells(found: Screens, screen: str, cells: list[str]) -> None:
    """A line of a table of alarms."""
    state = cells[2].split()[0]
    active = state not in {"fixed", "gone"}
    found.add(screen, f"alarm {cells[0]}", of=cells[3], active="yes" if active else "no", change=cells[5])
    found.add(screen, f"alarm {cells[0]}", since=cells[6], runs=cells[7], state=state if active else None)


def read_pages(found: Screens, report: Path) -> None:
    """The pages of the report."""
    index = (report / "index.html").read_text(encoding="utf-8").replace("\N{MINUS SIGN}", "-")
    for cells in _table(index, "step time (s): "):
        row, verdict, since = cells[0], cells[1].split()[-1], cells[6]
        state = {"drifts": "passed", "accepted": "passed"}.get(verdict, verdict)
        found.add("page", f"row {row}", state=state)
        found.add("page", f"{'drift' if verdict == 'drifts' else 'row'} {row}", since=since or None)
    lately = index.partition('id="lately"')[2].partition("</section>")[0]
    for entry in re.split("<li>|</details>", lately):
        read_alarm(found, "page", html.unescape(re.sub("<.*?>", "", entry)))
    newest = re.findall(r'<a href="(runs/[^"]*)index.html"><code>', index)[0]
    for path in (report / newest).glob("rows/*.html"):
        text = path.read_text(encoding="utf-8").replace("\N{MINUS SIGN}", "-")
        row = html.unescape(text.partition("<h1>")[2].partition("</h1>")[0])
        facts = dict(re.findall(r"<div><dt>(.*?)</dt><dd>(.*?)</dd></div>", text))
        badge = re.search(r'class="badge \w+">.*?</span> (.*?)</span>', text)
        assert badge is not None
        subject = f"{'drift' if badge[1] == 'drifts' else 'row'} {row}"
        if "since" in facts and facts["since"] != "the first known run":
            found.since("page of the row", subject, html.unescape(facts["since"]))
            if badge[1] != "drifts":
                changed = facts.get("changed then", facts.get("changed", ""))
                found.add("page of the row", subject, changed=html.unescape(changed))
    nodes = (report / "nodes.html").read_text(encoding="utf-8").replace("\N{MINUS SIGN}", "-")
    for entry in re.findall("<p><a.*?>(.*?)</a></p>", nodes):
        read_node(found, "page", html.unescape(entry))


def _table(text: str, caption: str, begin: str = "") -> Iterator[list[str]]:
    """The cells of the table with this caption, or of the first one after a place."""
    if begin:
        text = text.partition(begin)[2]
    for table in re.findall(r"<table>.*?</table>", text, re.DOTALL):
        if caption in table.partition("</caption>")[0]:
            for line in re.findall(r"<tr>(.*?)</tr>", table.partition("<tbody>")[2], re.DOTALL):
                cells = re.findall(r"<t[hd].*?>(.*?)</t[hd]>", line, re.DOTALL)
                yield [html.unescape(re.sub(r"<.*?>", "", one)).strip() for one in cells]
            return


def read_metrics(found: Screens, text: str, screen: str) -> None:
    """The metrics of the run."""
    for line in text.splitlines():
        sample = re.fullmatch(r"(gsw_\w+)\{(.*)\} (\S+)", line)
        if sample is None:
            continue
        labels, value = dict(re.findall(r'(\w+)="(.*?)"', sample[2])), float(sample[3])
        if sample[1] == "gsw_outcome" and value:
            found.add(screen, f"row {labels['row']}", state=labels["outcome"])
        elif sample[1] == "gsw_drift":
            found.add(screen, f"drift {labels['row']}", drifts=str(bool(value)))
        elif sample[1] == "gsw_alarm_pages":
            found.add(screen, f"alarm {labels['alarm']}", active="yes", pages=str(bool(value)))
        elif sample[1] == "gsw_alarm_since_timestamp_seconds":
            found.add(screen, f"alarm {labels['alarm']}", since=minute(value))
        elif sample[1] == "gsw_slow_node_throughput_change_ratio":
            found.add(screen, f"node {labels['node']}", change=f"{round(value * 100, 1):+.1f} %")


def read_overview(found: Screens, text: str) -> None:
    """``pytest-gsw`` alone."""
    for line in text.splitlines():
        name, rest = line[:12].strip(), line[12:].strip() if len(line) > 12 else ""
        head = re.match(r"(\S+)  +(.*)", line)
        name, rest = (head[1], head[2]) if head else (name, rest)
        if name in {"regressed", "inconclusive", "error", "improved"}:
            row, _, said = rest.partition(": ")
            found.add("overview", f"row {row}", state=name)
            read_since(found, "overview", f"row {row}", said.partition("; since ")[2].partition("; acknowledged")[0])
        elif name == "drift" and not rest.startswith("cluster"):
            found.drift("overview", rest.partition(": ")[0], rest)
        elif name == "alarm":
            read_alarm(found, "overview", rest)
        elif name == "slow":
            read_node(found, "overview", rest)


def read_commands(found: Screens, gsw: Gsw, *options: str) -> None:
    """``alarms``, ``nodes``, and ``history --drift``."""
    alarms = json.loads(_answer(gsw, "alarms", "--json", *options))
    active = {one["id"]: one for one in alarms if one["state"] not in {"fixed", "gone"}}
    drifting: dict[str, bool] = {}
    for one in alarms:
        subject, is_active = f"alarm {one['id']}", one["id"] in active
        found.add("alarms", subject, of=one["subject"], active="yes" if is_active else "no")
        found.add("alarms", subject, state=one["state"] if is_active else None, pages=str(one["pages"]))
        found.add("alarms", subject, since=minute(one["since_s"]), runs=str(one["runs"]))
        changed = ", ".join(f"{name} {was['before']} -> {was['after']}" for name, was in one["changes"].items())
        about = {"regression": "row", "drift": "drift"}.get(one["kind"], "")
        if about and is_active and not one["subject"].startswith("cluster "):
            said = {"since": minute(one["since_s"]), "runs": str(one["runs"]), "changed": changed}
            state = found.said.get((f"row {one['subject']}", "state"), {}).get("screen")
            # A row that has passed once is not slow in this run.
            if (about == "drift" and state != "error") or state in {"regressed", "inconclusive"}:
                found.add("alarms", f"{about} {one['subject']}", **said)
        if about == "drift" and not one["subject"].startswith("cluster "):
            drifting[one["subject"]] = drifting.get(one["subject"], False) or is_active
        elif one["kind"] == "node" and is_active:
            found.add("alarms", f"node {one['subject']}", since=minute(one["since_s"]))
    for subject, is_active in drifting.items():
        if found.said[f"row {subject}", "state"]["screen"] != "error":
            found.add("alarms", f"drift {subject}", drifts=str(is_active))
    for line in _answer(gsw, "alarms", *options).splitlines():
        if re.match("[0-9a-f]{8}  ", line):
            cells = [part.strip() for part in re.split(r"  +", line)]
            cells = cells if "%" in cells[5] else [*cells[:5], "", *cells[5:]]
            read_alarm_cells(found, "table of alarms", cells)
    for cluster in json.loads(_answer(gsw, "nodes", "--json")):
        for one in cluster["slow"]:
            if not one["fixed"]:
                change, jobs = f"{round(one['throughput_change'] * 100, 1):+.1f} %", str(len(one["slow_jobs"]))
                found.add("nodes", f"node {one['nodes'][0]}", change=change, jobs=jobs)
    for line in _answer(gsw, "nodes").splitlines():
        cells = re.split(r"  +", line.strip())
        if len(cells) >= 7 and "%" in cells[2] and "fast again" not in cells:
            found.add("table of nodes", f"node {cells[0]}", change=cells[2], since=cells[3], jobs=cells[5])
    for one in json.loads(_answer(gsw, "history", "--drift", "--json", *options)):
        is_measured = found.said[f"row {one['row']}", "state"]["screen"] != "error"
        found.add("history", f"drift {one['row']}", drifts=str(one["drifts"]) if is_measured else None)
        if one["drifts"] and is_measured:
            changed = ", ".join(f"{name} {was['before']} -> {was['after']}" for name, was in one["changes"].items())
            found.add("history", f"drift {one['row']}", since=minute(one["since"]["time_s"]), changed=changed)


def _answer(gsw: Gsw, *words: str) -> str:
    """The output of a command, whatever it ends with."""
    for status in (0, 1, 6):
        try:
            return gsw(*words, status=status).out
        except AssertionError:
            continue
    raise AssertionError(words)
