"""Who opens the report in the morning: what is wrong, since when and why, in a click or two."""

from __future__ import annotations

import re

from .chromium import Chromium
from .night import Run
from .server import Served
from .test_report import KINDS


def test_from_the_first_page_to_a_cause(chromium: Chromium, report: Served, run: Run) -> None:
    with chromium.tab(report.url) as tab:
        page = tab.goto("index.html")
        failed, broken = KINDS["regressed"], KINDS["error with a cause"]
        assert page.locator("main section h2").first.get_attribute("id") == "lately"
        assert page.locator(".card.new h3").inner_text().startswith("New (")
        # No click: a card has the loss, what it is held against, since when, and the command.
        card = page.locator("li.card", has=page.get_by_role("link", name=failed, exact=True))
        assert "below the documented 230,153" in card.inner_text()
        assert "since" in card.inner_text()
        assert failed in card.locator("code").inner_text()

        # One click: the row's page has its runs, each point with its value, run and job.
        card.get_by_role("link", name=failed, exact=True).click()
        assert page.locator("h1").inner_text() == failed
        jobs = [job.id for job in run.records[failed].jobs.all]
        titles = page.locator("figure.plot title").all_text_contents()
        of_run = ", ".join(jobs)  # of several jobs it has the median
        told = f"median of jobs {of_run}" if len(jobs) > 1 else f"job {of_run}"
        assert any(re.search(rf", {told}\b", title) for title in titles), (jobs, titles)

        # And one for a row that could not be measured: the log's own line.
        page.go_back()
        page.get_by_role("link", name=broken, exact=True).first.click()
        fact = run.records[broken].fact
        assert fact in page.locator("main").inner_text()

        # All runs are one click from each page.
        page.get_by_role("link", name="Runs", exact=True).click()
        assert run.run.name in page.locator("main").inner_text()
        assert tab.complaints == []
