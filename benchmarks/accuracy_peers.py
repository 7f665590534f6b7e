"""Learners that are judged side by side: ours, and what others publish. Each is a few lines; `LEARNERS` names them.

Linear peers keep the triangle R of their rows (orthogonal updates), so that a fit from it is the fit from all rows, at no
loss of digits. Where rows do not determine a fit yet, the directions without evidence get slope zero about the rows' mean
(log forms, by a small ridge), or NNLS decides (Ernest).
"""

# ruff: noqa: PLC0415 -- each peer's package is optional and imported where it is used
from __future__ import annotations

import importlib
import importlib.util
import logging
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from accuracy_gaussian import GaussianProcess
from accuracy_protocol import Answer, Array, Learner

TINY = 1e-9  # stands for a predictor of zero in a logarithm
RIDGE = 1e-2  # of the log forms, (noise / slope) squared: noise of 10 % and slopes about 1, weak beside any evidence
LOG_MAX = 700.0  # exp() of more overflows
REFIT = 1.15  # growth of a component's rows between two fits of an offline peer
FEW_ROWS = 3  # below: an offline peer answers the mean of the logarithms
EXTRA_P_CELLS = 100  # configurations given to Extra-P, made for tens: its cross-validation costs their square
NONE: Answer = (None, None, None)


class PerComponent:
    """A learner from one that knows a single component: `make()` has `predict(x, p) -> t` and `learn(x, p, t)`."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make
        self.known: dict[str, Any] = {}

    def predict(self, component: str, x: float, p: float) -> Answer:
        one = self.known.get(component)
        return NONE if one is None else (one.predict(x, p), None, None)

    def learn(self, component: str, x: float, p: float, t: float) -> None:
        if component not in self.known:
            self.known[component] = self.make()
        self.known[component].learn(x, p, t)

    def state_bytes(self) -> int:
        return sum(one.state_bytes() for one in self.known.values())


class Triangle:
    """Rows (features, y) as the triangle of their QR decomposition: constant space, solved as if all rows were kept."""

    def __init__(self, features: int) -> None:
        self.rows = np.zeros((features + 2, features + 1))

    def add(self, row: Array) -> None:
        self.rows[-1] = row
        self.rows[:-1] = np.linalg.qr(self.rows, mode="r")

    def nonnegative(self) -> Array:
        """Return argmin ||A c − y||, c ≥ 0."""
        from scipy.optimize import nnls

        matrix, y = self.rows[:-1, :-1], self.rows[:-1, -1]
        scale = np.linalg.norm(matrix, axis=0)
        scale[scale == 0] = 1.0
        return nnls(matrix / scale, y)[0] / scale

    def with_intercept(self, ridge: float) -> Array:
        """Return least squares with a free intercept (the first feature) and a ridge on the other coefficients."""
        first, rest = self.rows[0], self.rows[1:-1]
        count = rest.shape[1] - 2
        left = np.vstack((rest[:, 1:-1], math.sqrt(ridge) * np.eye(count)))
        slopes = np.linalg.lstsq(left, np.concatenate((rest[:, -1], np.zeros(count))), rcond=None)[0]
        return np.concatenate(([(first[-1] - first[1:-1] @ slopes) / first[0]], slopes))

    def state_bytes(self) -> int:
        return self.rows.nbytes


class Ernest:
    """Ernest (Venkataraman 2016): t = c0 + c1·x/p + c2·log p + c3·p, c ≥ 0; `relative` weighs each row by 1/t²."""

    def __init__(self, *, relative: bool) -> None:
        self.relative = relative
        self.triangle = Triangle(4)
        self.coefficients: Array | None = None

    def predict(self, x: float, p: float) -> float:
        if self.coefficients is None:
            self.coefficients = self.triangle.nonnegative()
        return float(self.coefficients @ (1.0, x / p, math.log(p), p))

    def learn(self, x: float, p: float, t: float) -> None:
        weight = 1.0 / t if self.relative else 1.0
        self.triangle.add(weight * np.array((1.0, x / p, math.log(p), p, t)))
        self.coefficients = None

    def state_bytes(self) -> int:
        return self.triangle.state_bytes()


class LogForm:
    """log t, linear (Barnes 2008) or quadratic in (log x, log p), about the component's first row."""

    def __init__(self, *, quadratic: bool) -> None:
        self.quadratic = quadratic
        self.triangle = Triangle(6 if quadratic else 3)
        self.origin: tuple[float, float] | None = None
        self.coefficients: Array | None = None

    def features(self, x: float, p: float) -> tuple[float, ...]:
        a, b = math.log(max(x, TINY)), math.log(p)
        if self.origin is None:
            self.origin = (a, b)
        a, b = a - self.origin[0], b - self.origin[1]
        return (1.0, a, b, a * a, a * b, b * b) if self.quadratic else (1.0, a, b)

    def predict(self, x: float, p: float) -> float:
        if self.coefficients is None:
            self.coefficients = self.triangle.with_intercept(RIDGE)
        return math.exp(min(float(self.coefficients @ self.features(x, p)), LOG_MAX))

    def learn(self, x: float, p: float, t: float) -> None:
        self.triangle.add(np.array((*self.features(x, p), math.log(t))))
        self.coefficients = None

    def state_bytes(self) -> int:
        return self.triangle.state_bytes()


