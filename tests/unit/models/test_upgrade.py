"""States that an older layout wrote: read on load, with the same answers, and written anew in this layout."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest

from advisor.engine import Advisor, Engine
from advisor.engine.snapshot import Snapshot, TablePages
from advisor.engine.state_bytes import MAGIC
from advisor.errors import StateTooNew
from advisor.models.layout import LAYOUT, WORDS
from advisor.models.upgrade import upgraded, words_of

GOLDEN = Path(__file__).parents[2] / "golden"
OLD = (GOLDEN / "base-1.state").read_bytes()  # written by the code of base-1
ANSWERS = json.loads((GOLDEN / "base-1.answers.json").read_text(encoding="utf-8"))


def answers(advisor: Advisor) -> dict[str, list[list[float]]]:
    x = np.array([2.0, 50.0, 300.0])
    return {name: [advisor.predict(name, predictor=x, cores=c).elapsed_s.tolist() for c in (1, 4)] for name in ANSWERS}


def test_a_recorded_state_of_base_1_answers_as_it_did() -> None:
    advisor = Advisor.from_bytes(OLD)
    found = answers(advisor)
    for name, expected in ANSWERS.items():
        np.testing.assert_allclose(found[name], expected, rtol=1e-9, err_msg=name)
    table = advisor.components.table
    assert table["rows"][: len(advisor.components)].tolist() == [628, 263, 9, 0]
    assert table["failed"][3] == 1
    again = Advisor.from_bytes(advisor.to_bytes())
    assert again.to_bytes() == advisor.to_bytes()
    assert LAYOUT.encode() in advisor.to_bytes()


def test_a_recorded_state_of_base_3_answers_as_it_did_and_says_which_degrees_it_knows() -> None:
    advisor = Advisor.from_bytes((GOLDEN / "base-3.state").read_bytes())  # written by the code of base-3
    recorded = json.loads((GOLDEN / "base-3.answers.json").read_text(encoding="utf-8"))
    x = np.array([2.0, 50.0, 300.0])
    for name, models in recorded.items():
        for model, expected in models.items():
            asked = None if model == "none" else model
            found = [advisor.predict(name, predictor=x, cores=c, model=asked).elapsed_s.tolist() for c in (1, 4)]
            np.testing.assert_allclose(found, expected, rtol=1e-9, err_msg=f"{name} {model}")
    high = advisor.predict("many", predictor=50.0, cores=1, model="two_step degree 5")
    assert high.model == "two_step degree 3"
    assert "degree 3 at most, until runs on fewer cores come" in " ".join(high.notes)
    for size in range(1, 40):  # its sums at the fewest cores begin anew, with all moments
        advisor.observe("many", predictor=size * 2.5, cores=0.5, elapsed_s=1e-3 * size)
    assert advisor.predict("many", predictor=50.0, cores=1, model="two_step degree 5").model == "two_step degree 5"
    assert Advisor.from_bytes(advisor.to_bytes()).to_bytes() == advisor.to_bytes()


def test_a_recorded_state_of_base_4_answers_as_it_did_and_keeps_what_it_knows_of_contention() -> None:
    advisor = Advisor.from_bytes((GOLDEN / "base-4.state").read_bytes())  # written by the code of base-4
    recorded = json.loads((GOLDEN / "base-4.answers.json").read_text(encoding="utf-8"))
    assert advisor.contention("contended").kappa == pytest.approx(recorded["contended"].pop("kappa"))
    x = np.array([2.0, 50.0, 300.0])
    for name, models in recorded.items():
        for model, expected in models.items():
            asked = None if model == "none" else model
            found = [advisor.predict(name, predictor=x, cores=c, model=asked).elapsed_s.tolist() for c in (1, 4)]
            np.testing.assert_allclose(found, expected, rtol=1e-9, err_msg=f"{name} {model}")
    for row in range(1, 40):
        advisor.observe("contended", predictor=row * 2.5, cores=2, elapsed_s=1e-3 * row, active_cores=2 + row % 4)
    assert advisor.contention("contended").rows == 239
    assert Advisor.from_bytes(advisor.to_bytes()).to_bytes() == advisor.to_bytes()


def test_an_upgraded_component_is_tested_for_change_after_its_next_solve() -> None:
    advisor = Advisor.from_bytes(OLD)
    rng = np.random.default_rng(1)
    slot = advisor.components.slots.of("many")
    for step, rows in ((1.0, 1100), (4.0, 60)):
        x, p = rng.uniform(1, 100, rows), rng.choice([1.0, 2.0, 8.0], rows)
        t = step * (1e-3 + 1e-4 * x) * (0.2 + 0.8 / p) * rng.lognormal(0, 0.1, rows)
        advisor.observe_columns(components=["many"], index=np.zeros(rows, int), predictor=x, cores=p, elapsed_s=t)
        assert advisor.components.table["changes"][slot] == (step > 1.0)


def old_words() -> np.ndarray:
    """Return the words (w, 64) of the recorded state as a page has them."""
    (length,) = struct.unpack_from("<I", OLD, len(MAGIC))
    start, slots = len(MAGIC) + 4, 4
    header = json.loads(OLD[start : start + length])
    words = np.frombuffer(OLD, "<u8", words_of("base-1") * slots, start + length).reshape(-1, slots)
    assert (header["layout"], header["slots"]) == ("base-1", slots)
    return np.pad(words, ((0, 0), (0, 64 - slots)))


def test_pages_of_base_1_are_upgraded_and_all_written_at_the_next_commit() -> None:
    words = old_words()
    assert len(words) == words_of("base-1") == 123
    pages = TablePages("base", "base-1", np.array([0]), words[None], np.array([0b1111], np.uint64))
    engine = Engine.restore(Snapshot((pages,), ((0, "many"), (1, "some"), (2, "few"), (3, "failed"))))
    assert engine.advisor.to_bytes()[-1000:-4] == Advisor.from_bytes(OLD).to_bytes()[-1000:-4]
    (written,) = engine.commits.snapshot().tables
    assert (written.layout, written.words.shape, int(written.changed[0])) == (LAYOUT, (1, WORDS, 64), 0b1111)


def test_an_unknown_layout_is_refused() -> None:
    pages = TablePages("base", "base-99", np.array([0]), old_words()[None], np.array([1], np.uint64))
    with pytest.raises(StateTooNew, match="base-99"):
        Engine.restore(Snapshot((pages,), ((0, "many"),)))


def test_words_of_this_layout_pass_as_they_are() -> None:
    words = np.zeros((WORDS, 3))
    assert upgraded(words, LAYOUT) is words
