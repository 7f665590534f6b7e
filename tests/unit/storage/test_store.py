"""The state on disk: what is committed comes back, damage is named, what cannot be written says so."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from advisor.engine.frames import FRAME_BYTES, MAGIC, Block
from advisor.engine.state_bytes import END
from advisor.errors import AdvisorError, StateDamaged, StateTooNew, StorageFailed
from advisor.storage import Store, image, log, read_state
from advisor.storage.log import SECTOR

BLOCKS = [Block(f"part {at}: {name}", bytes([at]) * (400 + 100 * at)) for at, name in enumerate("abcd")]
ENTRIES = [f"entry {at} ".encode() * 9 for at in range(5)]
LOG = "-log-0000000000000003"  # of a state that was made and saved once
Found = tuple[list[bytes], list[bytes]]


def written(path: Path) -> Found:
    """Write an image and a log behind it; return their contents."""
    with Store.open(path) as store:
        store.save(BLOCKS)
        for entry in ENTRIES:
            store.append(entry)
    return [block.data for block in BLOCKS], ENTRIES


def found(path: Path, **options: bool) -> Found | None:
    with Store.open(path, **options) as store:
        stored = store.load()
    return None if stored is None else (list(stored.blocks), list(stored.log))


def read(path: Path) -> Found | None:
    stored = read_state(path).stored()
    return None if stored is None else (list(stored.blocks), list(stored.log))


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 4
    path.write_bytes(data)


def offset_of(path: Path, block: Block) -> int:
    return path.read_bytes().index(block.data) + 3


def log_of(path: Path) -> Path:
    return max(path.parent.glob(f"{path.name}-log-*"), key=lambda file: file.stat().st_size)


def test_what_is_committed_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "s"
    expected = written(path)
    assert read(path) == expected
    assert found(path) == expected
    with Store.open(path) as store:
        store.append(b"one more")
        assert store.log_entries == 6
    assert found(path) == (expected[0], [*ENTRIES, b"one more"])
    with Store.open(path) as store:
        store.save(BLOCKS[:1])
        assert store.log_entries == 0
    assert found(path) == ([BLOCKS[0].data], [])
    assert {file.name.partition("-")[0] for file in path.parent.iterdir()} == {"s"}
    assert all(file.stat().st_mode & 0o077 == 0 for file in path.parent.iterdir())


NEW = [Block("part 0: new", b"new" * 200_000), Block("part 1: new", b"newer" * 200_000)]


def test_an_image_beside_commits_takes_over_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "s"
    written(path)
    with Store.open(path) as store:
        store.begin_image(b"before", iter(NEW))
        store.append(b"before")
        for at in range(1, 9):
            if at == 4:
                assert store.image is not None
                store.image.ended(wait=True)
                store.take_image()
            assert (store.image is not None) == (at < 4)
            store.append(b"behind %d" % at)
            copy = tmp_path / str(at)
            copy.mkdir()
            for file in tmp_path.glob("s*"):
                shutil.copy(file, copy)
        assert store.log_entries == 8
    for at in range(1, 9):  # cut anywhere
        behind = [b"behind %d" % each for each in range(1, at + 1)]
        former = [block.data for block in BLOCKS], [*ENTRIES, b"before", *behind]
        assert found(tmp_path / str(at) / "s") == (([block.data for block in NEW], behind) if at > 3 else former)


def failing() -> Iterator[Block]:
    yield NEW[0]
    raise OSError(28, "No space left on device")


def killed() -> Iterator[Block]:
    yield NEW[0]
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(("blocks", "words"), [(failing, "No space"), (killed, "ended by signal 9")])
def test_an_image_that_cannot_be_written_is_given_up_and_commits_go_on(
    tmp_path: Path, blocks: Callable[[], Iterator[Block]], words: str
) -> None:
    path = tmp_path / "s"
    expected = written(path)
    with Store.open(path) as store:
        store.begin_image(b"before", blocks())
        store.append(b"before")
        while store.image is not None:
            store.take_image()
        assert words in store.image_failure
        store.append(b"behind")
        assert store.acknowledged
        assert not path.with_name("s.new").exists()
    assert found(path) == (expected[0], [*ENTRIES, b"before", b"behind"])


def test_an_image_of_a_commit_that_failed_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s"
    expected = written(path)
    with Store.open(path) as store:
        store.begin_image(b"lost", iter(NEW))
        with monkeypatch.context() as broken:
            broken.setattr(log.os, "fdatasync", lambda _: (_ for _ in ()).throw(OSError(5, "Input/output error")))
            with pytest.raises(StorageFailed):
                store.append(b"lost")
        assert store.image is None
        store.append(b"other")
    assert found(path) == (expected[0], [*ENTRIES, b"other"])


def test_an_empty_state_leaves_no_file(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s") as store:
        assert store.load() is None
    assert not list(tmp_path.iterdir())
    (tmp_path / "other").write_text("component,x,p,t\n" * 100)
    with pytest.raises(StateDamaged, match="no state file of Advisor"):
        Store.open(tmp_path / "other")
    assert (tmp_path / "other").exists()
    with pytest.raises(StateDamaged, match="is empty"):
        read_state(tmp_path / "s")


def test_readers_read_beside_a_running_service(tmp_path: Path) -> None:
    path = tmp_path / "s"
    expected = written(path)
    with Store.open(path) as store:
        stored = read_state(path).stored()
        assert stored is not None
        assert (list(stored.blocks), list(stored.log)) == expected
        store.append(b"one more")


# Damage


@pytest.mark.parametrize("lost", range(len(BLOCKS)))
def test_damaged_blocks_are_named_and_the_others_open_when_told(tmp_path: Path, lost: int) -> None:
    path = tmp_path / "s"
    written(path)
    flip(path, offset_of(path, BLOCKS[lost]))
    before = path.read_bytes()
    with pytest.raises(StateDamaged, match=f"{BLOCKS[lost].label}.*"):
        Store.open(path)
    assert path.read_bytes() == before
    rest = [block.data for at, block in enumerate(BLOCKS) if at != lost]
    with Store.open(path, accept_damage=True) as store:
        assert store.damaged[0] == BLOCKS[lost].label
        assert "s.damaged-1" in store.damaged[-1]
        stored = store.load()
    assert stored is not None
    assert list(stored.blocks) == rest
    assert list(stored.log) == ENTRIES
    assert (tmp_path / "s.damaged-1").read_bytes() == before
    assert found(path) == (rest, ENTRIES)  # the next start needs no flag


@pytest.mark.parametrize("what", ["head", "end", "head of a block", "log"])
def test_damage_between_blocks_is_named(tmp_path: Path, what: str) -> None:
    path = tmp_path / "s"
    blocks, log = written(path)
    if what == "head":
        flip(path, 20)
    elif what == "end":
        os.truncate(path, path.stat().st_size - FRAME_BYTES - len(END))
    elif what == "log":
        flip(log_of(path), 300)
    else:
        flip(path, path.read_bytes().rindex(MAGIC, 0, offset_of(path, BLOCKS[1])) + 1)
    words = {
        "head": "its head",
        "end": "its end",
        "log": r"the last \d+ are gone",
        "head of a block": r"bytes \d+ to \d+",
    }
    with pytest.raises(StateDamaged, match=words[what]):
        Store.open(path)
    now = found(path, accept_damage=True)
    assert now is not None
    assert now[0] == ([blocks[0], *blocks[2:]] if what == "head of a block" else blocks)
    assert now[1] == ([] if what == "head" else log[: len(now[1])])
    assert (len(now[1]) < len(log)) == (what in ("head", "log"))
    assert found(path) == now


def test_any_flipped_bit_is_found_or_harmless(tmp_path: Path) -> None:
    path = tmp_path / "s"
    expected = written(path)
    files = [path, log_of(path), tmp_path / "s-marker"]
    seen = 0
    for file in files:
        whole = file.read_bytes()
        for at in range(0, len(whole), max(1, len(whole) // 80)):
            data = bytearray(whole)
            data[at] ^= 1 << at % 8
            file.write_bytes(data)
            try:
                assert read(path) == expected
            except (StateDamaged, StateTooNew, StorageFailed):
                seen += 1
        file.write_bytes(whole)
    assert seen > 150
    assert found(path) == expected


def test_no_mixture_of_what_was_and_what_is_not_is_silent(tmp_path: Path) -> None:
    """Each of the three files as it is, gone, empty, older, another state's, or rubbish: all 216 mixtures."""
    path, seen = tmp_path / "s", {"gone": {}}
    files = ("", LOG, "-marker")
    for name, folder in (("now", tmp_path), ("other", tmp_path / "other")):
        with Store.open(folder / "s") as store:
            store.save([Block("part 0: a", name.encode() * 400)])
            for at in range(5):
                store.append(b"%d" % at)
                if at == 2:
                    seen[f"{name} before"] = {file: (folder / f"s{file}").read_bytes() for file in files}
            store.acknowledge()
        seen[name] = {file: (folder / f"s{file}").read_bytes() for file in files}
    del seen["other before"]
    seen |= {"empty": dict.fromkeys(files, b""), "rubbish": dict.fromkeys(files, bytes(range(256)) * 64)}
    whole = [b"now" * 400], [b"%d" % at for at in range(5)]
    for mixture in itertools.product(seen, repeat=3):
        for read_only in (True, False):
            for old in path.parent.glob("s*"):
                old.unlink()
            there = [(file, seen[of][file]) for file, of in zip(files, mixture, strict=True) if file in seen[of]]
            for file, data in there:
                (tmp_path / f"s{file}").write_bytes(data)
                (tmp_path / f"s{file}").chmod(0o600)
            try:
                if read_only:
                    reader = read_state(path)
                    loaded = reader.stored()
                else:
                    with Store.open(path) as store:
                        loaded = store.load()
            except AdvisorError:
                continue
            if loaded is None:
                assert not any(data for _, data in there), f"{mixture}: taken for a new one"
            elif (list(loaded.blocks), list(loaded.log)) != whole:
                # Left open: an older marker is believed; one moment is a state.
                moment = len(set(mixture)) == 1 and mixture[0] in ("other", "now before")
                assert mixture[2] == "now before" or moment, f"{mixture}: unseen"


