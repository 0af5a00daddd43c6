"""A stress by advice itself: people who followed answers of today's model and failed all the same."""

from app.futures.likeness import FEWEST, answers
from app.futures.recipe import Recipe
from app.futures.records import Records
from app.futures.spec import Spec
from app.futures.stand_in import twin_of_model
from app.futures.stress import Stressed, followed
from app.registry.artifact import Format
from app.registry.version import LoadedModel

FOLLOWERS = 60
"""People whose answers are followed and fail, at most; no more than a tenth of the records."""


def failing(
    loaded: LoadedModel, records: Records, recipe: Recipe, spec: Spec, seed: int
) -> tuple[Records, Stressed] | None:
    """What `followed` makes of answers to people of the reference; None where future models are no trees.

    None as well of a model that is asked by HTTP or trained by a command, and where too few answers are found.
    """
    kind = recipe.manifest(spec.tuned).artifact.format
    grown = kind in (Format.XGBOOST, Format.LIGHTGBM) or twin_of_model(loaded) is not None
    if not grown or spec.source == "command" or loaded.black_box.remote is not None:
        return None
    found = answers(loaded, [loaded.black_box], seed, min(FOLLOWERS, len(records.favourable) // 10))
    return followed(records, found) if len(found) >= FEWEST else None
