"""Reading a state file: every row against its checksum and the ledgers, into one snapshot and a list of damage."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.engine.snapshot import PAGE_SLOTS, Snapshot, TablePages
from advisor.errors import StateDamaged
from advisor.storage.damage import Damage
from advisor.storage.ledger import ABSENT, JournalBooks, Ledger, checksum, intact
from advisor.storage.pages import key_of, placed, span_of
from advisor.storage.schema import FORMAT, NUMBER_BITS, READS
from advisor.storage.witness import NO_DIGEST, Commit, digest

ROOT_KEY = 1
LOST_NAME = "lost-name-{slot}"  # stands for a name that the file has lost, so that its slot and sums stay reachable


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A row that failed its checksum: the SQL table it stands in, and its key."""

    origin: str
    key: Any


@dataclass(frozen=True, slots=True)
class Contents:
    """What a state file holds."""

    snapshot: Snapshot | None
    ledgers: dict[str, Ledger]
    name_sums: NDArray[np.int64]
    producer_sums: dict[tuple[str, bytes], int]
    document_sums: dict[str, int]
    journal: JournalBooks
    damage: Damage
    quarantined: tuple[Quarantined, ...]
    commit: Commit | None = None  # the last; None in a file that never had a witness
    before: bytes = NO_DIGEST  # the digest before it
    file: str = ""  # what its witness was made for, see `lock.file_of`
    copied: bool = False  # a copy of that file, without its witness
    stamp: int = 0  # up to which pages and slots are what the state stands on
    unfinished: tuple[Quarantined, ...] = ()  # pages and slots of a checkpoint that was cut off
    needless: bool = False  # there are names of one that was, or entries that the pages have in them
    format: int = FORMAT

    @property
    def totals(self) -> Mapping[str, int]:
        """The exact counters."""
        return self.snapshot.totals if self.snapshot else {}


@dataclass(slots=True)
class _Findings:
    parts: list[str] = field(default_factory=list[str])
    slots: dict[str, set[int]] = field(default_factory=dict[str, set[int]])  # by table
    rows: list[Quarantined] = field(default_factory=list[Quarantined])
    producers: int = 0
    unfinished: list[Quarantined] = field(default_factory=list[Quarantined])
    stamp: int = 0


def producer_checksum(name: bytes, incarnation: bytes, sequence: int) -> int:
    """Return the checksum of a producer's row."""
    return zlib.crc32(sequence.to_bytes(8, "little", signed=True), zlib.crc32(b"%b\0%b" % (name, incarnation)))


def read(connection: sqlite3.Connection, *, check_structure: bool) -> Contents:
    """Return all that the file holds, in one read transaction.

    Raises StateDamaged when the structure itself or the root row is damaged: the rescue is `salvage`'s; sqlite3.Error when
    SQLite cannot read it.
    """
    connection.execute("BEGIN")
    try:
        if check_structure:
            found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            if found != "ok":
                raise StateDamaged(f"the state file is damaged in its structure: {found}", hint=_RESCUE_HINT)
        rows = connection.execute("SELECT id, data, checksum FROM root").fetchall()
        if not rows:
            return _empty(connection)
        root = root_of(rows)
        ledgers = {row[0]: row[1:] for row in connection.execute("SELECT id, data, checksum FROM ledgers")}
        findings = _Findings(stamp=root.get("pages", 0))
        tables: list[TablePages] = []
        kept: dict[str, Ledger] = {}
        for name, (number, layout, words, written) in root["tables"].items():
            data, summed = ledgers.get(number, (None, None))
            if summed != written or not _intact(data, number, summed):
                findings.parts.append(f"the ledger of table {name}: whether rows have vanished cannot be told")
                findings.rows.append(Quarantined("ledgers", number))
                data = _ledger_of_rows(connection, Ledger.new(number, layout, words), findings.stamp)
            kept[name], pages = _read_table(connection, name, Ledger.new(number, layout, words), data, findings)
            kept[name].sum = written
            tables.append(pages)
        names, name_sums = _read_names(connection, root["names"], findings)
        documents, document_sums = _read_documents(connection, root["documents"], findings)
        producers, producer_sums = _read_producers(connection, root["producers"], findings)
        journal, journal_books = _read_journal(connection, root["journal"], findings)
        query = "SELECT EXISTS (SELECT 1 FROM names WHERE id >= ?) OR EXISTS (SELECT 1 FROM journal WHERE id < ?)"
        needless = connection.execute(query, (root["names"][0], root["journal"][0])).fetchone()[0]
    finally:
        connection.execute("ROLLBACK")
    snapshot = Snapshot(
        tuple(tables),
        tuple(names.items()),
        producers,
        (),
        root["totals"],
        documents,
        journal=journal,
    )
    # Slots of the tables of profiles, programs and task types are no components.
    others = ("profile-", "program-", "tasktype-")
    lost = {slot for table, slots in findings.slots.items() if not table.startswith(others) for slot in slots}
    damage = Damage(
        tuple(names[slot] for slot in sorted(lost) if slot in names), findings.producers, tuple(findings.parts)
    )
    nothing = snapshot.empty and not journal and not snapshot.totals and not damage
    number, before, identity, file = root["commit"] or (0, "", None, "")
    return Contents(
        None if nothing else snapshot,
        kept,
        name_sums,
        producer_sums,
        document_sums,
        journal_books,
        damage,
        tuple(findings.rows),
        Commit(bytes.fromhex(identity), number, digest(rows[0][1]), journal_books.bytes) if identity else None,
        bytes.fromhex(before),
        file,
        stamp=findings.stamp,
        unfinished=tuple(findings.unfinished),
        needless=bool(needless),
        format=root["format"],
    )


