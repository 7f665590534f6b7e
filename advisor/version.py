"""The version of this distribution, in a module that imports nothing."""

from __future__ import annotations

from typing import Final

VERSION: Final = "0.1.0"
