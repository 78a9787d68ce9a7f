"""What tracing needs to know of the process leaves other threads alone."""

import sys
import threading

import pytest

import functorch_port as ft
from functorch_port._base.alive import Roll, alive


def test_instances_of_classes_and_of_their_subclasses():
    class Known:
        pass

    class Special(Known):
        __slots__ = ()

    class Other:
        __slots__ = ("__weakref__", "x")

    some = [Known(), Special(), Known()]
    others = [Other(), Other()]
    for other in others:
        other.x = others
    assert {id(o) for o in alive(Known)} == {id(o) for o in some}
    assert {id(o) for o in alive(Other)} == {id(o) for o in others}


def test_a_roll_has_those_that_live():
    class Known:
        __hash__ = None

    roll, some = Roll(), [Known() for _ in range(3)]
    for o in some:
        roll.enter(o)
    del o
    gone = some.pop()
    assert [id(o) for o in roll] == [id(o) for o in (*some, gone)]
    del gone
    assert [id(o) for o in roll] == [id(o) for o in some]


@pytest.fixture
def hasty_switches():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def test_other_threads_may_build_tuples_while_a_function_is_traced(hasty_switches):
    """CPython refuses to finish a tuple that somebody else holds (SystemError in a thread that draws a bar)."""
    stop, errors = threading.Event(), []

    def build():
        try:
            while not stop.is_set():
                tuple(str(i) for i in range(200))
        except SystemError as error:
            errors.append(error)

    threads = [threading.Thread(target=build) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        model = ft.nn.Linear(2, 2)
        optimizer = ft.optim.SGD(model.parameters(), 0.1)

        def step(x):
            optimizer.zero_grad()
            loss = model(x).sum()
            loss.backward()
            optimizer.step()
            return loss

        compiled = ft.compile(step)
        for n in range(1, 6):
            compiled(ft.ones(n, 2))
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert compiled.traces == 5 and not errors
