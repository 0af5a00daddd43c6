"""Options of the commands that check a model directory."""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

DirectoryArgument: TypeAlias = Annotated[
    Path, typer.Argument(metavar="DIR", help="Directory with model.yaml and the files it names.")
]
ScoresOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(help="CSV with your own score of each reference record, unless the reference has a column score."),
]
ToleranceOption: TypeAlias = Annotated[
    float, typer.Option(min=0, help="Largest difference between your scores and the model's.")
]
TrustPickleOption: TypeAlias = Annotated[
    bool, typer.Option("--trust-pickle", help="Load .joblib and .pkl files, which can run any code.")
]

SCORE_TOLERANCE = 1e-4
"""`app.registry.lender_scores.TOLERANCE`, which takes time to import."""
