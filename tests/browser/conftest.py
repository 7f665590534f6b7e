"""One browser for all tests of a worker; without one they are skipped, loudly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from browser import MISSING, Browser

from advisor.cli import main


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    if MISSING:
        pytest.skip("no chromium and chromedriver here: pages were not opened in a browser")
    browser = Browser()
    yield browser
    browser.close()


@pytest.fixture
def browser(chromium: Browser) -> Iterator[Browser]:
    """The browser; what a test has shown in it must have said nothing on the console and asked for nothing but itself."""
    yield chromium
    said, asked = chromium.logs()
    assert said == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []


@pytest.fixture
def advisor() -> Callable[..., Any]:
    """The command line, run to its end."""

    def call(*arguments: object) -> None:
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        assert ended.value.code in (0, None)

    return call