_RESCUE_HINT = "restore a backup, or start with what can be read by --accept-damage"


def _empty(connection: sqlite3.Connection) -> Contents:
    for table in ("pages", "slots", "names", "ledgers", "producers", "documents", "journal"):
        if connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]:  # noqa: S608 (fixed names)
            raise StateDamaged("the root row of the state file is lost", hint=_RESCUE_HINT)
    return Contents(None, {}, np.empty(0, np.int64), {}, {}, JournalBooks(), Damage(), ())


def root_of(rows: list[Any]) -> dict[str, Any]:
    """Return what the root row says; raise StateDamaged unless it is one good row."""
    key, data, summed = rows[0] if len(rows) == 1 else (None, b"", None)
    if key != ROOT_KEY or not _intact(data, key, summed):
        raise StateDamaged("the root row of the state file is damaged", hint=_RESCUE_HINT)
    root: dict[str, Any] = json.loads(data)
    if root["format"] not in READS:
        raise StateDamaged("the format number of the state file is damaged", hint=_RESCUE_HINT)
    return root


def _intact(data: Any, key: Any, summed: Any) -> bool:
    return isinstance(data, bytes) and isinstance(key, int) and checksum(data, key) == summed


def _read_table(
    connection: sqlite3.Connection, name: str, ledger: Ledger, encoded: bytes, findings: _Findings
) -> tuple[Ledger, TablePages]:
    page_sums, overridden, slot_totals = Ledger.decode(encoded)
    known = np.flatnonzero((page_sums != ABSENT) | overridden.any(axis=1))
    words = np.zeros((len(known), ledger.words, PAGE_SLOTS), "<u8")
    held = np.zeros((len(known), PAGE_SLOTS), np.bool_)
    place = {page: i for i, page in enumerate(known.tolist())}
    ledger = ledger.grown(len(page_sums))
    others: dict[int, list[Quarantined]] = {}
    for key, data, summed in _rows_of_table(connection, "pages", ledger.number):
        page, second = placed(key)
        good = intact(data, key, summed) and page in place and summed == page_sums[page]
        if good and len(data) == ledger.words * PAGE_SLOTS * 8:
            words[place[page]] = np.frombuffer(data, "<u8").reshape(ledger.words, PAGE_SLOTS)
            held[place[page]] = True
            ledger.page_sums[page], ledger.page_second[page] = summed, second
        elif not _is_unfinished("pages", key, data, summed, findings):
            others.setdefault(page, []).append(Quarantined("pages", key))
    for page in np.flatnonzero((page_sums != ABSENT) & (ledger.page_sums == ABSENT)).tolist():
        findings.parts.append(f"page {page} of table {name}")
        findings.rows += others.pop(page, [])
    findings.rows += [row for page, rows in others.items() if page not in place for row in rows]
    _read_slots(connection, name, ledger, (overridden, slot_totals), (place, words, held), findings)
    lost = (~held & (page_sums[known] != ABSENT)[:, None]) | (~held & overridden[known])
    if lost.any():
        at, slot = np.nonzero(lost)
        findings.slots.setdefault(name, set()).update((known[at] * PAGE_SLOTS + slot).tolist())
    changed = np.packbits(held, axis=1, bitorder="little").view("<u8")[:, 0].astype(np.uint64)
    return ledger, TablePages(name, ledger.layout, known, words.astype(np.uint64, copy=False), changed)


