"""A web server for one directory, which says of every page what Jenkins says of those of a build.

::

    with Served(directory) as served:
        browser.open(f"{served.url}index.html")
"""

from __future__ import annotations

import functools
import http.server
import threading
from pathlib import Path
from types import TracebackType
from typing import ClassVar
from urllib.parse import unquote, urlsplit

#: What Jenkins sends with whatever a build has left, unless an administrator has taken it away.
JENKINS_POLICY = "sandbox; default-src 'none'; img-src 'self'; style-src 'self'"


class _Handler(http.server.SimpleHTTPRequestHandler):
    # No charset: pages say themselves that they are UTF-8. Nothing but what a report is made of.
    extensions_map: ClassVar[dict[str, str]] = {
        ".html": "text/html",
        ".css": "text/css",
        ".svg": "image/svg+xml",
        ".png": "image/png",
        "": "text/plain",
    }

    def end_headers(self) -> None:
        self.send_header("Content-Security-Policy", JENKINS_POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def do_GET(self) -> None:
        if urlsplit(self.path).path == "/favicon.ico":  # of the whole site, so Jenkins' own
            self.send_response(204)
            self.end_headers()
            return
        super().do_GET()

    def list_directory(self, path: object) -> None:
        self.send_error(404)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        pass


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A browser hangs up when it leaves a page."""


class Served:
    """Serve a directory on a free port of the loopback, from entry to exit."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._server = _Server(("127.0.0.1", 0), functools.partial(_Handler, directory=str(directory)))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        """Of the directory, with a slash at its end."""
        return f"http://127.0.0.1:{self._server.server_port}/"

    def file_of(self, url: str) -> Path | None:
        """The file behind a URL; ``None`` if it is not of this server, or there is none."""
        if not url.startswith(self.url):
            return None
        path = (self.directory / unquote(urlsplit(url).path).lstrip("/")).resolve()
        return path if path.is_file() and path.is_relative_to(self.directory.resolve()) else None

    def __enter__(self) -> Served:  # noqa: PYI034 - typing.Self is Python 3.11's
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
