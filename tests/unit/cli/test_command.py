"""The command line: what it loads, prints and returns. Every command runs as a process, as its users run it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from click.testing import CliRunner, Result
from tables import write_table

from advisor import __version__
from advisor.cli import COMMANDS, advisor
from advisor.domain.observations import ComponentNames, columns_of


def run(*arguments: str | Path, given: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "advisor.cli", *map(str, arguments)]
    return subprocess.run(command, input=given, capture_output=True, text=True, timeout=300, check=False)


def invoke(*arguments: str | Path, given: str | None = None) -> Result:
    """Run a command in this process: fast, where neither the exit status of `main` nor what is loaded matters."""
    return CliRunner().invoke(advisor, list(map(str, arguments)), input=given)


def answer(*arguments: str | Path) -> Any:
    result = invoke(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two components that follow T = S(x)(0.1 + 0.9/p) exactly: answers can be computed by hand."""
    path = tmp_path_factory.mktemp("cli") / "table.csv"
    size, cores = (grid.ravel() for grid in np.meshgrid(np.arange(100.0, 1001.0, 100.0), [1.0, 2.0, 4.0, 8.0]))
    share = 0.1 + 0.9 / cores
    both = columns_of(
        ComponentNames(["square", "linear"]),
        np.repeat([0, 1], len(size)),
        np.tile(size, 2),
        np.tile(cores, 2),
        np.concatenate([1e-6 * size**2 * share, 1e-3 * size * share]),
    )
    order = np.random.default_rng(0).permutation(len(both))
    write_table(path, [both.select_rows(order)])
    return path


@pytest.fixture
def network(tmp_path: Path) -> Path:
    path = tmp_path / "pipeline.snet"
    path.write_text("box square ((a) -> (a)); box linear ((a) -> (a)); net pipeline connect square .. linear;")
    return path


@pytest.mark.parametrize("module", ["advisor", "advisor.cli"])
def test_the_package_is_the_command(module: str) -> None:
    done = subprocess.run([sys.executable, "-m", module, "-V"], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["advisor", __version__]


def test_help_and_version_load_nothing_heavy() -> None:
    script = (
        "import sys\nfrom advisor.cli import main\n"
        "try: main(sys.argv[1:])\nexcept SystemExit: pass\n"
        "print([m for m in ('numpy', 'matplotlib', 'rich', 'anyio', 'lark', 'starlette') if m in sys.modules])"
    )
    for arguments in (["--help"], ["--version"], []):
        done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False)
        assert done.stdout.endswith("[]\n"), done
    assert run("--version").stdout == f"advisor {__version__}\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_of_the_table_is_there_and_helps(command: str) -> None:
    result = invoke(command, "--help")
    assert result.exit_code == 0
    assert f"Usage: advisor {command} [OPTIONS]" in result.stdout
    assert ("--json" in result.stdout) == (command != "serve")


@pytest.mark.parametrize("command", sorted({*COMMANDS} - {"serve"}))
def test_a_command_that_asks_a_service_takes_all_that_says_where_it_is(command: str) -> None:
    found = advisor.get_command(click.Context(advisor), command)
    assert found is not None
    where = {"socket", "tcp", "token_file", "tls_ca", "tls_certificate"}
    assert where & {each.name for each in found.params} in (set(), where)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_as_the_page_says(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[3] / "docs" / "commands.md").read_text()
    assert f"_ADVISOR_COMPLETE={shell}_source advisor" in page
    done = CliRunner(env={"_ADVISOR_COMPLETE": f"{shell}_source"}).invoke(advisor, [], prog_name="advisor")
    assert f"_ADVISOR_COMPLETE={shell}_complete" in done.stdout


def test_predict_answers_every_predictor_on_every_core_count(table: Path) -> None:
    found = answer("predict", "square", "--predictor", "250,500", "--cores", "1,2,8", "--table", table)
    assert found["predictor"] == [250, 250, 250, 500, 500, 500]
    assert found["cores"] == [1, 2, 8, 1, 2, 8]
    expected = [1e-6 * x**2 * (0.1 + 0.9 / p) for x, p in zip(found["predictor"], found["cores"], strict=True)]
    assert found["elapsed_s"] == pytest.approx(expected, rel=1e-2)
    assert found["observations"] == 40
    human = invoke("predict", "square", "--predictor", "500", "--cores", "2", "--table", table)
    assert re.search(r"500 +2 +13[78] ms", human.stdout)  # 0.25 (0.1 + 0.45) = 0.1375


def test_replay_scores_rows_before_they_are_learned(table: Path) -> None:
    found = answer("replay", table)
    assert (found["rows"], found["refused"]) == (80, 0)
    by_name = {entry["component"]: entry for entry in found["components"]}
    assert by_name.keys() == {"square", "linear"}
    assert 0 < found["scores"] <= 70  # none of the first five of a component
    assert by_name["linear"]["score_error"] < 0.05  # the table has no noise
    human = invoke("replay", table)
    assert f"{found['scores']} predictions scored" in human.stdout


def test_a_table_may_come_through_a_pipe(table: Path) -> None:
    done = run("replay", "-", "--json", given=table.read_text())
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"] == 80


def test_with_json_an_error_is_json_too(table: Path) -> None:
    done = run("predict", "nobody", "--table", table, "--json")
    assert (done.returncode, done.stdout) == (2, "")
    error = json.loads(done.stderr)["error"]
    assert (error["code"], error["field"], error["value"], error["retry"]) == (
        "unknown_component",
        "component",
        "nobody",
        False,
    )


