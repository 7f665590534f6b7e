"""What was acknowledged is there, or the start says what is missing: damage of every kind to state, log and commit marker."""

from __future__ import annotations

import itertools
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from stored_history import COMMITS, KEY, Files, History, engine_at, files_of, killed

from advisor.engine import Engine
from advisor.errors import AdvisorError, StateDamaged, StateTooNew, StorageFailed
from advisor.storage import Store
from advisor.storage.marker import SECTOR

Damage = Callable[[random.Random, Files, History], object]
SEED = 5
RUBBISH = bytes(range(256)) * 64
LOGS = ("-log",)


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    return killed(tmp_path_factory.mktemp("history") / "s", SEED)


@pytest.fixture(scope="module")
def whole() -> bytes:
    return engine_at(SEED, COMMITS).advisor.to_bytes()


def state_of(path: Path, **options: bool) -> tuple[bytes, int]:
    with Store.open(path, **options) as store:
        loaded = store.load()
    if loaded is None:
        return b"", 0
    engine = Engine.restore(loaded)
    return engine.advisor.to_bytes(), engine.applied(*KEY)


def _some(rng: random.Random, files: Files) -> str:
    return rng.choice([suffix for suffix in files if suffix != "-marker" and files[suffix]])


def flip(rng: random.Random, files: Files, _: History) -> None:
    suffix = _some(rng, files)
    data = bytearray(files[suffix])
    bit = rng.randrange(len(data) * 8)
    data[bit // 8] ^= 1 << bit % 8
    files[suffix] = bytes(data)


def cut(rng: random.Random, files: Files, _: History) -> None:
    suffix = _some(rng, files)
    files[suffix] = files[suffix][: rng.randrange(len(files[suffix]))]


def zeroed(rng: random.Random, files: Files, _: History) -> None:
    suffix = _some(rng, files)
    data, at = bytearray(files[suffix]), rng.randrange(-(-len(files[suffix]) // 512)) * 512
    data[at : at + 512] = bytes(len(data[at : at + 512]))
    files[suffix] = bytes(data)


def exchanged(rng: random.Random, files: Files, _: History) -> None:
    """Two pages of a file for each other."""
    suffix = _some(rng, files)
    data = bytearray(files[suffix])
    size = max(1, min(4096, len(data) // 8))
    one, other = (rng.randrange(len(data) // size) * size for _ in range(2))
    data[one : one + size], data[other : other + size] = data[other : other + size], data[one : one + size]
    files[suffix] = bytes(data)


def older(rng: random.Random, files: Files, history: History) -> None:
    """State, log, or both as they were some commits ago."""
    before = history.states[rng.randrange(1, COMMITS)]
    some = rng.choice([("",), LOGS, ("", *LOGS)])
    for suffix in {*files, *before}:
        if suffix in some or (LOGS[0] in some and suffix.startswith("-log")):
            files.pop(suffix, None)
            files |= {suffix: before[suffix]} if suffix in before else {}


def stale(rng: random.Random, files: Files, history: History) -> None:
    """One page of the state as it was some commits ago: a write that never came to the disk."""
    before = history.states[rng.randrange(1, COMMITS)][""]
    at = rng.randrange(-(-len(before) // 4096)) * 4096
    files[""] = files[""][:at] + before[at : at + 4096] + files[""][at + 4096 :]


def removed(rng: random.Random, files: Files, _: History) -> None:
    for kind in rng.choice([("-log",), ("-log", "-marker"), ("",), ("", "-log"), ("-marker",)]):
        for suffix in [each for each in files if each == kind or (kind and each.startswith(kind))]:
            files.pop(suffix)


KINDS: tuple[Damage, ...] = (flip, cut, zeroed, exchanged, older, stale, removed)


def _none_is_silent(history: History, whole: bytes, seeds: range) -> dict[str, int]:
    """Damage the files so many times; return how often it was refused, by kind."""
    refused = {kind.__name__: 0 for kind in KINDS}
    for seed in seeds:
        kind = KINDS[seed % len(KINDS)]
        files = dict(history.states[COMMITS])
        kind(random.Random(seed), files, history)
        found = []
        for read_only in (True, False):
            history.put(files)
            try:
                found.append(state_of(history.path, read_only=read_only))
            except (StateDamaged, StateTooNew, StorageFailed) as error:
                found.append(str(error))
                refused[kind.__name__] += 1
                assert (
                    files_of(history.path).items() >= {k: v for k, v in files.items() if k.startswith("-log")}.items()
                )
        for each in found:
            assert isinstance(each, str) or each == (whole, COMMITS), f"{kind.__name__} {seed}: unseen"
    history.put(history.states[COMMITS])
    return refused


def test_no_mixture_of_what_was_and_what_is_not_is_silent(
    history: History, whole: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Each of the three files as it is, gone, empty, older, another state's, or rubbish: all 216 mixtures."""
    other = killed(tmp_path_factory.mktemp("other") / "s", SEED + 1)
    now = history.states[COMMITS]
    seen = {"now": now, "older": history.states[COMMITS // 2], "other": other.states[COMMITS], "gone": {}}
    seen |= {"empty": dict.fromkeys(now, b""), "rubbish": dict.fromkeys(now, RUBBISH)}
    for mixture in itertools.product(seen, repeat=3):
        state, log, marker = mixture
        files = {
            suffix: data
            for of, begins in ((state, ""), (log, "-log"), (marker, "-marker"))
            for suffix, data in seen[of].items()
            if suffix.startswith(begins) and bool(begins) == bool(suffix)
        }
        for read_only in (True, False):
            history.put(files)
            try:
                with Store.open(history.path, read_only=read_only) as store:
                    loaded, copied = store.load(), store.copied
            except AdvisorError:
                continue
            if loaded is None:
                assert not any(files.values()), f"{mixture}: taken for a new one"
            elif Engine.restore(loaded).advisor.to_bytes() != whole:
                # Left open, and said: a copy is told by the log; an older commit marker is believed; one moment is a state.
                assert copied or marker == "older" or state == log == marker == "other", f"{mixture}: unseen"
    history.put(history.states[COMMITS])


def test_a_killed_writer_has_lost_nothing(history: History, whole: bytes) -> None:
    history.put(history.states[COMMITS])
    assert state_of(history.path, read_only=True) == (whole, COMMITS)
    assert state_of(history.path) == (whole, COMMITS)
    assert state_of(history.path, read_only=True) == (whole, COMMITS)


def test_no_damage_is_silent(history: History, whole: bytes) -> None:
    refused = _none_is_silent(history, whole, range(140))
    assert refused["removed"] == 40
    assert all(refused.values())


@pytest.mark.slow
def test_no_damage_of_a_thousand_is_silent(history: History, whole: bytes) -> None:
    assert sum(_none_is_silent(history, whole, range(1000, 2400)).values()) > 1000


def test_with_the_flag_what_is_there_is_taken_and_the_loss_is_told(history: History) -> None:
    """Of a damaged log what comes before is taken; a second start needs no flag."""
    files = dict(history.states[COMMITS])
    last = max(suffix for suffix in files if suffix.startswith("-log"))
    log = bytearray(files[last])
    log[100] ^= 1
    history.put(files | {last: bytes(log)})
    with pytest.raises(StateDamaged, match=rf"and {COMMITS + 1} were acknowledged: the last \d+ are gone"):
        state_of(history.path)
    with Store.open(history.path, accept_damage=True) as store:
        assert "are gone" in store.damaged[0]
    state, number = state_of(history.path)
    assert 0 < number < COMMITS
    assert state == engine_at(SEED, number).advisor.to_bytes()
    # The journal of before is that of another state now, and so is its commit marker.
    now = files_of(history.path)
    history.put(now | {"-marker": files["-marker"]})
    with pytest.raises(StateDamaged, match="not the state that its commit marker belongs to"):
        state_of(history.path)
    history.put(history.states[COMMITS])


def test_a_log_ahead_of_its_marker_opens(history: History, whole: bytes) -> None:
    """The service was killed between the commit and its commit marker."""
    files = dict(history.states[COMMITS])
    for before in (COMMITS - 1, COMMITS - 5):
        history.put(files | {"-marker": history.states[before]["-marker"]})
        assert state_of(history.path, read_only=True) == (whole, COMMITS)
        assert state_of(history.path) == (whole, COMMITS)
        assert state_of(history.path) == (whole, COMMITS)


@pytest.mark.parametrize("record", [0, 1])
def test_a_marker_that_was_cut_while_it_was_written_hides_no_loss(history: History, whole: bytes, record: int) -> None:
    files = dict(history.states[COMMITS])
    marker = bytearray(files["-marker"])
    marker[record * SECTOR + 30] ^= 1
    history.put(files | {"-marker": bytes(marker)})
    last = (COMMITS + 1) % 2  # the state's own making is commit 1
    if record == last:  # as a write that was cut: the commit itself is on disk by then
        assert state_of(history.path) == (whole, COMMITS)
    else:
        with pytest.raises(StateDamaged, match="its commit marker is damaged"):
            state_of(history.path)
    # The same with the last commit lost: it is missed.
    files = dict(history.states[COMMITS - 1]) | {"-marker": bytes(marker)}
    history.put(files)
    with pytest.raises(StateDamaged):
        state_of(history.path)
    history.put(history.states[COMMITS])


def test_a_backup_of_one_file_opens_and_says_so(history: History, whole: bytes, tmp_path: Path) -> None:
    history.put(history.states[COMMITS])
    for suffix in history.states[COMMITS]:
        if suffix != "-marker":
            shutil.copy(f"{history.path}{suffix}", f"{tmp_path / 'copy'}{suffix}")
    assert state_of(tmp_path / "copy", read_only=True) == (whole, COMMITS)
    for copied in (True, False):
        with Store.open(tmp_path / "copy") as store:
            assert store.copied is copied
            assert not store.damaged
    assert state_of(tmp_path / "copy") == (whole, COMMITS)
    # All files together, as a copy of a directory holds them, are the state itself elsewhere.
    history.put(history.states[COMMITS])
    for suffix in history.states[COMMITS]:
        shutil.copy(f"{history.path}{suffix}", f"{tmp_path / 'moved'}{suffix}")
    with Store.open(tmp_path / "moved") as store:
        assert not store.copied
    assert state_of(tmp_path / "moved") == (whole, COMMITS)


def test_a_copy_and_its_source_are_two_states(history: History, tmp_path: Path) -> None:
    history.put(history.states[COMMITS])
    for suffix in history.states[COMMITS]:
        if suffix != "-marker":
            shutil.copy(f"{history.path}{suffix}", f"{tmp_path / 'copy'}{suffix}")
    Store.open(tmp_path / "copy").close()
    history.put(files_of(tmp_path / "copy") | {"-marker": history.states[COMMITS]["-marker"]})
    with pytest.raises(AdvisorError, match="not the state that its commit marker belongs to"):
        state_of(history.path)
    history.put(history.states[COMMITS])
