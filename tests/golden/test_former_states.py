"""State files that former versions wrote open, are upgraded once, and have a witness from then on; one of the present, too."""

from __future__ import annotations

import gzip
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from advisor.engine import Engine
from advisor.errors import StateDamaged, StateTooNew
from advisor.storage import Store, schema

STATES = Path(__file__).parent / "states"
FORMATS = range(1, schema.FORMAT)
KEY = ("plain", bytes(16))
LAYOUTS = ["base-4", "learner-1-2", "program-1-5979", "tasktype-1-2211"]
# What each of them was taught: 120 rows of three components, t = a x (0.2 + 0.8 / p), in four batches.
SCALE = {"solve": 2e-3, "fft": 5e-4, "résumé": 1e-2}


@pytest.fixture
def path(tmp_path: Path, former: int) -> Path:
    state = tmp_path / "state"
    state.write_bytes(gzip.decompress((STATES / f"format-{former}.gz").read_bytes()))
    return state


@pytest.mark.parametrize("former", FORMATS)
def test_a_former_state_is_upgraded_by_a_service_and_by_nobody_else(path: Path, former: int) -> None:
    with pytest.raises(StateTooNew, match=f"older format {former}: only a service upgrades it to {schema.FORMAT}"):
        Store.open(path, read_only=True)
    with Store.open(path) as store:
        loaded = store.load()
        assert not store.damage
        assert store.copied == (former >= 4)  # from then on there is a witness, which is not kept here
    assert loaded is not None
    engine = Engine.restore(loaded)
    assert engine.applied(*KEY) == 4
    assert engine.totals["rows_accepted"] == 120
    assert sorted(engine.advisor.components.slots.names) == sorted(SCALE)
    for name, scale in SCALE.items():
        told = engine.advisor.predict(name, predictor=20.0, cores=2)
        assert told.elapsed_s == pytest.approx(scale * 20 * 0.6, rel=0.02)
    assert (former == 1) or list(loaded.documents) == ["network:net"]
    with Store.open(path, read_only=True) as store:
        again = store.load()
    assert again is not None
    assert Engine.restore(again).advisor.to_bytes() == engine.advisor.to_bytes()
    path.with_name("state-witness").unlink()
    with pytest.raises(StateDamaged, match="its witness is gone"):
        Store.open(path)


@pytest.mark.parametrize("former", FORMATS)
def test_damage_of_a_former_state_is_found(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE ledgers SET data = zeroblob(length(data)) WHERE id = 1")
    with pytest.raises(StateDamaged, match="ledger of table base"):
        Store.open(path)


@pytest.mark.parametrize("former", [1])
def test_a_damaged_root_of_a_former_state_is_found(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE root SET checksum = checksum + 1")
    with pytest.raises(StateDamaged, match="root"):
        Store.open(path)


@pytest.mark.parametrize("former", [schema.FORMAT])
@pytest.mark.parametrize("read_only", [True, False])
def test_a_state_of_the_present_format_and_layouts_opens_with_all_that_it_has(path: Path, read_only: bool) -> None:
    """Pages and slots in both places, a journal behind them, a network, a task type, a program: written once, and kept."""
    with Store.open(path, read_only=read_only) as store:
        loaded = store.load()
        assert store.copied
    assert loaded is not None
    assert len(loaded.journal) == 2
    assert [table.layout for table in loaded.tables] == LAYOUTS, (
        "a layout has changed: keep a state of this one, and add one"
    )
    engine = Engine.restore(loaded)
    assert engine.applied(*KEY) == 4
    assert [int(engine.advisor.components.table.count("rows")[slot]) for slot in range(3)] == [40] * 3
    for name, scale in SCALE.items():
        assert engine.advisor.predict(name, predictor=20.0, cores=2).elapsed_s == pytest.approx(scale * 12, rel=0.02)
    assert engine.advisor.predict("chunk", predictor=1e6, model="clusters").observations == 200
    assert engine.advisor.predict_run("law", size=800.0, workers=4).elapsed_s > 0.0
    assert list(loaded.documents) == ["network:net"]


def test_every_format_is_kept_here() -> None:
    assert {file.name for file in STATES.iterdir()} == {f"format-{number}.gz" for number in (*FORMATS, schema.FORMAT)}
