"""DiCE's own library (`dice-ml`), asked about the same model, records and freedoms; it is no dependency."""

from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from typing import Any

import numpy as np

from app.recourse.actions.action_set import ActionSet
from app.recourse.models.black_box import BlackBox
from app.recourse.problem import Reference


def dice(black_box: BlackBox, reference: Reference, way: str, count: int) -> Callable[[ActionSet], np.ndarray]:
    """From an applicant to the raw rows of its `random` or its `genetic` search, up to `count`.

    It is told, feature by feature, what the applicant may change, and to which values.
    """
    import dice_ml
    import pandas
    from raiutils.exceptions import UserConfigValidationException

    space = reference.space
    numbers = [space.names[j] for j in space.numeric.tolist()]

    def frame(rows_raw: np.ndarray) -> Any:
        columns: dict[str, Any] = {}
        for j, feature in enumerate(space.features):
            values = rows_raw[:, j]
            if feature.name in numbers:
                columns[feature.name] = values
            else:
                columns[feature.name] = [feature.categories[int(value)] for value in values]
        return pandas.DataFrame(columns)

    def raw(records: Any) -> np.ndarray:
        columns = []
        for feature in space.features:
            values = records[feature.name].tolist()
            number = feature.name in numbers
            columns.append([float(v) if number else float(feature.categories.index(str(v))) for v in values])
        return np.column_stack(columns)

    class Model:
        """What the library calls."""

        def predict_proba(self, records: Any) -> np.ndarray:
            favourable = 1.0 / (1.0 + np.exp(-black_box.score_raw(raw(records))))
            return np.column_stack([1.0 - favourable, favourable])

        def predict(self, records: Any) -> np.ndarray:
            return (self.predict_proba(records)[:, 1] >= 0.5).astype(int)

    records = frame(reference.rows_raw)
    records["accepted"] = (reference.scores >= 0.0).astype(int)
    data = dice_ml.Data(dataframe=records, continuous_features=numbers, outcome_name="accepted")
    explainer = dice_ml.Dice(data, dice_ml.Model(model=Model(), backend="sklearn"), method=way)

    def ask(actions: ActionSet) -> np.ndarray:
        lowest, highest = reference.rows_raw.min(axis=0), reference.rows_raw.max(axis=0)
        permitted: dict[str, list[Any]] = {}
        for j, feature in enumerate(space.features):
            if not actions.movable[j]:
                continue
            if feature.name in numbers:
                low, high = max(actions.lower_raw[j], lowest[j]), min(actions.upper_raw[j], highest[j])
                fact = actions.factual_raw[j]
                permitted[feature.name] = [float(min(low, fact)), float(max(high, fact))]
            else:
                permitted[feature.name] = [feature.categories[level] for level in actions.levels(j)]
        options: dict[str, Any] = {"random_seed": 0} if way == "random" else {}
        try:
            with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
                found = explainer.generate_counterfactuals(
                    frame(actions.factual_raw[None]), total_CFs=count, desired_class=1,
                    features_to_vary=list(permitted), permitted_range=permitted, **options,
                )  # fmt: skip
            rows = found.cf_examples_list[0].final_cfs_df
        except UserConfigValidationException:
            rows = None
        return np.empty((0, space.p)) if rows is None else raw(rows)

    return ask
