"""Models on disk: what a lender describes, what is installed in the store, and how each format becomes a black box."""
