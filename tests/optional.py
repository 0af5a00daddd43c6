"""Libraries that a machine may lack, or lack something for; tests that need them are skipped there, with the reason."""

import importlib
from typing import Any

import pytest


def library(name: str) -> Any:
    """The module `name`."""
    try:
        return importlib.import_module(name)
    except (ImportError, OSError) as error:
        # OSError: LightGBM on a system without OpenMP.
        pytest.skip(f"{name} cannot be imported here: {error}", allow_module_level=True)


def skops_file(estimator: Any) -> bytes:
    """A fitted estimator as skops stores it. To import skops takes a second, so no file of tests does at its head."""
    content: bytes = library("skops.io").dumps(estimator)
    return content
