"""Optional libraries: absent, they cost one clear sentence."""

from collections.abc import Iterator
from contextlib import contextmanager

from app.errors import ModelUnusable


@contextmanager
def library(extra: str) -> Iterator[None]:
    """Around the imports that only models of one format need; `extra` is what installs them.

    Raises
    ------
    ModelUnusable : a library is missing
    """
    try:
        yield
    except ImportError as error:
        raise ModelUnusable(
            f'this model needs {error.name or "a library"} that is not installed: pip install "recourse[{extra}]"',
            extra=extra,
        ) from error
