"""The product's use cases. The HTTP API and the command line call them."""
