"""Headless Chromium for tests, through the DevTools protocol over two pipes: no driver, no port, no library."""

import base64
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any


class Chromium:
    """One browser with one page. Every complaint of the page is kept in `complaints`."""

    def __init__(self, profile: Path):
        program = shutil.which("chromium")
        assert program, "Debian's chromium is not installed: scripts/test does it"
        read_commands, self._write = os.pipe()
        self._read, write_answers = os.pipe()
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
        flags += ["--disable-background-networking", "--disable-component-update", "--remote-debugging-pipe"]
        flags += [f"--user-data-dir={profile}", "about:blank"]
        # Chromium reads commands from file 3 and writes answers to file 4; the shell puts the pipes there.
        put = f'exec "$0" "$@" 3<&{read_commands} 4>&{write_answers}'
        self._process = subprocess.Popen(
            ["bash", "-c", put, program, *flags],
            pass_fds=(read_commands, write_answers),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read_commands)
        os.close(write_answers)
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self._events: list[dict[str, Any]] = []
        self.complaints: list[str] = []
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        self._session = None
        self.call("Browser.close")
        os.close(self._write)
        os.close(self._read)
        self._process.wait(timeout=30)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]

    def open(self, page: Path, scheme: str = "light", width: int = 1320) -> None:
        """Loads the page and waits until it is there."""
        self.complaints.clear()
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self._events.clear()
        self.call("Page.navigate", url=page.as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self._events):
            self._message()

    def evaluate(self, expression: str) -> Any:
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def screenshot(self, file: Path) -> bytes:
        """The whole page, not only what fits the window."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(shot["data"]))
        return file.read_bytes()

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            more = os.read(self._read, 1 << 20)
            assert more, f"Chromium ended with code {self._process.wait()}"
            self._buffer += more
        message, self._buffer = self._buffer.split(b"\0", 1)
        event = json.loads(message)
        if "method" in event:
            self._events.append(event)
            self._note(event["method"], event["params"])
        return event

    def _note(self, method: str, params: dict[str, Any]) -> None:
        if method == "Runtime.consoleAPICalled":
            self.complaints.append(f"console.{params['type']}: {params['args']}")
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(f"exception: {params['exceptionDetails']}")
        elif method == "Log.entryAdded":
            self.complaints.append(f"log: {params['entry']['text']}")
        elif method == "Network.requestWillBeSent" and not params["request"]["url"].startswith(("file:", "data:")):
            self.complaints.append(f"request: {params['request']['url']}")