def _rows_of_table(connection: sqlite3.Connection, table: str, number: int) -> sqlite3.Cursor:
    query = f"SELECT id, data, checksum FROM {table} WHERE id BETWEEN ? AND ?"  # noqa: S608 (two fixed names)
    return connection.execute(query, span_of(number))


def _is_unfinished(origin: str, key: int, data: Any, summed: Any, findings: _Findings) -> bool:
    """Return, and note, whether a row is of a checkpoint that was cut off."""
    if not intact(data, key, summed) or summed >> NUMBER_BITS <= findings.stamp:
        return False
    findings.unfinished.append(Quarantined(origin, key))
    return True


def _ledger_of_rows(connection: sqlite3.Connection, ledger: Ledger, stamp: int) -> bytes:
    """Return the ledger that the rows themselves give, in the file's form, when the stored one is lost."""
    first, last = span_of(ledger.number)
    for table, slots_a_row in (("pages", PAGE_SLOTS), ("slots", 1)):
        for key, data, summed in _rows_of_table(connection, table, ledger.number):
            # A row out of its span is of a tree that is damaged itself.
            if not intact(data, key, summed) or not first <= key <= last or summed >> NUMBER_BITS > stamp:
                continue
            page, slot = divmod(placed(key)[0] * slots_a_row, PAGE_SLOTS)
            ledger = ledger.grown(page + 1)
            of_page = -1 if ledger.page_sums[page] == ABSENT else int(ledger.page_sums[page]) >> NUMBER_BITS
            if table == "pages":
                if summed >> NUMBER_BITS > of_page:
                    ledger.page_sums[page] = summed
            elif summed >> NUMBER_BITS >= max(of_page, int(ledger.slot_sums[page, slot]) >> NUMBER_BITS):
                ledger.slot_sums[page, slot] = summed
                ledger.overridden[page, slot] = True
    return ledger.encode()


def _read_slots(
    connection: sqlite3.Connection,
    name: str,
    ledger: Ledger,
    expected: tuple[NDArray[np.bool_], NDArray[np.uint64]],
    filled: tuple[dict[int, int], NDArray[np.uint64], NDArray[np.bool_]],
    findings: _Findings,
) -> None:
    overridden, totals = expected
    place, words, held = filled
    damaged = np.zeros_like(overridden)
    for key, data, summed in _rows_of_table(connection, "slots", ledger.number):
        (page, slot), second = divmod(placed(key)[0], PAGE_SLOTS), placed(key)[1]
        expects = page in place and bool(overridden[page, slot])
        if not intact(data, key, summed) or len(data) != ledger.words * 8:
            findings.rows.append(Quarantined("slots", key))
            if expects:
                damaged[page, slot] = True  # whether it is the newer of the two cannot be told
        elif _is_unfinished("slots", key, data, summed, findings) or not expects:
            continue
        elif summed >> NUMBER_BITS >= int(ledger.slot_sums[page, slot]) >> NUMBER_BITS:
            words[place[page], :, slot] = np.frombuffer(data, "<u8")
            held[place[page], slot] = True
            ledger.slot_sums[page, slot], ledger.slot_second[page, slot] = summed, second
            ledger.overridden[page, slot] = True
    # What should override and does not: the page's own words for that slot are older, and must not pass for the state.
    suspect = overridden & (~ledger.overridden | damaged)
    stale = (ledger.slot_sums.sum(axis=1, dtype=np.uint64) != totals) & ~suspect.any(axis=1)
    suspect |= overridden & stale[:, None]
    for page, slot in zip(*(axis.tolist() for axis in np.nonzero(suspect)), strict=True):
        findings.parts.append(f"slot {page * PAGE_SLOTS + slot} of table {name}")
        held[place[page], slot] = False
        if ledger.overridden[page, slot]:
            key = key_of(ledger.number, page * PAGE_SLOTS + slot, second=bool(ledger.slot_second[page, slot]))
            findings.rows.append(Quarantined("slots", key))
        ledger.overridden[page, slot] = False
        ledger.slot_sums[page, slot] = 0


