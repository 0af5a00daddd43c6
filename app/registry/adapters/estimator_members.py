"""Estimators of boosting libraries inside a skops file, such as the last step of a pipeline.

Their boosters keep a state that skops would hand to compiled code as it is in the file. So before skops reads the file,
every booster in it is given the type `Held`, which keeps a state and does nothing with it. The adapter of the library
then reads and checks the state, and writes a new booster from what it has read (see `trees`).
"""

import io
import json
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from app.errors import Fault, ModelRefused
from app.registry.adapters.artifact import UNREADABLE, refused

SCHEMA = "schema.json"
"""Where a skops file describes its objects."""


class Held:
    """A booster that was not made."""


HELD = f"{Held.__module__}.{Held.__qualname__}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """The estimators of one library."""

    booster: tuple[str, str]
    """Module and name of its boosters."""
    state: str
    """Attribute of a booster with its state."""
    estimators: tuple[str, ...]
    """Types that have a booster, in their attribute ``_Booster``."""
    make: Callable[[Any], Any]
    """A booster from a state, which may be any object. Raises `ModelRefused`, or one of `UNREADABLE`."""
    settings: str
    """Attribute with further parameters, which are left out."""


MEMBERS: list[Member] = []
"""Filled by the adapters of the libraries."""


def without_boosters(content: bytes) -> bytes:
    """The bytes of a skops file, its boosters held back; unchanged where it has none. Raises one of `UNREADABLE`."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        schema = json.loads(archive.read(SCHEMA))
        if not _hold(schema):
            return content
        found = io.BytesIO()
        with zipfile.ZipFile(found, "w") as copy:
            for name in dict.fromkeys(archive.namelist()):
                copy.writestr(name, json.dumps(schema) if name == SCHEMA else archive.read(name))
    return found.getvalue()


def _hold(schema: Any) -> int:
    """Rename the types of boosters; how many there were."""
    boosters = {member.booster for member in MEMBERS}
    count, stack = 0, [schema]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            if (node.get("__module__"), node.get("__class__")) in boosters:
                node |= {"__module__": Held.__module__, "__class__": Held.__qualname__}
                count += 1
            stack.extend(node.values())
        elif isinstance(node, list):
            stack.extend(node)
    return count


def types_of_members() -> list[str]:
    """Types that may be in a skops file besides those of scikit-learn."""
    return [HELD, "collections.OrderedDict", *(name for member in MEMBERS for name in member.estimators)]


def with_boosters(parts: Sequence[Any]) -> None:
    """Give the estimators among the parts of an object their boosters.

    Raises
    ------
    ModelRefused : a state is no sound ensemble, or an estimator of a library has no booster of its own
    """
    known = {name: member for member in MEMBERS for name in member.estimators}
    placed: set[int] = set()
    for part in parts:
        member = known.get(f"{type(part).__module__}.{type(part).__qualname__}")
        held = vars(part).get("_Booster") if member else None
        if member is None or held is None:  # of an estimator that is fitted as a copy only
            continue
        if not isinstance(held, Held):
            raise refused(f"holds a {type(part).__name__} with a booster of another type")
        if not all(_plain(value) for name, value in vars(part).items() if not name.startswith("_")):
            raise refused(f"holds a {type(part).__name__} with parameters that are no plain values")
        setattr(part, member.settings, {})
        try:
            part._Booster = member.make(vars(held).get(member.state))  # noqa: SLF001 - no public way to set it
        except ModelRefused as error:
            pointer = f"/artifact/{type(part).__name__}"
            faults = [Fault(pointer + one.pointer.removeprefix("/artifact"), one.detail) for one in error.faults]
            raise ModelRefused(faults=faults) from error
        except UNREADABLE as error:
            raise refused(f"holds a {type(part).__name__} that cannot be read: {error}"[:500]) from error
        placed.add(id(held))
    if any(isinstance(part, Held) and id(part) not in placed for part in parts):
        raise refused("holds a booster outside of an estimator")


def _plain(value: Any) -> bool:
    """Whether a parameter is a single value, which is all that its library makes of it."""
    if isinstance(value, list | tuple | set):
        return all(_plain(one) for one in value)
    if isinstance(value, dict):
        return all(_plain(one) for pair in value.items() for one in pair)
    return not isinstance(value, str) or not any(mark.isspace() or mark == "=" for mark in value)
