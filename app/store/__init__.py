"""What the service keeps about the people it advised: the ledger of recourse given, in SQLite or PostgreSQL."""
