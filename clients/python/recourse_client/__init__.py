"""A client of the recourse service, with httpx alone."""

from .clients import AsyncClient, Client
from .operations import Json
from .problem import Fault, ProblemError

__all__ = ["AsyncClient", "Client", "Fault", "Json", "ProblemError"]
