"""What a visitor finds who follows every link of a report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urldefrag

from .chromium import Tab
from .server import Served

#: All that is asked of one page, in one question. Nothing in it may wait: where no script may run, no timer does.
_FACTS = """() => {
    const all = selector => [...document.querySelectorAll(selector)];
    return {
        title: document.title,
        language: document.documentElement.lang,
        headings: all('h1').map(heading => heading.textContent.trim()),
        text: document.body.innerText,
        links: all('a[href], area[href]').map(link => [
            link.getAttribute('href'), new URL(link.getAttribute('href'), document.baseURI).href]),
        anchors: all('[id]').map(element => element.id),
        pictures: all('figure > svg').map(svg => [
            svg.getBoundingClientRect().width, svg.getAttribute('aria-label'), svg.querySelectorAll('title').length]),
        sheets: document.styleSheets.length,
        font: getComputedStyle(document.body).fontFamily,
        forbidden: all('script, style, [style], iframe, object, embed, img, use, form, base, meta[http-equiv]')
            .map(element => element.outerHTML.slice(0, 200)),
        handlers: all('*').flatMap(element => element.getAttributeNames().filter(name => name.startsWith('on'))),
    };
}"""


@dataclass(frozen=True)
class Page:
    """One page as the browser has shown it."""

    #: Relative to the report's directory.
    path: str
    title: str
    language: str
    headings: list[str]
    #: As it is to be read: what is hidden is not there.
    text: str
    #: Each as it is written, and as the browser understands it.
    links: list[tuple[str, str]]
    anchors: list[str]
    #: How wide each picture is shown, pixels, what is read out instead, and of how many points something is told.
    pictures: list[tuple[float, str | None, int]]
    #: How many style sheets are in use, and the font that they give to the page.
    sheets: int
    font: str
    #: Elements and attributes that Jenkins' policy does not let work.
    forbidden: list[str]
    handlers: list[str]


def crawl(tab: Tab, served: Served) -> dict[str, Page]:
    """All pages that links lead to from the index, by their paths; where they lead out, it is not followed."""
    pages: dict[str, Page] = {}
    waiting = ["index.html"]
    while waiting:
        path = waiting.pop()
        if path in pages:
            continue
        tab.goto(path)
        facts: dict[str, Any] = tab.ask(_FACTS)
        pages[path] = Page(path=path, **facts)
        for _, url in pages[path].links:
            target, _ = urldefrag(url)
            if target.endswith(".html") and target.startswith(served.url):
                waiting.append(target.removeprefix(served.url))
    return pages
