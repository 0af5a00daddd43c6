"""A request that is sent again is answered as it was the first time."""
