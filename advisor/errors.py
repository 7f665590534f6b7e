"""What can go wrong, by whose fault.

AdvisorError
├── CallerError            the request is at fault: the same request fails again (retry is False)
│   ├── InvalidValue       a value outside its domain, or of the wrong type or shape (ValueError)
│   ├── TooLarge           a named limit is exceeded (ValueError)
│   ├── UnknownKey         a key that the method does not have (KeyError)
│   ├── UnknownMethod      a method that the protocol does not have
│   ├── MalformedMessage   bytes that are no message of the protocol
│   ├── UnknownComponent   a component never observed (KeyError)
│   ├── UnknownNetwork     an id that no network was defined by (KeyError)
│   ├── UnknownProgram     a program of which no run was observed (KeyError)
│   ├── NotEnoughData      a component known, but not yet well enough to answer
│   ├── Unsupported        a legal request that this version cannot represent
│   ├── NetworkSyntax      a network text that does not read, with line and column (ValueError)
│   ├── MissingShares      a choice or component whose visits nobody gave
│   ├── ImpossibleTarget   a target that no allocation meets, with the component that forbids it
│   ├── TargetNotReached   a target that no allocation found meets; none is proved impossible
│   ├── SequenceGap        a numbered batch that is not the next one
│   ├── Unauthorized       no token, or a wrong one
│   └── Mismatch           two states that cannot be put together (ValueError)
├── ServiceError           the service cannot now: the same request may succeed later (retry is True)
│   ├── Unavailable        starting, stopping, superseded, overloaded
│   ├── UnknownNameId      a column index that this connection has not named: send `names`, then again
│   ├── StorageFailed      the state file cannot be written (disk full, read-only)
│   └── WorkFailed         a worker was killed, by a deadline or from outside
├── StateError             the state file is at fault; the service does not start on it
│   ├── StateLocked        another service has it open
│   ├── StateDamaged       a checksum does not match
│   └── StateTooNew        a later version wrote it
├── ConcurrentUse          raised by the library only: an Advisor called by two threads at once (RuntimeError)
├── ConnectionFailed       raised by the client only: no connection (ConnectionError)
└── NotAnswered            raised by the client only: connected, and no answer in time (TimeoutError)

In brackets: the built-in error that each is, too. `RowsRefused` is a warning.

Every error carries typed fields and words itself. `as_dict` is its shape on the wire; `from_dict` gives it back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from reprlib import Repr
from typing import Any, ClassVar, Self

WIRE_KEYS = ("code", "message", "field", "value", "bound", "retry", "hint")
_BOUNDED = Repr()  # of lists and maps: their first items only, to a depth of 2
_BOUNDED.maxlevel = 2
NETWORKS_REPORTED = 8  # ids reported where one is not known
TEXT_CHARACTERS_MAX = 300  # of a hostile value, repeated in an error: enough to recognise it, too little to hurt a log
BY_CODE: dict[str, type[AdvisorError]] = {}  # each class by its code on the wire
BOUND_CHARACTERS_MAX = 500  # of a bound: the keys of `watch`, the longest list, take 340


def shorten(value: object, characters_max: int = TEXT_CHARACTERS_MAX) -> object:
    """Return `value` as it may stand in an error: numbers as they are, anything else as bounded printable text."""
    if value is None or isinstance(value, (bool, float)):
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**64 else f"integer of {value.bit_length()} bits"
    # Strings and bytes are cut before repr: the repr of 8 MiB costs more than the answer.
    text = value[:characters_max] if isinstance(value, str) else None
    if text is None:
        text = repr(value[:64]) if isinstance(value, (bytes, bytearray)) else _BOUNDED.repr(value)
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)[:characters_max]


class AdvisorError(Exception):
    """Base of every error that Advisor raises.

    Parameters
    ----------
    message : str
        What happened, in words.
    field, value, bound : optional
        Which field, the value it had, the bound or form it must keep.
    hint : str
        What to do about it.
    """

    code: ClassVar[str] = "error"  # on the wire; each class has its own
    retry: bool = False

    def __init_subclass__(cls, code: str = "") -> None:
        super().__init_subclass__()
        if code:
            cls.code = code
            BY_CODE[code] = cls

    def __init__(
        self, message: str, *, field: str | None = None, value: object = None, bound: object = None, hint: str = ""
    ) -> None:
        self.message = message
        self.field = field
        self.value = shorten(value)
        self.bound = shorten(bound, BOUND_CHARACTERS_MAX)
        self.hint = hint
        super().__init__(message)

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message

    def detached(self) -> Self:
        """Return the error as a value to keep: its traceback would hold all that its callers hold, and they it."""
        self.__cause__ = self.__context__ = None
        return self.with_traceback(None)

    def as_dict(self) -> dict[str, Any]:
        """Return the error's shape on the wire, `{code, message, field, value, bound, retry, hint}`."""
        return {key: getattr(self, key) for key in WIRE_KEYS}

    def __reduce__(self) -> tuple[Any, ...]:
        return from_dict, (self.as_dict(),)  # from one process to another it is what it is on the wire


