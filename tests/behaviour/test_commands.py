"""Commands as a user types them: exit status 0 when done, 1 where the service fails, 2 where the command is at fault.

`tests/golden/test_pages.py` runs every block of README and pages; here is what holds for every command.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from served import Served, command

from advisor.cli import main

WRONG = Path(__file__).with_name("wrong_commands.txt")  # a line each: the words => what is said
FILES = {
    "square.csv": "component,x,p,t\n" + "".join(
        f"{name},{x},{p},{work * x * (0.1 + 0.9 / p)}\n"
        for name, work in (("square", 2e-3), ("linear", 1e-3)) for x in range(100, 1001, 100) for p in (1, 2, 4, 8)
    ),
    "rows.csv": "component,x,p,t\n" + "".join(
        f"{name},{x},{p},{work * x * (0.1 + 0.9 / p)}\n"
        for name, work in (("a", 1.0), ("b", 2.0), ("c", 1.0)) for x in (1, 2, 3, 4) for p in (1, 2, 4, 8, 16)
    ),
    "pipeline.snet": "net pipeline connect square .. linear;", "abc.snet": "a .. b .. c", "star.snet": "(a * {x}) .. b",
    "both.json": '[{"network": "a .. b", "name": "A"}, {"network": "(a | b) .. c", "name": "B", "shares": [[1, 1]]}]',
    "A.snet": "a .. b", "untyped.snet": "(a | b) .. c",
    "typed.snet": "box a ((x) -> (y)); box b ((y) -> (z)); box c ((y) -> (z)); net n connect a .. (b | c);",
    "graph.json": json.dumps({"unit": "ms", "tasks": [
        {"id": "load", "time": 4.0},
        *({"id": f"part{k}", "time": 1.0 + k, "after": ["load"], "type": "part"} for k in range(6)),
        {"id": "join", "time": 2.0, "after": [f"part{k}" for k in range(6)]},
    ]}),
}  # fmt: skip
QUICK_START = Path(__file__).parents[2] / "docs" / "quick-start.md"
TABLE = "component,x,p,t\n" + "".join(f"blur,{x},{p},{1e-3 * x / p}\n" for x in (100, 200, 400) for p in (1, 2, 4))
STATE = ("--state", "taught.state")
# (words, exit status, what standard output or standard error must hold)
TYPED: list[tuple[tuple[str, ...], int, str]] = [
    (("--version",), 0, "advisor"),
    (("--help",), 0, "choose-cores"),
    (("predict", "--help"), 0, "--predictor"),
    (("predict", "blur", "--predictor", "300", "--cores", "2", *STATE), 0, "150 ms"),
    (("choose-cores", "blur", "--predictor", "300", "--cores-max", "4", *STATE), 0, "4"),
    (("suggest", "blur", "--cores-max", "8", *STATE), 0, ""),
    (("allocate", "net.snet", "--cores", "4", *STATE), 0, "blur"),
    (("network", "net.snet"), 0, "blur"),
    (("status", *STATE), 0, "blur"),
    (("replay", "runs.csv"), 0, ""),
    (("report", *STATE, "-o", "report.html"), 0, ""),
    (("import", "taught.state", "--state", "fresh.state"), 0, ""),
    (("predict", "blurr", "--predictor", "300", "--cores", "2", *STATE), 2, "blur"),
    (("predict", "blur", "--predictor", "three", "--cores", "2", *STATE), 2, "three"),
    (("allocate", "missing.snet", "--cores", "4", *STATE), 2, "missing.snet"),
    (("nothing",), 2, "nothing"),
    (("predict", "blur", "--state", "missing.state"), 2, "missing.state"),
    (("status", "--socket", "missing/socket"), 1, "missing/socket"),
    (("forget", "blur", "--socket", "missing/socket"), 1, "missing/socket"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("commands")
    (made / "runs.csv").write_text(TABLE)
    (made / "net.snet").write_text("net main connect blur;")
    done = command("export", "taught.state", "--table", "runs.csv", folder=made)
    assert done.returncode == 0, done.stderr
    return made


@pytest.mark.parametrize(("words", "status", "held"), TYPED, ids=[" ".join(each[0]) for each in TYPED])
def test_a_command_ends_as_it_says(folder: Path, words: tuple[str, ...], status: int, held: str) -> None:
    done = command(*words, folder=folder)
    assert done.returncode == status, done.stderr
    assert held in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert (status == 0) or len(done.stderr.strip().splitlines()) == 1


def test_a_command_at_fault_ends_with_2_and_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process, since there are a hundred of them; any other exception than an exit would be a traceback."""
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        Path(name).write_text(text)
    for key in [key for key in os.environ if key.startswith("ADVISOR_") and key != "ADVISOR_KERNELS"]:
        monkeypatch.delenv(key)
    problems = []
    for line in WRONG.read_text().splitlines():
        words, _, said = line.partition(" =>")
        with pytest.raises(SystemExit) as ended:
            main(shlex.split(words))
        out, err = capsys.readouterr()
        if (ended.value.code, out, err.count("\n")) != (2, "", 1) or said.strip() not in err:
            problems.append(f"{line}\n  {ended.value.code} {out}{err}")
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize(
    "words",
    [("predict", "blur", "--predictor", "300", "--cores", "2"),
     ("choose-cores", "blur", "--cores-max", "4", "--predictor", "300"), ("status",), ("allocate", "net.snet", "--cores", "4")],
    ids=lambda words: words[0],
)  # fmt: skip
def test_with_json_standard_output_is_json_alone(folder: Path, words: tuple[str, ...]) -> None:
    assert json.loads(command(*words, "--json", *STATE, folder=folder).stdout)


def test_the_table_of_the_quick_start_is_answered(tmp_path: Path) -> None:
    page = QUICK_START.read_text()
    (table,) = re.findall(r"^cat > runs.csv <<END\n(.*?)^END$", page, re.M | re.S)
    (tmp_path / "runs.csv").write_text(table)
    commands = re.findall(r"^(?:\$ )?advisor (.*runs\.csv.*)$", page, re.M)
    assert len(commands) == 2
    for words in commands:
        done = command(*words.split(), folder=tmp_path)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")


def test_commands_ask_a_service_and_it_ends_in_order(tmp_path: Path) -> None:
    service = Served(tmp_path, "--http", "127.0.0.1:0", state=True)
    with service:
        peer = service.wire()
        peer.call("observe_rows", {"rows": [["blur", x, p, 1e-3 * x / p] for x in (100.0, 400.0) for p in (1.0, 4.0)]})
        peer.close()
        where = ("--socket", str(service.path))
        assert "blur" in command("status", *where, folder=tmp_path).stdout
        assert command("forget", "blur", "--yes", *where, folder=tmp_path).returncode == 0
        got = {
            path: fetched(f"http://{service.start_words['http']}{path}")
            for path in ("/healthz", "/readyz", "/metrics", "/")
        }
        assert got["/readyz"] == "ready\n"
        assert "advisor_" in got["/metrics"]
        assert service.stop() == 0


def fetched(address: str) -> str:
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("NO CURL HERE: the service's pages are not fetched")
    return subprocess.run([curl, "-fsS", address], capture_output=True, text=True, timeout=60, check=True).stdout
