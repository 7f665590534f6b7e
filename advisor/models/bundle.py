"""A bundle of curves, read and asked: for schedulers in Python that cannot wait for an answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from advisor.domain import limits
from advisor.domain.allowed_cores import AllowedForm, allowed_in_all
from advisor.domain.bundle import ASK, KIND, VALUE_ERROR, VERSION, BundleRecord, Directory, allowed_of, pack
from advisor.errors import InvalidValue, Unsupported
from advisor.models import bundled


class CurvePoint(NamedTuple):
    """Seconds of one run, the interval that holds the bundle's `level` of all runs, and the octaves outside what was seen."""

    elapsed_s: float
    low_s: float
    high_s: float
    extrapolates: float


class Bundle:
    """The curves of components, as `Advisor.bundle` and the verb `curves` write them. Answers take some tens of microseconds.

    Parameters
    ----------
    data : bytes

    Attributes
    ----------
    version : int
    level : float
    names : tuple of str

    Raises
    ------
    MalformedMessage
        When the bytes are no bundle; every byte is checked.

    Examples
    --------
    >>> from advisor import Advisor, Bundle
    >>> adv = Advisor()
    >>> for cores in (1, 2, 4, 8):
    ...     for size in (100, 200, 300, 400):
    ...         adv.observe("blur", predictor=size, cores=cores, elapsed_s=1e-3 * size * (0.1 + 0.9 / cores))
    >>> curves = Bundle(adv.bundle(cores_max=16))
    >>> curves.choose_cores("blur", 300, cores_max=8)
    8
    """

    def __init__(self, data: bytes) -> None:
        self._directory = Directory(data)
        self._words = self._directory.words.tolist()  # plain numbers: three times as fast as numpy's, one by one
        self.version = self._directory.version
        self.level = self._directory.level
        self.names = self._directory.names

    def __len__(self) -> int:
        """Return how many components it has."""
        return len(self._directory)

    def answers(self, component: str) -> bool:
        """Return whether the component's curve is carried; else only the service can be asked.

        So it is where a component has learned nothing, or its predictors have several values.
        """
        return self._directory.words[self._directory.start(component) + KIND] != ASK

    def rows(self, component: str) -> int:
        """Return the rows that the component had learned."""
        return int(self._words[self._directory.start(component) + VERSION])

    def table_error(self, component: str) -> float:
        """Return the largest error of the component's table against its model, in log2 of a time, as it was measured."""
        words, at = self._answering(component)
        return words[at + VALUE_ERROR]

    def merged(self, news: Bundle) -> Bundle:
        """Return this bundle with the components of `news` in place of, and beside, its own. Cost O(bytes)."""
        records = {record.name: record for bundle in (self, news) for record in bundle.records()}
        return Bundle(pack(list(records.values()), news.version, news.level))

    def records(self) -> list[BundleRecord]:
        """Return the records, in order of name."""
        return list(self._directory)

    def predict(self, component: str, predictor: float = 1.0, cores: float = 1.0) -> CurvePoint:
        """Return what one run takes.

        Raises
        ------
        UnknownComponent, InvalidValue
        Unsupported
            When the component has no curve that can be carried: nothing learned, or predictors of several values.
        """
        words, at = self._answering(component)
        _check("predictor", predictor, 0.0, limits.PREDICTOR_MAX)
        _check("cores", cores, limits.CORES_MIN, limits.CORES_MAX)
        return CurvePoint(*bundled.predict(words, at, float(predictor), float(cores)))

    def choose_cores(
        self, component: str, predictor: float = 1.0, *, cores_max: int | None = None, allowed: AllowedForm | None = None,
        tolerance: float = 0.05,
    ) -> int:  # fmt: skip
        """Return the cores for one run: the default rule of `Advisor.choose_cores`, on the curve that is carried.

        Raises
        ------
        UnknownComponent, InvalidValue, TooLarge, UnknownKey, Unsupported
        """
        words, at = self._answering(component)
        _check("predictor", predictor, 0.0, limits.PREDICTOR_MAX)
        _check("tolerance", tolerance, 0.0, 1.0)
        counts = allowed_in_all(component, cores_max, allowed, allowed_of(words, at))
        return bundled.choose_cores(words, at, float(predictor), counts, float(tolerance))

    def _answering(self, component: str) -> tuple[Sequence[float], int]:
        """Return words, and where the component's record begins in them; raises Unsupported where no curve is carried."""
        at = self._directory.start(component)
        if self._words[at + KIND] == ASK:
            raise Unsupported(
                f"no curve of {component!r} is carried",
                field="component",
                value=component,
                hint="ask with choose_cores",
            )
        return self._words, at


def _check(field: str, value: float, low: float, high: float) -> None:
    if isinstance(value, bool) or not low <= value <= high:
        raise InvalidValue(field, value, f"a number from {low:g} to {high:g}")
