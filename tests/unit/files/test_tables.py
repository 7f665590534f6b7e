"""Tables: what is written is read back, bad rows are refused one by one, memory is one chunk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tables import write_table

from advisor.domain.observations import Columns, ComponentNames, columns_of
from advisor.errors import InvalidValue, TooLarge
from advisor.files import TableReader
from advisor.files.lines import LINE_BYTES_MAX


def read(path: Path, text: str | bytes, rows: int = 16_384) -> tuple[list[Columns], TableReader]:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    reader = TableReader(path)
    return list(reader.chunks(rows)), reader


def rows_of(chunks: list[Columns]) -> list[tuple[str, float, float, float]]:
    return [
        (c.components.names[i], x, p, t)
        for c in chunks
        for i, x, p, t in zip(c.index, c.predictor.tolist(), c.cores.tolist(), c.elapsed_s.tolist(), strict=True)
    ]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "table.csv"


names = st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]), min_size=1, max_size=20)
row = st.tuples(names, st.floats(0, 2.0**60), st.floats(2.0**-10, 2.0**20), st.floats(1e-9, 1e9))


@settings(max_examples=50)
@given(rows=st.lists(row, max_size=30), cut=st.integers(1, 7))
def test_what_is_written_is_read_back_to_the_bit(
    tmp_path_factory: pytest.TempPathFactory, rows: list, cut: int
) -> None:
    path = tmp_path_factory.mktemp("tables") / "t.csv"
    components = ComponentNames([name for name, *_ in rows])
    good = [i for i in range(len(rows)) if components.valid[i]]
    x, p, t = (np.array([rows[i][k] for i in good], np.float64) for k in (1, 2, 3))
    write_table(path, [columns_of(components, good, x, p, t)])
    reader = TableReader(path)
    chunks = list(reader.chunks(cut))
    expected = [(components.names[i], *rows[i][1:]) for i in good]
    assert rows_of(chunks) == expected
    assert (reader.rows, reader.refused) == (len(good), 0)
    assert all(len(chunk) <= cut for chunk in chunks)


def test_bad_rows_are_refused_with_line_column_and_value(table: Path) -> None:
    text = "component,x,p,t\na,1,2,0.5\na,abc,2,0.5\na,1,0,0.5\n\na,1,2,inf\na,1\na,1,2,1_0\n,1,2,3\na,1,4,0.3\n"
    chunks, reader = read(table, text)
    assert rows_of(chunks) == [("a", 1.0, 2.0, 0.5), ("a", 1.0, 4.0, 0.3)]
    found = [(cell.line, cell.column, cell.value) for cell in reader.first_refused]
    assert found == [
        (3, "x", "abc"), (4, "p", "0"), (6, "t", "inf"), (7, "all", "a,1"), (8, "t", "1_0"), (9, "component", ""),
    ]  # fmt: skip
    assert str(reader.first_refused[0]).startswith("line 3, column x: 'abc' is not a finite number from 0")
    assert (reader.rows, reader.refused) == (2, 6)


def test_a_bad_cell_is_named_by_its_heading_in_the_file(table: Path) -> None:
    _, reader = read(table, "component,predictor,cores,elapsed_s\na,abc,2,0.5\na,1,2,-4\n")
    assert [(cell.column, cell.value) for cell in reader.first_refused] == [("predictor", "abc"), ("elapsed_s", "-4")]


def test_an_unclosed_quote_spoils_its_own_line_only(table: Path) -> None:
    chunks, reader = read(table, 'component,x,p,t\n"a,1,2,3\n"b, c",1,2,3\n"d""e",1,2,3\n')
    assert [name for name, *_ in rows_of(chunks)] == ["b, c", 'd"e']
    assert [cell.line for cell in reader.first_refused] == [2]


def test_a_line_that_is_no_utf8_is_latin_1(table: Path) -> None:
    chunks, reader = read(table, b"\xef\xbb\xbfcomponent,x,p,t\r\n\xe9,1,2,3\r\n\xc3\xa9t\xc3\xa9,1,2,3\r\n")
    assert rows_of(chunks) == [("é", 1.0, 2.0, 3.0), ("été", 1.0, 2.0, 3.0)]
    assert reader.refused == 0


def test_columns_come_in_any_order_under_either_name_and_others_are_ignored(table: Path) -> None:
    chunks, _ = read(table, "elapsed_s,job,Cores, predictor ,component\n3,z,2,1,a\n")
    assert rows_of(chunks) == [("a", 1.0, 2.0, 3.0)]


def test_without_a_predictor_column_every_run_is_alike(table: Path) -> None:
    chunks, _ = read(table, "component,p,t\na,2,3\n")
    assert rows_of(chunks) == [("a", 1.0, 2.0, 3.0)]


@pytest.mark.parametrize("header", ["", "component,x,p", "component,x,p,t,elapsed_s", "\x00\x01\x02", "1,2,3,4"])
def test_a_header_that_does_not_say_what_is_what_is_refused(table: Path, header: str) -> None:
    with pytest.raises(InvalidValue, match="header"):
        read(table, header + "\na,1,2,3\n")


def test_a_line_without_end_is_refused_before_it_is_held(table: Path) -> None:
    with pytest.raises(TooLarge, match="line 2, bytes"):
        read(table, "component,x,p,t\n" + "a" * (4 * LINE_BYTES_MAX))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match=r"nowhere\.csv"):
        TableReader(tmp_path / "nowhere.csv")


# -- optional columns -----------------------------------------------------------------------------------------------------


def test_optional_columns_are_read_and_empty_cells_say_nothing(table: Path) -> None:
    text = (
        "component,x,p,t,X2,x3,machine,energy_j,other,peak_bytes\n"
        "a,1,2,0.5,7,8,m,5,?,\n"
        "b,2,2,0.5,9,,,,?,4096\n"
        "a,3,2,0.5, ,nan, m ,NaN,?,1\n"
    )
    (chunk,), reader = read(table, text)
    nan = np.nan
    assert (reader.rows, reader.refused) == (3, 0)
    assert chunk.predictor.tolist() == [1, 2, 3]
    assert np.array_equal(chunk.further, [[7, 8, nan], [9, nan, nan], [nan, nan, nan]], equal_nan=True)
    assert (chunk.machines, chunk.machine.tolist()) == (("m",), [0, -1, 0])
    assert np.array_equal(chunk.measures["energy_j"], [5, nan, nan], equal_nan=True)
    assert np.array_equal(chunk.measures["peak_bytes"], [nan, 4096, 1], equal_nan=True)


def test_a_bad_optional_cell_refuses_its_row_with_its_column(table: Path) -> None:
    text = (
        "component,x,x2,x3,p,t,machine,energy_j,peak_bytes\n"
        "a,1,2,3,2,0.5,m,1,1\n"
        "a,1,many,3,2,0.5,m,1,1\n"
        "a,1,2,-3,2,0.5,m,1,1\n"
        "a,1,,3,2,0.5,m,1,1\n"
        f"a,1,2,3,2,0.5,{'x' * 201},1,1\n"
        "a,1,2,3,2,0.5,m,0,1\n"
        "a,1,2,3,2,0.5,m,1,lots\n"
        "a,-1,2,3,2,0.5,m,1,1\n"
        "a,9,2,3,2,0.5,m,1,1\n"
    )
    (chunk,), reader = read(table, text)
    assert chunk.predictor.tolist() == [1.0, 9.0]
    assert chunk.further[:, :2].tolist() == [[2, 3], [2, 3]]
    assert chunk.machine.tolist() == [0, 0]
    assert chunk.misread is None
    assert [(cell.line, cell.column, cell.value) for cell in reader.first_refused] == [
        (3, "x2", "many"), (4, "x3", "-3"), (5, "x2", ""), (6, "machine", "x" * 80), (7, "energy_j", "0"),
        (8, "peak_bytes", "lots"), (9, "x", "-1"),
    ]  # fmt: skip
    assert "1e+15" in reader.first_refused[4].bound
    assert "1e+15" not in reader.first_refused[5].bound


@pytest.mark.parametrize("header", ["component,x,p,t,machine,machine", "component,x,p,t,x3", "component,p,t,x2"])
def test_a_header_with_optional_columns_twice_or_out_of_turn_is_refused(table: Path, header: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        read(table, header + "\n")
    assert "header" in str(caught.value.field)
