"""What axe-core finds on a page: failures of the Web Content Accessibility Guidelines, levels A and AA."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from .chromium import Tab

_GUIDELINES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


#: What a tab needs for it: axe-core waits for timers, and under the policy of :mod:`tests.browser.server` none runs.
TAB: dict[str, Any] = {"bypass_csp": True}


def violations(tab: Tab) -> list[str]:
    """One line for each element of the page in the tab that breaks a rule."""
    tab.ask(_axe())
    options = {"runOnly": {"type": "tag", "values": _GUIDELINES}, "resultTypes": ["violations"]}
    found: dict[str, Any] = tab.ask("options => axe.run(document, options)", options)
    assert found["passes"], "axe-core has looked at nothing"
    return [
        f"{rule['id']} ({rule['impact']}): {node['html'][:160]}: {node['failureSummary']}"
        for rule in found["violations"]
        for node in rule["nodes"]
    ]


@cache
def _axe() -> str:
    return files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
