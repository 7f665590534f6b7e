"""What is kept between questions changes no answer: an advisor that is asked after every row answers as a fresh one does."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.engine import Advisor
from advisor.engine import mixtures as kept

QUESTIONS = [(3.0, 1.0), (40.0, 8.0), (900.0, 2.0)]


def answers(advisor: Advisor, names: list[str]) -> list[dict[str, object]]:
    return [advisor.predict(name, predictor=x, cores=p).as_dict() for name in names for x, p in QUESTIONS]


@pytest.mark.parametrize("grounds", [0, 1, 64])
@pytest.mark.parametrize("sizes", [None, [1.0, 10.0, 100.0]])
def test_asked_after_every_row_it_answers_as_a_fresh_one(
    grounds: int, sizes: list[float] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "GROUNDS_KEPT", grounds)
    rng = np.random.default_rng(8)
    advisor, names = Advisor(), ["a", "b"]
    for row in range(140):
        x = float(rng.choice(sizes) if sizes else np.exp(rng.uniform(0, 7)))
        p = float(rng.choice([1.0, 2.0, 8.0]))
        t = 1e-3 * x * (0.1 + 0.9 / p) * rng.lognormal(0, 0.1) * (4.0 if row > 120 else 1.0)
        for name in names if row < 2 else [names[row % 2]]:
            advisor.observe(name, predictor=x, cores=p, elapsed_s=t)
        if row == 100:
            advisor.forget("a", keep=0.5)
        asked = answers(advisor, names) if row % 3 == 0 or row > 120 else []
        if row % 10 == 0 or row == 101:
            assert (asked or answers(advisor, names)) == answers(Advisor.from_bytes(advisor.to_bytes()), names)
