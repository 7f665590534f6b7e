"""`advisor network`: the text, the errors and the exit status."""

from __future__ import annotations

import json
from pathlib import Path

from built_networks import join, series
from click.testing import CliRunner

from advisor.cli import advisor
from advisor.domain.networks import network_from_nodes
from advisor.network import parse

TEXT = """box f ((a) -> (a) | (b));
net main connect f .. ([{a} -> {c}] | (g * {done}));
"""


def run(*arguments: str | Path, given: str | None = None) -> tuple[int, str, str]:
    result = CliRunner().invoke(advisor, ["network", *map(str, arguments)], input=given)
    return result.exit_code, result.stdout, result.stderr


def test_the_text_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "main.snet"
    path.write_text(TEXT)
    status, out, _ = run(path)
    assert status == 0
    assert "f .. ([{a} -> {c}] | g * {done})" in out
    assert "2 components (box 2, filter 1, replication 1, choice 1, series 1)" in out


def test_json_holds_the_network() -> None:
    status, out, _ = run("-", "--json", given=TEXT + "net other connect f .. [{z} -> {}];")
    found = json.loads(out)
    assert status == 0
    network = parse(TEXT + "net other connect f .. [{z} -> {}];")
    assert network_from_nodes(found["nodes"]) == network == parse(found["snet"])
    assert found["keys"] == ["f"]
    assert json.loads(run("-", "--json", "--net", "main", given=TEXT)[1])["keys"] == ["f", "g"]


def test_json_networks_are_read_too() -> None:
    status, out, _ = run("-", given=json.dumps(series("a", join("b", "c")).as_nodes()))
    assert status == 0
    assert "join 1" in out


def test_an_error_has_line_and_column() -> None:
    status, out, err = run("-", given="net main\n  connect a .. b ..;\n")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "line 2, column 20" in err
    status, out, err = run("-", "--json", given="a .. ")
    assert (status, out) == (2, "")
    assert json.loads(err)["error"]["code"] == "network_syntax"
