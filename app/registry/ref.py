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
    """Where models are and what may be loaded: the store's directory, the operator's trust, the ledger's address."""

    root: str
    trust: Trust = field(default_factory=Trust)
    ledger: str = field(default="", repr=False)
    """The address of its database, which may hold a password."""

    @classmethod
    def of(cls, settings: "Settings", *, ledger: str = "") -> "Store":
        """The store that the settings name, with the address of the ledger."""
        return cls(root=str(settings.models_store.absolute()), trust=Trust.of(settings), ledger=ledger)

    def open(self) -> Registry:
        """The registry of the store; each process has one for equal stores, so that it reads each version once."""
        return _registry(self)


@cache
def _registry(store: Store) -> Registry:
    return Registry(Path(store.root), store.trust)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRef:
    """A reference to one registration of a version; a later registration under the same name has another reference."""

    store: Store
    name: str
    """`id@version`"""
    sha256: str
    registered_at: str

    @classmethod
    def of(cls, store: Store, model: RegisteredModel) -> "ModelRef":
        """The reference to a registered model."""
        return cls(
            store=store,
            name=model.name,
            sha256=model.sha256,
            registered_at=model.registered_at.isoformat(),
        )


def model_payload(ref: ModelRef) -> dict[str, Any]:
    """A reference as JSON data, without its store."""
    model = asdict(ref)
    del model["store"]
    return model
