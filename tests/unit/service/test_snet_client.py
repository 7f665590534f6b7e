"""A client of the resource server as the runtime's library has it, written from the facts of its protocol alone: it reads
with a parser of its own, in pieces of any size, keeps its workers, and stops at whatever the library would assert.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from live import PATIENCE_S
from snet_lending import Lender, lending

LARGEST = 10 * 1024  # bytes of a message
TOKEN = re.compile(rb"[{}]|[A-Za-z][A-Za-z0-9.-]*|\d+")


class Refused(AssertionError):
    """What the library would stop its program for."""


def held(condition: object, why: object) -> None:
    if not condition:
        raise Refused(why)


@dataclass
class Library:
    """The client library's side of one connection.

    It takes a core into use when it is granted, gives an idle one back when it is asked for it, and a busy one when its
    worker stops. `workers` says which cores have a worker that is busy.
    """

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    random: Random
    read: bytes = b""
    local: int = 0
    cores: set[int] = field(default_factory=set)  # accepted, and not returned
    busy: set[int] = field(default_factory=set)
    asked_back: set[int] = field(default_factory=set)
    processors: set[int] = field(default_factory=set)
    heard: list[str] = field(default_factory=list)

    # -- bytes to messages ---------------------------------------------------------------------------------------------------

    async def hears(self) -> list[str] | None:
        """Return the words of the next message, braces among them; None where the server has closed the connection."""
        async with asyncio.timeout(PATIENCE_S):
            while (message := self._whole()) is None:
                data = await self.reader.read(self.random.choice((1, 2, 7, 64, 4096)))
                if not data:
                    held(not self.read.strip(), "a message that was cut")
                    return None
                self.read += data
        words = [word.decode() for word in TOKEN.findall(message)]
        held(re.sub(rb"[{}A-Za-z0-9.\s-]", b"", message) == b"", ("signs of no message", message))
        held(words[0] == "{" and words[-1] == "}" and words[1].isalpha(), ("no verb", message))
        self.heard.append(words[1])
        return words

    def _whole(self) -> bytes | None:
        depth, begun = 0, None
        for at, byte in enumerate(self.read):
            if byte == ord("{"):
                begun = at if depth == 0 else begun
                depth += 1
            elif byte == ord("}"):
                depth -= 1
                held(depth >= 0, "a brace that closes nothing")
                if depth == 0:
                    whole, self.read = self.read[begun : at + 1], self.read[at + 1 :]
                    return whole
            else:
                held(depth or chr(byte).isspace(), ("between messages", self.read[: at + 1]))
            held(begun is None or at - begun < LARGEST, "a message that is too long")
        return None

    def says(self, *words: object) -> None:
        """Send a message, in pieces, as a socket that is nearly full would."""
        data = f"{{ {' '.join(map(str, words))} }}".encode() + self.random.choice((b"", b"\n", b" ", b"\r\n"))
        cut = self.random.randrange(len(data) + 1)
        self.writer.write(data[:cut])
        self.writer.write(data[cut:])

    # -- what a message does -------------------------------------------------------------------------------------------------

    async def begins(self, local: int) -> None:
        """Ask what there is, in the library's order, and how many cores it could use."""
        self.says("list")
        systems = await self.hears()
        held(systems == ["{", "systems", "0", "}"], systems)
        self.says("access", 0)
        self.says("topology", 0)
        words = await self.hears()
        held(words is not None and words[1:4] == ["system", "0", "hostname"], words)
        assert words is not None
        self.processors = processors_of(words)
        self.wants(local)

    def wants(self, local: int) -> None:
        self.local = local
        self.says("local", local)

    async def obeys(self) -> bool:
        """Take in the next message; False where the connection has ended."""
        words = await self.hears()
        if words is None:
            return False
        verb, numbers = words[1], [int(word) for word in words[2:-1] if word.isdigit()]
        if verb == "state":
            return True
        held(verb in ("grant", "revoke") and len(numbers) >= 2 and numbers[0] == 0, words)
        cores = numbers[1:]
        held(len(set(cores)) == len(cores), ("a core twice in a message", words))
        held(set(cores) <= self.processors, ("a core that the topology has not", words))
        held(all(core <= 62 for core in cores), words)
        if verb == "grant":
            held(not self.cores & set(cores), ("a core that it still holds", words))
            self._granted(cores)
        else:
            held(set(cores) <= self.cores, ("asked for a core that it does not hold", words))
            held(not self.asked_back & set(cores), ("asked twice for a core", words))
            self._revoked(cores)
        return True

    def _granted(self, cores: list[int]) -> None:
        taken = [core for core in cores if len(self.cores) < self.local and not self.cores.add(core)]
        given = [core for core in cores if core not in taken]
        if taken:
            self.busy |= {core for core in taken if self.random.random() < 0.7}
            self.says("accept", 0, *taken)
        if given:
            self.says("return", 0, *given)

    def _revoked(self, cores: list[int]) -> None:
        idle = [core for core in cores if core not in self.busy]
        self.asked_back |= set(cores) - set(idle)
        self._returns(idle)

    def stops(self, core: int) -> None:
        """A worker has nothing more to do: its core goes back where it was asked for, and is kept idle otherwise."""
        self.busy.discard(core)
        if core in self.asked_back:
            self._returns([core])

    def _returns(self, cores: list[int]) -> None:
        if cores:
            self.cores -= set(cores)
            self.asked_back -= set(cores)
            self.says("return", 0, *cores)

    async def catches_up(self) -> None:
        """Take in all that the server said until it has read, and answered, all that was said to it."""
        for _ in range(2):  # what the first was read with is answered before the second
            self.says("state")
            while True:
                held(await self.obeys(), "the server has closed the connection")
                if self.heard[-1] == "state":
                    break


