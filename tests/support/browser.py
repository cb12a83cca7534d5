"""A real browser without a window: Chromium, spoken to over a pipe (its DevTools protocol), never over a network."""

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chromium-headless-shell"))), None
)
SAFETY_NET_S = 300.0
_FLAGS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-sandbox",  # the tests run as root in a container too; the pages are our own
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
)
_LEFT = ("Inspected target navigated or closed", "Execution context was destroyed.")
_OUR_READ, _OUR_WRITE = 3, 4  # where Chromium looks for its two ends


class PageLeft(AssertionError):
    """The page went elsewhere while an expression was evaluated in it."""


class Browser:
    """One page in one browser. `faults` are console errors, exceptions and violations of the page's policy.

    `requests` are the addresses of all that the page asked for.
    """

    def __init__(self, folder: Path) -> None:
        assert CHROMIUM is not None
        to_them, ours_out = os.pipe()
        ours_in, from_them = os.pipe()
        # The shell puts the two ends where they belong: nothing runs between fork and exec in this process.
        script = f'exec "$@" {_OUR_READ}<&{to_them} {_OUR_WRITE}>&{from_them}'
        self._process = subprocess.Popen(
            ["bash", "-c", script, "bash", CHROMIUM, *_FLAGS, f"--user-data-dir={folder}", "about:blank"],
            pass_fds=(to_them, from_them),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(to_them)
        os.close(from_them)
        self._in, self._out = ours_in, ours_out
        self._left = b""
        self._number = 0
        self._session = ""
        self.faults: list[str] = []
        self.requests: list[str] = []
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError, AssertionError):
            self._session = ""
            self.call("Browser.close")
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._in)
        os.close(self._out)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol and return what it answers."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + SAFETY_NET_S
        while True:
            heard = self._hear(until)
            if heard.get("id") == self._number:
                if heard.get("error", {}).get("message") in _LEFT:
                    raise PageLeft
                assert "error" not in heard, f"{method}: {heard['error']}"
                result: dict[str, Any] = heard["result"]
                return result

    def _hear(self, until: float) -> dict[str, Any]:
        while b"\0" not in self._left:
            ready, _, _ = select.select([self._in], [], [], max(0.0, until - time.monotonic()))
            assert ready, "the browser does not answer"
            more = os.read(self._in, 1 << 20)
            assert more, "the browser has gone"
            self._left += more
        text, _, self._left = self._left.partition(b"\0")
        heard: dict[str, Any] = json.loads(text)
        self._note(heard.get("method", ""), heard.get("params", {}))
        return heard

    def _note(self, method: str, said: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            self.faults.append(json.dumps(said["exceptionDetails"])[:600])
        elif method == "Runtime.consoleAPICalled" and said["type"] in ("error", "warning", "assert"):
            self.faults.append(f"console {said['type']}: {json.dumps(said['args'])[:600]}")
        elif method == "Log.entryAdded" and said["entry"]["level"] in ("error", "warning"):
            self.faults.append(f"{said['entry']['text']} {said['entry'].get('url', '')}")
        elif method == "Network.requestWillBeSent":
            self.requests.append(said["request"]["url"])

    def run(self, script: str) -> Any:
        """Return the value of an expression in the page, awaited."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def show(self, place: Path | str, *, width: int, dark: bool = False, height: int = 900) -> None:
        """Open a page, by its file or its address, in a window of a width and wait until it has drawn itself."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        # A page that still glides to where it was sent moves what a click is aimed at.
        still = {"name": "prefers-reduced-motion", "value": "reduce"}
        self.call("Emulation.setEmulatedMedia", features=[scheme, still])
        self.call("Page.navigate", url=place if isinstance(place, str) else place.absolute().as_uri())
        self.wait("document.readyState == 'complete' && document.documentElement?.dataset.ready == 'yes'")
        self.settle()

    def wait(self, script: str) -> None:
        """Wait until an expression is true in the page."""
        until = time.monotonic() + SAFETY_NET_S
        while not self._holds(script):
            assert time.monotonic() < until, f"this did not come about: {script}; faults: {self.faults}"
            time.sleep(0.05)

    def _holds(self, script: str) -> bool:
        try:
            return bool(self.run(script))
        except PageLeft:
            return False

    def settle(self) -> None:
        """Wait until what was asked for is on the screen, in the next page if the browser is on its way to one."""
        self.wait("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")

    def click(self, selector: str, *, text: str = "") -> None:
        """Click the first element of a selector, with a text, where a mouse would hit it."""
        found = self.run(
            f"(() => {{ const all = [...document.querySelectorAll({json.dumps(selector)})];"
            f"const one = all.find((each) => each.textContent.includes({json.dumps(text)})); if (!one) return null;"
            "one.scrollIntoView({block: 'center', behavior: 'instant'}); const box = one.getBoundingClientRect();"
            "return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        assert found, f"nothing to click at {selector} {text!r}"
        self.press(*found)

    def press(self, x: float, y: float) -> None:
        """Move the mouse to a place of the window and click."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        self.settle()

    def picture(self, path: Path) -> None:
        """Write a picture of the whole page."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 16_000), "scale": 1}
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(shot["data"]))

    def printed(self) -> bytes:
        """Return the page as it prints: a PDF."""
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])
