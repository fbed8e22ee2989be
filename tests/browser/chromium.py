"""A headless Chromium, and tabs of it that keep account of whatever goes wrong in them.

::

    with Chromium() as chromium, chromium.tab(served.url) as tab:
        tab.goto("index.html")
        assert tab.complaints == []

The browser is the distribution's own; Playwright only drives it. It can reach nothing but this machine.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Playwright, Request

INSTALL = "apt-get install --no-install-recommends -y chromium"

_NAMES = ("chromium", "chromium-browser", "google-chrome")

_FLAGS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    # A browser by itself asks its maker for updates, lists and experiments.
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Whatever a page may ask for: no name is looked up, and no address but the loopback's is.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)

DESKTOP: dict[str, Any] = {"viewport": {"width": 1200, "height": 800}}
PHONE: dict[str, Any] = {"viewport": {"width": 360, "height": 740}, "is_mobile": True, "has_touch": True}
DARK: dict[str, Any] = {"color_scheme": "dark"}


def missing_requirements() -> str | None:
    """What this machine lacks for a browser, and what to type; ``None`` if nothing."""
    if _binary() is None:
        return f"there is no Chromium: {INSTALL}"
    missing = [name for name in ("playwright", "axe_playwright_python") if importlib.util.find_spec(name) is None]
    if missing:
        return f"there is no {' and no '.join(missing)}: pip install '.[browser]'"
    return None


class Tab:
    """One tab that goes from page to page; ``complaints`` is what a visitor of any of them would have noticed."""

    def __init__(self, page: Page, root: str) -> None:
        self.page = page
        self.complaints: list[str] = []
        self._root = root
        page.on("console", lambda message: self._complain(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self._complain(f"error: {error}"))
        page.on("dialog", lambda dialog: (self._complain(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("popup", lambda popup: self._complain(f"popup: {popup.url}"))
        page.on("download", lambda download: self._complain(f"download: {download.url}"))
        page.on("requestfailed", lambda request: self._complain(f"failed: {request.url}: {request.failure}"))
        page.on("request", self._check_request)
        page.on("response", lambda response: response.ok or self._complain(f"{response.status}: {response.url}"))

    def goto(self, path: str) -> Page:
        """Open a page and all that belongs to it."""
        self.page.goto(f"{self._root}{path}", wait_until="load")
        return self.page

    def ask(self, script: str, argument: object = None) -> Any:
        """What JavaScript says that is asked from outside: of the page itself, none may run."""
        return self.page.evaluate(script, argument)

    def _check_request(self, request: Request) -> None:
        if not request.url.startswith(self._root):
            self._complain(f"request: {request.url}")

    def _complain(self, what: str) -> None:
        self.complaints.append(f"{self.page.url.removeprefix(self._root)}: {what}")


class Chromium:
    """Start a browser on entry, end it on exit."""

    def __init__(self) -> None:
        self._playwright: Playwright | None = None
        self._browser: Browser | None = None
        self._home = tempfile.TemporaryDirectory(prefix="gsw-chromium-")

    @contextmanager
    def tab(self, root: str, **options: Any) -> Iterator[Tab]:
        """A tab without a past, for the pages below one URL; options are those of Playwright's contexts."""
        assert self._browser is not None
        context = self._browser.new_context(**(DESKTOP | options))
        context.set_default_timeout(120_000)  # no machine is so slow
        try:
            yield Tab(context.new_page(), root)
        finally:
            context.close()

    def __enter__(self) -> Chromium:  # noqa: PYI034 - typing.Self is Python 3.11's
        from playwright.sync_api import sync_playwright

        self._playwright = sync_playwright().start()
        try:
            # Its own sandbox wants rights that root in a container has not.
            self._browser = self._playwright.chromium.launch(
                executable_path=_binary(),
                chromium_sandbox=False,
                args=_FLAGS,
                env={**os.environ, "HOME": self._home.name, "XDG_CONFIG_HOME": self._home.name},
            )
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._browser is not None:
            self._browser.close()
        if self._playwright is not None:
            self._playwright.stop()
        self._home.cleanup()


def _binary() -> str | None:
    return next(filter(None, map(shutil.which, _NAMES)), None)