def test_a_reader_that_leaves_is_no_error(table: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "advisor.cli", "replay", str(table), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()
    process.wait(120)


def test_what_is_exported_is_imported_and_answers_the_same(table: Path, tmp_path: Path) -> None:
    exported, state, again = tmp_path / "exported", tmp_path / "state", tmp_path / "again"
    assert answer("export", exported, "--table", table)["components"] == 2
    assert answer("import", exported, "--state", state)["components"] == 2
    answer("export", again, "--state", state)
    assert again.read_bytes() == exported.read_bytes()
    question = ("predict", "square", "--predictor", "330", "--cores", "3")
    answers = [
        answer(*question, source, path)
        for source, path in (("--table", table), ("--state", state), ("--state", exported))
    ]
    assert answers[0] == answers[1] == answers[2]
    refused = run("import", exported, "--state", state)
    assert refused.returncode == 2
    assert "not there yet" in refused.stderr


def test_jobs_of_a_pool_are_read_from_a_file(table: Path, tmp_path: Path) -> None:
    file = tmp_path / "jobs.json"
    jobs = [{"id": "a", "component": "square", "predictor": 300}, {"id": 2, "component": "sqare", "cores_now": 4}]
    file.write_text(json.dumps([*jobs, {"id": 3, "component": "sqare"}]))
    found = answer("choose-together", file, "--cores", "8", "--table", table)
    assert [(job["id"], job["cores"]) for job in found["jobs"]][1:] == [(2, 4), (3, 0)]
    human = invoke("choose-together", str(file), "--cores", "12", "--table", str(table)).stdout
    assert re.match(r"job +why +cores +elapsed", human)
    assert "did you mean 'square'?" in human
    for text, error in (("{}", "a JSON list of jobs"), ("[", "JSON: "), ('[{"id": 1}]', "jobs[0].component")):
        file.write_text(text)
        refused = run("choose-together", file, "--cores", "8", "--table", table)
        assert refused.returncode == 2
        assert error in refused.stderr


ASKED_OF = {
    "predict": ("a",), "choose-cores": ("a", "--cores-max", "2"), "choose-together": ("{json}", "--cores", "2"),
    "suggest": ("a",), "advise": ("--to", "sbatch"), "allocate": ("{net}", "--cores", "2"),
    "allocate-together": ("{json}", "--cores", "2"), "watch": ("{net}", "--cores", "2"),
    "simulate": ("{graph}",), "report": ("-o", "r.html"), "forget": ("a", "--yes"), "set-allowed": ("a", "1,2"),
    "pin": ("a", "two_step"), "profile": ("--producer", "a"), "observe-run": ("a", "--size", "1"),
    "predict-run": ("a", "--size", "1", "--workers", "1"), "export": ("out",), "learn": ("--from", "sacct", "{json}"),
    "slurm": ("--advice", "advice.lua", "--once"), "network": ("film",),
}  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_has_a_help_text(command: str) -> None:
    for option in advisor.get_command(click.Context(advisor), command).params:
        assert not isinstance(option, click.Option) or len((option.help or "").strip(".")) > 3, option.name


def test_every_command_reports_a_wrong_address_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def wait(*_: Any) -> None:
        raise AssertionError("a command waits for a service that is not there")

    monkeypatch.setattr("advisor.client.SyncClient", wait)
    (tmp_path / "net").write_text("a .. b")
    for name in ("json", "graph.json"):
        (tmp_path / name).write_text("[]")
    for command in COMMANDS:
        found = advisor.get_command(click.Context(advisor), command)
        assert found is not None
        if "socket" not in {each.name for each in found.params} or command == "serve":
            continue
        words = [
            word.format(net=tmp_path / "net", json=tmp_path / "json", graph=tmp_path / "graph.json")
            for word in ASKED_OF.get(command, ())
        ]
        for where in (("--socket", tmp_path / "none"), ("--tcp", "127.0.0.1:1")):
            done = invoke(command, *words, *where)
            assert done.exit_code == 1, (command, done.output)
            assert "is the service running?" in done.output, command
            assert str(where[1]) in done.output


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("predict square --predictor 1x2", "--predictor is '2 values', must be one: square has one predictor"),
        ("choose-cores square --cores-max 8 --evidence", "--evidence is printed with --json"),
    ],
)
def test_what_does_not_fit_the_component_or_the_output_is_refused_in_words(
    table: Path, command: str, words: str
) -> None:
    done = invoke(*command.split(), "--table", table)
    assert done.exit_code == 2
    assert words in str(done.stderr) + str(done.exception)


def test_a_choice_for_an_unknown_name_names_the_known_one_and_forms_are_shown_as_typed(table: Path) -> None:
    done = invoke("choose-cores", "squar", "--allowed", "power_of=2,max=8", "--table", table)
    assert "component 'squar' was never observed: did you mean 'square'?" in done.output
    assert "multiple_of=8,max=64" in invoke("choose-cores", "--help").output


def test_ten_commands_have_manners_of_their_own() -> None:
    """The others follow from the declaration of a verb, of the file that they write, or of the service's settings."""
    commands = {name: advisor.get_command(click.Context(advisor), name) for name in COMMANDS}
    made = {name: found.callback.__code__.co_name for name, found in commands.items()}
    assert {name for name, function in made.items() if function not in ("ask", "write", "serve_command")} == {
        "advise", "demo", "explain", "import", "learn", "network", "profile", "replay", "simulate", "slurm",
    }  # fmt: skip
