"""One fixed stream, and what is answered after it: prints the digest of the state and of each verb's answers.

Run as a program, so that a test starts it as on another processor. The stream is of whole numbers, products and
quotients: numpy's own exponentials and those of its generators differ by processor.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent))

from flow_streams import NAMES, NODES, columns, stream
from program_runs import runs
from task_program import Program, recursive

from advisor import Advisor, kernels
from advisor.domain.task_graphs import task_graph
from advisor.engine import Engine
from advisor.errors import AdvisorError

COMPONENTS = 4
ROWS = 24  # of each component
POINTS = 100  # that each is asked
CORES = np.array([1.0, 1.0, 2.0, 2.0, 3.0, 4.0, 6.0, 8.0, 16.0])
NETWORK = "c0 .. (c1 | c2) .. (c3 .. d0) * {out} .. (d1 || d2) .. d3"
RUNS = {f"d{k}": f"c{k}" for k in range(COMPONENTS)}  # the component of a box
PLANS: tuple[dict[str, Any], ...] = (
    {"cores": 12}, {"cores": 12, "objective": "latency"},
    {"cores": 9, "objective": "latency", "arrival_per_s": 2.0, "quantile": 0.95},
    {"cores": 5, "objective": "latency", "arrival_per_s": 1.0, "arrival_variation": 2.0}, {"cores": 24, "instances_max": 3},
    {"objective": "fewest_cores", "target": {"throughput_per_s": 3.0}},
    {"cores": 8, "turns": "never", "allowed": {"power_of": 2}},
)  # fmt: skip
SHARES = {"shares": [[0.25, 0.75], [0.5, 0.5]], "depths": [[0.1, 0.4, 0.5]]}
GRAPH = task_graph(
    np.arange(1.0, 61.0) / 7.0, [(k, 2 * k + 1 + j) for k in range(29) for j in (0, 1)], types=("c0", "c1"),
    columns={"type": [k % 2 for k in range(60)], "size": [float(1 + k % 9) for k in range(60)]},
)  # fmt: skip
BATCHES = 5


def rows(component: int) -> tuple[Any, Any, Any]:
    """Return predictors, cores and times of a component's rows."""
    rng = np.random.default_rng(component)
    x = np.floor(1.0 + 500.0 * rng.random(ROWS) * rng.random(ROWS))
    p = CORES[rng.integers(0, len(CORES), ROWS)]
    serial, noise = rng.random() * 0.5, 1.0 + 0.2 * (rng.random(ROWS) - 0.5) * rng.random(ROWS)
    work = (x, x * x / 200.0, np.sqrt(x) * 20.0)[component % 3]
    return x, p, (1e-3 * work + 1e-4) * (serial + (1.0 - serial) / p) * noise


def taught() -> Advisor:
    """Return an advisor that has learned the stream of every verb, in batches and single rows."""
    advisor = Advisor()
    names = [f"c{k}" for k in range(COMPONENTS)]
    reported = [rows(k) for k in range(COMPONENTS)]
    index = np.tile(np.arange(COMPONENTS), ROWS)
    x, p, t = (np.stack([each[part] for each in reported]).T.reshape(-1) for part in range(3))
    for part in np.array_split(np.arange(len(index)), BATCHES):
        advisor.observe_columns(
            components=names, index=index[part], predictor=x[part], cores=p[part], elapsed_s=t[part]
        )
    for at in range(12):
        advisor.observe(
            "pair",
            predictor=[float(at % 4 + 1), float(at % 3 + 2)],
            cores=at % 3 + 1,
            elapsed_s=0.3 + at / (1.0 + at % 3),
        )
        advisor.observe("plain", cores=at % 4 + 1, elapsed_s=0.1 + 0.7 / (at % 4 + 1) + at / 500.0)
    for each in runs()[::3]:
        advisor.observe_run("program", **each)
    rng = np.random.default_rng(99)
    sizes = np.floor(1e6 * (1.0 + 60.0 * rng.random(400)))
    advisor.observe_instances(
        types=["task"], index=np.zeros(400, np.int64), size=sizes, elapsed_s=sizes * 1e-9 * (1.0 + 0.2 * rng.random(400)),
        active_cores=rng.integers(1, 9, 400),
    )  # fmt: skip
    advisor.define_network(NODES, id="net")
    advisor.learn_batch(columns(stream(60, 3)))
    return advisor


