"""A client of the HTTP interface, with httpx alone; it imports nothing else of the service."""

from app.client.clients import AsyncClient, Client
from app.client.operations import Json
from app.client.problem import Fault, ProblemError

__all__ = ["AsyncClient", "Client", "Fault", "Json", "ProblemError"]
