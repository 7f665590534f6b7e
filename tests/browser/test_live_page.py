"""The live page of a service, in a real browser: clicked, typed into, read, as narrow as a phone and as wide as a desk."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import PATIENCE_S, Browser
from live import Live, serving

from advisor import SyncClient

TEXT = "net main connect read .. (small | large) .. write;"
SIZES, CORES = (64.0, 256.0, 1024.0), (1, 2, 4, 8, 16)
VIEWS = ("", "component/blur")
WIDTHS = (360, 820, 1440)

# Labels of axes: pairs of texts of one chart that lie on one another.
OVERLAPS = """return Array.from(document.querySelectorAll('.chart svg')).flatMap(svg => {
  const texts = Array.from(svg.querySelectorAll('text'));
  const boxes = texts.map(text => [text.textContent, text.getBoundingClientRect()]);
  const lie = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 2 && b.top < a.bottom - 2;
  return boxes.flatMap(([a, one], i) => boxes.slice(i + 1).filter(([, two]) => lie(one, two)).map(([b]) => a + " / " + b));
})"""
TEXTS = "return Array.from(document.querySelectorAll(arguments[0]), each => each.textContent)"


class Served:
    """A service, the address of its page, and a client."""

    def __init__(self, live: Live) -> None:
        self.url, self.socket = f"http://{live.bound.http}", live.bound.socket
        self.stop = live.end

    def client(self, **options: Any) -> SyncClient:
        return SyncClient(str(self.socket), timeout_s=PATIENCE_S, **options)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path, http="127.0.0.1:0") as live:
        yield Served(live)


@pytest.fixture
def window(chromium: Browser) -> Iterator[Browser]:
    """The browser; what a test has shown in it must have said nothing on the console and asked its own service only."""
    yield chromium
    chromium.driver.get("about:blank")  # it asks no more
    said, asked = chromium.logs()
    assert said == []
    assert {url.partition("://")[0] for url in asked} <= {"http", "data", "about"}
    assert len({url.split("/")[2] for url in asked if url.startswith("http")}) <= 1


def rows(client: SyncClient, names: tuple[str, ...] = ("blur", "read", "small", "large", "write")) -> None:
    rng = np.random.default_rng(2)
    for _ in range(4):
        for n, name in enumerate(names):
            for x in SIZES:
                for p in CORES:
                    client.observe(
                        name, predictor=x, cores=p,
                        elapsed_s=1e-3 * (1 + n) * x * (0.1 + 0.9 / p) * float(rng.lognormal(0.0, 0.05)),
                    )  # fmt: skip
    client.flush()


def go(window: Browser, served: Served, view: str = "", width: int = 1000, **how: Any) -> None:
    window.logs()
    window.visit(f"{served.url}/#/{view}", width, 900, **how)
    window.driver.refresh()  # where only the hash differs nothing is loaded
    window.until("return document.documentElement.dataset.live === 'good'")
    window.settle()


def test_what_is_observed_appears_by_itself(window: Browser, served: Served) -> None:
    go(window, served)
    window.until(
        "return document.querySelector('#rows .empty')?.textContent.includes(arguments[0])", str(served.socket)
    )
    with served.client(producer="scheduler") as client:
        rows(client)
        window.until("return document.querySelectorAll('#rows tbody tr').length === 5")
        window.until("return document.querySelector('.tiles .tile:nth-child(2) b').textContent === '300'")
        assert set(window.run(TEXTS, "#rows tbody th")) == {"blur", "read", "small", "large", "write"}
        client.observe("late", elapsed_s=0.5)
        client.flush()
        window.until(
            "return Array.from(document.querySelectorAll('#rows tbody th'), h => h.textContent).includes('late')"
        )


def test_a_component_is_found_and_its_curves_tell_what_was_learned(window: Browser, served: Served) -> None:
    with served.client() as client:
        rows(client)
        wanted = client.predict("blur", predictor=256.0, cores=8)
        chosen = client.choose_cores("blur", predictor=256.0, cores_max=16)
    go(window, served)
    window.until("return document.querySelectorAll('#rows tbody tr').length === 5")
    window.run("document.getElementById('find').focus()")
    window.press(*"LU")
    window.until("return document.querySelectorAll('#rows tbody tr').length === 1")
    window.run("document.querySelector('#rows tbody a').click()")
    window.until("return document.querySelectorAll('.charts .chart svg circle.dot').length > 0")
    assert window.run("return document.querySelector('h1').textContent") == "blur"
    assert window.run("return document.title").startswith("blur")
    assert window.run(TEXTS, "figcaption b") == ["Time of a run", "Growth with the input"]
    labels = window.run(TEXTS, "svg text.label")
    assert labels == [
        "elapsed time of one run", "cores", "elapsed time of one run", "predictor (size of the input)",
    ]  # fmt: skip
    assert window.run("return document.querySelectorAll('.chart:nth-child(1) circle.dot').length") == len(SIZES) * len(
        CORES
    )
    assert window.run("return document.querySelectorAll('.chart:nth-child(1) path.band').length") == len(SIZES)
    assert f"Give it {chosen.cores} cores" in window.run("return document.querySelector('.advice').textContent")
    window.run("document.querySelector('.chart summary').click()")
    cells = window.run(TEXTS, ".chart:nth-child(1) tbody tr > *")
    columns = window.run(TEXTS, ".chart:nth-child(1) thead th")
    middle = cells[cells.index("8") + columns.index("size 256")]
    number, unit = middle.split(" (")[0].split(" ")
    assert float(number) * {"s": 1.0, "ms": 1e-3}[unit] == pytest.approx(wanted.elapsed_s, rel=2e-3)
    assert window.run(TEXTS, ".chart:nth-child(1) circle.dot title")[0].endswith(" runs")


def test_after_a_restart_the_page_shows_what_the_state_has(window: Browser, tmp_path: Path) -> None:
    with serving(tmp_path, state=tmp_path / "state") as live, Served(live).client() as client:
        rows(client)
    with serving(tmp_path, state=tmp_path / "state", http="127.0.0.1:0") as live:
        served = Served(live)
        go(window, served)
        window.until("return document.querySelectorAll('#rows tbody tr').length === 5")
        assert window.run(TEXTS, ".tile b")[2].endswith(" %")
        assert sorted(window.run(TEXTS, "[aria-label=Components] tbody th")) == [
            "blur",
            "large",
            "read",
            "small",
            "write",
        ]
        with served.client() as client:
            chosen = client.choose_cores("blur", predictor=256.0, cores_max=16)
        window.until("return document.querySelectorAll('[aria-label=\"Choices of cores\"] tbody tr').length === 1")
        name, cores, size, _, why = window.run(TEXTS, "[aria-label='Choices of cores'] tbody tr > *")
        assert (name, cores, size) == ("blur", f"{chosen.cores} cores", "256")
        assert why.startswith(chosen.why)


def test_an_answer_says_why(window: Browser, served: Served) -> None:
    with served.client() as client:
        rows(client)
        given = client.allocate(TEXT, cores=24, shares=[[0.75, 0.25]], turns="never")
        sentences = [reason.text for reason in given.why]
        go(window, served)
        window.until("return document.querySelectorAll('article.answer').length === 1")
        window.run("document.querySelector('article.answer details').open = true")
        window.until("return document.querySelectorAll('details[open] ol.why li').length > 0")
        said = window.run(TEXTS, "details[open] ol.why li")
        assert all(any(text in each for each in said) for text in sentences)
        assert any(each.startswith("Cores: ") for each in said)
        client.allocate(TEXT, cores=30, shares=[[0.75, 0.25]])
        window.until("return document.querySelectorAll('article.answer').length === 2")
        opened = "return document.querySelectorAll('details[open] ol.why li').length === arguments[0]"
        window.until(opened, len(said))  # stays open


def test_of_ten_thousand_components_a_page_holds_a_few(window: Browser, served: Served) -> None:
    names = [f"stage_{n:05}" for n in range(10_000)]
    with served.client() as client:
        client.observe_columns(
            components=names, index=np.tile(np.arange(10_000), 2), cores=np.repeat([1.0, 4.0], 10_000),
            elapsed_s=np.repeat([1.0, 0.5], 10_000),
        )  # fmt: skip
        client.observe("needle_in_the_hay", elapsed_s=1.0)
        client.flush()
    go(window, served)
    window.until("return document.querySelectorAll('#rows tbody tr').length === 24")
    assert window.run("return document.querySelector('.controls p').textContent") == "10,001 components"
    nodes = window.run("return document.querySelectorAll('*').length")
    window.run("document.getElementById('after').click()")
    window.until("return document.querySelector('#rows').dataset.page === '1'")
    window.run("document.getElementById('find').focus()")
    window.press(*"Needle")
    window.until("return document.querySelectorAll('#rows tbody tr').length === 1")
    assert window.run(TEXTS, "#rows tbody th") == ["needle_in_the_hay"]
    window.run("const find = document.getElementById('find'); find.value = ''; find.dispatchEvent(new Event('input'))")
    window.until("return document.querySelectorAll('#rows tbody tr').length === 24")
    assert abs(window.run("return document.querySelectorAll('*').length") - nodes) < 200
    assert window.memory() < 100e6


def test_what_an_empty_page_says_to_run_runs_as_it_stands(window: Browser, served: Served) -> None:
    def said(place: str) -> str:
        go(window, served)
        window.until("return document.querySelector(arguments[0])", place)
        return window.run(TEXTS, place)[0]

    subprocess.run([sys.executable, "-c", said("#rows .empty pre")], check=True)
    window.until("return document.querySelectorAll('#rows tbody tr').length === 1")
    line = said(".stack .empty pre")
    command = line.replace("advisor", f"{shlex.quote(sys.executable)} -m advisor.cli", 1)
    subprocess.run(["sh", "-c", command], check=True, stdout=subprocess.DEVNULL)
    go(window, served)
    window.until("return document.querySelector('article.answer')")


def test_what_could_not_be_shown_is_shown_once_it_can(window: Browser, served: Served) -> None:
    words = "return document.getElementById('main').textContent.includes('That could not be shown')"
    go(window, served, "component/late")
    window.until(words)
    with served.client() as client:
        for cores in CORES:
            client.observe("late", cores=cores, elapsed_s=1.0 / cores)
        client.flush()
    window.until("return document.querySelectorAll('.charts svg').length > 0")
    assert not window.run(words)
    window.logs()  # a browser notes each answer that there was none


def test_nothing_overlaps_and_nothing_is_cut_at_any_width_in_light_and_dark(window: Browser, served: Served) -> None:
    with served.client() as client:
        rows(client, ("blur", "a" * 200, "解析 مكوّن", "read", "small", "large", "write"))
        client.allocate(TEXT, cores=24, shares=[[0.75, 0.25]])
    grounds = set[str]()
    for width in WIDTHS:
        for view in VIEWS:
            go(window, served, view, width, dark=width == WIDTHS[1])
            window.until("return document.querySelector('.chart svg, .empty, .facts, .answer, tbody tr')")
            assert window.run("return document.documentElement.scrollWidth") == width, (width, view)
            assert window.run(OVERLAPS) == [], (width, view)
            assert window.run("return Array.from(document.querySelectorAll('section')).every(s => s.innerText.trim())")
            grounds.add(window.run("return getComputedStyle(document.body).backgroundColor"))
    assert len(grounds) == 2


def test_names_are_text(window: Browser, served: Served) -> None:
    hostile = ["</script><script>window.hit = 1</script>", "<img src=x onerror='window.hit=1'>", "{{DATA}}/../#?&%41"]
    with served.client(producer="<b onmouseover='window.hit=1'>p</b>") as client:
        for name in hostile:
            for p in (1, 2, 4):
                client.observe(name, cores=p, elapsed_s=1.0 / p)
        client.flush()
        go(window, served)
        window.until("return document.querySelectorAll('#rows tbody tr').length === 3")
        assert sorted(window.run(TEXTS, "#rows tbody th")) == sorted(hostile)
        for name in hostile:
            window.run("location.hash = '#/'")
            links = "Array.from(document.querySelectorAll('#rows a'))"
            window.until(
                f"const link = {links}.find(c => c.textContent.includes(arguments[0])); link?.click(); return link",
                name,
            )
            window.until("return document.querySelector('h1')?.textContent === arguments[0]", name)
            window.until("return document.querySelectorAll('.charts svg').length > 0")
    assert window.run("return [document.images.length, document.scripts.length, window.hit ?? null]") == [0, 2, None]


def test_the_page_says_that_the_service_has_stopped(window: Browser, served: Served) -> None:
    go(window, served)
    served.stop()
    window.until("return document.getElementById('live').textContent.includes('stopped')")
    window.driver.get("about:blank")
    window.logs()  # it may have tried again
