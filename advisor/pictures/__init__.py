"""Charts as PNG files; needs matplotlib, which the extra `plot` installs."""

from advisor.pictures.charts import Bars, Panel, Series, draw
from advisor.pictures.replayed import draw_replay

__all__ = ["Bars", "Panel", "Series", "draw", "draw_replay"]
