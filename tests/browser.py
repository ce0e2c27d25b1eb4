"""Debian's Chromium, driven by the W3C WebDriver protocol: JSON over HTTP to chromedriver, no package."""

import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --force-color-profile=srgb"
).split()


class Browser:
    """One page of one Chromium."""

    def __init__(self, connection: http.client.HTTPConnection, profile: Path) -> None:
        self.connection = connection
        options = {"binary": CHROMIUM, "args": [*FLAGS, f"--user-data-dir={profile}"]}
        logs = {"browser": "ALL", "performance": "ALL"}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": logs}
        self.path = ""
        self.path = f"/session/{self.post('session', capabilities={'alwaysMatch': wanted})['sessionId']}"

    def post(self, command: str, **arguments: Any) -> Any:
        """The answer to a command of the protocol."""
        self.connection.request("POST", f"{self.path}/{command}", json.dumps(arguments))
        value = json.loads(self.connection.getresponse().read())["value"]
        if isinstance(value, dict) and "error" in value:
            raise RuntimeError(f"{command}: {value['message']}")
        return value

    def open(self, path: Path, width: int = 1280, height: int = 900, scheme: str = "light") -> None:
        """Load a file into a window of this size. What was logged before is dropped."""
        self.post("url", url="about:blank")
        screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.devtools("Emulation.setDeviceMetricsOverride", **screen)
        self.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.log("browser"), self.log("performance")
        self.post("url", url=path.as_uri())

    def devtools(self, method: str, **parameters: Any) -> Any:
        return self.post("goog/cdp/execute", cmd=method, params=parameters)

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script returns: the body of a function, run in the page."""
        return self.post("execute/sync", script=script, args=arguments)

    def pointer(self, *moves: tuple[float, float] | str) -> None:
        """Move the mouse to points of the window; "down" and "up" press and release its button."""
        actions = [
            {"type": f"pointer{move.capitalize()}", "button": 0}
            if isinstance(move, str)
            else {"type": "pointerMove", "x": round(move[0]), "y": round(move[1]), "duration": 0}
            for move in moves
        ]
        mouse = {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": actions}
        self.post("actions", actions=[mouse])

    def keys(self, text: str) -> None:
        """Type into what has the focus."""
        actions = [{"type": kind, "value": key} for key in text for kind in ("keyDown", "keyUp")]
        self.post("actions", actions=[{"type": "key", "id": "keyboard", "actions": actions}])

    def log(self, kind: str) -> list[dict[str, Any]]:
        """What was logged since the last call: "browser" is the console, "performance" the network."""
        entries: list[dict[str, Any]] = self.post("se/log", type=kind)
        return entries

    def requests(self) -> list[str]:
        """The addresses the page asked for since the last call."""
        events = [json.loads(entry["message"])["message"] for entry in self.log("performance")]
        return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]


@contextmanager
def chromium(profile: Path) -> Iterator[Browser]:
    """A Chromium with this profile, ended with its driver at the end; the tests skip where there is none."""
    if not (CHROMIUM and DRIVER):
        pytest.skip("Debian's chromium and chromium-driver are not installed")
    command = [DRIVER, "--port=0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    ) as driver:
        try:
            ports = (re.search(r"on port (\d+)\.$", line) for line in driver.stdout or ())
            port = next(filter(None, ports), None)
            assert port, "chromedriver did not say where it listens"
            with closing(http.client.HTTPConnection("127.0.0.1", int(port[1]), timeout=600)) as connection:
                yield Browser(connection, profile)
        finally:
            os.killpg(driver.pid, signal.SIGKILL)  # the driver and its Chromium, even one that hangs


def opened(browser: Browser, page: Path, fragment: str = "", **window: Any) -> Browser:
    """A page of `explore` in this browser, once it has drawn itself."""
    browser.open(page, **window)
    if fragment:
        browser.post("url", url=f"{page.as_uri()}#{fragment}")
    for _ in range(600):
        if browser.run("return document.body.dataset.ready"):
            browser.run("return built.then(() => 1)")
            return browser
        time.sleep(0.05)
    raise AssertionError(browser.run("return document.getElementById('status').textContent"))