def _read_names(
    connection: sqlite3.Connection, expected: list[int], findings: _Findings
) -> tuple[dict[int, str], NDArray[np.int64]]:
    names: dict[int, str] = {}
    sums: dict[int, int] = {}
    # Names of a checkpoint that was cut off stand behind those that are counted.
    for slot, data, summed in connection.execute("SELECT id, data, checksum FROM names WHERE id < ?", (expected[0],)):
        if _intact(data, slot, summed) and 0 <= slot < 2**NUMBER_BITS:
            names[slot] = data.decode()
            sums[slot] = summed
        else:
            findings.rows.append(Quarantined("names", slot))
    if [len(sums), sum(sums.values())] != expected:
        # Slots are given in order, so the holes are the lost ones; a name lost at the end leaves fewer than expected.
        slots = range(max(expected[0], max(names, default=-1) + 1))
        lost = [slot for slot in slots if slot not in names]
        findings.parts.append(f"names of slots {', '.join(map(str, lost[:8]))}" if lost else "the list of names")
        for slot in lost:
            names[slot] = LOST_NAME.format(slot=slot)
    by_slot = np.full(max(names, default=-1) + 1, ABSENT, np.int64)
    by_slot[list(sums)] = list(sums.values())
    return dict(sorted(names.items())), by_slot


def document_checksum(key: bytes, data: bytes) -> int:
    """Return the checksum of a document's row."""
    return zlib.crc32(data, zlib.crc32(key))


def _read_documents(
    connection: sqlite3.Connection, expected: list[int], findings: _Findings
) -> tuple[dict[str, bytes], dict[str, int]]:
    documents: dict[str, bytes] = {}
    sums: dict[str, int] = {}
    for key, data, summed in connection.execute("SELECT id, data, checksum FROM documents"):
        if isinstance(key, bytes) and isinstance(data, bytes) and document_checksum(key, data) == summed:
            documents[key.decode()], sums[key.decode()] = data, summed
        else:
            findings.rows.append(Quarantined("documents", key))
            findings.parts.append(f"document {key!r}")
    if [len(sums), sum(sums.values())] != expected and not any(row.origin == "documents" for row in findings.rows):
        findings.parts.append(f"documents: {expected[0]} were written, {len(sums)} are there")
    return documents, sums


def _read_producers(
    connection: sqlite3.Connection, expected: list[int], findings: _Findings
) -> tuple[dict[tuple[str, bytes], int], dict[tuple[str, bytes], int]]:
    producers: dict[tuple[str, bytes], int] = {}
    sums: dict[tuple[str, bytes], int] = {}
    for name, incarnation, sequence, summed in connection.execute(
        "SELECT name, incarnation, sequence, checksum FROM producers"
    ):
        plain = isinstance(name, bytes) and isinstance(incarnation, bytes) and isinstance(sequence, int)
        if plain and producer_checksum(name, incarnation, sequence) == summed:
            producers[name.decode(), incarnation] = sequence
            sums[name.decode(), incarnation] = summed
        else:
            findings.rows.append(Quarantined("producers", (name, incarnation)))
    if [len(sums), sum(sums.values())] != expected:
        findings.producers = max(1, expected[0] - len(sums))
        findings.parts.append(f"the numbers of {findings.producers} producers")
    return producers, sums


def _read_journal(
    connection: sqlite3.Connection, expected: list[int], findings: _Findings
) -> tuple[tuple[bytes, ...], JournalBooks]:
    """Return the entries up to the first that is damaged: what comes behind it leans on it, and is set aside too."""
    first, count, total = expected
    entries: list[bytes] = []
    books = JournalBooks(first)
    rest: list[Quarantined] = []
    query = (
        "SELECT id, data, checksum FROM journal WHERE id >= ? ORDER BY id"  # older ones are of pages that are written
    )
    for number, data, summed in connection.execute(query, (first,)):
        if not rest and number == books.next < first + count and _intact(data, number, summed):
            entries.append(data)
            books = books.grown(summed, len(data))
        else:
            rest.append(Quarantined("journal", number))
    if rest or books.count != count:
        findings.parts.append(
            f"entry {books.next} of the journal: the commits from it on, {count - books.count} of {count}, are lost"
        )
        findings.rows += rest
        findings.producers = max(findings.producers, 1)
    elif books.sum != total:
        findings.parts.append("the journal: its entries are not those that were written")
    return tuple(entries), books
