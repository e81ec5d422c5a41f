"""A headless Chromium for the tests, driven through its debugging pipe.

Needs nothing but the standard library and the browser itself. It is ended with the
`with` block, and whatever it does not answer in time is an error.
"""

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import time
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


class Browser:
    """One tab of a browser that was started for it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sent = 0
        self._tab: dict[str, str] = {}
        self._rest = b""
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
        # The group is the session that was started for this browser, and nobody else's.
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(timeout=LIMIT)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Give a command and wait for its answer."""
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
        """Open a page as it would be on such a screen; returns every address it asked for."""
        path = self._folder / "page.html"
        path.write_text(page, encoding="utf-8")
        return self.visit(path.as_uri(), width=width, height=height, mobile=mobile)

    def visit(self, address: str, *, width: int, height: int, mobile: bool) -> set[str]:
        """The same for a page that is there already."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        self._go("about:blank")  # what the last page still asks for is not this one's
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
        """Every address that the page has asked for until now."""
        return {
            event["params"]["request"]["url"]
            for event in self._events
            if event.get("method") == "Network.requestWillBeSent"
        }

    def picture(self, *, height: int | None = None) -> bytes:
        """The page as it looks, all of it or so much from its top, as a WebP file."""
        clip: dict[str, Any] = {}
        if height is not None:
            width = self.measure("innerWidth")
            clip = {"clip": {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}}
        how = {"format": "webp", "quality": 90, "captureBeyondViewport": True}
        taken = self.call("Page.captureScreenshot", **how, **clip)
        return base64.b64decode(taken["data"])

    def measure(self, expression: str) -> Any:
        """The value of a JavaScript expression on the page that is shown."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["text"])
        return answer["result"].get("value")