class NearestCell:
    """The mean of the rows at the nearest (x, p) that was seen, by distance of the logarithms."""

    def __init__(self) -> None:
        self.places = np.empty((16, 2))
        self.means: list[float] = []
        self.counts: list[int] = []
        self.cell_of: dict[tuple[float, float], int] = {}

    def predict(self, x: float, p: float) -> float:
        cell = self.cell_of.get((x, p))
        if cell is None:
            away = self.places[: len(self.means)] - (math.log(max(x, TINY)), math.log(p))
            cell = int(np.argmin(np.einsum("ij,ij->i", away, away)))
        return self.means[cell]

    def learn(self, x: float, p: float, t: float) -> None:
        cell = self.cell_of.setdefault((x, p), len(self.means))
        if cell == len(self.means):
            if cell == len(self.places):
                self.places = np.vstack((self.places, np.empty_like(self.places)))
            self.places[cell] = math.log(max(x, TINY)), math.log(p)
            self.means.append(0.0)
            self.counts.append(0)
        self.counts[cell] += 1
        self.means[cell] += (t - self.means[cell]) / self.counts[cell]

    def state_bytes(self) -> int:
        return 32 * len(self.means)


class Refitted:
    """A peer that learns only from all rows at once: fitted again each time that they have grown by the factor `REFIT`.

    `fit(x, p, t)` returns a function (x, p) -> t, or None where it cannot.
    """

    def __init__(self, fit: Callable[[Array, Array, Array], Callable[[float, float], float] | None]) -> None:
        self.fit = fit
        self.rows: list[tuple[float, float, float]] = []
        self.fitted: Callable[[float, float], float] | None = None
        self.fitted_rows = 0
        self.final = False

    def predict(self, x: float, p: float) -> float:
        count = len(self.rows)
        if count >= FEW_ROWS and count >= max(self.fitted_rows * REFIT, self.fitted_rows + 1):
            x_seen, p_seen, t_seen = np.array(self.rows).T
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                self.fitted = self.fit(x_seen, p_seen, t_seen)
            self.fitted_rows = count
        if self.fitted is None:
            return math.exp(math.fsum(math.log(row[2]) for row in self.rows) / count)
        return self.fitted(x, p)

    def learn(self, x: float, p: float, t: float) -> None:
        self.rows.append((x, p, t))

    def state_bytes(self) -> int:
        return 24 * len(self.rows)  # the rows alone


def boosted_trees(x: Array, p: Array, t: Array) -> Callable[[float, float], float]:
    """Fit scikit-learn's gradient-boosted trees, at its defaults, to the logarithms."""
    from sklearn.ensemble import GradientBoostingRegressor

    model = GradientBoostingRegressor(random_state=0)
    model.fit(np.column_stack((np.log(np.maximum(x, TINY)), np.log(p))), np.log(t))
    place = np.empty((1, 2), np.float32)
    trees = [stage[0].tree_ for stage in model.estimators_]
    initial, rate = float(model.init_.constant_[0, 0]), model.learning_rate

    def predict(x: float, p: float) -> float:
        place[0] = math.log(max(x, TINY)), math.log(p)
        return math.exp(initial + rate * sum(float(tree.predict(place)[0, 0]) for tree in trees))

    return predict


def extra_p(x: Array, p: Array, t: Array) -> Callable[[float, float], float] | None:
    """Fit Extra-P's performance model normal form, negative exponents on; rows of one (x, p) are repetitions.

    Of more than `EXTRA_P_CELLS` configurations it gets that many, evenly spread in their order.
    """
    from extrap.entities.callpath import Callpath
    from extrap.entities.coordinate import Coordinate
    from extrap.entities.experiment import Experiment
    from extrap.entities.measurement import Measurement
    from extrap.entities.metric import Metric
    from extrap.entities.parameter import Parameter
    from extrap.modelers.model_generator import ModelGenerator
    from extrap.modelers.multi_parameter.multi_parameter_modeler import MultiParameterModeler
    from extrap.modelers.single_parameter.basic import SingleParameterModeler

    logging.disable(logging.WARNING)
    columns = {name: values for name, values in (("x", x), ("p", p)) if len(np.unique(values)) > 1}
    if not columns:
        return None
    cells: dict[tuple[float, ...], list[float]] = {}
    for place, value in zip(zip(*columns.values(), strict=True), t.tolist(), strict=True):
        cells.setdefault(tuple(float(v) for v in place), []).append(value)
    experiment, path, metric = Experiment(), Callpath("component"), Metric("time")
    experiment.add_callpath(path)
    experiment.add_metric(metric)
    for name in columns:
        experiment.add_parameter(Parameter(name))
    places = sorted(cells)
    if len(places) > EXTRA_P_CELLS:
        places = [places[number] for number in np.linspace(0, len(places) - 1, EXTRA_P_CELLS).round().astype(int)]
    for place in places:
        coordinate = Coordinate(*place)
        experiment.add_coordinate(coordinate)
        experiment.add_measurement(Measurement(coordinate, path, metric, cells[place]))
    single = SingleParameterModeler()
    single.allow_negative_exponents = True
    modeler = single
    if len(columns) > 1:
        modeler = MultiParameterModeler()
        modeler.single_parameter_modeler = single
    generator = ModelGenerator(experiment, modeler)
    try:
        generator.model_all()
        function = generator.models[path, metric].hypothesis.function
    except (ValueError, ArithmeticError, IndexError, AttributeError, np.linalg.LinAlgError):
        return None  # it wants more values than there are: the mean answers
    both = len(columns) > 1
    first = next(iter(columns))

    def predict(x: float, p: float) -> float:
        with np.errstate(all="ignore"):
            return float(function.evaluate((x, p) if both else {"x": x, "p": p}[first]))

    return predict


