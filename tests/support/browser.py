"""A headless Chromium for the tests, driven through its debugging pipe.

Needs only the standard library and the browser. The browser ends with the `with` block. An
answer that does not come in time is an error.
"""

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.support.wait import LIMIT

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

_OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--disable-breakpad", "--hide-scrollbars",
    "--remote-debugging-pipe",
)  # fmt: skip


_OUTSIDE = """[...document.querySelectorAll('body, body *')]
  .filter(e => e.getBoundingClientRect().right > innerWidth + 0.5)
  .map(e => e.tagName + ' ' + e.textContent.slice(0, 40))"""


class Browser:
    """One tab of a browser that is started for it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        #: Number of the last command.
        self._sent = 0
        #: The session of the tab, as every command names it.
        self._tab: dict[str, str] = {}
        #: Bytes of the next, incomplete answer.
        self._rest = b""
        #: Events of the page that is shown.
        self._events: list[dict[str, Any]] = []

    def __enter__(self) -> "Browser":
        # The browser takes commands on descriptor 3 and answers on 4.
        shell = 'exec "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1'
        command = [str(CHROMIUM), *_OPTIONS, f"--user-data-dir={self._folder / 'profile'}"]
        self._process = subprocess.Popen(
            ["sh", "-c", shell, "sh", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            tab = self.call("Target.attachToTarget", targetId=target, flatten=True)
            self._tab = {"sessionId": tab["sessionId"]}
            self.call("Page.enable")
            self.call("Network.enable")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # The process group holds only this browser.
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(timeout=LIMIT)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        self._sent += 1
        number = self._sent
        message = {"id": number, "method": method, "params": parameters, **self._tab}
        pipe = self._process.stdin
        if pipe is None:
            raise RuntimeError("the browser has no pipe")
        pipe.write(json.dumps(message).encode() + b"\0")
        pipe.flush()
        until = time.monotonic() + LIMIT
        while True:
            answer = self._next(until, method)
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result
            self._events.append(answer)

    def _next(self, until: float, what: str) -> dict[str, Any]:
        pipe = self._process.stdout
        if pipe is None:
            raise RuntimeError("the browser has no pipe")
        while b"\0" not in self._rest:
            ready, _, _ = select.select([pipe], [], [], max(0.0, until - time.monotonic()))
            data = os.read(pipe.fileno(), 1 << 20) if ready else b""
            if not data:
                raise TimeoutError(f"the browser did not answer {what}")
            self._rest += data
        first, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(first)
        return message

    def show(self, page: str, *, width: int, height: int, mobile: bool) -> set[str]:
        """Open a page on a screen of this size; returns every address that it requested."""
        path = self._folder / "page.html"
        path.write_text(page, encoding="utf-8")
        return self.visit(path.as_uri(), width=width, height=height, mobile=mobile)

    def visit(self, address: str, *, width: int, height: int, mobile: bool) -> set[str]:
        """Open an address on a screen of this size; returns every address that it requested."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        self._go("about:blank")  # drops late requests of the last page
        self._go(address)
        return self.asked

    def _go(self, address: str) -> None:
        self._events.clear()
        self.call("Page.navigate", url=address)
        until = time.monotonic() + LIMIT
        while not any(e.get("method") == "Page.loadEventFired" for e in self._events):
            self._events.append(self._next(until, "Page.navigate"))

    @property
    def asked(self) -> set[str]:
        """Every address that the page has requested so far."""
        return {
            event["params"]["request"]["url"]
            for event in self._events
            if event.get("method") == "Network.requestWillBeSent"
        }

    def picture(self, *, height: int | None = None) -> bytes:
        """The page as a WebP image: all of it, or `height` pixels from its top."""
        clip: dict[str, Any] = {}
        if height is not None:
            width = self.measure("innerWidth")
            clip = {"clip": {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}}
        how = {"format": "webp", "quality": 90, "captureBeyondViewport": True}
        taken = self.call("Page.captureScreenshot", **how, **clip)
        return base64.b64decode(taken["data"])

    def measure(self, expression: str) -> Any:
        """The value of a JavaScript expression on the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["text"])
        return answer["result"].get("value")

    def settled(self, expression: str) -> Any:
        """The value of a promise on the page, once it is there."""
        how = {"returnByValue": True, "awaitPromise": True}
        answer = self.call("Runtime.evaluate", expression=expression, **how)
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"])[:2000])
        return answer["result"].get("value")

    @contextmanager
    def in_colours(self, scheme: str) -> Iterator[None]:
        """Show pages to a reader who has chosen `light` or `dark`."""
        choice = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=choice)
        try:
            yield
        finally:
            self.call("Emulation.setEmulatedMedia", features=[])

    def outside(self) -> list[str]:
        """Elements that stick out of the window to the right."""
        found: list[str] = self.measure(_OUTSIDE)
        return found

    @contextmanager
    def on_paper(self) -> Iterator[int]:
        """Show the page as it is printed; gives the size of the PDF."""
        self.call("Emulation.setEmulatedMedia", media="print")
        try:
            yield len(self.call("Page.printToPDF", preferCSSPageSize=True)["data"])
        finally:
            self.call("Emulation.setEmulatedMedia", media="")
