"""Models that end the children that load them: refused by name, so that the others stay in use."""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from time import monotonic

from app.errors import ModelQuarantined
from app.observability import log

STRIKES = 2
"""Children that a model may end while it is loaded."""

FIRST_PAUSE_S = 60.0
"""Time until a request may try a model in quarantine; doubles with each try that fails, up to `LONGEST_PAUSE_S`: the
machine may have been busy, or a file away."""

LONGEST_PAUSE_S = 3600.0


def _never(_name: str) -> int:
    return 0


class Quarantine:
    """Refuses models that have ended several children while loading, each for a limited time; used from one event loop.

    A child that ends later, in a computation, is not counted. One request in a thousand may end a child, and no client
    may be able to take a model away from other clients.

    Parameters
    ----------
    released : function from a model's name to the time of its last release; a new time ends the model's quarantine
    """

    def __init__(self, released: Callable[[str], int] = _never) -> None:
        self._released = released
        self._strikes: Counter[str] = Counter()
        self._since: dict[str, int] = {}
        self._pause_s: dict[str, float] = {}
        """Of those in quarantine."""
        self._until_s: dict[str, float] = {}
        """When their pause ends, by the monotonic clock."""

    def strike(self, name: str, reason: str) -> None:
        """Count one more child that ended while it loaded the model; `reason` is `timeout` or `crash`."""
        self._forget_released(name)
        self._since.setdefault(name, self._released(name))
        self._strikes[name] += 1
        log.error("child-lost-loading", model=name, reason=reason, strikes=self._strikes[name])
        # Several children may be lost at once.
        if self._strikes[name] >= STRIKES and monotonic() >= self._until_s.get(name, 0.0):
            pause_s = min(2.0 * self._pause_s.get(name, FIRST_PAUSE_S / 2.0), LONGEST_PAUSE_S)
            self._pause_s[name], self._until_s[name] = pause_s, monotonic() + pause_s
            log.error("model-quarantined", model=name, seconds=pause_s)

    def acquit(self, name: str) -> None:
        """Forget the children that the model has ended, because a child has now loaded it."""
        if self.doubts(name):
            self._forget(name)
            log.info("model-acquitted", model=name)

    def doubts(self, name: str) -> bool:
        """Whether a child has ended while it loaded the model, and no child has loaded it since."""
        self._forget_released(name)
        return self._strikes[name] > 0

    def require(self, name: str) -> None:
        """Raise `ModelQuarantined` if the model is in quarantine, and its pause is not over yet."""
        self._forget_released(name)
        if monotonic() < self._until_s.get(name, 0.0):
            raise ModelQuarantined(self._sentence(name), model=name)

    def names(self) -> list[str]:
        """Names of the models in quarantine, also of those whose pause is over."""
        for name in list(self._since):
            self._forget_released(name)
        return sorted(name for name, count in self._strikes.items() if count >= STRIKES)

    def warnings(self) -> list[str]:
        """One sentence for each model in quarantine."""
        return [self._sentence(name) for name in self.names()]

    def _forget_released(self, name: str) -> None:
        if name in self._since and self._since[name] != self._released(name):
            self._forget(name)
            log.info("model-released", model=name)

    def _forget(self, name: str) -> None:
        del self._since[name], self._strikes[name]
        self._pause_s.pop(name, None)
        self._until_s.pop(name, None)

    def _sentence(self, name: str) -> str:
        due = datetime.now(UTC) + timedelta(seconds=self._until_s[name] - monotonic())
        return (
            f"{name} is in quarantine: it has crashed or held up {STRIKES} child processes while they loaded it. The "
            f"first request after {due:%H:%M:%S} UTC tries it again; `recourse models release {name}` or a restart "
            "lets the next one do so."
        )
