"""The specification of a rehearsal: what was asked for, the source that can make it, and its tuned recipe."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from pydantic import AwareDatetime, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as read_dataclass

from app.errors import ModelRefused, ModelUnusable, RehearsalFailed
from app.futures.boosted import LightgbmRecipe, XgboostRecipe
from app.futures.estimator import EstimatorRecipe
from app.futures.linear import LinearRecipe
from app.futures.network import NetworkRecipe
from app.futures.recipe import PILOT, Recipe, Tuned
from app.futures.records import Records, reference_records, samples
from app.futures.stacks import Kind
from app.futures.stand_in import StandInRecipe, twin_of_model
from app.futures.store import SPEC, Json, Part, Source, can_have_futures
from app.futures.supplied import SuppliedRecipe
from app.futures.training_command import CommandRecipe
from app.observability import log
from app.recourse.models.black_box import BlackBox
from app.recourse.models.committee import Drawn, Stress
from app.recourse.models.score import Output
from app.registry.artifact import Format
from app.registry.files import inside, write_atomic
from app.registry.manifest import PARTIAL, Manifest
from app.registry.version import LoadedModel, RegisteredModel

PILOTS = 8
"""Bootstraps that recipes are tuned on."""


@read_dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """Which future models to make, from what, and how many."""

    source: Literal["auto", "retrained", "stand_in", "none"] = "auto"
    records: Drawn = "fresh"
    search: int = 60
    held_back: int = 60
    stress: Literal["auto", "none"] | tuple[Stress, ...] = "auto"
    """As in the manifest."""
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """Sources of future models that only an operator can name, on the machine that makes them."""

    command: str | None = None
    """Trains a model; see `app.futures.training_command`."""
    timeout_s: float = 3600.0
    """For one run of the command."""
    data: Path | None = None
    """Newer records to train on, instead of the reference."""
    folder: Path | None = None
    """Models that are there already; see `app.futures.supplied`."""


class Spec(Part):
    """What a rehearsal is going to make; the contents of ``spec.json``."""

    asked: Json
    """What the rehearsal follows from; another one does not go on with its models."""
    source: Source
    recipe: str
    tuned: Tuned
    search: int
    held_back: int
    created_at: AwareDatetime


def choices_of(model: RegisteredModel, **changes: Any) -> Choices:
    """The manifest's choices of future models, except where `changes` has a value that is not None."""
    own = Choices(**model.manifest.futures.model_dump(exclude={"stress_price"}))
    # Read, as a change of `stress` may come as plain data.
    changed = {name: value for name, value in changes.items() if value is not None}
    if "stress" in changed and not isinstance(changed["stress"], str | list | tuple):
        changed["stress"] = (changed["stress"],)
    return Choices(**{**asdict(own), **changed})


def asked_for(loaded: LoadedModel, choices: Choices, material: Material, data_sha256: str | None) -> Json:
    """Everything that determines which models a rehearsal makes, as JSON.

    A rehearsal is resumed only if this is the same.
    """
    return {
        "model": loaded.registered.sha256,
        **TypeAdapter(Choices).dump_python(choices, mode="json"),
        "time": None if loaded.registered.manifest.time is None else loaded.registered.manifest.time.column,
        "command": material.command,
        "folder": None if material.folder is None else str(material.folder.resolve()),
        "data": data_sha256,
    }


def read_spec(directory: Path) -> Spec | None:
    """Read the specification of an interrupted rehearsal; None if the directory has none, or the file is damaged."""
    try:
        return Spec.model_validate_json((directory / SPEC).read_bytes())
    except (OSError, ValidationError):
        return None


def specified(
    loaded: LoadedModel, records: Records, choices: Choices, material: Material, asked: Json
) -> tuple[Spec, Recipe]:
    """The specification and the tuned recipe of the first source that can make future models.

    Parameters
    ----------
    asked : what determines the rehearsal, from `asked_for`

    Raises
    ------
    RehearsalFailed, ModelRefused, ModelUnusable : no source can make future models; the error is that of the last one
    """
    sources = _sources(loaded, choices, material)
    pilots = samples(records, choices.records, choices.seed, range(PILOT, PILOT + PILOTS))
    for source in sources:
        try:
            recipe = recipe_of(source, loaded, records, material)
            tuned = recipe.tune(records, pilots)
        except (RehearsalFailed, ModelRefused, ModelUnusable) as error:
            if source == sources[-1]:
                raise
            log.warning("recipe-failed", model=loaded.registered.name, source=source, detail=error.sentence)
            continue
        search, held_back = choices.search, choices.held_back
        if isinstance(recipe, SuppliedRecipe):
            count = min(len(recipe.paths), search + held_back)
            search = max(1, round(count * search / (search + held_back)))
            held_back = count - search
        spec = Spec(
            asked=asked, source=source, recipe=recipe.name, tuned=tuned, search=search, held_back=held_back,
            created_at=datetime.now(UTC),
        )  # fmt: skip
        return spec, recipe
    raise AssertionError("there is always a source")