def questions(advisor: Advisor) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the verb and the question."""
    rng = np.random.default_rng(1)
    x, p = np.floor(1000.0 * rng.random(POINTS)), np.floor(1.0 + 40.0 * rng.random(POINTS)) / 2.0
    names = [f"c{k}" for k in range(COMPONENTS)]
    for name in names:
        yield "predict, many", lambda name=name: advisor.predict(name, predictor=x, cores=p)
        yield "predict over the load", lambda name=name: advisor.predict(name, cores=[1.0, 4.0, 7.0, 32.0])
        for model in ("two_step", "joint degree 2", "amdahl", "learner"):
            yield (
                f"predict, {model}",
                lambda name=name, model=model: advisor.predict(name, predictor=x, cores=p, model=model),
            )
        for k in range(8):
            yield "predict", lambda name=name, k=k: advisor.predict(name, predictor=float(x[k]), cores=float(p[k]))
            yield (
                "choose_cores",
                lambda name=name, k=k: advisor.choose_cores(
                    name, predictor=float(x[k]), cores_max=20, tolerance=0.05, risk=0.1 * k, explore=float(k)
                ),
            )
        yield "choose_cores", lambda name=name: advisor.choose_cores(name, cores_max=20)
        yield "suggest", lambda name=name: advisor.suggest(name, cores_max=8)
        yield "model", lambda name=name: advisor.model(name)
        yield "contention", lambda name=name: advisor.contention(name)
    for k in range(4):
        yield "predict", lambda k=k: advisor.predict("pair", predictor=[x[k], x[k + 1]], cores=p[k], model="powers")
        yield "predict", lambda k=k: advisor.predict("pair", predictor=[x[k], x[k + 1]], cores=p[k])
        yield "predict", lambda k=k: advisor.predict("stranger", predictor=x[k], cores=p[k], prior=True)
        yield "predict", lambda k=k: advisor.predict("plain", cores=p[k])
        yield "predict_run", lambda k=k: advisor.predict_run("program", size=100.0 * (k + 1), workers=float(k + 2))
    for model in (None, "one_time", "support_points", "clusters", "rate_by_workers"):
        yield "task types", lambda model=model: advisor.predict("task", predictor=x * 5e4 + 1e6, model=model)
    yield "task types", lambda: advisor.task_type("task")
    for asked in PLANS:
        yield "allocate", lambda asked=asked: advisor.allocate(NETWORK, components=RUNS, **SHARES, **asked)
    flow = {name: names[k % COMPONENTS] for k, name in enumerate(NAMES)}
    yield "flow", lambda: advisor.flow("net")
    yield "allocate, learned flow", lambda: advisor.allocate("net", cores=9, components=flow)
    yield "curves", lambda: advisor.curve_tables.curves(names, cores_max=64)
    yield "bundle", lambda: advisor.bundle(cores_max=64)
    for policies in (["fifo", "lpt"], ["work_stealing"]):
        for predict_times in (False, True):
            yield "simulate", lambda policies=policies, predict_times=predict_times: advisor.simulate(
                GRAPH, cores=[2, 5], policies=policies, predict_times=predict_times, seed=7, metrics=["speedup", "idle"],
                contention={"model": "bandwidth", "demand": 0.2}, advise=True,
            )  # fmt: skip
    yield "profile", profile


def profile() -> Any:
    """Return the profile of a run, what is wrong with it, and what was learned of it."""
    engine = Engine()
    engine.apply_event(("run", bytes(16)), 1, Program(2, recursive(4, 2, 700)).run())
    return engine.profiles.answer("run", None, nodes=True, diagnosis=True), engine.advisor.to_bytes()


def flat(value: Any) -> Any:
    """Return a value as what JSON holds, every number exactly."""
    if isinstance(value, np.ndarray):
        found = cast("NDArray[Any]", value)
        return (
            flat(found.tolist())
            if found.dtype == object
            else [str(found.dtype), list(found.shape), found.tobytes().hex()]
        )
    if isinstance(value, bytes):
        return hashlib.sha256(value).hexdigest()
    if isinstance(value, Mapping):
        return {str(key): flat(each) for key, each in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [flat(each) for each in cast("list[Any]", value)]
    if hasattr(value, "as_dict"):
        return flat(value.as_dict())
    if is_dataclass(value):
        return {each.name: flat(getattr(cast("Any", value), each.name)) for each in fields(value)}
    if isinstance(value, (float, np.floating)):
        return float(cast("float", value)).hex()
    return value if isinstance(value, (str, int, type(None))) else repr(value)


def digests() -> dict[str, str]:
    """Return the digest of the state and of each verb's answers, and how many answers there are."""
    advisor = taught()
    sums = {"state": hashlib.sha256(advisor.to_bytes())}
    answers = 0
    for verb, ask in questions(advisor):
        try:
            found = flat(ask())
        except AdvisorError as refusal:
            found = f"{type(refusal).__name__}: {refusal}"
        text = json.dumps(found, sort_keys=True)
        answers += POINTS if "many" in verb or verb.startswith("predict, ") else 1
        sums.setdefault(verb, hashlib.sha256()).update(text.encode())
        if "-v" in sys.argv:
            print(verb, text[:150], file=sys.stderr)
    return {verb: each.hexdigest()[:16] for verb, each in sums.items()} | {"answers": str(answers)}


if __name__ == "__main__":
    kernels.load_filled()  # of a kernel that is not compiled yet, the code itself: to the bit the same
    print(json.dumps(digests()))
