"""Configuration: every key is checked, what is unknown is named, what is unsafe needs to be said aloud."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from advisor.errors import InvalidValue, UnknownKey
from advisor.service import Address, load_config


def test_a_file_and_options_together_options_win(tmp_path: Path) -> None:
    file = tmp_path / "advisor.toml"
    file.write_text('socket = "/run/a"\nstall_s = 3\ncomponents_max = 5\nhttp = "127.0.0.1:9117"\n')
    config = load_config(file, stall_s=4.0, state=None)
    assert (config.socket, config.stall_s, config.components_max) == (Path("/run/a"), 4.0, 5)
    assert config.http == Address("127.0.0.1", 9117)
    assert config.state is None


def test_an_unknown_key_is_named() -> None:
    with pytest.raises(UnknownKey, match="'stal_s'") as caught:
        load_config(socket="/s", stal_s=3)
    assert "stall_s" in str(caught.value.bound)
    assert "did you mean 'stall_s'?" in str(caught.value)


WRONG = Path(__file__).with_name("wrong_config.jsonl")  # a line each: keys and values, the field that is named


@pytest.mark.parametrize(("given", "field"), [*map(json.loads, WRONG.read_text().splitlines())])
def test_a_bad_value_is_named_with_its_bound(given: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        load_config(**given)
    assert caught.value.field == field
    assert caught.value.bound


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match=r"missing\.toml.*No such file"):
        load_config(tmp_path / "missing.toml")
    (tmp_path / "bad.toml").write_text("socket = ")
    with pytest.raises(InvalidValue, match="TOML"):
        load_config(tmp_path / "bad.toml")


def test_somewhere_to_listen_is_needed() -> None:
    with pytest.raises(InvalidValue, match="socket"):
        load_config(state="/state")


def test_tcp_beyond_loopback_needs_token_and_tls_or_an_explicit_flag(tmp_path: Path) -> None:
    load_config(tcp="127.0.0.1:0")
    load_config(tcp="[::1]:0")
    load_config(tcp="localhost:0")
    token = tmp_path / "token"
    with pytest.raises(InvalidValue, match="token"):
        load_config(tcp="0.0.0.0:0")
    with pytest.raises(InvalidValue, match="TLS"):
        load_config(tcp="0.0.0.0:0", tokens=token)
    with pytest.raises(InvalidValue, match="tls_key"):
        load_config(tcp="127.0.0.1:0", tls_certificate=token)
    load_config(tcp="0.0.0.0:0", tokens=token, open_beyond_loopback="tcp")
    load_config(tcp="0.0.0.0:0", tokens=token, tls_certificate=token, tls_key=token)
    load_config(tcp="0.0.0.0:0", tls_clients=token, tls_certificate=token, tls_key=token)


def test_shards_need_a_folder_for_their_states() -> None:
    with pytest.raises(InvalidValue, match="state"):
        load_config(socket="/s", engine="ray")
    assert load_config(socket="/s", engine="ray", state="/f").sharded
