"""Sets of allowed core counts: every form against the set of its members, and what is refused in words."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.domain.allowed_cores import AllowedCores, allowed_range, intersect_allowed, parse_allowed
from advisor.errors import InvalidValue, TooLarge, UnknownKey

MOST = 600
ends = st.tuples(st.integers(1, MOST), st.integers(1, MOST)).map(sorted)


def members_of(form):
    """The members of a form, counted one by one."""
    if isinstance(form, list):
        return set(form)
    counts = range(form["min"], form["max"] + 1)
    if "power_of" in form:
        powers = {form["power_of"] ** k for k in range(11)}
        return {count for count in counts if count in powers}
    return {count for count in counts if count % form["multiple_of"] == 0}


lists = st.lists(st.integers(1, MOST), min_size=1, max_size=20)
multiples = st.builds(lambda e, k: {"min": e[0], "max": e[1], "multiple_of": k}, ends, st.integers(1, 40))
powers = st.builds(lambda e, b: {"min": e[0], "max": e[1], "power_of": b}, ends, st.integers(2, 9))
forms = st.one_of(lists, multiples, powers).filter(members_of)


@given(forms)
def test_a_form_has_its_members(form):
    allowed, members = parse_allowed("allowed", form), members_of(form)
    assert {count for count in range(MOST + 1) if count in allowed} == members
    assert (allowed.least, allowed.most, len(allowed)) == (min(members), max(members), len(members))
    assert set(allowed.compared) == members or len(members) > 256
    assert list(allowed.compared) == sorted(set(allowed.compared))
    assert set(allowed.compared) <= members
    assert parse_allowed("allowed", allowed.as_wire()) == allowed


@given(forms, st.floats(0.3, 2 * MOST))
def test_the_nearest_is_nearest_by_ratio(form, count):
    allowed = parse_allowed("allowed", form)
    off = {member: abs(np.log(member / count)) for member in members_of(form)}
    assert allowed.nearest(count) in off
    assert off[allowed.nearest(count)] <= min(off.values()) + 1e-9


@given(forms, forms, forms)
def test_intersections_are_those_of_the_sets(one, two, three):
    a, b, c = (parse_allowed("allowed", form) for form in (one, two, three))
    both, members = a.intersection(b), members_of(one) & members_of(two)
    assert both == b.intersection(a)
    assert a.intersection(a) == a
    assert (both is None) == (not members)
    if both is None:
        with pytest.raises(InvalidValue, match="that 'x' allows"):
            intersect_allowed("allowed", a, b, "'x'")
        return
    assert {count for count in range(MOST + 1) if count in both} == members
    assert both.intersection(b) == both
    rest = b.intersection(c)
    assert both.intersection(c) == (None if rest is None else a.intersection(rest))


@given(forms, ends)
def test_a_part_has_the_members_within_its_ends(form, within):
    part = parse_allowed("allowed", form).between(*within)
    members = {count for count in members_of(form) if within[0] <= count <= within[1]}
    assert members == ({count for count in range(MOST + 1) if count in part} if part else set())


def test_large_ranges_are_thinned_to_two_percent():
    compared = np.array(parse_allowed("allowed", {"max": 2**20}).compared)
    assert (compared[0], compared[-1]) == (1, 2**20)
    assert len(compared) < 700
    assert (compared[:256] == np.arange(1, 257)).all()
    assert (compared[257:] / compared[256:-1]).max() < 49 / 48 + 0.004
    every = parse_allowed("allowed", {"min": 24, "max": 48_000, "multiple_of": 24})
    assert all(count in every for count in every.compared)


def test_counts_of_numpy_and_floats_that_are_whole_are_counts():
    expected = AllowedCores(1, 4, listed=(1, 2, 4))
    for given_as in ((4, 2, 1, 2), np.array([1, 2, 4]), [1.0, 2.0, 4.0], {1, 2, 4}):
        assert parse_allowed("allowed", given_as) == expected
    assert parse_allowed("allowed", range(1, 5)) != allowed_range(1, 4)  # another form of the same set
    assert str(expected) == "1, 2, 4"
    assert str(allowed_range(1, 64)) == "1 to 64"
    assert str(parse_allowed("allowed", {"max": 100, "power_of": 2})) == "1, 2, 4, 8, 16, 32, 64"
    assert str(parse_allowed("allowed", {"max": 30, "multiple_of": 8})) == "multiples of 8 from 8 to 24"


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        ([], InvalidValue, "must be a list of 1 to 256 counts"),
        (8, InvalidValue, "a map {min, max, multiple_of}"),
        ("1,2", InvalidValue, "a list of 1 to 256 counts"),
        ([1, 0], InvalidValue, r"allowed\[1\] is 0, must be a whole number of cores from 1 to 1048576"),
        ([1, 2.5], InvalidValue, r"allowed\[1\] is 2\.5"),
        ([True], InvalidValue, r"allowed\[0\] is True"),
        (list(range(1, 258)), TooLarge, "length of allowed is 257, at most 256 allowed"),
        ({"min": 9, "max": 4}, InvalidValue, r"allowed\.min is 9, must be at most allowed\.max, 4"),
        ({"max": 2**21}, InvalidValue, r"allowed\.max is 2097152"),
        ({"max": 8, "power_of": 1}, InvalidValue, r"allowed\.power_of is 1"),
        ({"max": 8, "power_of": 2, "multiple_of": 2}, InvalidValue, "give multiple_of or power_of, not both"),
        ({"min": 5, "max": 7, "power_of": 2}, InvalidValue, "a range with a power of 2"),
        ({"min": 5, "max": 7, "multiple_of": 4}, InvalidValue, "a range with a multiple of 4"),
        ({"most": 8}, UnknownKey, "allowed has no key 'most'"),
    ],
)
def test_what_is_no_set_is_refused(value, error, words):
    with pytest.raises(error, match=words):
        parse_allowed("allowed", value)
