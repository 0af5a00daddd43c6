"""Requests that work at the first click, for the demo model that comes with the service; a test sends each of them."""

from typing import Any

DEMO_MODEL = "consumer-loan"

APPLICANT: dict[str, Any] = {
    "age": 29,
    "monthly_income": 1850,
    "monthly_debt": 310,
    "card_utilisation": 71.5,
    "late_payments": 1,
    "amount": 9200,
    "term": 48,
    "employment": "1 to 3 years",
    "savings": "under 1,000 EUR",
    "housing": "rented",
    "purpose": "car",
    "guarantor": False,
}

RECOURSE_EXAMPLES: Any = {
    "simple": {
        "summary": "What could this applicant change?",
        "value": {"model": DEMO_MODEL, "applicant": APPLICANT},
    },
    "constrained": {
        "summary": "Keep the term, save a little at most, change no more than two things",
        "value": {
            "model": DEMO_MODEL,
            "applicant": APPLICANT,
            "reference": "application-81723",
            "constraints": {
                "immutable": ["term"],
                "direction": {"amount": "decrease"},
                "bounds": {"savings": {"max": "1,000 to 5,000 EUR"}, "amount": {"min": 4000}},
                "max_changes": 2,
            },
            "cost": {"weights": {"monthly_income": 2.0}},
            "deadline_ms": 2000,
            "seed": 7,
        },
    },
    "robust": {
        "summary": "An answer that stays right under larger shifts of the data",
        "value": {
            "model": DEMO_MODEL,
            "applicant": APPLICANT,
            "method": {"name": "robust_mpm", "divergence": "bures", "radius_unfavourable": 2.0},
        },
    },
}

VALIDITY_EXAMPLES: Any = {
    "plan": {
        "summary": "Two ways to a yes, one by one and together",
        "value": {
            "model": DEMO_MODEL,
            "factual": APPLICANT,
            "counterfactuals": [
                {**APPLICANT, "card_utilisation": 10.0, "guarantor": True},
                {**APPLICANT, "amount": 4000, "savings": "1,000 to 5,000 EUR", "guarantor": True},
            ],
            "certificate": {"ambiguity_radius": 0.02, "noise_samples": 2000},
        },
    },
}

PREDICT_EXAMPLES: Any = {
    "two": {
        "summary": "The applicant, and the same person asking for less",
        "value": {"records": [APPLICANT, {**APPLICANT, "amount": 3000}]},
    }
}