def test_a_copy_begins_with_the_marker_and_is_a_state_beside_its_source(tmp_path: Path) -> None:
    path, copy = tmp_path / "s", tmp_path / "copy"
    expected = written(path)
    with Store.open(path) as store:
        shutil.copy(tmp_path / "s-marker", tmp_path / "copy-marker")
        store.append(b"meanwhile")
        for file in (*tmp_path.glob("s-log-*"), path):
            shutil.copy(file, tmp_path / file.name.replace("s", "copy", 1))
        store.append(b"later")
    assert found(copy) == (expected[0], [*ENTRIES, b"meanwhile"])
    assert found(path) == (expected[0], [*ENTRIES, b"meanwhile", b"later"])
    (tmp_path / "copy-marker").unlink()
    with pytest.raises(StateDamaged, match="its commit marker is gone"):
        found(copy)


def test_a_first_commit_that_was_cut_before_its_acknowledgement_leaves_a_state(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with pytest.MonkeyPatch.context() as cut, Store.open(path) as store:
        cut.setattr(log.Marker, "fill", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            store.save(BLOCKS)
    assert found(path) is None
    written(path)
    assert found(path) == ([block.data for block in BLOCKS], ENTRIES)


@pytest.mark.parametrize("record", [0, 1])
def test_a_marker_that_was_cut_while_it_was_written_hides_no_loss(tmp_path: Path, record: int) -> None:
    path, log, marker = tmp_path / "s", tmp_path / f"s{LOG}", tmp_path / "s-marker"
    with Store.open(path) as store:
        store.save(BLOCKS)
        store.append(b"first")
        before = log.read_bytes()
        store.append(b"second")
        store.acknowledge()
    flip(marker, record * SECTOR + 30)
    if record:
        with pytest.raises(StateDamaged, match="its commit marker is damaged"):
            found(path)
    else:  # the last commit's, as a write that was cut: the commit itself is on disk by then
        assert found(path) == ([block.data for block in BLOCKS], [b"first", b"second"])
    log.write_bytes(before)
    with pytest.raises(StateDamaged):
        found(path)


def test_a_marker_that_the_disk_does_not_keep_stops_the_next_acknowledgement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, sync = tmp_path / "s", os.fdatasync
    expected = written(path)
    marker = os.stat(tmp_path / "s-marker").st_ino

    def failing(descriptor: int) -> None:
        if os.fstat(descriptor).st_ino == marker:
            raise OSError(5, "Input/output error")
        sync(descriptor)

    with Store.open(path) as store:
        with monkeypatch.context() as broken:
            broken.setattr(log.os, "fdatasync", failing)
            store.append(b"first")
            store.sync_marker()
            for _ in range(2):
                with pytest.raises(StorageFailed, match="state cannot be written"):
                    store.append(b"")
            assert store.acknowledged  # the first; nothing came behind it
        store.append(b"second")
        assert store.acknowledged
    assert found(path) == (expected[0], [*ENTRIES, b"first", b"second"])


def test_another_format_is_refused_with_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as later:
        later.setattr(image, "FORMAT", 2)
        written(tmp_path / "s")
    for opens in (Store.open, read_state, partial(Store.open, accept_damage=True)):
        with pytest.raises(StateTooNew, match="format 2, this version reads 1"):
            opens(tmp_path / "s")


# Files that change under their service


@pytest.mark.parametrize("suffix", ["", "-log", "-marker"])
@pytest.mark.parametrize("happens", ["truncated", "overwritten"])
def test_a_file_changed_in_place_stops_acknowledgements_until_it_is_whole(
    tmp_path: Path, suffix: str, happens: str
) -> None:
    path = tmp_path / "s"
    blocks, log = written(path)
    with Store.open(path) as store:
        store.append(b"first")
        file = {"": path, "-log": log_of(path), "-marker": tmp_path / "s-marker"}[suffix]
        whole = file.read_bytes()
        if happens == "truncated":
            os.truncate(file, len(whole) // 2)
        else:
            file.write_bytes(bytes(len(whole)))
            os.utime(file, ns=(1, 1))
        commits = store.last.number
        for _ in range(2):
            with pytest.raises(StorageFailed, match=f"{file} was {happens}"):
                store.append(b"second")
        with pytest.raises(StorageFailed, match=happens):
            store.compare_files()
        assert store.last.number == commits
        file.write_bytes(whole)
        store.append(b"second")
        assert store.acknowledged
    assert found(path) == (blocks, [*log, b"first", b"second"])
