"""Promised shares of future models against what later versions of the model kept."""

from typing import Any

from app.api.described import describe
from app.calibration import report as calibration_report

CalibrationAnswer: Any = describe(calibration_report.CalibrationAnswer)
