"""References to registered models, as child processes and jobs get them."""

from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.registry.registry import Registry
from app.registry.trust import Trust
from app.registry.version import RegisteredModel

if TYPE_CHECKING:
    from app.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Where the service finds models, and which of them it may load.

    It has the directory of the models, what the operator trusts, and the address of the ledger's database.
    """

    root: str
    trust: Trust = field(default_factory=Trust)
    ledger: str = field(default="", repr=False)
    """The address of its database, which may hold a password."""

    @classmethod
    def of(cls, settings: "Settings", *, ledger: str = "") -> "Store":
        """The store that `settings` describe; `ledger` is the address of the ledger's database."""
        return cls(root=str(settings.models_store.absolute()), trust=Trust.of(settings), ledger=ledger)

    def open(self) -> Registry:
        """The registry of this store. Equal stores share one in each process, so that each version is read once."""
        return _registry(self)


@cache
def _registry(store: Store) -> Registry:
    return Registry(Path(store.root), store.trust)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRef:
    """Identifies one registration of a version. A later registration under the same name has another `ModelRef`."""

    store: Store
    name: str
    """`id@version`"""
    sha256: str
    registered_at: str

    @classmethod
    def of(cls, store: Store, model: RegisteredModel) -> "ModelRef":
        """The `ModelRef` of a registered model."""
        return cls(
            store=store,
            name=model.name,
            sha256=model.sha256,
            registered_at=model.registered_at.isoformat(),
        )


def model_payload(ref: ModelRef) -> dict[str, Any]:
    """A `ModelRef` as JSON data, without its store."""
    model = asdict(ref)
    del model["store"]
    return model
