"""Tables with columns of other names, and ranges of numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from advisor.cli import main
from advisor.cli.options import numbers_of
from advisor.errors import InvalidValue, UnknownKey
from advisor.files import TableReader

ROWS = [(name, 64 * size, cores, 0.01 * size * (0.1 + 0.9 / cores))
        for name in ("resize", "encode") for size in range(1, 13) for cores in (1, 2, 4, 8)]  # fmt: skip
OWN = "component=job,x=size_mb,p=threads,t=seconds"


def written(path: Path, header: tuple[str, ...], separator: str) -> str:
    lines = [header, *((str(each) for each in row) for row in ROWS)]
    path.write_text("".join(separator.join(line) + "\n" for line in lines))
    return str(path)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_a_table_is_asked_with_its_own_names_and_separator(tmp_path: Path, capsys: Any, separator: str) -> None:
    own = written(tmp_path / "own.csv", ("job", "size_mb", "threads", "seconds"), separator)
    plain = written(tmp_path / "plain.csv", ("component", "predictor", "cores", "elapsed_s"), ",")
    asked = ("choose-cores", "resize", "--predictor", "300", "--cores-max", "8", "--json")
    status, reported, said = run(capsys, *asked, "--table", own, "--columns", OWN)
    assert status == 0, said
    assert json.loads(reported) == json.loads(run(capsys, *asked, "--table", plain)[1])
    status, reported, said = run(capsys, "replay", own, "--columns", OWN, "--json")
    assert (status, json.loads(reported)["rows"]) == (0, len(ROWS)), said


def test_columns_that_are_not_there_are_told_with_the_nearest(tmp_path: Path, capsys: Any) -> None:
    own = written(tmp_path / "own.csv", ("job", "size_mb", "threads", "seconds"), ",")
    status, _, said = run(capsys, "replay", own)
    assert status == 2
    assert "component,predictor,cores,elapsed_s" in said
    assert "--columns component=job" in said
    with pytest.raises(InvalidValue, match="did you mean 'size_mb'"):
        TableReader(own, {"component": "job", "x": "size_md", "p": "threads", "t": "seconds"})
    with pytest.raises(UnknownKey, match="did you mean 'component'"):
        TableReader(own, {"componnt": "job"})
    with pytest.raises(InvalidValue, match="each column once"):
        TableReader(own, {"x": "size_mb", "predictor": "threads"})


def test_ranges_are_numbers(tmp_path: Path, capsys: Any) -> None:
    own = written(tmp_path / "own.csv", ("job", "size_mb", "threads", "seconds"), ",")
    asked = ("predict", "resize", "--predictor", "300", "--table", own, "--columns", OWN, "--json")
    assert run(capsys, *asked, "--cores", "1..8")[1] == run(capsys, *asked, "--cores", "1,2,3,4,5,6,7,8")[1]
    assert numbers_of("1,4..8:2", int) == [1, 4, 6, 8]
    for wrong in ("8..1", "1..", "..3", "1..99999999", "x", "1..4:0", ""):
        with pytest.raises(ValueError):
            numbers_of(wrong)


def test_a_comma_within_a_number_is_its_decimal_comma_where_columns_have_another_separator(tmp_path: Path) -> None:
    table = tmp_path / "own.csv"
    table.write_text("component;x;p;t\nblur;1,5;2;0,25\nblur;1.234,5;2;0,25\nblur;2.5;1;1e-3\n")
    reader = TableReader(table)
    (chunk,) = reader.chunks()
    assert chunk.predictor.tolist() == [1.5, 2.5]
    assert chunk.elapsed_s.tolist() == [0.25, 1e-3]
    assert [(bad.line, bad.column, bad.value) for bad in reader.first_refused] == [(3, "x", "1.234,5")]
