"""A replay by tasks is the replay of one advisor: states to the byte, predictions, errors and refused rows, whatever is cut."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from advisor import Advisor
from advisor.cluster import offline
from advisor.errors import InvalidValue, TooLarge
from advisor.files import Prequential, TableReader
from advisor.files.csv_rows import counted, spans_of


class Here:
    """Tasks in this process; what goes in and comes out is copied as between processes."""

    def run(self, work: Callable[..., Any], *args: Any, parts: int = 1) -> Any:
        found = pickle.loads(pickle.dumps(work(*pickle.loads(pickle.dumps(args)))))
        return found if parts == 1 else list(found)

    def values(self, results: Sequence[Any]) -> list[Any]:
        return list(results)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offline, "TASK_BYTES", 700)
    monkeypatch.setattr(offline, "TOGETHER", 2)
    monkeypatch.setattr(TableReader.chunks, "__defaults__", (64, None))


def table(path: Path, seed: int, rows: int = 700) -> Path:
    """Write rows of components with names of any kind, empty lines and bad rows among them."""
    rng = np.random.default_rng(seed)
    lines = ["component,x,p,t,machine"]
    for i in range(rows):
        name, x, p = f"büro {rng.integers(0, 9)}", rng.uniform(1, 100), 2 ** int(rng.integers(0, 4))
        lines.append(f'"{name}",{x},{p},{0.01 * x / p**0.8 * rng.lognormal(0, 0.1)},{["", "m1"][i % 2]}')
        lines += {0: [""], 1: [" \u00a0"], 2: ["büro 1,1,0,1,"], 3: ["short"]}.get(i % 41, [])
    path.write_text("\n".join(lines) + "\n")
    return path


def alone(files: Sequence[Path]) -> tuple[Advisor, Prequential, list[TableReader]]:
    advisor = Advisor()
    prequential = Prequential(advisor)
    readers = [TableReader(file) for file in files]
    for reader in readers:
        with reader:
            for chunk in reader.chunks():
                prequential.predict_and_learn(chunk)
    return advisor, prequential, readers


@pytest.mark.parametrize("shares", [1, 3, 7])
def test_the_state_is_that_of_one_advisor_to_the_byte(tmp_path: Path, shares: int) -> None:
    files = [table(tmp_path / f"{seed}.csv", seed) for seed in range(2)]
    found = offline.replay([str(file) for file in files], None, Here(), shares)
    advisor, prequential, readers = alone(files)
    assert found.state() == advisor.extract()
    assert {entry["component"]: score for entry, score in found.components} == prequential.scores[None]
    entries = {entry["component"]: entry for entry in advisor.status(limit=100)["components"]}
    assert {entry["component"]: entry for entry, _ in found.components} == entries
    reported = [(each.name, each.separator, each.rows, each.refused, each.first_refused) for each in found.files]
    assert reported == [(each.name, each.separator, each.rows, each.refused, each.first_refused) for each in readers]
    assert readers[0].refused > 20


def test_parquet_is_replayed_as_the_same_rows_in_csv(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow", reason="NO PYARROW HERE: install the extra `ray` to run this")
    parquet = pytest.importorskip("pyarrow.parquet")
    rng = np.random.default_rng(3)
    n, bad = 400, 17
    x, p = rng.uniform(1, 100, n), rng.integers(1, 9, n)
    t = 0.01 * x / p**0.8
    columns = {"job": [f"c{i % 5}" for i in range(n)], "other": ["z"] * n, "predictor": x, "p": p, "t": t}
    columns |= {"machine": [None, "m1"] * (n // 2), "x2": [None if i % 3 else i % 7 for i in range(n)]}
    columns["t"][bad] = -1.0
    parquet.write_table(arrow.table(columns), tmp_path / "t.parquet", row_group_size=130)
    lines = ["component,x,p,t,machine,x2"] + [
        ",".join("" if v is None else str(v) for v in row)
        for row in zip(*(columns[c] for c in ("job", "predictor", "p", "t", "machine", "x2")), strict=True)
    ]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    headings = {"component": "job"}
    with TableReader(tmp_path / "t.parquet", headings) as one, TableReader(tmp_path / "t.csv") as other:
        advisors = Advisor(), Advisor()
        for reader, advisor in zip((one, other), advisors, strict=True):
            for chunk in reader.chunks():
                advisor.learn_batch(chunk)
        assert advisors[0].extract() == advisors[1].extract()
        assert (one.rows, one.refused, one.bytes_total) == (n - 1, 1, n)
        assert one.first_refused[0].line == bad + 1
        assert one.first_refused[0].value == "-1.0"
    found = offline.replay([str(tmp_path / "t.parquet")], headings, Here(), 3)
    with TableReader(tmp_path / "t.parquet", headings) as reader:
        wanted = Advisor()
        prequential = Prequential(wanted)
        for chunk in reader.chunks():
            prequential.predict_and_learn(chunk)
    assert found.state() == wanted.extract()
    (tmp_path / "t.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(InvalidValue, match="Parquet"):
        TableReader(tmp_path / "t.parquet")


@pytest.mark.parametrize("size", [1, 50, 333, 10**6])
def test_spans_have_each_row_once_with_its_line(tmp_path: Path, size: int) -> None:
    path = table(tmp_path / "t.csv", 5, 60)
    with TableReader(path) as reader:
        begin, whole = reader.bytes_read, list(reader.chunks(8))
    end = path.stat().st_size
    spans = spans_of([counted(path, start, min(start + size, end)) for start in range(begin, end, size)])
    assert spans[-1].lines + 0 <= len(path.read_text().split("\n"))
    found, refused = [], []
    for span in spans:
        with TableReader(path) as reader:
            found += list(reader.chunks(8, span))
            refused += reader.first_refused
    assert [c.elapsed_s.tolist() for c in found] == [c.elapsed_s.tolist() for c in whole]
    lines = path.read_bytes().decode().split("\n")
    assert all(cell.value[:80] in lines[cell.line - 1] for cell in refused)


def test_what_is_no_table_is_refused_as_by_one_process(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    with pytest.raises(InvalidValue, match="read"):
        offline.replay([str(path)], None, Here(), 2)
    path.write_text("a,b\n1,2\n")
    with pytest.raises(InvalidValue, match="header"):
        offline.replay([str(path)], None, Here(), 2)
    path.write_text("component,x,p,t\na,1,1,1\n" + "b" * 70_000 + "\n")
    with pytest.raises(TooLarge) as caught:
        offline.replay([str(path)], None, Here(), 2)
    again = pickle.loads(pickle.dumps(caught.value))  # between processes
    assert (type(again), again.as_dict()) == (TooLarge, caught.value.as_dict())
    path.write_text("component,x,p,t\n")
    assert offline.replay([str(path)], None, Here(), 2).state() == Advisor().extract()
