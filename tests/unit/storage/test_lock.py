"""One service per state file, however it is named; and nothing is written through somebody else's links."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from advisor.engine.frames import Block
from advisor.errors import StateLocked, StorageFailed
from advisor.storage import Store

HOLD = """
import signal, sys
from advisor.storage import Store
store = Store.open(sys.argv[1])
print("held", flush=True)
signal.pause()
"""


def opened(path: Path) -> Store:
    return Store.open(path)


def number(count: int) -> list[Block]:
    return [Block("numbers", b"%d" % count)]


@contextmanager
def holder_of(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        try:
            yield holder
        finally:
            holder.send_signal(signal.SIGKILL)


def named(path: Path, how: str) -> Path:
    """Give the file another name."""
    other = path.with_name("other")
    if how == "symbolic link":
        other.symlink_to(path)
    elif how == "hard link":
        other.hardlink_to(path)
    elif how == "directory link":
        path.with_name("directory").symlink_to(path.parent)
        other = path.with_name("directory") / path.name
    else:
        return path
    return other


@pytest.mark.parametrize("how", ["own name", "symbolic link", "hard link", "directory link"])
def test_a_second_service_is_refused_however_it_names_the_file(tmp_path: Path, how: str) -> None:
    path = tmp_path / "s"
    with holder_of(path):
        for beside in tmp_path.glob("*.lock"):
            beside.unlink()
        with pytest.raises(StateLocked):
            opened(named(path, how))
    opened(path).close()


@pytest.mark.parametrize("how", ["own name", "symbolic link", "hard link"])
def test_a_refusal_takes_no_lock_from_the_holder_in_the_same_process(tmp_path: Path, how: str) -> None:
    path = tmp_path / "s"
    with opened(path) as store:
        store.save(number(1))
        for _ in range(2):
            with pytest.raises(StateLocked):
                opened(named(path, how)) if not path.with_name("other").exists() else opened(path.with_name("other"))
        store.save(number(2))


def test_a_file_that_is_known_by_another_name_is_not_opened_without_its_log(tmp_path: Path) -> None:
    """The log of a service that was killed lies beside the name that it had the file by."""
    path = tmp_path / "s"
    program = HOLD.replace("print", "from advisor.engine.frames import Block\n"
                           "store.save([Block('numbers', b'1')])\nprint")  # fmt: skip
    with subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        holder.send_signal(signal.SIGKILL)
    with pytest.raises(Exception, match="its commit marker is gone, and perhaps its log"):
        opened(named(path, "hard link"))
    with opened(named(path, "directory link")) as store:
        loaded = store.load()
    assert loaded is not None
    assert list(loaded.blocks) == [b"1"]


@pytest.mark.parametrize("suffix", ["-log-0000000000000009", "-marker", ".lock", "-marker.new", ".new"])
@pytest.mark.parametrize("how", ["symbolic link", "hard link"])
def test_nothing_is_written_through_a_link(tmp_path: Path, suffix: str, how: str) -> None:
    path, victim = tmp_path / "s", tmp_path / "victim"
    victim.write_text("precious")
    with opened(path) as store:
        store.save(number(1))
    beside = path.with_name(path.name + suffix)
    beside.unlink(missing_ok=True)
    if how == "symbolic link":
        beside.symlink_to(victim)
    else:
        beside.hardlink_to(victim)
    if suffix in ("-log-0000000000000009", "-marker"):
        with pytest.raises(StorageFailed, match="no plain file of ours"):
            opened(path)
    else:
        with opened(path) as store:
            store.save(number(2))
    assert victim.read_text() == "precious"
