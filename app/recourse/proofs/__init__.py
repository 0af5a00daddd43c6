"""Proofs that a model accepts no record of an action set, or a record that it accepts, by bounds over boxes of records.

`network_branching` for ReLU networks, `forest_branching` for trees. Linear models are in `app.recourse.search`.
"""
