"""The case file: letters that were sent, reviews, and all that the ledger holds of one recourse."""
