"""The methods of the clients follow from the declarations of the verbs: signature, help, and what is refused at once."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

from advisor import AsyncClient, SyncClient
from advisor.errors import InvalidValue, TooLarge, UnknownKey
from advisor.protocol.verbs import METHODS, NUMBERING

NOBODY = "/nowhere/advisor.sock"  # no service is there: what is refused here never left the client
DECLARED = ("predict", "choose_cores", "choose_together", "suggest", "allocate", "allocate_together",
            "watch", "curves", "flow",
            "simulate", "status", "profile", "predict_run", "export", "shards",
            "forget", "pin", "set_allowed", "observe_run")  # fmt: skip


@pytest.mark.parametrize("client", [AsyncClient, SyncClient])
@pytest.mark.parametrize("verb", DECLARED)
def test_a_method_has_the_keys_and_the_help_of_its_declaration(client: type, verb: str) -> None:
    method, declared = getattr(client, verb), METHODS[verb]
    assert declared.keys.keys() - set(NUMBERING) <= inspect.signature(method).parameters.keys()
    assert not {"incarnation", "sequence"} & inspect.signature(method).parameters.keys() or verb == "profile"
    assert "timeout_s" in inspect.signature(method).parameters
    assert inspect.getdoc(method) == inspect.getdoc(declared.into)


@pytest.mark.parametrize(
    ("verb", "given", "error", "field", "hint"),
    [
        ("predict", {"component": "a", "predictr": 3}, UnknownKey, "predictr", "did you mean 'predictor'?"),
        ("allocate", {"network": "a", "cores": 2, "objective": "speed"}, InvalidValue, "objective", ""),
        ("choose_cores", {"component": "a", "cores_max": 0}, InvalidValue, "cores_max", ""),
        ("choose_cores", {"component": "a", "allowed": []}, InvalidValue, "allowed", ""),
        ("choose_cores", {"component": "a", "cores_max": 4, "explore": 60.0}, InvalidValue, "explore", None),
        (
            "predict",
            {"component": "a", "predictor": [[1.0] * 5], "cores": [1]},
            TooLarge,
            "length of predictor[0]",
            None,
        ),
        ("flow", {}, InvalidValue, "network", None),
    ],
)
def test_what_the_service_would_refuse_is_refused_at_once(
    verb: str, given: dict[str, Any], error: type, field: str, hint: str | None
) -> None:
    client = AsyncClient(NOBODY)
    with pytest.raises(error) as caught:
        getattr(client, verb)(**given)  # not awaited: the call itself refuses
    assert caught.value.field == field
    assert hint is None or caught.value.hint == hint


def test_a_synchronous_client_refuses_an_option_that_it_does_not_have(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="producr"):
        SyncClient(str(tmp_path / "s"), producr="x")  # type: ignore[call-arg]
    with SyncClient(str(tmp_path / "s"), close_s=0.0) as client, pytest.raises(UnknownKey, match="predictr"):
        client.predict("a", predictr=3)  # type: ignore[call-arg]
