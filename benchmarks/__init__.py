"""What the service costs and what it is worth: ``python -m benchmarks`` prints the tables of `benchmarks/RESULTS.md`.

Times are medians and ratios within one run, because machines are noisy. Nothing here runs in the tests.
"""
