"""Charts as PNG files; needs matplotlib, which the extra `plot` installs."""

from advisor.pictures.charts import Bars, Panel, Series, draw

__all__ = ["Bars", "Panel", "Series", "draw"]
