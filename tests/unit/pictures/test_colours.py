"""Colours of charts and profiles differ for who does not see red, green or blue, as Machado and others (2009) simulate it."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from advisor.pictures.profile_page import LEGEND

# Machado, Oliveira, Fernandes: A Physiologically-based Model for Simulation of Color Vision Deficiency; severity 1, linear RGB.
SEEN = {
    "all": np.eye(3),
    "no red": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
    "no green": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]]),
    "no blue": np.array([[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]]),
}  # fmt: skip
XYZ = np.array([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.072175], [0.0193339, 0.119192, 0.9503041]])
APART = 14.0  # CIE76; 2.3 is just noticeable where colours touch, those of a legend do not


def lab(colour: str, seen: np.ndarray) -> np.ndarray:
    """Return a colour in CIE L*a*b* as it is seen."""
    part = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    linear = np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)
    x = XYZ @ np.clip(seen @ linear, 0, 1) / np.array([0.95047, 1.0, 1.08883])
    f = np.where(x > 216 / 24389, np.cbrt(x), (24389 / 27 * x + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("who", SEEN)
@pytest.mark.parametrize(
    "colours",
    [tuple(colour for _, colour in LEGEND)],
    ids=["profiles"],
)
def test_colours_are_told_apart(colours: tuple[str, ...], who: str) -> None:
    for one, two in combinations(colours, 2):
        assert np.linalg.norm(lab(one, SEEN[who]) - lab(two, SEEN[who])) >= APART, (one, two)


@pytest.mark.parametrize("colour", sorted({colour for _, colour in LEGEND}))
def test_colours_are_seen_on_white_and_black_is_read_on_them_or_white(colour: str) -> None:
    white, black, own = (lab(each, SEEN["all"]) for each in ("#ffffff", "#000000", colour))
    assert np.linalg.norm(own - white) >= APART
    assert max(abs(own[0] - white[0]), abs(own[0] - black[0])) >= 50.0  # of 100 in lightness
