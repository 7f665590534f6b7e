"""How many predictors a component has: as many as its rows, unless more than twice as many rows say otherwise.

A component has the number of its first accepted row; a row of another number is refused, and votes against it. The vote
that makes more than `OUTVOTED` times as many as the rows that were learned is not refused: the component begins anew with
it. So one stray row, or a short run of them, keeps nobody out for ever, and carries nobody away who has learned more. Votes
are kept over the change, the former rows now against the latter, so that each further change takes more rows than all before
it, and a stream of both kinds settles.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from advisor.domain.vectors import Bools, Ints

OUTVOTED: Final = 2  # a majority alone would let two kinds of rows take turns
SLICE_ROWS: Final = 512  # folded at once where rows differ: what comes behind a change is looked at again

# A component's word: width | rows that were refused before they won << 8 | votes against << 36.
WIDTH: Final = 0xFF
VOTES_MAX: Final = 2**27 - 1
_WON, _AGAINST = 8, 36


def of(words: Ints) -> Ints:
    """Return the widths in words; 0: not known."""
    return words & WIDTH


def counted(words: Ints, learned: Ints, slots: Ints, rows: Ints, against: Bools) -> tuple[Ints, Ints, int | None]:
    """Count the votes of rows, up to the first that makes a component begin anew.

    Parameters
    ----------
    words, learned : int64 arrays (components,)
        Of all components: their words, and the rows they have learned since they began.
    slots : int64 array (n,)
        The component of each row of a batch.
    rows : int64 array (m,)
        Places of the rows that have a vote, ascending: those to be learned.
    against : bool array (n,)
        Rows of another width than their component.

    Returns
    -------
    tuple of (components (k,), their words (k,), place of the first row that a component begins anew with)
        The words are those at the end of the batch: right where there is no such row. Cost O(m log m).
    """
    rows = rows[np.isin(slots[rows], slots[rows][against[rows]])]
    if not len(rows):
        return rows, rows, None
    order = rows[np.argsort(slots[rows], kind="stable")]
    whose = slots[order]
    first = np.flatnonzero(np.diff(whose, prepend=-1))
    length = np.diff(first, append=len(whose))

    def running(votes: Bools, before: Ints) -> Ints:
        total = np.cumsum(votes, dtype=np.int64)
        return total + np.repeat(before - (total[first] - votes[first]), length)

    word = words[whose[first]]
    no = running(against[order], word >> _AGAINST)
    yes = running(~against[order], learned[whose[first]] + (word >> _WON & VOTES_MAX))
    won = against[order] & (no > OUTVOTED * yes)
    last = np.append(first[1:], len(whose)) - 1
    told = word & ~(VOTES_MAX << _AGAINST) | np.minimum(no[last], VOTES_MAX) << _AGAINST
    return whose[first], told, int(order[won].min()) if won.any() else None


def anew(word: int, learned: int, width: int) -> int:
    """Return the word of a component that begins anew with a row of another width."""
    won = learned + (word >> _WON & VOTES_MAX)
    return width | min(word >> _AGAINST, VOTES_MAX) << _WON | min(won, VOTES_MAX) << _AGAINST
