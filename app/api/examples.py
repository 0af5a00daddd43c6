"""Example requests for the demo model; a test sends each of them. Those of one use case are with its schema."""

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
        "summary": "What could this applicant change, so that 90 % of retrained models accept it?",
        "value": {"model": DEMO_MODEL, "applicant": APPLICANT, "robustness": {"future_validity": 0.9}},
    },
    "constrained": {
        "summary": "With constraints: fixed term, bounds, at most two changes",
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
    "ways": {
        "summary": "Three ways that differ in what they change; the applicant adds to the savings anyway",
        "value": {
            "model": DEMO_MODEL,
            "applicant": APPLICANT,
            "count": 3,
            "exclude": {
                "features": ["term"],
                "changes": [{"feature": "amount", "to": 5000}],
                "sets": [["monthly_debt", "guarantor"]],
            },
            "must_include": ["savings"],
        },
    },
    "robust": {
        "summary": "Robust to larger shifts of the data",
        "value": {
            "model": DEMO_MODEL,
            "applicant": APPLICANT,
            "method": {"name": "robust_mpm", "divergence": "bures", "radius_unfavourable": 2.0},
        },
    },
    "plan": {
        "summary": "A plan of three counterfactuals that are jointly robust",
        "value": {"model": DEMO_MODEL, "applicant": APPLICANT, "method": {"name": "copa", "count": 3}},
    },
    "noisy": {
        "summary": "Estimated invalidation rate of at most 5 % under noise",
        "value": {
            "model": DEMO_MODEL,
            "applicant": APPLICANT,
            "method": {"name": "probe", "target_invalidation_rate": 0.05, "noise_std": 0.2},
        },
    },
}

_ROWS: list[dict[str, Any]] = [
    {"reference": "application-1", "applicant": APPLICANT},
    {"reference": "application-2", "applicant": {**APPLICANT, "age": "unknown"}},
]

BATCH_EXAMPLES: Any = {
    "two": {
        "summary": "Two applicants; the line of the last one reports its fault",
        "value": {"model": DEMO_MODEL, "seed": 7, "applicants": _ROWS},
    },
}

BATCH_LINES: Any = {
    "two": {
        "summary": "The same as NDJSON",
        "value": "".join(json.dumps(line) + "\n" for line in [{"model": DEMO_MODEL, "seed": 7}, *_ROWS]),
    },
}

_CELLS = [",".join([*APPLICANT, "reference"])]
_CELLS += [",".join(f'"{value}"' for value in (*row["applicant"].values(), row["reference"])) for row in _ROWS]

BATCH_TABLE: Any = {
    "two": {
        "summary": "The same as a table, with ?model=consumer-loan&seed=7",
        "value": "\r\n".join(_CELLS) + "\r\n",
    },
}

VERIFY_EXAMPLES: Any = {
    "newest": {"summary": "The newest active version of the model", "value": {}},
    "named": {"summary": "A named version", "value": {"model": f"{DEMO_MODEL}@1"}},
}

AUDIT_EXAMPLES: Any = {
    "version": {"summary": "All promises, checked against one version", "value": {"model": f"{DEMO_MODEL}@1"}},
    "reissue": {
        "summary": "Promises of some months, with new answers for broken ones",
        "value": {
            "model": f"{DEMO_MODEL}@1",
            "since": "2030-01-01T00:00:00Z",
            "until": "2030-07-01T00:00:00Z",
            "reissue": True,
        },
    },
}

FUTURES_EXAMPLES: Any = {
    "manifest": {"summary": "As the manifest says", "value": {}},
    "stress": {
        "summary": "With a stress along a column",
        "value": {"stress": [{"column": "monthly_income", "direction": "down"}]},
    },
    "few": {"summary": "Few, of any family", "value": {"source": "auto", "search": 20, "held_back": 20}},
}

PREDICT_EXAMPLES: Any = {
    "two": {
        "summary": "The applicant, and the same applicant with a smaller amount",
        "value": {"records": [APPLICANT, {**APPLICANT, "amount": 3000}]},
    }
}
