"""What clients say on the wire: rows and questions with points, machines and measures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from advisor.domain.rows import row_of
from advisor.protocol.declaring import called, sent
from advisor.protocol.framing import pack
from advisor.protocol.verbs import Predict, check_params


@pytest.mark.parametrize("point", [[1, 2, 3], (1, 2, 3), np.array([1, 2, 3]), np.array([1, 2, 3], np.float32)])
def test_a_predictor_of_several_values_becomes_a_list_of_floats(point: Any) -> None:
    row = row_of("a", point, np.int64(4), 1, {"machine": "m", "measures": {"energy_j": np.float64(2)}})
    assert row == ["a", [1.0, 2.0, 3.0], 4.0, 1.0, {"machine": "m", "measures": {"energy_j": 2.0}}]
    assert {type(value) for value in row[1]} == {float}
    pack(row)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"predictor": 5}, Predict("a", 5)),
        ({"predictor": None}, Predict("a")),
        ({"predictor": [1, 2], "cores": [3, 4]}, Predict("a", [1, 2], [3, 4])),
        ({"predictor": [[1, 2]]}, Predict("a", [[1, 2]])),
        ({"predictor": np.array([[1.0, 2.0], [3.0, 4.0]])}, Predict("a", [[1.0, 2.0], [3.0, 4.0]])),
        ({"machine": "m", "measure": "peak_bytes"}, Predict("a", machine="m", measure="peak_bytes")),
    ],
)
def test_a_question_is_what_the_service_reads(asked: dict[str, Any], expected: Predict) -> None:
    assert check_params("predict", [sent(called(Predict, ("a",), asked))]) == expected