class CallerError(AdvisorError, code="caller"):
    """The request is at fault; sending it again fails again."""


class InvalidValue(CallerError, ValueError, code="invalid"):
    """A value is outside its domain, or of the wrong type or shape."""

    def __init__(self, field: str, value: object, bound: str, hint: str = "") -> None:
        super().__init__(
            f"{field} is {shorten(value)!r}, must be {bound}", field=field, value=value, bound=bound, hint=hint
        )


def nearest(word: object, known: Iterable[str]) -> str:
    """Return a hint that names the known word most like one that is none of them; empty where none is like it."""
    from difflib import get_close_matches  # noqa: PLC0415 - only where something is wrong already

    found = get_close_matches(str(word)[:64], list(known), n=1, cutoff=0.5)
    return f"did you mean {found[0]!r}?" if found else ""


def closest(word: object, known: Collection[str]) -> str:
    """Return the hint of `nearest`, or all words where none is like it."""
    return nearest(word, known) or f"there are {', '.join(known)}"


def not_one_of(field: str, value: object, known: Iterable[str], also: str = "") -> InvalidValue:
    """Return the error of a word that is none of those known, with the nearest."""
    words = tuple(known)
    return InvalidValue(field, value, f"one of {', '.join(words)}{also}", nearest(value, words))


class TooLarge(CallerError, ValueError, code="too_large"):
    """A named limit is exceeded."""

    def __init__(self, field: str, value: object, bound: int | float, hint: str = "") -> None:
        super().__init__(
            f"{field} is {shorten(value)!r}, at most {bound} allowed", field=field, value=value, bound=bound, hint=hint
        )


class UnknownKey(CallerError, KeyError, code="unknown_key"):
    """A key that the method does not have."""


class UnknownMethod(CallerError, code="unknown_method"):
    """A method that the protocol does not have."""


class MalformedMessage(CallerError, code="malformed"):
    """Bytes that are no message of the protocol; the connection closes after it."""


class UnknownComponent(CallerError, KeyError, code="unknown_component"):
    """A component that was never observed."""

    def __init__(self, component: str, near: Sequence[str] = ()) -> None:
        meant = f"did you mean {' or '.join(map(repr, near))}?" if near else ""
        super().__init__(
            f"component {shorten(component)!r} was never observed",
            field="component",
            value=component,
            bound=", ".join(near) or None,
            hint=meant or "observe it first, or check the spelling with status",
        )


class UnknownNetwork(CallerError, KeyError, code="unknown_network"):
    """An id that no network was defined by."""

    def __init__(self, network: object, known: Sequence[str] = ()) -> None:
        some = ", ".join(known[:NETWORKS_REPORTED]) + (", …" if len(known) > NETWORKS_REPORTED else "")
        super().__init__(
            f"no network is defined as {shorten(network)!r}",
            field="network",
            value=network,
            bound=some or None,
            hint="define it first with define_network",
        )


class UnknownProgram(CallerError, KeyError, code="unknown_program"):
    """A program of which no run was observed."""


