"""Requests that work at the first click, for the demo model that comes with the service; a test sends each of them."""

import json
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
    "plan": {
        "summary": "Three different ways to a yes that stay valid together",
        "value": {"model": DEMO_MODEL, "applicant": APPLICANT, "method": {"name": "copa", "count": 3}},
    },
    "noisy": {
        "summary": "An answer that survives being followed inexactly in 95 of 100 cases",
        "value": {
            "model": DEMO_MODEL,
            "applicant": APPLICANT,
            "method": {"name": "probe", "target_invalidation_rate": 0.05, "noise_std": 0.2},
        },
    },
}

_ROWS: list[dict[str, Any]] = [
    {"reference": "application-1", "applicant": APPLICANT},
    {"reference": "application-2", "applicant": {**APPLICANT, "amount": 12_000}},
    {"reference": "application-3", "applicant": {**APPLICANT, "age": "unknown"}},
]

BATCH_EXAMPLES: Any = {
    "three": {
        "summary": "Three applicants; the last record has a fault, which is told in its line",
        "value": {"model": DEMO_MODEL, "seed": 7, "applicants": _ROWS},
    },
}

BATCH_LINES: Any = {
    "three": {
        "summary": "The same in lines",
        "value": "".join(json.dumps(line) + "\n" for line in [{"model": DEMO_MODEL, "seed": 7}, *_ROWS]),
    },
}

FRONTIER_EXAMPLES: Any = {
    "retraining": {
        "summary": "What more robustness against retraining costs",
        "value": {
            "model": DEMO_MODEL,
            "applicant": APPLICANT,
            "sweep": {"parameter": "radius_unfavourable", "values": [0, 1, 2, 5, 10]},
        },
    },
    "noise": {
        "summary": "What it costs to be undone less often by inexact implementation",
        "value": {
            "model": DEMO_MODEL,
            "applicant": APPLICANT,
            "method": {"name": "probe", "noise_std": 0.2},
            "sweep": {"parameter": "target_invalidation_rate", "values": [0.35, 0.2, 0.1, 0.05]},
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

VERIFY_EXAMPLES: Any = {
    "newest": {"summary": "By the newest version of the model", "value": {}},
    "named": {"summary": "By a version that is named", "value": {"model": f"{DEMO_MODEL}@1"}},
}

AUDIT_EXAMPLES: Any = {
    "version": {"summary": "All promises, by one version", "value": {"model": f"{DEMO_MODEL}@1"}},
    "reissue": {
        "summary": "Promises of some months, and what broken ones would cost",
        "value": {
            "model": f"{DEMO_MODEL}@1",
            "since": "2030-01-01T00:00:00Z",
            "until": "2030-07-01T00:00:00Z",
            "reissue": True,
        },
    },
}

CORRECT_EXAMPLES: Any = {
    "mahalanobis": {
        "summary": "Move the two records most at risk a little",
        "value": {
            **VALIDITY_EXAMPLES["plan"]["value"],
            "correction": {"kind": "mahalanobis", "count": 2, "max_shift": 0.4},
        },
    },
    "requirement": {
        "summary": "Records that retrained models accept on average, with a margin, and the term as it is",
        "value": {
            **VALIDITY_EXAMPLES["plan"]["value"],
            "correction": {"kind": "requirement", "margin": 0.5},
            "constraints": {"immutable": ["term"]},
        },
    },
}

PREDICT_EXAMPLES: Any = {
    "two": {
        "summary": "The applicant, and the same person asking for less",
        "value": {"records": [APPLICANT, {**APPLICANT, "amount": 3000}]},
    }
}
