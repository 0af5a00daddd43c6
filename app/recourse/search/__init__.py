"""Searches of one person's action set for legal records.

`cheapest` looks for the least cost at a margin of a linear model of the decision (`robust_mpm`, `probe`, plans,
fallback records, verdicts), `trade_off` for the least loss and cost (`wachter`, `roar`, `learning_augmented`). Each
first leaves out what ties features: rules, shared time, levels that are not proposed. Then the one is a `knapsack`; the
other asks `branching`, `simplicial` and `responses`. Where that optimum is not legal, HiGHS searches, which knows all
of these ties.

`rule_branching.solve_program` alone asks HiGHS, about the constraints of `mixed_integer`. Rules that are no linear
constraints divide the action set into `rule_parts`, in which `enclosures` bound them by linear ones. `cheapest` asks
also where a knapsack ends without a proof. `robust_projection` asks with constraints of its own, and `legal_rows` for
what is nearest to given records (fallback records, corrections, `robust_bayesian`).

The others need no linear model: `local_moves` makes single moves, judged by any function (plans, corrections, polish,
`growing_spheres`), `committee` combines moves that the future models judge (`future_validity`),
with `levels`; `tree_leaves` serves `probe`.
"""
