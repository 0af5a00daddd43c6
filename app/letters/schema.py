"""The letter to an applicant."""

from typing import Any

from app.api.described import describe
from app.letters import letter

Notice: Any = describe(letter.Notice)
