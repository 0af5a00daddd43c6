"""How counterfactuals withstand a retrained model or an inexact implementation.

============================  ==========================================================  ==========================
file                          what it says                                                asked by
============================  ==========================================================  ==========================
`validity`                    bounds over distributions of linear models: of one record   certificate, `copa`,
                              in closed form, of a plan by `gelbrich_programs`            corrections
`future_validity`             the share of future models that accept a record;            certificate, `solve`, ways
                              `share_interval` is its confidence interval
`invalidation`                how often noise turns the decision, on a linear model in    certificate, `probe`
                              closed form, or measured on the black box
`measured_invalidation`       which records stay below a rate, in few measurements        `probe`
`consistency_and_robustness`  loss and cost under the worst and under the predicted       `search.trade_off` for
                              linear model                                                `roar` and others
============================  ==========================================================  ==========================
"""
