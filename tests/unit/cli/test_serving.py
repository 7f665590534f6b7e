"""`advisor serve`: every key of the configuration as an option and as a variable of the environment; where commands ask."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from advisor.cli import advisor
from advisor.cli.serving import serve_command
from advisor.client.address import default_socket
from advisor.service import SETTINGS, Config, load_config

# A value of each key, other than its default, as text; a list has two.
TEXTS = {
    "socket": "/tmp/a", "socket_mode": "0660", "tcp": "127.0.0.1:1", "http": "127.0.0.1:2",
    "http_hosts": "a b", "state": "/tmp/b",
    "engine": "ray://127.0.0.1:3", "shards": "4",
    "accept_damage": "true", "tokens": "/tmp/c", "tls_certificate": "/tmp/e", "tls_key": "/tmp/f",
    "tls_clients": "/tmp/g", "open_beyond_loopback": "tcp snet", "components_max": "7",
    "model_memory": "3145728", "connections_max": "9",
    "stall_s": "3", "compiled": "false",
    "heavy_deadline_s": "6", "log_level": "debug",
    "advise": "film=throughput_per_s:20 *=cores:8",
    "snet_resources": "1 2=film*2",
}  # fmt: skip


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Config]:
    """Run no service: keep what it would have been told."""
    reported: list[Config] = []
    monkeypatch.setattr("advisor.service.server.run", lambda config, *_: reported.append(config))
    monkeypatch.setattr("advisor.service.run", lambda config, *_: reported.append(config), raising=False)
    return reported


def typed(key: str) -> Any:
    """Return the value of a key as a TOML file has it."""
    setting, text = SETTINGS[key], TEXTS[key]
    if setting.option.type is bool:
        return text in ("true", "1", "yes", "on")
    return text.split() if setting.many else setting.option.type(text)


def test_every_key_is_an_option_and_a_variable(started: list[Config]) -> None:
    keys = list(SETTINGS)
    assert [each.name for each in serve_command.params] == ["config", *keys]
    assert keys == list(TEXTS)
    wanted = load_config(**{key: typed(key) for key in keys})
    environment = {f"ADVISOR_{key.upper()}": text for key, text in TEXTS.items()}
    arguments = ["serve"]
    for option in serve_command.params[1:]:
        assert option.name is not None
        if option.type.name == "boolean":
            arguments += [option.opts[0] if typed(option.name) else option.secondary_opts[0]]
        else:
            arguments += [text for each in TEXTS[option.name].split() for text in (option.opts[0], each)]
    for given in ((["serve"], environment), (arguments, {})):
        done = CliRunner().invoke(advisor, given[0], env=given[1])
        assert done.exit_code == 0, done.output
        assert started.pop() == wanted


def test_options_overrule_the_environment_and_that_the_file(started: list[Config], tmp_path: Path) -> None:
    file = tmp_path / "advisor.toml"
    file.write_text('socket = "/a"\nstall_s = 1\nconnections_max = 7\nshards = 1\n')
    done = CliRunner().invoke(
        advisor, ["serve", "--config", str(file), "--shards", "3"],
        env={"ADVISOR_STALL_S": "2", "ADVISOR_SHARDS": "2"},
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    reported = started.pop()
    assert (reported.socket, reported.connections_max, reported.stall_s, reported.shards) == (Path("/a"), 7, 2.0, 3)


def test_the_commands_of_the_page_of_clusters_are_taken(started: list[Config]) -> None:
    page = (Path(__file__).parents[3] / "docs" / "cluster.md").read_text(encoding="utf-8")
    lines = re.findall(r"^advisor (serve --engine .*)$", page, re.MULTILINE)
    for line in lines:
        done = CliRunner().invoke(advisor, shlex.split(line, comments=True))
        assert done.exit_code == 0, done.output
        assert started.pop().sharded
    assert len(lines) == 2


def test_a_service_told_nothing_listens_where_commands_look(
    started: list[Config], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert CliRunner().invoke(advisor, ["serve"]).exit_code == 0
    assert started.pop().socket == default_socket() == tmp_path / "advisor" / "socket"
    assert CliRunner().invoke(advisor, ["serve", "--tcp", "127.0.0.1:0"]).exit_code == 0
    assert started.pop().socket is None
