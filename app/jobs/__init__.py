"""Durable jobs: kept in a database, computed by the child processes of any server or worker."""
