"""The report that the command writes, opened in a real browser, against what the advisor itself answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import Browser

from advisor import Advisor
from advisor.cli import main
from advisor.pictures import report

Command = Callable[..., Any]
NAMES = ("read", "blur", "write")
TEXTS = "return Array.from(document.querySelectorAll(arguments[0]), each => each.textContent)"


def rows(count: int) -> list[tuple[str, float, int, float]]:
    rng = np.random.default_rng(6)
    found: list[tuple[str, float, int, float]] = []
    for n in range(count):
        name, x, p = NAMES[n % 3], float(64 * 4 ** (n // 3 % 3)), 2 ** (n // 9 % 5)
        found.append((name, x, p, float(1e-3 * x * (0.1 + 0.9 / p) * rng.lognormal(0.0, 0.05))))
    return found


def taught(count: int = 450) -> Advisor:
    advisor = Advisor()
    for name, x, p, t in rows(count):
        advisor.observe(name, predictor=x, cores=p, elapsed_s=t)
    return advisor


def test_a_table_becomes_one_file_with_curves_coverage_and_advice(
    tmp_path: Path, browser: Browser, advisor: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    table, page = tmp_path / "runs.csv", tmp_path / "report.html"
    table.write_text("component,x,p,t\n" + "".join(f"{name},{x},{p},{t!r}\n" for name, x, p, t in rows(900)))
    advisor("report", "--table", table, "-o", page)
    assert capsys.readouterr().out == f"{page}: 3 components, {page.stat().st_size:,} bytes\n"
    browser.open(page, 1280, 900)
    assert browser.driver.title == "Advisor: runs.csv"
    reported = taught(900)
    ledger = reported.ledger()
    tiles = browser.run(TEXTS, ".tile b")
    assert tiles == ["3", "900", f"{ledger['scores']:,}", f"{ledger['covered'] / ledger['scores']:.1%}"]
    cells = browser.run(TEXTS, "[aria-label=Components] tbody tr > *")
    rows_shown = [cells[at : at + 8] for at in range(0, len(cells), 8)]
    assert sorted(row[0] for row in rows_shown) == sorted(NAMES)
    for name, runs, _, coverage, cores, size, _, why in rows_shown:
        assert runs == "300"
        assert coverage.endswith(" %")
        choice = reported.choose_cores(name, predictor=float(size), cores_max=16)
        assert (cores, why) == (f"{choice.cores} core{'' if choice.cores == 1 else 's'}", choice.why)
    browser.run("document.querySelector('a[href=\"#/component/blur\"]').click()")
    browser.until("return document.querySelectorAll('.charts svg').length === 2")
    assert browser.run(TEXTS, "figcaption b") == ["Time of a run", "Growth with the input"]
    assert browser.run("return document.querySelectorAll('.chart:nth-child(1) circle.dot').length") == 15
    browser.run("location.hash = '#/'")
    browser.until("return document.querySelectorAll('#rows tbody tr').length === 3")


def test_a_state_becomes_a_file_that_fits_a_phone(tmp_path: Path, browser: Browser, advisor: Command) -> None:
    state, page = tmp_path / "state", tmp_path / "report.html"
    state.write_bytes(taught().to_bytes())
    advisor("report", "--state", state, "--out", page)
    browser.open(page, 390, 800, dark=True)
    assert browser.run("return document.documentElement.scrollWidth") == 390


def test_a_large_state_becomes_a_file_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    reported = Advisor()
    for n in range(60):
        for p in (1, 2, 4):
            reported.observe(f"c{n}", cores=p, elapsed_s=1.0 / p, count=1 + n)
    whole = len(report.report(reported, "all", ""))
    monkeypatch.setattr(report, "COMPONENTS_MAX", 5)
    page = report.report(reported, "few", "")
    assert len(page) < 0.7 * whole
    assert '"component":"c59"' in page
    assert '"component":"c1"' not in page
    assert "These are the 5 components of most runs, of 60." in page


def test_what_cannot_be_written_is_refused_with_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = tmp_path / "state"
    state.write_bytes(taught(9).to_bytes())
    for out, words in ((tmp_path / "r.pdf", "ends in .html"), (tmp_path / "no" / "r.html", "can be written")):
        with pytest.raises(SystemExit) as ended:
            main(["report", "--state", str(state), "-o", str(out)])
        assert ended.value.code == 2
        assert words in capsys.readouterr().err
