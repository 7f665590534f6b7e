"""Tags and fields of the records that an S-Net program read are predictors of its boxes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from advisor.cli.learning import learn_command
from advisor.cli.source import stored
from advisor.errors import InvalidValue
from advisor.files.snet_input import RecordLabel, source_of, values_of
from advisor.files.snet_runs import SnetRun

RECORD = '<record xmlns="snet-home.org" type="{kind}">{parts}</record>'
INPUT = '<?xml version="1.0" encoding="ISO-8859-1" ?>\n' + "".join(
    RECORD.format(kind=kind, parts=parts)
    for kind, parts in (
        ("data", '<tag label="n">200</tag><field label="picture">abcd</field>'),
        ("sync", ""),
        ("data", '<tag label="n">400</tag><field label="picture">7</field>'),
        ("data", '<field label="picture">abcdef</field>'),
        ("terminate", ""),
    )
)
# two boxes in a row; the first record is taken in before the log of the input says that it entered
LOGS = {
    "n00_tasks.map": "1glob_input 0#7:S1 blur 0#8:S2 write 0#9glob_output 0#",
    "mon_n00_glob_input.log": "#2000Z1 500 0 10O0.1S8;1500O0.2S8;#",
    "mon_n00_worker00.log": "5S#1000I7 500 600I0.1S8;900O0.3S8;#1400I8 200 1210I0.3S8;#1900I7 200 1710I0.2S8;#2500E#",
}


def test_values_are_those_of_records_that_enter(tmp_path: Path) -> None:
    path = tmp_path / "input.xml"
    path.write_text(INPUT)
    n, picture = source_of("<n>"), source_of("picture")
    assert (n, picture) == (RecordLabel("tag", "n"), RecordLabel("field", "picture"))
    found = values_of(path, [n, picture])
    assert found[n][:2] == [200.0, 400.0]
    assert len(found[n]) == 3
    assert found[n][2] != found[n][2]  # NaN: the third record has no tag
    assert found[picture] == [4.0, 7.0, 6.0]  # a number, else a length


@pytest.mark.parametrize(
    ("text", "predictor", "bound", "hint"),
    [
        (INPUT, "<m>", "a tag or field of the records in the input", "did you mean '<n>'?"),
        (INPUT, "<n", "a tag like <n>, or the name of a field", ""),
        ("<record>", "<n>", "records in XML", ""),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path: Path, text: str, predictor: str, bound: str, hint: str) -> None:
    path = tmp_path / "input.xml"
    path.write_text(text)
    with pytest.raises(InvalidValue, match=bound) as error:
        values_of(path, [source_of(predictor)])
    assert error.value.hint == hint


def test_a_run_has_the_value_of_the_record_that_entered() -> None:
    files = {name: [text.encode()] for name, text in LOGS.items()}
    run = SnetRun(files, "film", {"": [200.0, 400.0], "write": [3.0, 4.0]})
    rows = [(row.component, row.predictor) for row in run.rows(ended=True)]
    assert rows == [("blur", 200.0), ("write", 3.0), ("blur", 400.0)]


def test_the_command_learns_with_the_predictor_that_it_names(tmp_path: Path) -> None:
    logs = tmp_path / "film"
    logs.mkdir()
    for name, text in LOGS.items():
        (logs / name).write_text(text)
    (tmp_path / "input.xml").write_text(INPUT)
    state = tmp_path / "state"
    given = ["--input", str(tmp_path / "input.xml"), "--predictor", "<n>", "--predictor", "write=picture"]
    done = CliRunner().invoke(learn_command, [str(logs), "--from", "snet", "--state", str(state), *given, "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["rows"] == 3
    known = {each["component"]: each["predictor_range"] for each in stored(state).status()["components"]}
    assert {name: tuple(found) for name, found in known.items()} == {"blur": (200.0, 400.0), "write": (4.0, 4.0)}
    alone = CliRunner().invoke(learn_command, [str(logs), "--from", "snet", "--state", str(state), *given[2:]])
    assert alone.exit_code == 2
    assert "--input and --predictor go together" in alone.output
