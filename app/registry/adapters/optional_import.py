"""Imports of optional libraries, with one clear error if they are missing."""

from collections.abc import Iterator
from contextlib import contextmanager

from app.errors import ModelUnusable

PACKAGES = {"sklearn": "scikit-learn", "google": "protobuf"}
"""What installs a module of another name. This service itself is on no index of packages."""


@contextmanager
def library(extra: str) -> Iterator[None]:
    """Context manager: a failed import in its body is raised as `ModelUnusable`, whose message names what to install.

    An import fails where a library, or a system library that it needs, is missing, or memory is short. `extra` is the
    model format, such as `onnx`.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        module = str(error.name).partition(".")[0]
        raise ModelUnusable(
            f"this model needs {module} that is not installed: pip install {PACKAGES.get(module, module)}", extra=extra
        ) from error
    except (OSError, ImportError) as error:
        raise ModelUnusable(
            f"a library that this model needs cannot be loaded ({error}); "
            f"docs/operations/installation.md lists what {extra} needs",
            extra=extra,
        ) from error