def processors_of(words: list[str]) -> set[int]:
    """Return the logical numbers of a topology, which is a tree of nodes, caches, cores and processors."""
    at = 4

    def expects(*wanted: str) -> None:
        nonlocal at
        held(words[at : at + len(wanted)] == list(wanted), (wanted, words[at : at + 8]))
        at += len(wanted)

    def number() -> int:
        nonlocal at
        held(words[at].isdigit(), words[at : at + 4])
        at += 1
        return int(words[at - 1])

    found: list[int] = []

    def tree(kinds: tuple[str, ...]) -> None:
        expects("children")
        for place in range(number()):
            expects("{", kinds[0], str(place))
            logical = None
            if kinds[0] in ("core", "proc"):
                expects("logical")
                logical = number()
                expects("physical")
                number()
            if kinds[1:]:
                tree(kinds[1:])
            else:
                assert logical is not None
                found.append(logical)
            expects("}")

    held(re.fullmatch(r"[A-Za-z0-9.-]+", words[at]), words[at])
    at += 1
    tree(("numa", "cache", "core", "proc"))
    held(words[at:] == ["}"], words[at:])
    held(sorted(found) == list(range(len(found))), found)
    return set(found)


async def connected(lender: Lender, seed: int) -> Library:
    peer = await lender.peer()
    return Library(peer.reader, peer.writer, Random(seed))


async def test_a_library_is_told_what_it_can_read_and_has_what_it_can_use() -> None:
    async with lending(cores=4) as lender:
        one, two = await connected(lender, 1), await connected(lender, 2)
        await one.begins(4)
        await one.catches_up()
        assert one.cores == {0, 1, 2, 3}
        await two.begins(2)
        one.busy = {0, 1, 2, 3}
        await one.catches_up()
        assert len(one.asked_back) == 1  # by demand, 3 and 1 of 4; a worker at work keeps its core
        for core in sorted(one.asked_back):
            one.stops(core)
        await one.catches_up()
        await two.catches_up()
        assert (len(one.cores), len(two.cores)) == (3, 1)
        assert not one.cores & two.cores


STEPS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(["wants", "stops", "works", "hears", "leaves"]), st.integers(0, 5)),
    max_size=20,
)


@settings(max_examples=15, deadline=None)
@given(STEPS, st.integers(0, 2**16))
def test_whatever_libraries_do_none_would_stop_its_program(steps: list[tuple[int, str, int]], seed: int) -> None:
    async def play() -> None:
        async with lending(cores=4) as lender:
            libraries = [await connected(lender, seed + number) for number in range(3)]
            for number, library in enumerate(libraries):
                await library.begins(number + 1)
            for who, does, much in steps:
                library = libraries[who]
                if does == "wants":
                    library.wants(much)
                elif does == "stops" and library.busy:
                    library.stops(sorted(library.busy)[much % len(library.busy)])
                elif does == "works":
                    library.busy |= set(sorted(library.cores - library.asked_back)[:much])
                elif does == "hears":
                    await library.catches_up()
                elif does == "leaves":
                    library.writer.transport.abort()
                    libraries[who] = library = await connected(lender, seed + much)
                    await library.begins(much)
                used = [core for each in libraries for core in each.cores]
                assert len(set(used)) == len(used)  # whoever left holds none
            for _ in range(4):  # what one gives back, another is granted
                for library in libraries:
                    for core in sorted(library.busy):
                        library.stops(core)
                    await library.catches_up()
            lender.resources.granting.check()
            wanted = [library.local for library in libraries]
            assert sum(len(library.cores) for library in libraries) == min(4, sum(wanted))
            assert all(library.cores for library, want in zip(libraries, wanted, strict=True) if want)
            counts = lender.resources.granting.counts
            assert not {"accepted, not offered", "returned, not held", "unknown command"} & set(counts)

    asyncio.run(play())
