"""The first load of a new version, in a child process of its own, under the limits of the service's children.

Loading compares the model's scores of reference records with those at registration, which another process computed.
"""

import asyncio

from app.errors import LaneCrashed, ModelRefused, Overloaded
from app.models import tasks
from app.pool.pool import Pool
from app.registry.artifact import Endpoint, Format
from app.registry.ref import ModelRef, Store
from app.registry.version import RegisteredModel
from app.settings import Settings

LONGEST_S = 86_400.0
"""Longest wait for the load, which has limits of its own."""


def runs_foreign_code(model: RegisteredModel) -> bool:
    """Whether scoring runs code of a library, which may hang, take all memory, or give results that vary.

    False for a linear model, which the service computes itself, and for a remote model, which is paid per call.
    """
    artifact = model.manifest.artifact
    return not isinstance(artifact, Endpoint) and artifact.format is not Format.LINEAR


def load_first(settings: Settings, model: RegisteredModel) -> None:
    """Load a version and ask it a question in a child process with the service's limits.

    Raises `ModelRefused` where the version does not answer in time, or ends its process; `ModelUnusable` where it
    cannot be loaded, or its scores differ from those of its registration.
    """
    asyncio.run(_tried(settings, ModelRef.of(Store.of(settings), model)))


async def _tried(settings: Settings, ref: ModelRef) -> None:
    pool = Pool("first load", 1, memory_mb=settings.child_memory_mb, load_s=settings.model_load_s)
    pool.start()
    try:
        await pool.run(_nothing, timeout_s=30.0, wait_s=LONGEST_S, need=tasks.need_of(ref))
    except Overloaded:
        why = f"it was not loaded and asked within {settings.model_load_s} s (RECOURSE_MODEL_LOAD_S)"
        raise ModelRefused(f"{ref.name} cannot be registered: {why}.") from None
    except LaneCrashed:
        why = f"its process died, or needed more than {settings.child_memory_mb} MiB (RECOURSE_CHILD_MEMORY_MB)"
        raise ModelRefused(f"{ref.name} cannot be registered: when it was loaded and asked, {why}.") from None
    finally:
        await pool.close()


def _nothing(*, deadline_s: float) -> None:
    """Do nothing: the child has loaded the model by then."""
