"""What the service keeps about the people that it advised: the chain of entries, and what is done with them."""
