"""The synchronous client against a real socket that is cut, delayed and lied to."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import warnings

import pytest

from advisor import AsyncClient, SyncClient
from advisor.client.address import default_socket, usual_address
from advisor.errors import (
    ConnectionFailed,
    InvalidValue,
    NotAnswered,
    RowsRefused,
    Unauthorized,
)


def adds_up(stats) -> bool:
    return stats.rows_offered == stats.rows_acknowledged + stats.rows_rejected + stats.rows_dropped + stats.rows_held


def observe(client: SyncClient, rows: int, first: int = 0) -> None:
    for i in range(first, first + rows):
        assert client.observe("c", predictor=1.0, cores=2, elapsed_s=1.0 + i)


def counted_once(service, rows: int) -> bool:
    return dict(service.rows) == {("c", 1.0 + i): 1 for i in range(rows)}


@pytest.mark.parametrize(
    ("way", "after"),
    [*(("cut_after", n) for n in (0, 1, 50, 200, 3000)), *(("mute_after", n) for n in (0, 3, 60, 130, 500))],
)
def test_a_cut_on_the_way_there_or_back_loses_and_doubles_nothing(service, way: str, after: int) -> None:
    setattr(
        service, way, [after, after + 900, after + 3000] if way == "cut_after" else [after, after + 77, after + 333]
    )
    with SyncClient(service.address, batch_rows=20) as client:
        observe(client, 500)
        stats = client.flush()
    assert counted_once(service, 500)
    assert list(service.rows) == [("c", 1.0 + i) for i in range(500)]
    assert stats.connections >= 2
    assert stats.rows_acknowledged == 500


def test_answers_may_come_in_any_order(service) -> None:
    service.hold_answers = True
    with SyncClient(service.address, batch_rows=10, window=4) as client:
        observe(client, 40)
        with pytest.raises(NotAnswered, match=r"40 rows are not durable within 0\.3 s") as caught:
            client.flush(timeout_s=0.3)
        assert isinstance(caught.value, TimeoutError)
        assert not isinstance(caught.value, ConnectionError)
        assert "whether its storage fails" in caught.value.hint
        service.let_go()
        client.flush()  # the last answer, which comes first, covers all before it
    assert counted_once(service, 40)
    assert client.stats().rows_accepted == 40


def test_a_service_that_lost_its_state_is_told_what_is_held_and_the_rest_is_reported(service) -> None:
    with SyncClient(service.address, batch_rows=10) as client:
        observe(client, 30)
        client.flush()
        service.stop()
        service.forget_everything()
        observe(client, 20, first=30)
        service.start()
        stats = client.flush()
    assert dict(service.rows) == {("c", 1.0 + i): 1 for i in range(30, 50)}
    assert stats.rows_lost == 30
    assert stats.batches_lost == 3
    assert len({hello.incarnation for hello in service.greetings}) == 2


def test_a_batch_refused_for_ever_is_dropped_alone_and_counted(service) -> None:
    service.errors = [InvalidValue("rows", "x", "y")]
    with SyncClient(service.address, batch_rows=10, window=1) as client:
        observe(client, 30)
        stats = client.flush()
    assert dict(service.rows) == {("c", 1.0 + i): 1 for i in range(10, 30)}
    assert stats.rows_rejected == 10
    assert stats.last_error == "rows is 'x', must be y"
    assert adds_up(stats)


def test_refused_rows_are_told_and_warned_of_once(service) -> None:
    bad, good = ["c", 1, 1, -1.0], ["c", 1, 1, 1.0]
    with warnings.catch_warnings(record=True) as caught, SyncClient(service.address) as client:
        warnings.simplefilter("always")
        client.observe_rows([bad, good])
        stats = client.flush()
        client.observe_rows([bad])
        client.flush()
    (warning,) = caught
    assert warning.category is RowsRefused
    assert "1 of 2 rows were refused (invalid_elapsed_s: -1.0, must be a finite number from 1e-09" in str(
        warning.message
    )
    assert (stats.rows_accepted, stats.rows_refused) == (1, 1)
    assert stats.refused_by_code == {"invalid_elapsed_s": 1}
    assert list(stats.last_refused) == [("invalid_elapsed_s", -1.0)]


@pytest.mark.parametrize("batch_rows", [1, 7, 1000])
def test_a_question_is_answered_from_the_rows_before_it(service, batch_rows: int) -> None:
    service.cut_after = [3000, 200, 1000]
    with SyncClient(service.address, batch_rows=batch_rows, linger_s=60.0) as client:
        for rows in range(1, 60):
            observe(client, 1, first=rows)
            assert client.status()["rows"] == rows
        client.observe_rows([["c", 1, 1, 1000.0 + i] for i in range(2500)])
        assert client.status()["rows"] == 2559


def test_nobody_there_costs_a_scheduler_nothing_but_rows(tmp_path) -> None:
    client = SyncClient(str(tmp_path / "nobody"), buffer_rows=50, timeout_s=0.2, close_s=0.1)
    taken = sum(client.observe("c", 1, 1, 1.0) for _ in range(50_000))
    with pytest.raises(ConnectionFailed, match="is the service running") as caught:
        client.predict("c")
    assert caught.value.retry
    stats = client.stats()
    assert stats.rows_offered == 50_000
    assert stats.rows_dropped == 50_000 - taken
    assert stats.rows_held == taken
    client.close()
    assert not client.observe("c", 1, 1, 1.0)
    assert adds_up(client.stats())
    with pytest.raises(ConnectionFailed, match="closed"):
        client.predict("c")


def test_a_full_buffer_may_block_until_there_is_room(service) -> None:
    with SyncClient(service.address, when_full="block", buffer_rows=10, batch_rows=5) as client:
        observe(client, 500)
        stats = client.flush()
    assert counted_once(service, 500)
    assert stats.rows_dropped == 0


def test_many_threads_may_observe_at_once(service) -> None:
    with SyncClient(service.address, batch_rows=50) as client:
        threads = [threading.Thread(target=observe, args=(client, 500, 500 * i)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        client.flush()
    assert counted_once(service, 4000)


def test_a_wrong_token_is_told_at_once(service) -> None:
    service.token = "right"
    with SyncClient(service.address, token="wrong", close_s=0.0) as client, pytest.raises(Unauthorized):
        client.predict("c", timeout_s=30)
    with SyncClient(service.address, token="right") as client:
        assert client.predict("c").observations == 3


@pytest.mark.parametrize("told_before", [True, False])
def test_a_client_without_the_right_token_ends_at_once(service, *, told_before: bool) -> None:
    service.token = "right"
    with SyncClient(service.address, token="wrong", close_s=3600.0) as client:
        assert client.observe("c", 1, 1, 1.0)
        if told_before:
            with pytest.raises(Unauthorized):
                client.flush()
    assert client.stats().rows_held == 1


def test_the_child_of_a_fork_is_a_producer_of_its_own(service) -> None:
    with SyncClient(service.address, batch_rows=10_000, linger_s=30.0) as client:
        observe(client, 5)
        client.hello()
        child = os.fork()
        if not child:  # pragma: no cover
            try:
                if client.stats().rows_offered:
                    os._exit(3)  # to flush what is its parent's would never end
                client.observe("c", 1, 1, 100.0)
                stats = client.flush()
                os._exit(0 if stats.rows_offered == 1 and stats.rows_acknowledged == 1 else 1)
            except BaseException:
                os._exit(2)
        reported = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert reported != 3, "the child of a fork has its parent's rows"
        assert reported == 0
        observe(client, 5, first=5)
        stats = client.flush()
    assert service.rows.pop(("c", 100.0)) == 1
    assert counted_once(service, 10)
    assert stats.connections == 1
    assert len({hello.incarnation for hello in service.greetings if hello.producer}) == 2


def test_what_is_held_when_the_program_ends_is_sent(service) -> None:
    program = (
        "from advisor.client import SyncClient\n"
        f"client = SyncClient({service.address!r}, linger_s=60)\n"
        "client.observe('c', 1, 1, 1.0)\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert counted_once(service, 1)


@pytest.mark.parametrize(
    "options", [{"address": ""}, {"address": "tcp://host"}, {"address": "h:99999"}, {"address": "/s", "when_full": "x"}]
)
def test_what_is_wrong_with_the_options_is_said_at_once(options) -> None:
    with pytest.raises(InvalidValue):
        SyncClient(**options)


def test_neither_numpy_nor_the_engine_is_loaded() -> None:
    check = "import advisor.client, sys; assert 'numpy' not in sys.modules and 'advisor.engine' not in sys.modules"
    subprocess.run([sys.executable, "-c", check], check=True, timeout=300)


def test_no_more_rows_are_held_than_the_buffer_takes(service) -> None:
    """Those on their way count: the service takes them, and acknowledges none."""
    service.hold_answers = True
    client = SyncClient(service.address, buffer_rows=2000, batch_rows=10, close_s=0.0)
    for i in range(20_000):
        client.observe("c", 1, 1, 1.0 + i)
        if i % 1000 == 0:
            assert client.stats().rows_held <= 2000
    rows = [["c", 1, 1, 1.0]] * 1500
    client.observe_rows(rows)
    stats = client.stats()
    assert stats.rows_held == 2000
    assert stats.rows_dropped == 19_500
    assert adds_up(stats)
    client.close()


def test_the_thread_imports_nothing(service) -> None:
    """Were it to, a fork meanwhile would leave the child with halves of modules."""
    program = (
        "import sys\n"
        "from advisor.client import SyncClient\n"
        f"client = SyncClient({service.address!r})\n"
        "before = set(sys.modules)\n"
        "client.observe('c', 1, 1, 1.0)\n"
        "client.flush()\n"
        "client.predict('c')\n"
        "client.close()\n"
        "assert not set(sys.modules) - before, set(sys.modules) - before\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True, timeout=300)


def test_a_fork_while_the_thread_starts_harms_neither_side(service) -> None:
    program = (
        "import os\n"
        "from advisor.client import SyncClient\n"
        "for number in range(20):\n"
        f"    client = SyncClient({service.address!r})\n"
        "    client.observe('c', 1, 1, 1.0 + 2 * number)\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        client.observe('c', 1, 1, 2.0 + 2 * number)\n"
        "        stats = client.flush()\n"
        "        os._exit(0 if stats.rows_acknowledged == 1 else 1)\n"
        "    assert os.waitpid(child, 0)[1] == 0\n"
        "    client.close()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)
    assert counted_once(service, 40)


@pytest.mark.parametrize("kind", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("made", ["before", "inside"])
def test_a_process_of_multiprocessing_sends_its_rows_when_it_ends(service, tmp_path, kind: str, made: str) -> None:
    """It ends without `atexit`; nobody closes its client."""
    program = tmp_path / "program.py"
    program.write_text(
        "import multiprocessing\n"
        "from advisor.client import SyncClient\n"
        "client = None\n"
        "def work(first):\n"
        "    global client\n"
        f"    client = client or SyncClient({service.address!r}, linger_s=60)\n"
        "    for i in range(first, first + 100):\n"
        "        client.observe('c', 1, 1, 1.0 + i)\n"
        "if __name__ == '__main__':\n"
        f"    context = multiprocessing.get_context({kind!r})\n"
        f"    client = SyncClient({service.address!r}) if {made == 'before'} else None\n"
        "    children = [context.Process(target=work, args=(first,)) for first in (0, 100, 200, 300)]\n"
        "    [child.start() for child in children]\n"
        "    [child.join() for child in children]\n"
        "    assert [child.exitcode for child in children] == [0] * 4\n"
    )
    subprocess.run([sys.executable, str(program)], check=True, timeout=300)
    assert counted_once(service, 400)


def test_what_cannot_be_sent_when_the_program_ends_is_told_once(tmp_path) -> None:
    program = (
        "import multiprocessing.util\n"  # its end of the program is a second one
        "from advisor.client import SyncClient\n"
        f"client = SyncClient({str(tmp_path / 'nobody')!r}, close_s=0.1)\n"
        "client.observe_rows([['c', 1, 1, 1.0]] * 7)\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, timeout=300, check=True)
    assert done.stderr.startswith(b"7 rows are lost")
    assert done.stderr.count(b"rows are lost") == 1


def test_a_client_that_is_told_no_address_asks_the_usual_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ADVISOR_TCP", raising=False)
    monkeypatch.setenv("ADVISOR_SOCKET", "/there/socket")
    assert "unix:/there/socket" in repr(AsyncClient())
    monkeypatch.delenv("ADVISOR_SOCKET")
    assert usual_address() == str(default_socket())
