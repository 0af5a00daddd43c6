"""What a recourse method is: a frozen record with one pure function."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from app.recourse.actionability import ActionSet
from app.recourse.result import SurrogateReport
