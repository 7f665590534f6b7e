"""The pages of an export merge to what was learned, whatever is learned while they are made."""

from __future__ import annotations

from typing import Any

import pytest

from advisor.engine import Advisor, Engine
from advisor.errors import InvalidValue
from advisor.service import exporting

RUN: dict[str, Any] = {
    "workers": 2.0, "elapsed_s": 1.0, "work_s": 1.5, "delay_s": 0.4, "no_work_s": 0.1, "creates": 9.0, "waits": 3.0,
}  # fmt: skip


def taught(components: int) -> Engine:
    engine = Engine()
    advisor = engine.advisor
    for i in range(components):
        for p in (1, 2, 4):
            advisor.observe(f"c{i}", predictor=1.0 + i, cores=p, elapsed_s=0.1 / p, measures={"energy_j": 2.0 * p})
    for i in range(5):
        advisor.define_network(f"c{i} .. c{i + 1}", id=f"net {i}")
        advisor.observe_run(f"program {i}", size=10.0 + i, **RUN)
    return engine


def pages(engine: Engine) -> list[tuple[bytes, str | None]]:
    found = [exporting.page(engine, None)]
    while found[-1][1] is not None:
        found.append(exporting.page(engine, found[-1][1]))
    return found


def merged(found: list[tuple[bytes, str | None]]) -> Advisor:
    advisor = Advisor.from_bytes(found[0][0])
    for state, _ in found[1:]:
        advisor.merge(Advisor.from_bytes(state))
    return advisor


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in exporting.KINDS:
        monkeypatch.setitem(exporting.A_PAGE, kind, 3)


def test_pages_merge_to_the_whole_to_the_byte() -> None:
    engine = taught(10)
    found = pages(engine)
    assert len(found) > 8
    assert merged(found).extract() == engine.advisor.extract()


def test_what_is_there_throughout_is_told_while_others_come_and_go() -> None:
    engine = taught(10)
    advisor = engine.advisor
    found = [exporting.page(engine, None)]
    advisor.remove_components(["c0", "c1", "c8"])
    advisor.observe("new", elapsed_s=1.0)
    while found[-1][1] is not None:
        found.append(exporting.page(engine, found[-1][1]))
    names = {each["component"] for each in merged(found).status()["components"]}
    assert {"c2", "c3", "c4", "c5", "c6", "c7", "c9"} <= names


@pytest.mark.parametrize("after", ["", "nobody:3", "components", "totals", ":", "producers:"])
def test_what_no_page_ended_with_is_refused(after: str) -> None:
    if after:
        with pytest.raises(InvalidValue, match="after"):
            exporting.page(taught(1), after)
    else:
        assert exporting.page(Engine(), after) == exporting.page(Engine(), None)
