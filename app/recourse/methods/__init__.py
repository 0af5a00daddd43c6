"""The recourse methods, one file each; `METHODS` is the list that everything else is derived from."""

from app.recourse.method import Method
from app.recourse.methods import (
    copa,
    dice,
    growing_spheres,
    learning_augmented,
    probe,
    roar,
    robust_bayesian,
    robust_mpm,
    robust_projection,
    wachter,
)

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        robust_mpm.METHOD,
        learning_augmented.METHOD,
        probe.METHOD,
        copa.METHOD,
        roar.METHOD,
        robust_projection.METHOD,
        robust_bayesian.METHOD,
        wachter.METHOD,
        growing_spheres.METHOD,
        dice.METHOD,
    )
}
"""Every method by its name; the default first."""

DEFAULT_METHOD = next(iter(METHODS))
"""Name of the method of a question that names none."""
