"""Turns: one caller with many calls does not hold up another, nor long calls short ones."""

import asyncio
from typing import Any

import numpy as np
import pytest

from app.errors import Overloaded
from app.pool.turns import LONG_SHARE, Turns, caller, long_calls
from app.questions.question import Question
from app.questions.validity import ValidityQuestion
from app.recourse.problem import Robustness
from app.recourse.solve import METHODS


class Child:
    alive = True

    def has_met(self, _need: object) -> bool:
        return False


def join(turns: Turns, who: str, *, long: bool = False, most: int = 100) -> asyncio.Future[Child]:
    token = caller.set(who)
    try:
        with long_calls(long):
            return turns.join(most)
    finally:
        caller.reset(token)


def served(turns: Turns, child: Child, waiting: dict[str, asyncio.Future[Child]]) -> list[str]:
    """In which order one child serves all that wait."""
    order = []
    while len(turns):
        turns.serve([child])
        (name,) = (name for name, turn in waiting.items() if turn.done() and name not in order)
        order.append(name)
        turns.end(child)
    return order


async def test_callers_take_turns_and_each_is_served_in_its_order() -> None:
    turns = Turns(1)
    waiting = {name: join(turns, name[0]) for name in ("a1", "a2", "a3", "b1", "a4", "c1", "b2")}
    assert served(turns, Child(), waiting) == ["a1", "b1", "c1", "a2", "b2", "a3", "a4"]


def test_who_asks_now_and_then_waits_for_none_of_a_hundred_calls_of_another() -> None:
    async def work() -> None:
        turns = Turns(1)
        child = Child()
        many = [join(turns, "many") for _ in range(100)]
        for k in range(1, 4):
            turns.serve([child])
            assert sum(one.done() for one in many) == k
            late, later = join(turns, "few"), join(turns, "few")
            turns.serve([child])
            assert late.done(), "the other caller was served after it"
            assert not later.done()
            later.cancel()


async def test_callers_that_are_new_do_not_keep_one_from_its_turn() -> None:
    turns = Turns(1)
    child = Child()
    many = [join(turns, "many") for _ in range(9)]
    for k in range(3):
        for name in ("x", "y", "z"):
            join(turns, name)
        for _ in range(4):
            turns.serve([child])
        assert sum(one.done() for one in many) == k + 1


async def test_each_caller_has_a_bound_of_its_own_and_learns_when_to_come_again() -> None:
    turns = Turns(1)
    held = [join(turns, "many", most=3) for _ in range(3)]
    await asyncio.sleep(0.05)  # the time that is measured
    with pytest.raises(Overloaded) as refused:
        join(turns, "many", most=3)
    assert 0.05 <= refused.value.facts["retry_after_s"] < 5.0
    join(turns, "few", most=3)
    held[0].cancel()
    join(turns, "many", most=3)
    assert len(turns) == 4


async def test_long_calls_leave_a_child_to_short_ones() -> None:
    turns = Turns(3)
    long = [join(turns, f"long {i}", long=True) for i in range(5)]
    children = [Child(), Child(), Child()]
    free = list(children)
    turns.serve(free)
    assert ([one.done() for one in long], len(free)) == ([True, True, False, False, False], 1)
    short = join(turns, "long 0")
    turns.serve(free)
    assert short.result() is children[0]
    turns.end(children[0])
    turns.serve(free := [children[0]])
    assert free == [children[0]], "not for a third long call"
    children[1].alive = False
    turns.serve(free)
    assert long[2].result() is children[0], "the child of another one has died"


async def test_fewer_long_calls_may_wait() -> None:
    turns = Turns(1)
    for _ in range(LONG_SHARE):
        join(turns, "many", most=LONG_SHARE)
    join(turns, "many", long=True, most=LONG_SHARE)
    with pytest.raises(Overloaded):
        join(turns, "many", long=True, most=LONG_SHARE)


async def test_with_one_child_long_calls_are_computed_too() -> None:
    turns = Turns(1)
    long, short = join(turns, "a", long=True), join(turns, "a")
    turns.serve([child := Child()])
    turns.end(child)
    turns.serve([child])
    assert long.done()
    assert short.done()


def test_questions_that_search_for_much_take_long() -> None:
    def question(**changes: Any) -> Question:
        name = changes.get("method", "robust_mpm")
        return Question(**{"method": name, "params": METHODS[name].params(), **changes})

    assert not question().takes_long
    assert question(count=3).takes_long
    assert question(robustness=Robustness(future_validity=0.9)).takes_long
    assert {name for name in METHODS if question(method=name).takes_long} == {"copa", "dice", "probe"}
    record = np.zeros((1, 3))
    assert not ValidityQuestion(rows_raw=record).takes_long
    assert ValidityQuestion(rows_raw=np.vstack([record, record])).takes_long
