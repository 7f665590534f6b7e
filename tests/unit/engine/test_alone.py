"""One advisor, two threads, no lock: noticed, and nothing half counted."""

from __future__ import annotations

import threading

import pytest

from advisor import Advisor
from advisor.domain.task_graphs import task_graph
from advisor.errors import ConcurrentUse

RUN = dict.fromkeys(("size", "workers", "elapsed_s", "work_s"), 1.0) | dict.fromkeys(("delay_s", "no_work_s"), 0.0)
RUN |= {"creates": 1.0, "waits": 1.0}
CALLS = (
    lambda adv: adv.observe("m", predictor=1.0, elapsed_s=1.0),
    lambda adv: adv.observe_columns(components=["m"], index=[0], cores=[1], elapsed_s=[1.0]),
    lambda adv: adv.predict("m"),
    lambda adv: adv.choose_cores("m", cores_max=4),
    lambda adv: adv.allocate("m", cores=4),
    lambda adv: adv.forget("m"),
    lambda adv: adv.status(),
    lambda adv: adv.to_bytes(),
    lambda adv: adv.bundle(),
    lambda adv: adv.define_network("m", id="net"),
    lambda adv: adv.flow("kept"),
    lambda adv: adv.extract(["m"]),
    lambda adv: adv.remove_components(["m"]),
    lambda adv: adv.observe_run("p", **RUN),
    lambda adv: adv.predict_run("kept", size=1.0, workers=1.0),
    lambda adv: adv.forget_program("kept"),
    lambda adv: adv.observe_instances(types=["t"], index=[0], size=[1.0], elapsed_s=[1.0]),
    lambda adv: adv.task_type("kept"),
    lambda adv: adv.simulate(task_graph([1.0], types=["m"], columns={"type": [0]}), cores=[2], predict_times=True),
)


@pytest.mark.parametrize("call", CALLS)
def test_a_call_while_another_is_inside_does_nothing_and_says_so(call) -> None:
    adv = Advisor()
    adv.observe("m", predictor=1.0, elapsed_s=1.0)
    adv.define_network("m", id="kept")
    for size in (1.0, 2.0, 3.0, 4.0):  # a prediction needs four
        adv.observe_run("kept", **RUN | {"size": size})
    adv.observe_instances(types=["kept"], index=[0], size=[1.0], elapsed_s=[1.0])
    before = adv.to_bytes()
    adv.turn.pop()  # as a call does that is inside
    with pytest.raises(ConcurrentUse, match="another thread is inside") as caught:
        call(adv)
    assert isinstance(caught.value, RuntimeError)
    adv.turn.append(None)
    assert adv.to_bytes() == before
    call(adv)


def test_a_call_that_fails_leaves_the_advisor_usable() -> None:
    adv = Advisor()
    with pytest.raises(ValueError, match="cores"):
        adv.observe("m", cores=-1, elapsed_s=1.0)
    with pytest.raises(KeyError, match="never observed"):
        adv.predict("m")
    adv.observe("m", elapsed_s=1.0)
    assert repr(adv).startswith("<Advisor: 1 component, 1 rows, ")


def test_of_two_threads_every_row_is_learned_or_noticed() -> None:
    adv = Advisor()
    adv.observe("m", elapsed_s=1.0)
    learned, noticed = [0, 0], [0, 0]

    def work(thread: int) -> None:
        for _ in range(2000):
            try:
                adv.observe("m", predictor=3.0, elapsed_s=1.0)
                learned[thread] += 1
            except ConcurrentUse:
                noticed[thread] += 1

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(learned) + sum(noticed) == 4000
    assert adv.status(components=["m"])["components"][0]["rows"] == 1 + sum(learned)
