"""Shapes and types in the annotations of the core are enforced in every test run.

It has to happen here: the hook only reaches modules that are imported after it, and `tests/conftest.py` imports them.
"""

from jaxtyping import install_import_hook

# As for a static checker, an int will do where a float is asked for.
CHECKER = "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))"

install_import_hook("app.recourse", CHECKER)
