"""Future models that the lender has already: a folder of files of the model's own format, or of earlier versions.

In the folder lies either a file for each model, with the suffix of the registered one's, or a directory for each,
which holds the model under the registered one's name. The directory of a model in the store, with its versions, is
such a folder.
"""

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path, PurePosixPath

from app.errors import ModelUnusable, RehearsalFailed
from app.futures.recipe import RecipeOfOneManifest, Tuned
from app.futures.records import Records, Sample
from app.registry.manifest import REGISTRATION
from app.registry.version import LoadedModel, read_version

LEAST = 4
"""Models without which there is nothing to hold back."""


class SuppliedRecipe(RecipeOfOneManifest):
    """Takes future models from a folder of existing model files, without the file of the registered model.

    Raises
    ------
    RehearsalFailed : the folder has too few models, or a version in it encodes features otherwise than the registered
        one
    """

    name = "supplied"
    block = 1

    def __init__(self, model: LoadedModel, folder: Path) -> None:
        super().__init__(model, model.registered.manifest)
        self.paths = _found(model, folder)

    def make(self, records: Records, samples: Sequence[Sample], tuned: Tuned) -> list[bytes]:  # noqa: ARG002
        """Read one model file of the folder for each sample; nothing is trained."""
        try:
            return [self.paths[sample.index].read_bytes() for sample in samples]
        except OSError as error:
            raise RehearsalFailed(f"A model cannot be read: {error}") from error


def _found(model: LoadedModel, folder: Path) -> list[Path]:
    registered = model.registered
    path = PurePosixPath(registered.manifest.file.path)
    if not folder.is_dir():
        raise RehearsalFailed(f"{folder} is no directory.")
    own = registered.manifest.file.sha256
    found: list[Path] = []
    for entry in sorted(folder.iterdir()):
        if entry.is_dir():
            inner = next((inner for inner in (entry / path, entry / path.name) if inner.is_file()), None)
            if inner is None:
                continue
            _refuse_other_encoding(model, entry)
            entry = inner
        elif entry.suffix != path.suffix:
            continue
        if sha256(entry.read_bytes()).hexdigest() != own:
            found.append(entry)
    if len(found) < LEAST:
        raise RehearsalFailed(
            f"{folder} has {len(found)} models besides the registered one; at least {LEAST} are needed."
        )
    return found


def _refuse_other_encoding(model: LoadedModel, directory: Path) -> None:
    """A version is asked with the encoding of the model in question."""
    if not (directory / REGISTRATION).exists():
        return
    try:
        other = read_version(directory, trust=model.registered.trust)
    except ModelUnusable as error:
        raise RehearsalFailed(f"The version in {directory} cannot be used: {error.detail}") from error
    own, theirs = model.registered.columns.model, other.columns.model
    same = theirs.columns == own.columns
    if not same or [(f.center, f.scale) for f in theirs.features] != [(f.center, f.scale) for f in own.features]:
        raise RehearsalFailed(f"{other.name} encodes its features otherwise than {model.registered.name}.")
