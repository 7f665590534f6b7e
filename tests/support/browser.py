"""A real browser without a window, for tests of pages: Chromium behind its driver, spoken to by WebDriver."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from selenium.webdriver import ActionChains, Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
MISSING = not (CHROMIUM and DRIVER)
PATIENCE_S = 120  # a page that hangs fails its test after this, whatever the machine

FLAGS = (
    "--headless=new",
    "--no-sandbox",  # tests may run as root, and open files of their own only
    "--disable-gpu",
    "--disable-dev-shm-usage",  # containers give 64 MB of it
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--no-first-run",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # no page may reach anything but services of tests
)


class Browser:
    """One browser; `open` shows a page in it."""

    def __init__(self) -> None:
        options = ChromeOptions()
        options.binary_location = CHROMIUM or ""
        for flag in FLAGS:
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        quiet = {**os.environ, "SE_AVOID_STATS": "true", "SE_OFFLINE": "true"}
        self.driver = Chrome(options=options, service=Service(DRIVER, env=quiet))
        self.driver.set_page_load_timeout(PATIENCE_S)
        self.driver.set_script_timeout(PATIENCE_S)

    def close(self) -> None:
        """End it."""
        self.driver.quit()

    def open(self, page: Path, width: int = 1000, height: int = 600, *, dark: bool = False, dots: float = 1.0) -> None:
        """Show a file at a size in CSS pixels, `dots` of the screen each."""
        self.visit(page.absolute().as_uri(), width, height, dark=dark, dots=dots)

    def visit(self, url: str, width: int = 1000, height: int = 600, *, dark: bool = False, dots: float = 1.0) -> None:
        """Show what an address names."""
        size = {"width": width, "height": height, "deviceScaleFactor": dots, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        self.logs()  # of the page before
        self.driver.get(url)
        self.settle()

    def run(self, script: str, *given: Any) -> Any:
        """Return what a function's body returns in the page."""
        return self.driver.execute_script(script, *given)

    def until(self, script: str, *given: Any) -> Any:
        """Wait until a function's body returns something true in the page, and return it."""
        return WebDriverWait(self.driver, PATIENCE_S, poll_frequency=0.05).until(
            lambda _: self.run(script, *given), script
        )

    def settle(self) -> None:
        """Wait until what has happened is drawn: two frames, since the first may be under way."""
        self.driver.execute_async_script(
            "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done)));"
        )

    def logs(self) -> tuple[list[str], list[str]]:
        """Return what the console has said and which addresses were asked for, since the last call."""
        said = [entry["message"] for entry in self.driver.get_log("browser")]
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        asked = [each["params"]["request"]["url"] for each in events if each["method"] == "Network.requestWillBeSent"]
        return said, asked

    def click(self, x: float, y: float, times: int = 1) -> None:
        """Click at a place of the page."""
        chain = self._at(x, y)
        for _ in range(times):
            chain.click()
        chain.perform()
        self.settle()

    def press(self, *keys: str) -> None:
        """Press keys, one after another, where the focus is."""
        ActionChains(self.driver, duration=0).send_keys(*keys).perform()
        self.settle()

    def memory(self) -> float:
        """Return the bytes that the page's program holds, its arrays among them, after what is not needed is gone."""
        self.driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
        used = self.driver.execute_cdp_cmd("Runtime.getHeapUsage", {})
        return used["usedSize"] + used.get("backingStorageSize", 0.0)

    def words(self, of: str) -> str:
        """Return the text of an element."""
        return self.run("return document.getElementById(arguments[0]).textContent", of)

    def _at(self, x: float, y: float) -> ActionChains:
        chain = ActionChains(self.driver, duration=0)
        chain.w3c_actions.pointer_action.move_to_location(round(x), round(y))
        return chain
