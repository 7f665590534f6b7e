"""A client's session and a service's connection, joined by two pipes that are cut anywhere.

Nothing acknowledged is lost, nothing is counted twice.
"""

from __future__ import annotations

import os
from collections import Counter

import msgpack
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from advisor.client.outcomes import Answered, GiveUp, Pause
from advisor.client.session import DISCONNECTED, PAUSED, Session
from advisor.errors import AdvisorError, ConnectionFailed, InvalidValue, SequenceGap, StorageFailed, UnknownNameId
from advisor.protocol.connection import ServerConnection, Violation, encode_error, encode_response
from advisor.protocol.encoding import body_of
from advisor.protocol.verbs import Forget, Hello, Names, ObserveRows, check_params

POISON = 5e8  # a row with this time or more makes the service refuse its whole batch for ever


SHARES = st.sampled_from([0.3, 0.9, 1.0, 1.0])  # of the bytes under way, that arrive


class Ledger:
    """The service's state: what is applied, and how much of it would survive a crash."""

    def __init__(self) -> None:
        self.applied: Counter[tuple[str, bytes]] = Counter()
        self.rows: Counter[float] = Counter()
        self.forgets = 0
        self.commit()

    def commit(self) -> None:
        self.durable = self.applied.copy(), self.rows.copy(), self.forgets

    def crash(self) -> None:
        self.applied, self.rows, self.forgets = self.durable[0].copy(), self.durable[1].copy(), self.durable[2]


