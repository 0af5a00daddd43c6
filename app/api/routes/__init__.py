"""One router for each noun of the HTTP interface."""
