"""A real browser without a window, for tests of pages: Chromium behind its driver, spoken to by WebDriver.

What a page paints on a canvas is watched from outside (SPY runs before the page does), so that tests compare what was drawn
with what should be, and not with what the page believes.
"""

from __future__ import annotations

import base64
import io
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from selenium.webdriver import ActionChains, Chrome, ChromeOptions, Keys
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.actions.wheel_input import ScrollOrigin
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

# Keeps what one drawing fills, strokes and writes, of all canvases; a drawing begins where the canvas is cleared.
SPY = """{
window.spied = { rects: [], texts: [], images: [], drawings: 0 };
const pen = CanvasRenderingContext2D.prototype;
function watched(name, keep) {
  const real = pen[name];
  pen[name] = function (...given) { keep(this, given); return real.apply(this, given); };
}
watched("clearRect", () => {
  const drawings = window.spied.drawings + 1;
  Object.assign(window.spied, { rects: [], texts: [], images: [], drawings });
});
watched("fillRect", (by, box) => window.spied.rects.push([by.fillStyle, by.globalAlpha, ...box]));
watched("fillText", (by, [text, x, y]) => window.spied.texts.push([String(text), x, y, by.fillStyle]));
watched("drawImage", (by, [, ...box]) => window.spied.images.push(box));
}"""


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
        self.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": SPY})

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

    def resize(self, width: int, height: int) -> None:
        """Give the page another size."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1.0, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
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

    def wheel(self, x: float, y: float, turn: int, *, shift: bool = False) -> None:
        """Turn the wheel at a place of the page: down, away from what is shown, when positive."""
        self._at(x, y).perform()  # a wheel turns where the pointer is
        chain = ActionChains(self.driver, duration=0)
        if shift:
            chain.key_down(Keys.SHIFT)
        chain.scroll_from_origin(ScrollOrigin.from_viewport(round(x), round(y)), 0, turn)
        if shift:
            chain.key_up(Keys.SHIFT)
        chain.perform()
        self.settle()

    def point(self, x: float, y: float) -> None:
        """Rest the pointer at a place of the page."""
        self._at(x, y).perform()
        self.settle()

    def click(self, x: float, y: float, times: int = 1) -> None:
        """Click at a place of the page."""
        chain = self._at(x, y)
        for _ in range(times):
            chain.click()
        chain.perform()
        self.settle()

    def drag(self, places: Sequence[tuple[float, float]]) -> None:
        """Press at the first place, go through the others, and let go at the last."""
        chain = self._at(*places[0])
        chain.w3c_actions.pointer_action.pointer_down()
        for x, y in places[1:]:
            chain.w3c_actions.pointer_action.move_to_location(round(x), round(y))
        chain.w3c_actions.pointer_action.pointer_up()
        chain.perform()
        self.settle()

    def touch(self, *steps: Sequence[tuple[float, float]]) -> None:
        """Put fingers on the page, one a place of the first step, move them through the others, and lift them."""
        for kind, places in (("touchStart", steps[0]), *(("touchMove", step) for step in steps[1:]), ("touchEnd", ())):
            points = [{"x": x, "y": y, "id": number} for number, (x, y) in enumerate(places)]
            self.driver.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
        self.settle()

    def press(self, *keys: str) -> None:
        """Press keys, one after another, where the focus is."""
        ActionChains(self.driver, duration=0).send_keys(*keys).perform()
        self.settle()

    def pixels(self, y: float) -> list[tuple[int, int, int]]:
        """Return the colours of the chart along a line at y of it, as they are on the screen."""
        box = self.run(
            "const box = document.getElementById('chart').getBoundingClientRect(); return [box.left, box.top, box.width]"
        )
        clip = {"x": box[0], "y": box[1] + round(y), "width": box[2], "height": 1, "scale": 1}
        taken = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png", "clip": clip})
        with Image.open(io.BytesIO(base64.b64decode(taken["data"]))) as image:
            line = np.asarray(image.convert("RGB"))[0]
        return [tuple(each) for each in line.tolist()]

    def memory(self) -> float:
        """Return the bytes that the page's program holds, its arrays among them, after what is not needed is gone."""
        self.driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
        used = self.driver.execute_cdp_cmd("Runtime.getHeapUsage", {})
        return used["usedSize"] + used.get("backingStorageSize", 0.0)

    def words(self, of: str) -> str:
        """Return the text of an element."""
        return self.run("return document.getElementById(arguments[0]).textContent", of)

    def tip(self) -> str | None:
        """Return what the tip at the pointer says, if there is one."""
        return self.run("const tip = document.getElementById('tip'); return tip.hidden ? null : tip.innerText")

    def drawn(self) -> str:
        """Return the chart as it is painted."""
        return self.run("return document.getElementById('chart').toDataURL()")

    def texts(self) -> list[tuple[str, float, float, str]]:
        """Return (text, x, y, colour) of all that is written on the chart."""
        return [tuple(each) for each in self.run("return spied.texts")]

    def origin(self) -> tuple[float, float]:
        """Return where on the page the chart begins."""
        return tuple(
            self.run("const box = document.getElementById('chart').getBoundingClientRect(); return [box.left, box.top]")
        )

    def _at(self, x: float, y: float) -> ActionChains:
        chain = ActionChains(self.driver, duration=0)
        chain.w3c_actions.pointer_action.move_to_location(round(x), round(y))
        return chain
