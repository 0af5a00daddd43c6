"""The recourse methods, one file each; `METHODS` is the list that everything else is derived from."""

from app.recourse.method import Method
from app.recourse.methods import robust_mpm

METHODS: dict[str, Method] = {method.name: method for method in (robust_mpm.METHOD,)}
"""Every method by its name; the first is the default."""