def possible_sources(manifest: Manifest, choices: Choices, material: Material) -> list[Source]:
    """The sources of future models that may be tried, the best first.

    Raises `RehearsalFailed` where there is none.
    """
    if material.command is not None:
        return ["command"]
    if material.folder is not None:
        if not isinstance(choices.stress, str):
            raise RehearsalFailed("Models that are there already cannot be trained under a stress.")
        return ["supplied"]
    if choices.source == "none":
        raise RehearsalFailed("The manifest wants no future models; name a source to make some all the same.")
    own = manifest.artifact.format in OWN and manifest.output is not Output.POINTS
    retrained: list[Source] = ["retrained"] if own else []
    if choices.source == "stand_in" or (manifest.label is None and choices.source == "auto"):
        return ["stand_in"]
    if choices.source == "auto":
        return [*retrained, "stand_in"]
    if not retrained:
        points = manifest.output is Output.POINTS
        kind = "that outputs points" if points else f"of the format {manifest.artifact.format}"
        raise RehearsalFailed(f"A model {kind} is not retrained.")
    if manifest.label is None:
        raise RehearsalFailed("Retraining needs the true outcomes: name their column in the manifest, as `label`.")
    return retrained


def _sources(loaded: LoadedModel, choices: Choices, material: Material) -> list[Source]:
    """The same without estimators that nobody asked for and that have twins: hundreds of them are slow to ask."""
    found = possible_sources(loaded.registered.manifest, choices, material)
    return found[1:] if len(found) > 1 and twin_of_model(loaded) is not None else found


def outlook(loaded: LoadedModel) -> str:
    """A sentence that says which future models a server will make of a version, and what this means for answers.

    No models are made.
    """
    model = loaded.registered
    manifest, choices = model.manifest, choices_of(model)
    none = "Future models: none, as {}; so no answer says what the next training keeps of it"
    if not can_have_futures(model):
        return none.format("the manifest has no label" if manifest.label is None else "the manifest wants none")
    try:
        records = reference_records(loaded)
        sources = _sources(loaded, choices, Material())
    except RehearsalFailed as error:
        return none.format(error.sentence.rstrip("."))
    why = f"no recipe trains {'points' if manifest.points else f'a model of the format {manifest.artifact.format}'}"
    if manifest.artifact.format is Format.SKLEARN and not manifest.points:
        why = "trees of XGBoost with the same parameters, as hundreds of scikit-learn's take seconds for each answer"
    if choices.source == "stand_in":
        why = "the manifest says so"
    if sources[0] == "retrained":
        try:
            recipe = recipe_of("retrained", loaded, records, Material())
            if not isinstance(recipe, NetworkRecipe):  # which would begin to train
                recipe.tune(records, ())
        except (RehearsalFailed, ModelRefused, ModelUnusable) as error:
            why = error.sentence.rstrip(".")
        else:
            return "Future models: trained by the recipe of this model, on resampled records"
    return (
        f"Future models: stand-ins of another kind ({why}); what answers say of the next training is about these. "
        'recourse models rehearse --command "python train.py …" has your own'
    )


OWN = (Format.LINEAR, Format.TORCH, Format.SKLEARN, Format.XGBOOST, Format.LIGHTGBM)
"""Formats of models that can be retrained."""


def recipe_of(source: Source, loaded: LoadedModel, records: Records, material: Material) -> Recipe:
    """The recipe that makes a model's future models from a source.

    Raises `RehearsalFailed` where the source has no recipe for the model.
    """
    registered = loaded.registered
    if source == "command":
        assert material.command is not None
        _refuse_endpoint(registered)
        data = material.data or inside(registered.directory, registered.manifest.reference)
        return CommandRecipe(loaded, material.command, data, timeout_s=material.timeout_s)
    if source == "supplied":
        assert material.folder is not None
        _refuse_endpoint(registered)
        return SuppliedRecipe(loaded, material.folder)
    if source == "stand_in":
        return StandInRecipe(loaded, lambda manifest, content: _black_box(loaded, manifest, content))
    manifest = registered.manifest
    makers: dict[Format, Callable[[], Recipe]] = {
        Format.LINEAR: lambda: LinearRecipe(loaded, manifest),
        Format.TORCH: lambda: NetworkRecipe.of_model(loaded, records),
        Format.SKLEARN: lambda: EstimatorRecipe.of_model(loaded),
        Format.XGBOOST: lambda: XgboostRecipe(loaded, manifest),
        Format.LIGHTGBM: lambda: LightgbmRecipe(loaded, manifest),
    }
    return makers[manifest.artifact.format]()


def _refuse_endpoint(model: RegisteredModel) -> None:
    if model.manifest.artifact.format is Format.HTTP:
        raise RehearsalFailed("A remote model has no file that other files could stand for.")


def _black_box(loaded: LoadedModel, manifest: Manifest, content: bytes) -> BlackBox:
    """A model that is not kept."""
    directory = loaded.registered.directory / PARTIAL
    name = f"pilot{PurePosixPath(manifest.file.path).suffix}"
    write_atomic(directory / name, content)
    kind = Kind(manifest=manifest, space=loaded.registered.columns.model, trust=loaded.registered.trust)
    return kind.member(directory, name, content).of_columns(loaded.registered.columns)
