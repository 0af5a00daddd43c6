"""Models that end the children that load them: refused by name, so that the others stay in use."""

from collections import Counter
from collections.abc import Callable

from app.errors import ModelQuarantined
from app.observability import log

STRIKES = 2
"""Children that a model may end while it is loaded."""


def _never(_name: str) -> int:
    return 0


class Quarantine:
    """The models that have ended children of this process, before their first answer; used from one event loop.

    What ends a child later, in a computation, is not counted: one request in a thousand may do that, and a client must
    not be able to take a model away from the others.

    Parameters
    ----------
    released : when a name was last released; another value than before ends its quarantine
    """

    def __init__(self, released: Callable[[str], int] = _never) -> None:
        self._released = released
        self._strikes: Counter[str] = Counter()
        self._since: dict[str, int] = {}

    def strike(self, name: str, reason: str) -> None:
        """Count a child that was lost while it loaded a model; `reason` is `timeout` or `crash`."""
        self._forget_released(name)
        self._since.setdefault(name, self._released(name))
        self._strikes[name] += 1
        log.error("child-lost-loading", model=name, reason=reason, strikes=self._strikes[name])
        if self._strikes[name] == STRIKES:
            log.error("model-quarantined", model=name)

    def doubts(self, name: str) -> bool:
        """Whether it has ended a child."""
        self._forget_released(name)
        return self._strikes[name] > 0

    def require(self, name: str) -> None:
        """Raise `ModelQuarantined` if it is in quarantine."""
        self._forget_released(name)
        if self._strikes[name] >= STRIKES:
            raise ModelQuarantined(_sentence(name), model=name)

    def names(self) -> list[str]:
        """The models in quarantine."""
        for name in list(self._since):
            self._forget_released(name)
        return sorted(name for name, count in self._strikes.items() if count >= STRIKES)

    def warnings(self) -> list[str]:
        """A sentence for each."""
        return [_sentence(name) for name in self.names()]

    def _forget_released(self, name: str) -> None:
        if name in self._since and self._since[name] != self._released(name):
            del self._since[name], self._strikes[name]
            log.info("model-released", model=name)


def _sentence(name: str) -> str:
    return (
        f"{name} is in quarantine: it has crashed or held up {STRIKES} child processes while they loaded it. "
        f"`recourse models release {name}` or a restart ends that."
    )
