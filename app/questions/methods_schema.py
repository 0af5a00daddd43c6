"""The recourse methods, derived from the one list in the core."""

from collections.abc import Iterable
from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal, get_args

from pydantic import Field
from typing_extensions import TypeAliasType

from app.api.described import Described
from app.api.strict import Strict, derive
from app.recourse.solve import METHODS

CHOICES: dict[str, type[Strict]] = {
    name: derive(method.params, name=(Literal[name], Field(description="Selects the method.")))
    for name, method in METHODS.items()
}
"""The request schema of each method: its name and its parameters."""


def one_of(choices: Iterable[type[Strict]]) -> Any:
    """The type of a field whose value has one of the schemas `choices`; the value's member `name` tells which."""
    either = reduce(or_, choices)
    return Annotated[either, Field(discriminator="name")] if get_args(either) else either


MethodChoice: Any = TypeAliasType("MethodChoice", one_of(CHOICES.values()))


class MethodDescription(Described):
    """One recourse method."""

    name: str
    """Name of the method, for `method.name`."""
    summary: str
    """What the method does."""
    reference: str
    """Where it was published."""
    yields: str
    """`counterfactual`, or `plan` for several at once."""
    knobs: list[str]
    """Parameters that trade cost for robustness; `POST /recourse/frontier` shows how."""
    robust_when: dict[str, Literal["larger", "smaller"]]
    """Whether a larger or a smaller value of each is more robust."""
    parameters: dict[str, Any]
    """JSON Schema of its parameters, with limits and defaults."""


class Methods(Described):
    """All recourse methods."""

    default: str
    """The method of a request that names none."""
    methods: list[MethodDescription]
    """Every method."""
