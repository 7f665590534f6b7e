"""Charts as PNG or SVG files; needs matplotlib, which the extra `plot` installs. Pages and profiles need nothing.

What pages and reports show of a state is made here, too: `views`, `trend`, `composed`, and `comparison` of two states.
"""

from advisor.pictures.charts import Bars, Panel, Series, draw, form_of
from advisor.pictures.replayed import draw_replay

__all__ = ["Bars", "Panel", "Series", "draw", "draw_replay", "form_of"]
