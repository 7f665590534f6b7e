"""What the pictures of a profile show alike: trees in bands, and a colour for what each node stands for."""

from __future__ import annotations

from typing import Final

from advisor.profile import layout as at

# Okabe and Ito's colours, most lightened, as far from each other as colour-blind readers need them, and from white.
WORK, OVERHEAD, WAITING, STUB, OTHER = "#8fc1e3", "#f0a884", "#f3d98b", "#cc79a7", "#d0d0d0"
COLOURS: Final = {
    **dict.fromkeys((at.TASK, at.REGION, at.PARALLEL, at.PARAMETER), WORK),
    **dict.fromkeys((at.CREATION, at.MANAGEMENT), OVERHEAD),
    **dict.fromkeys((at.TASKWAIT, at.BARRIER, at.TASKGROUP, at.WAIT, at.IDLE), WAITING),
    at.STUB: STUB,
    at.THREAD: OTHER,
    at.OVERFLOW: OTHER,
}
LEGEND: Final = (
    ("work", WORK), ("creation, management", OVERHEAD), ("waiting", WAITING), ("tasks run there", STUB), ("thread", OTHER),
)  # fmt: skip
BANDS: Final = (("tasks", (at.TASK,)), ("threads", (at.THREAD,)), ("beyond the cap", (at.OVERFLOW,)))
