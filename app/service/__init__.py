"""What the product can do, one method per use case. The HTTP edge is a skin over it."""

from app.service.queries import (
    AuditQuery,
    BatchQuery,
    CorrectionQuery,
    FrontierQuery,
    RecourseQuery,
    ValidityQuery,
)
from app.service.service import Service, sweep

__all__ = [
    "AuditQuery",
    "BatchQuery",
    "CorrectionQuery",
    "FrontierQuery",
    "RecourseQuery",
    "Service",
    "ValidityQuery",
    "sweep",
]