class Peer:
    """The service's end of one connection."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.connection = ServerConnection()
        self.out = bytearray()
        self.uncommitted: list[tuple[int, tuple[str, bytes], int]] = []
        self.names = 0
        self.troubles: list[AdvisorError] = []  # to answer the next batches with

    def receive(self, data: bytes) -> None:
        for request in self.connection.receive(data):
            assert not isinstance(request, Violation), request
            params = check_params(request.method, request.params)
            try:
                self.out += self.answer(request.msgid, params)
            except AdvisorError as error:
                self.out += encode_error(request.msgid, error)

    def answer(self, msgid: int, params: object) -> bytes:
        if isinstance(params, Hello):
            return encode_response(msgid, {"sequence": self.ledger.durable[0][params.producer, params.incarnation]})
        if isinstance(params, Names):
            self.names = max(self.names, params.first_id + len(params.names))
            return encode_response(msgid, {"known": self.names})
        if not isinstance(params, (ObserveRows, Forget)):
            return encode_response(msgid, {"status": True})
        producer = params.producer, params.incarnation
        applied = self.ledger.applied[producer]
        if params.sequence > applied + 1:
            raise SequenceGap(params.sequence, applied + 1)
        if params.sequence == applied + 1:
            if self.troubles:
                raise self.troubles.pop(0)
            rows = params.rows if isinstance(params, ObserveRows) else []
            if any(row[3] >= POISON for row in rows):
                raise InvalidValue("rows", "poison", "food")
            self.ledger.applied[producer] += 1
            self.ledger.rows.update(row[3] for row in rows)
            self.ledger.forgets += isinstance(params, Forget)
        self.uncommitted.append((msgid, producer, params.sequence))
        return b""

    def commit(self, backwards: bool) -> None:
        self.ledger.commit()
        for msgid, _, sequence in self.uncommitted[:: -1 if backwards else 1]:
            self.out += encode_response(msgid, {"accepted": 1, "refused": {"count": 0}, "sequence": sequence})
        self.uncommitted.clear()


class ConnectionPair(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger()
        self.session = Session("p", lambda: os.urandom(16), batch_rows=3, window=3)
        self.taken: list[float] = []
        self.destroyed: set[float] = set()  # acknowledged rows that the service lost with its state
        self.rejected: set[float] = set()
        self.asked: Counter[int] = Counter()
        self.answered: Counter[int] = Counter()
        self.forgets_called = 0
        self.forgets_destroyed = False
        self.peer: Peer | None = None
        self.upward = bytearray()  # sent by the client, not yet at the service

    def held(self) -> list[float]:
        outbox = self.session.outbox
        ids = [row[3] for row in outbox._rows]
        for batch in (*outbox._numbered, *outbox._waiting):
            if batch.body.method == "observe_rows":
                ids += [row[3] for row in msgpack.unpackb(b"\x81" + batch.body.data)["rows"]]
        return ids

    def acknowledged(self) -> set[float]:
        return set(self.taken) - set(self.held()) - self.rejected

    # -- the program ----------------------------------------------------------------------------------------------

    @rule(rows=st.integers(1, 7), seal=st.booleans(), poison=st.sampled_from([0, 0, 0, 0, 0, 0, 0, POISON]))
    def observe(self, rows: int, seal: bool, poison: float) -> None:
        for _ in range(rows):
            identity = float(len(self.taken) + 1) + poison
            self.taken.append(identity)
            self.session.outbox.observe(["c", 1.0, 1.0, identity])
        if seal:
            self.session.outbox.seal()

    @rule(what=st.sampled_from(["ask", "forget", "declare"]))
    def say(self, what: str) -> None:
        if what == "ask":
            self.asked[self.session.call("status", [])] += 1
        elif what == "forget":
            self.asked[self.session.call_numbered(body_of("forget", {"component": "c"}))] += 1
            self.forgets_called += 1
        else:
            self.session.declare(["a", "b"])

    # -- the wire -------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.peer is None)
    @rule()
    def connect(self) -> None:
        self.peer = Peer(self.ledger)
        self.upward.clear()
        self.session.connected()

    @precondition(lambda self: self.peer is not None)
    @rule(share=SHARES)
    def up(self, share: float) -> None:
        self.upward += self.session.outgoing()
        size = round(len(self.upward) * share)
        data, self.upward = bytes(self.upward[:size]), self.upward[size:]
        self.peer.receive(data)

    @precondition(lambda self: self.peer is not None)
    @rule(share=SHARES)
    def down(self, share: float) -> None:
        size = round(len(self.peer.out) * share)
        data, self.peer.out = bytes(self.peer.out[:size]), self.peer.out[size:]
        before = set(self.held())
        outcomes = self.session.receive(data)
        # Rows of a batch that was replaced by an empty one leave without being counted anywhere.
        gone = before - set(self.held())
        self.rejected |= {identity for identity in gone if not self.ledger.rows[identity]} - self.destroyed
        for outcome in outcomes:
            match outcome:
                case Answered():
                    self.answered[outcome.call] += 1
                case GiveUp():
                    self.cut()
                case Pause():
                    pass

    @precondition(lambda self: self.peer is not None)
    @rule(durable=st.booleans())
    def converse(self, durable: bool) -> None:
        for _ in range(2):
            if self.peer is not None:
                self.up(1.0)
                if durable:
                    self.commit(False)
                self.down(1.0)

    @precondition(lambda self: self.peer is not None)
    @rule(durable=st.booleans())
    def lose_the_answers(self, durable: bool) -> None:
        self.up(1.0)
        if durable:
            self.ledger.commit()
        self.cut()
        self.connect()

    @precondition(lambda self: self.peer is not None)
    @rule(how=st.sampled_from(["cut", "cut", "cut", "crash", "lose_state"]))
    def end(self, how: str) -> None:
        getattr(self, how)()

    def cut(self) -> None:
        if self.session.state != DISCONNECTED:
            self.session.disconnected(ConnectionFailed("cut"))
        self.peer = None

    # -- the service ----------------------------------------------------------------------------------------------

    @precondition(lambda self: self.peer is not None)
    @rule(backwards=st.booleans())
    def commit(self, backwards: bool) -> None:
        self.peer.commit(backwards)

    @precondition(lambda self: self.peer is not None)
    @rule(again_later=st.booleans())
    def trouble(self, again_later: bool) -> None:
        self.peer.troubles.append(StorageFailed("disk full") if again_later else UnknownNameId("no such name"))

    @precondition(lambda self: self.session.state == PAUSED)
    @rule()
    def resume(self) -> None:
        self.session.resume()

    def crash(self) -> None:
        self.ledger.crash()
        self.cut()

    def lose_state(self) -> None:
        self.destroyed |= self.acknowledged()
        self.forgets_destroyed |= self.ledger.forgets > 0
        self.ledger.__init__()
        self.cut()

    # -- what holds -----------------------------------------------------------------------------------------------

    @invariant()
    def nothing_is_counted_twice(self) -> None:
        assert max(self.ledger.rows.values(), default=0) <= 1
        assert max(self.answered.values(), default=0) <= 1

    @invariant()
    def nothing_acknowledged_is_lost(self) -> None:
        for identity in self.acknowledged() - self.destroyed:
            assert self.ledger.durable[1][identity] == 1, identity

    @invariant()
    def rows_add_up(self) -> None:
        stats = self.session.stats
        assert stats.rows_offered == len(self.taken)
        assert stats.rows_held == len(self.held())
        assert stats.rows_offered == (
            stats.rows_acknowledged + stats.rows_rejected + stats.rows_dropped + stats.rows_held
        )
        assert stats.rows_rejected == len(self.rejected)

    def teardown(self) -> None:
        self.session.outbox.seal()
        # A service that lost its state says so at the next hello, so there is one more, even when nothing waits.
        self.cut()
        for turn in range(300):
            if turn and self.session.outbox.idle and self.answered == self.asked:
                break
            if self.peer is None:
                self.connect()
            if self.session.state == PAUSED:
                self.resume()
            self.up(1.0)
            self.commit(False)
            self.down(1.0)
        else:
            raise AssertionError("never idle")
        self.rows_add_up()
        self.nothing_acknowledged_is_lost()
        counted = set(self.ledger.rows)
        assert counted == set(self.taken) - self.destroyed - self.rejected
        assert all(identity >= POISON or self.near_poison(identity) for identity in self.rejected)
        assert self.session.stats.rows_lost == len(self.destroyed)
        assert self.forgets_destroyed or self.ledger.forgets == self.forgets_called

    def near_poison(self, identity: float) -> bool:
        """True when a poisonous row was taken close enough to share a batch."""
        at = self.taken.index(identity)
        return any(other >= POISON for other in self.taken[max(0, at - 2) : at + 3])


ConnectionPair.TestCase.settings = settings(max_examples=300, stateful_step_count=50, deadline=None)
test_connection_pair = ConnectionPair.TestCase
