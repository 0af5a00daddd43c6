"""Several counterfactuals judged together.

`search.propose` finds the plans of `dice` and `copa`. Their `objective` decides how: in the terms of people by
`people`, which exchanges members of a pool of cheap records; in those of the paper by `search.PlanSearch`, which
descends. Both exchange and move members by `members`; `overlap` is how much two members change alike. `corrector` moves
members of a given plan so that it stays valid together, for `copa` and for corrections.
"""
