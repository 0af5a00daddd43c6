"""The product's use cases. The HTTP API and the command line call them."""

from app.service.queries import AuditQuery, Rows, Terms
from app.service.service import Service
from app.service.sweep import sweep

__all__ = ["AuditQuery", "Rows", "Service", "Terms", "sweep"]
