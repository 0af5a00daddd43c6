"""Methods of this service and of others on one task: what they find, whether it can be used, cost, time, retraining."""

import time
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from typing import Literal

import numpy as np

from app.recourse.actions.action_set import ActionSet, action_set
from app.recourse.models.score import favourable
from app.recourse.problem import RecourseProblem
from app.recourse.solve import METHODS, solve
from benchmarks.dice_library import dice
from benchmarks.nice import Nice
from benchmarks.recourse import future_validity, legal
from benchmarks.tables import show
from benchmarks.tasks import GERMAN, Task, german

OURS = ("robust_mpm", "learning_augmented", "probe")
COLUMNS = (
    "answer", "found", "usable", "L1 cost", "cost / that of robust_mpm, same people", "features changed",
    "future validity", "processor ms",
)  # fmt: skip

Ask = Callable[[ActionSet], np.ndarray]
"""From an applicant to the raw rows of an answer, none or one."""


def table() -> None:
    """One answer each for the same applicants; of the usable ones the cost and the share of retrained networks."""
    if not GERMAN.exists():
        print(f"No {GERMAN}: the peers need it; RECOURSE_DATA says where the data sets are.\n")
        return
    task = german("all")
    show(f"Peers: {len(task.applicants_raw)} rejected applicants, {task.name}", COLUMNS, _rows(task, peers(task)))


def peers(task: Task) -> dict[str, Ask]:
    """Every method that is compared, by its name; a message for each that is left out."""
    asks: dict[str, Ask] = {name: _ours(task, name) for name in OURS}
    if find_spec("dice_ml") is None:
        print("DiCE is left out: dice_ml is not installed; `pip install --group peers` does that.\n")
    else:
        asks["DiCE, random"] = dice(task.black_box, task.reference, "random", 1)
    rewards: tuple[Literal["sparsity", "proximity"], ...] = ("sparsity", "proximity")
    for reward in rewards:
        asks[f"NICE, {reward}"] = _nice(task, reward, told=False)
        asks[f"NICE, {reward}, records made legal"] = _nice(task, reward, told=True)
    return asks


def _ours(task: Task, name: str) -> Ask:
    method = METHODS[name]

    def ask(actions: ActionSet) -> np.ndarray:
        problem = RecourseProblem(black_box=task.black_box, reference=task.reference, action_set=actions)
        found = solve(problem, method, method.params()).counterfactuals
        return np.array([one.row_raw for one in found]).reshape(-1, task.space.p)

    return ask


def _nice(task: Task, reward: Literal["sparsity", "proximity"], *, told: bool) -> Ask:
    """NICE among the reference records.

    Parameters
    ----------
    told : each record as near as the applicant may come to it; the only way to tell it what they may change
    """

    def ask(actions: ActionSet) -> np.ndarray:
        records_raw = task.reference.rows_raw
        if told:
            records_raw = actions.snap(records_raw)
            records_raw = records_raw[actions.contains(records_raw)]
        found = Nice(black_box=task.black_box, records_raw=records_raw, reward=reward).explain(actions.factual_raw)
        return np.empty((0, task.space.p)) if found is None else found[None]

    return ask


def _rows(task: Task, asks: dict[str, Ask]) -> Iterable[Sequence[str]]:
    usual: dict[int, float] = {}
    for name, ask in asks.items():
        found, times, usable, costs, changed = 0, list[float](), list[np.ndarray](), dict[int, float](), list[int]()
        for who, applicant in enumerate(task.applicants_raw):
            actions = action_set(task.space, applicant)
            began = time.process_time()  # other work on the machine does not count
            rows_raw = ask(actions)
            times.append(1e3 * (time.process_time() - began))
            found += len(rows_raw)
            for row_raw in rows_raw:
                if legal(task, applicant, row_raw) and favourable(task.black_box.score_raw(row_raw[None]))[0]:
                    usable.append(row_raw)
                    costs[who] = float(actions.cost(row_raw[None])[0])
                    changed.append(int((row_raw != applicant).sum()))
        usual = usual or costs
        both = [costs[who] / usual[who] for who in costs if who in usual]
        yield (
            name, f"{found} of {len(times)}", f"{len(usable)} of {len(times)}", f"{np.mean([*costs.values()]):.2f}",
            f"{np.median(both):.2f}", f"{np.mean(changed):.1f}", f"{future_validity(task, np.array(usable)):.2f}",
            f"{np.median(times):.1f}",
        )  # fmt: skip