class RiverLinear:
    """river's online linear regression of log t on scaled (log x, log p), at its defaults but for the target's scale."""

    def __init__(self) -> None:
        from river import linear_model, preprocessing

        self.model = preprocessing.TargetStandardScaler(
            regressor=preprocessing.StandardScaler() | linear_model.LinearRegression()
        )

    def predict(self, x: float, p: float) -> float:
        value = self.model.predict_one({"x": math.log(max(x, TINY)), "p": math.log(p)})
        return math.exp(min(value, LOG_MAX))

    def learn(self, x: float, p: float, t: float) -> None:
        self.model.learn_one({"x": math.log(max(x, TINY)), "p": math.log(p)}, math.log(t))

    def state_bytes(self) -> int:
        return 8 * 15  # means and variances of two features and the target, three coefficients, a count each


class Advised:
    """The Advisor of this checkout; with `model`, one of its named models."""

    def __init__(self, model: str | None = None) -> None:
        from advisor import Advisor
        from advisor.errors import AdvisorError

        self.advisor = Advisor()
        self.refusal = AdvisorError
        self.model = model

    def predict(self, component: str, x: float, p: float) -> Answer:
        try:
            if self.model is None:
                answer = self.advisor.predict(component, predictor=x, cores=p)
            else:
                answer = self.advisor.predict(component, predictor=x, cores=p, model=self.model)
        except self.refusal:
            return NONE
        return float(answer.elapsed_s), float(answer.low_s), float(answer.high_s)

    def learn(self, component: str, x: float, p: float, t: float) -> None:
        self.advisor.observe(component, predictor=x, cores=p, elapsed_s=t)

    def state_bytes(self) -> int:
        return ours_bytes(self.advisor)


def ours_bytes(advisor: Any) -> int:
    """Return the bytes of all components as the advisor itself states them."""
    return int(advisor.status(limit=0)["state_bytes"])


class Ours(Advised):
    """The Advisor as it answers by default."""

    def choose(self, component: str, x: float, cores_max: int) -> float | None:
        try:
            return self.advisor.choose_cores(component, predictor=x, cores_max=cores_max).cores
        except self.refusal:
            return None


class TwoStep(Advised):
    """Paper 1's two-step model; no intervals are asked of a peer."""

    def __init__(self) -> None:
        super().__init__("two_step degree 1")

    def predict(self, component: str, x: float, p: float) -> Answer:
        return (super().predict(component, x, p)[0], None, None)


LEARNERS: dict[str, Callable[[], Learner]] = {
    "advisor": Ours,
    "two_step": TwoStep,
    "ernest": lambda: PerComponent(lambda: Ernest(relative=False)),
    "ernest_relative": lambda: PerComponent(lambda: Ernest(relative=True)),
    "log_linear": lambda: PerComponent(lambda: LogForm(quadratic=False)),
    "log_quadratic": lambda: PerComponent(lambda: LogForm(quadratic=True)),
    "gaussian_process": lambda: PerComponent(GaussianProcess),
    "nearest_cell": lambda: PerComponent(NearestCell),
    "trees": lambda: PerComponent(lambda: Refitted(boosted_trees)),
    "extra_p": lambda: PerComponent(lambda: Refitted(extra_p)),
    "river": lambda: PerComponent(RiverLinear),
}
OURS = ("advisor",)
ON_PACKAGE = ("advisor", "two_step")  # their answers change with the package's source
NEEDS = {
    "ernest": "scipy",
    "ernest_relative": "scipy",
    "gaussian_process": "scipy",
    "trees": "sklearn",
    "extra_p": "extrap",
    "river": "river",
}
SLOW_IN_STREAMS = ("extra_p",)  # up to seconds a fit, and a fit each 15 % more rows


def missing_package(learner: str) -> str | None:
    """Return the package that a learner needs and that is not installed."""
    package = NEEDS.get(learner)
    return package if package and importlib.util.find_spec(package) is None else None


def learner_from(text: str) -> Callable[[], Learner]:
    """Return the factory of ``module:factory`` on the path of imports."""
    module, _, factory = text.partition(":")
    return getattr(importlib.import_module(module), factory)
