"""The state file: what is committed comes back bit for bit, damage is named, what cannot be written says so."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.engine.snapshot import PAGE_SLOTS, Snapshot, TablePages
from advisor.errors import Mismatch, StateDamaged, StateLocked, StateTooNew, StorageFailed
from advisor.storage import Store, schema

WORDS = 5
ALL = np.uint64(2**64 - 1)


def pages_of(slots: list[int], fill: int, words: int = WORDS, table: str = "base", layout: str = "v1") -> TablePages:
    """Pages where each given slot's words are slot * 1000 + fill, and nothing else is set."""
    pages = sorted({slot // PAGE_SLOTS for slot in slots})
    data = np.zeros((len(pages), words, PAGE_SLOTS), np.uint64)
    changed = np.zeros(len(pages), np.uint64)
    for slot in slots:
        at = pages.index(slot // PAGE_SLOTS)
        data[at, :, slot % PAGE_SLOTS] = slot * 1000 + fill
        changed[at] |= np.uint64(1 << (slot % PAGE_SLOTS))
    return TablePages(table, layout, np.array(pages, np.int64), data, changed)


def snapshot(*tables: TablePages, **fields: object) -> Snapshot:
    return Snapshot(tables, **fields)  # type: ignore[arg-type]


def full_state(slots: int = 300) -> Snapshot:
    return snapshot(
        pages_of(list(range(slots)), 1),
        pages_of(list(range(0, slots, 7)), 2, words=2, table="load"),
        names=tuple((slot, f"component-{slot}") for slot in range(slots)),
        producers={("a", bytes(16)): 7, ("ü", b"0123456789abcdef"): 2**40},
        totals={"rows_accepted": 12, "batches": 3},
        documents={"network:é": b"first", "network:2": bytes(5000)},
    )


def words_by_slot(state: Snapshot, table: str = "base") -> dict[int, list[int]]:
    found = next(t for t in state.tables if t.table == table)
    return {
        int(page) * PAGE_SLOTS + s: found.words[i, :, s].tolist()
        for i, page in enumerate(found.pages)
        for s in range(PAGE_SLOTS)
        if int(found.changed[i]) >> s & 1
    }


def same(one: Snapshot | None, other: Snapshot | None) -> bool:
    assert one is not None
    assert other is not None
    facts = [(s.names, dict(s.producers), dict(s.totals), dict(s.documents)) for s in (one, other)]
    tables = [{t.table: (t.layout, words_by_slot(s, t.table)) for t in s.tables} for s in (one, other)]
    return facts[0] == facts[1] and tables[0] == tables[1]


def written(path: Path, *states: Snapshot) -> Snapshot:
    with Store.open(path) as store:
        for state in states:
            store.commit(state)
    with Store.open(path) as store:
        loaded = store.load()
    assert loaded is not None
    return loaded


def test_a_new_file_holds_nothing(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s") as store:
        assert store.load() is None
        assert not store.damage
    assert (tmp_path / "s").stat().st_mode & 0o777 == 0o600


def test_what_is_committed_comes_back(tmp_path: Path) -> None:
    loaded = written(tmp_path / "s", full_state())
    slots = words_by_slot(loaded)
    assert {slot: slots[slot] for slot in range(300)} == {slot: [slot * 1000 + 1] * WORDS for slot in range(300)}
    assert loaded.names == tuple((slot, f"component-{slot}") for slot in range(300))
    assert loaded.producers == {("a", bytes(16)): 7, ("ü", b"0123456789abcdef"): 2**40}
    assert loaded.totals == {"rows_accepted": 12, "batches": 3}


def test_documents_are_replaced_and_go(tmp_path: Path) -> None:
    later = snapshot(documents={"network:2": b"second"}, documents_gone=("network:é", "network:never"))
    assert written(tmp_path / "s", full_state(), later).documents == {"network:2": b"second"}
    assert written(tmp_path / "t", full_state()).documents == full_state().documents


def test_a_damaged_document_is_named_and_set_aside_when_told(tmp_path: Path) -> None:
    path = tmp_path / "s"
    written(path, full_state())
    rows(path, "UPDATE documents SET data = x'00' WHERE id = CAST('network:2' AS BLOB)")
    with pytest.raises(StateDamaged, match="network:2"):
        Store.open(path)
    with Store.open(path, accept_damage=True) as store:
        loaded = store.load()
    assert loaded is not None
    assert set(loaded.documents) == {"network:é"}
    with Store.open(path) as store:
        assert not store.damage
    rows(path, "DELETE FROM documents")
    with pytest.raises(StateDamaged, match="1 were written, 0 are there"):
        Store.open(path)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.integers(0, 200), min_size=1, max_size=40, unique=True), min_size=1, max_size=6))
def test_the_last_write_of_each_slot_wins(tmp_path_factory: pytest.TempPathFactory, commits: list[list[int]]) -> None:
    """Pages written whole and slots written alone, in any order, against a dictionary."""
    path = tmp_path_factory.mktemp("state") / "s"
    base = np.zeros((4, WORDS, PAGE_SLOTS), np.uint64)
    model: dict[int, list[int]] = {}
    with Store.open(path) as store:
        for number, slots in enumerate(commits, start=1):
            for slot in slots:
                base[slot // PAGE_SLOTS, :, slot % PAGE_SLOTS] = slot * 1000 + number
                model[slot] = [slot * 1000 + number] * WORDS
            marks = pages_of(slots, number)
            store.commit(snapshot(TablePages("base", "v1", marks.pages, base[marks.pages].copy(), marks.changed)))
    with Store.open(path) as store:
        loaded = words_by_slot(store.load())  # type: ignore[arg-type]
    assert {slot: loaded[slot] for slot in model} == model


def test_few_slots_of_a_page_are_written_alone(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with Store.open(path) as store:
        store.commit(full_state())
        store.commit(snapshot(pages_of([3, 70, 71], 9)))
        assert rows(path, "SELECT count(*) FROM slots") == [(3,)]
        store.commit(snapshot(pages_of(list(range(64, 80)), 10)))  # an eighth of page 1 and more: whole
        assert rows(path, "SELECT count(*) FROM slots") == [(1,)]


def test_producers_leave(tmp_path: Path) -> None:
    gone = snapshot(producers={("b", bytes(16)): 1}, producers_gone=(("a", bytes(16)),))
    loaded = written(tmp_path / "s", full_state(), gone)
    assert loaded.producers == {("ü", b"0123456789abcdef"): 2**40, ("b", bytes(16)): 1}


def test_a_second_service_is_refused_with_words(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s"), pytest.raises(StateLocked, match=f"process {os.getpid()}"):
        Store.open(tmp_path / "s")
    Store.open(tmp_path / "s").close()


def test_the_lock_dies_with_its_holder(tmp_path: Path) -> None:
    program = (
        "import sys, os, signal\nfrom advisor.storage import Store\n"
        f"s = Store.open({str(tmp_path / 's')!r})\nprint('held', flush=True)\nsignal.pause()"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(StateLocked, match=f"process {holder.pid}"):
            Store.open(tmp_path / "s")
        holder.send_signal(signal.SIGKILL)
    Store.open(tmp_path / "s").close()


def test_readers_read_beside_a_running_service(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with Store.open(path) as store:
        store.commit(full_state())
        with Store.open(path, read_only=True) as reader:
            state = reader.load()
            with pytest.raises(StorageFailed):
                reader.commit(full_state())
        assert same(state, full_state_loaded(tmp_path))


def full_state_loaded(tmp_path: Path) -> Snapshot:
    return written(tmp_path / "other", full_state())


def test_another_layout_needs_all_pages(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s") as store:
        store.commit(full_state(130))
        with pytest.raises(Mismatch, match="v2"):
            store.commit(snapshot(pages_of([1], 5, layout="v2")))
        store.commit(snapshot(pages_of(list(range(192)), 5, layout="v2", words=7)))
    with Store.open(tmp_path / "s") as store:
        loaded = store.load()
    assert loaded is not None
    assert words_by_slot(loaded)[130] == [130_005] * 7


# Damage


def rows(path: Path, query: str, *parameters: object) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(path)
    try:
        with connection:
            return connection.execute(query, parameters).fetchall()
    finally:
        connection.close()


def flip_blob_bit(path: Path, table: str, key: int, bit: int) -> None:
    ((data,),) = rows(path, f"SELECT data FROM {table} WHERE id = ?", key)
    changed = bytearray(data)  # type: ignore[call-overload]
    changed[bit // 8] ^= 1 << bit % 8
    rows(path, f"UPDATE {table} SET data = ? WHERE id = ?", bytes(changed), key)


def test_a_flipped_bit_of_a_page_names_its_components(tmp_path: Path) -> None:
    path = tmp_path / "s"
    before = written(path, full_state(), snapshot(pages_of([70], 9)))
    flip_blob_bit(path, "pages", (1 << 32) + 1, 12345)
    with pytest.raises(StateDamaged, match="page 1 of table base") as caught:
        Store.open(path)
    lost = [slot for slot in range(64, 128) if slot != 70]  # slot 70 has its own row, which is whole
    assert list(caught.value.components) == [f"component-{slot}" for slot in lost]

    with Store.open(path, accept_damage=True) as store:
        assert list(store.damage.components) == [f"component-{slot}" for slot in lost]
        loaded = store.load()
    assert loaded is not None
    assert loaded.names == before.names
    kept = {slot: words for slot, words in words_by_slot(before).items() if slot not in lost}
    assert words_by_slot(loaded) == kept
    assert [origin for origin, *_ in rows(path, "SELECT * FROM quarantine")] == ["pages"]

    with Store.open(path) as store:  # mended: the next start needs no flag
        assert not store.damage
        assert words_by_slot(store.load()) == kept  # type: ignore[arg-type]
        store.commit(snapshot(pages_of([64], 3)))
    with Store.open(path) as store:
        assert words_by_slot(store.load())[64] == [64_003] * WORDS  # type: ignore[arg-type]


@pytest.mark.parametrize("lost", ["row", "stale"])
def test_a_slot_that_vanished_or_went_back_in_time_is_found(tmp_path: Path, lost: str) -> None:
    path = tmp_path / "s"
    with Store.open(path) as store:
        store.commit(full_state())
        store.commit(snapshot(pages_of([70], 8)))
    old = rows(path, "SELECT * FROM slots")
    with Store.open(path) as store:
        store.commit(snapshot(pages_of([70], 9)))
    rows(path, "DELETE FROM slots")
    if lost == "stale":
        rows(path, "INSERT INTO slots VALUES (?, ?, ?)", *old[0])
    with pytest.raises(StateDamaged, match="slot 70") as caught:
        Store.open(path)
    assert caught.value.components == ("component-70",)
    with Store.open(path, accept_damage=True) as store:
        assert 70 not in words_by_slot(store.load())  # type: ignore[arg-type]
    Store.open(path).close()


def test_lost_names_and_producers_are_told(tmp_path: Path) -> None:
    path = tmp_path / "s"
    written(path, full_state())
    rows(path, "DELETE FROM names WHERE id = 5")
    rows(path, "UPDATE producers SET sequence = 8 WHERE sequence = 7")
    with pytest.raises(StateDamaged, match=r"names of slots 5; the numbers of 1 producers"):
        Store.open(path)
    with Store.open(path, accept_damage=True) as store:
        loaded = store.load()
    assert loaded is not None
    assert dict(loaded.names)[5] == "lost-name-5"
    assert list(loaded.producers) == [("ü", b"0123456789abcdef")]
    with Store.open(path) as store:
        assert same(store.load(), loaded)


def test_any_flipped_bit_is_found_or_harmless(tmp_path: Path) -> None:
    """Flip one bit anywhere in the file: what opens is what was committed, or the start is refused in words."""
    path = tmp_path / "s"
    before = written(path, full_state(), snapshot(pages_of([3, 70, 200], 9)))
    clean = path.read_bytes()
    rng = np.random.default_rng(7)
    found = 0
    for bit in rng.integers(0, len(clean) * 8, 300).tolist():
        damaged = bytearray(clean)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        try:
            with Store.open(path) as store:
                assert same(store.load(), before), f"bit {bit} went unseen"
        except (StateDamaged, StateTooNew, StorageFailed):
            found += 1
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
    assert found > 100


def leaf_of(path: Path, table: str) -> int:
    """The byte offset of a leaf page in the middle of a table's tree."""
    query = "SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf' ORDER BY path"
    try:
        leaves = rows(path, query, table)
    except sqlite3.OperationalError:
        pytest.skip("this SQLite has no dbstat")
    return (int(leaves[len(leaves) // 2][0]) - 1) * schema.PAGE_BYTES  # type: ignore[call-overload]


def test_a_broken_structure_is_rebuilt_from_what_can_be_read_when_told(tmp_path: Path) -> None:
    path = tmp_path / "s"
    before = written(path, full_state(3000))
    offset = leaf_of(path, "names")
    damaged = bytearray(path.read_bytes())
    damaged[offset : offset + 100] = bytes(100)
    path.write_bytes(damaged)
    with pytest.raises(StateDamaged, match="structure"):
        Store.open(path)
    with Store.open(path, accept_damage=True) as store:
        assert "s.damaged-1" in store.damage.parts[0]
        loaded = store.load()
    assert loaded is not None
    lost = [slot for slot, name in loaded.names if name.startswith("lost-name-")]
    assert 0 < len(lost) < 1000
    assert [name for slot, name in before.names if slot not in lost] == [
        name for slot, name in loaded.names if slot not in lost
    ]
    assert words_by_slot(loaded) == words_by_slot(before)
    assert dict(loaded.producers) == dict(before.producers)
    assert (tmp_path / "s.damaged-1").read_bytes() == bytes(damaged)
    with Store.open(path) as store:
        assert same(store.load(), loaded)


def test_a_file_that_has_lost_its_root_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "s"
    written(path, full_state())
    flip_blob_bit(path, "root", 1, 99)
    with pytest.raises(StateDamaged, match="root"):
        Store.open(path)
    before = path.read_bytes()
    for accept_damage in (False, True):
        with pytest.raises(StateDamaged, match="root"):
            Store.open(path, accept_damage=accept_damage)
    assert path.read_bytes() == before
    assert not list(tmp_path.glob("*.damaged*"))


def test_a_lost_ledger_is_made_again_from_the_rows_when_told(tmp_path: Path) -> None:
    path = tmp_path / "s"
    before = written(path, full_state(), snapshot(pages_of([3, 70, 200], 9)))
    flip_blob_bit(path, "ledgers", 1, 99)
    with pytest.raises(StateDamaged, match="ledger of table base"):
        Store.open(path)
    with Store.open(path, accept_damage=True) as store:
        assert same(store.load(), before)
    with Store.open(path) as store:
        assert same(store.load(), before)


def test_no_database_is_told_from_a_state_file(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("component,x,p,t\n" * 100)
    with pytest.raises(StateDamaged):
        Store.open(tmp_path / "text")
    rows(tmp_path / "foreign", "CREATE TABLE t (a)")
    with pytest.raises(StateDamaged, match="no state file of Advisor"):
        Store.open(tmp_path / "foreign")


# Formats


def test_a_newer_format_is_refused_with_words(tmp_path: Path) -> None:
    written(tmp_path / "s", full_state())
    rows(tmp_path / "s", f"PRAGMA user_version = {schema.FORMAT + 1}")
    with pytest.raises(StateTooNew, match=f"format {schema.FORMAT + 1}"):
        Store.open(tmp_path / "s")


# Storage that cannot be written


def test_a_full_disk_loses_nothing_and_recovers(tmp_path: Path) -> None:
    path = tmp_path / "s"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # the write then fails instead of killing the process
    try:
        with Store.open(path) as store:
            store.commit(full_state())
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
            big = snapshot(pages_of(list(range(3000)), 5), producers={("a", bytes(16)): 8})
            for _ in range(3):
                with pytest.raises(StorageFailed):
                    store.commit(big)
            with Store.open(path, read_only=True) as reader:
                assert reader.load().producers[("a", bytes(16))] == 7  # type: ignore[union-attr]
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            store.commit(big)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, previous)
    with Store.open(path) as store:
        loaded = store.load()
    assert loaded is not None
    assert words_by_slot(loaded)[2999] == [2_999_005] * WORDS
    assert loaded.producers["a", bytes(16)] == 8


def test_a_place_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageFailed, match="Not a directory"):
        Store.open(tmp_path / "file" / "s")
    with pytest.raises(StorageFailed):
        Store.open(tmp_path / "nothing", read_only=True)
    with pytest.raises(StorageFailed):
        Store.open(tmp_path)