class NotEnoughData(CallerError, code="not_enough_data"):
    """A component is known, but not yet well enough to answer."""


class Unsupported(CallerError, code="unsupported"):
    """A legal request that this version cannot represent."""


class NetworkSyntax(CallerError, ValueError, code="network_syntax"):
    """A network text that does not read."""

    def __init__(self, message: str, *, line: int, column: int, hint: str = "") -> None:
        super().__init__(
            f"line {line}, column {column}: {message}", field="network", bound=f"{line}:{column}", hint=hint
        )

    @property
    def line(self) -> int:
        """Where it does not read, counted from 1; 0: not known."""
        return self._place(0)

    @property
    def column(self) -> int:
        """As `line`."""
        return self._place(2)

    def _place(self, part: int) -> int:
        found = str(self.bound).partition(":")[part]
        return int(found) if found.isdigit() else 0


class MissingShares(CallerError, code="missing_shares"):
    """A choice whose shares, or a component whose visits, nobody gave."""


class ImpossibleTarget(CallerError, code="impossible"):
    """A target that no allocation meets; `field` is the component and `bound` the best it can do."""


class TargetNotReached(CallerError, code="not_reached"):
    """A target that no allocation found meets, though none is proved impossible; `bound` is what the best found reaches."""


class SequenceGap(CallerError, code="sequence_gap"):
    """A numbered batch that is not the next one; `bound` is the number expected."""

    def __init__(self, sequence: int, expected: int) -> None:
        super().__init__(
            f"batch {sequence} came where {expected} is expected",
            field="sequence",
            value=sequence,
            bound=expected,
            hint=f"send batch {expected} first; hello tells the durable sequence",
        )


class Unauthorized(CallerError, code="unauthorized"):
    """No token was given where one is needed, or a wrong one."""


class Mismatch(CallerError, ValueError, code="mismatch"):
    """Two states that cannot be put together."""


class ServiceError(AdvisorError, code="service"):
    """The service cannot answer now; the same request may succeed later."""

    retry = True


class Unavailable(ServiceError, code="unavailable"):
    """Starting, stopping, superseded by a newer connection, or overloaded."""


class UnknownNameId(ServiceError, code="unknown_name_id"):
    """A column index that this connection has not named yet."""


class StorageFailed(ServiceError, code="storage_failed"):
    """The state file cannot be written (disk full, read-only); nothing was lost, nothing was acknowledged."""


class WorkFailed(ServiceError, code="work_failed"):
    """A worker process was killed, by its deadline or from outside."""


class StateError(AdvisorError, code="state"):
    """The state file is at fault."""


class StateLocked(StateError, code="state_locked"):
    """Another service has the state file open."""


class StateDamaged(StateError, code="state_damaged"):
    """A checksum in the state file does not match."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message, field="state", hint=hint)


class StateTooNew(StateError, code="state_too_new"):
    """A later version of Advisor wrote the state."""


class ConnectionFailed(AdvisorError, ConnectionError, code="connection_failed"):
    """Nobody answers at the address; raised by the client only."""

    retry = True


class NotAnswered(AdvisorError, TimeoutError, code="not_answered"):
    """The connection stands, and what was waited for did not come in time; raised by the client only."""

    retry = True


class ConcurrentUse(AdvisorError, RuntimeError, code="concurrent_use"):
    """A second thread called an `Advisor` while a first one was inside it; the call did nothing."""


class RowsRefused(UserWarning):
    """A client's first rows that the service refused, and why; the others are counted in its `stats`."""


def from_dict(wire: Mapping[str, Any]) -> AdvisorError:
    """Return the error whose `as_dict` gave `wire`; an unknown code gives the base class of its `retry`."""
    retry = bool(wire.get("retry", False))
    cls = BY_CODE.get(str(wire.get("code")), ServiceError if retry else CallerError)
    error = cls.__new__(cls)
    AdvisorError.__init__(
        error,
        str(wire.get("message", "")),
        field=wire.get("field"),
        value=wire.get("value"),
        bound=wire.get("bound"),
        hint=str(wire.get("hint") or ""),
    )
    error.retry = retry
    return error
