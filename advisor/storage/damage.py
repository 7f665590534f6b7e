"""What a damaged state file has lost, in the terms of its users: components, producers, counters."""

from __future__ import annotations

from dataclasses import dataclass

from advisor.errors import StateDamaged

NAMED_MAX = 8  # components named in the message itself; the error carries them all


@dataclass(frozen=True, slots=True)
class Damage:
    """What cannot be trusted any more."""

    components: tuple[str, ...] = ()  # components whose learned state is lost; they keep their slots and start anew
    producers: int = 0  # producers whose number is lost; they meet a service that is behind them
    parts: tuple[str, ...] = ()  # each damaged part, in words, e.g. `page 3 of table base`.

    def __bool__(self) -> bool:
        return bool(self.parts)

    def error(self) -> StateDamaged:
        """Return the error that refuses to start."""
        named = ", ".join(self.components[:NAMED_MAX]) + (", …" if len(self.components) > NAMED_MAX else "")
        lost = f"; {len(self.components)} components lost: {named}" if self.components else ""
        lost += f"; {self.producers} producers' numbers lost" if self.producers else ""
        parts = "; ".join(self.parts[:NAMED_MAX]) + ("; …" if len(self.parts) > NAMED_MAX else "")
        return StateDamaged(
            f"the state file is damaged: {parts}{lost}",
            components=self.components,
            hint="restore a backup, or start without what is lost by --accept-damage",
        )
