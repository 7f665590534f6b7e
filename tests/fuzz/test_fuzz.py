"""Any bytes are answered, or refused with words: inputs near legal ones, and those that once were not.

Ten million inputs, led by coverage (the extra `fuzz`): ``PYTHONPATH=.:tests/support python tests/support/fuzz_run.py``.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from typing import Any

import pytest
from fuzz_mutation import mutated
from fuzz_questions import QUESTIONS
from fuzz_targets import CORPUS, TARGETS, fed, seeds

from advisor.protocol.verbs import check_params

INPUTS = 150
MANY = 20_000
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning"),  # the answer is what counts
    pytest.mark.filterwarnings("ignore:.*:UserWarning"),
]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def _feed(target: str, data: bytes) -> None:
    try:
        fed(target, data)
    except Exception as defect:
        defect.add_note(f"{target}: {data!r}; keep it in tests/fuzz/corpus/{target}")
        raise


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("inputs", [INPUTS, pytest.param(MANY, marks=pytest.mark.slow)])
def test_bytes_near_legal_ones_are_answered_or_refused_with_words(target: str, inputs: int) -> None:
    known, rng = seeds(target), random.Random(f"{target} {inputs}")
    for data in known:
        _feed(target, data)
    for _ in range(inputs):
        _feed(target, mutated(rng, known))


@pytest.mark.parametrize(("verb", "params"), QUESTIONS)
def test_mutation_begins_with_legal_questions(verb: str, params: Any) -> None:
    check_params(verb, params if isinstance(params, list) else [params], notification=verb == "observe")


def test_what_is_kept_belongs_to_a_target() -> None:
    assert {folder.name for folder in CORPUS.iterdir()} <= set(TARGETS)
