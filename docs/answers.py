"""Asks the demo for the example answers of `openapi.json`, `app/api/answer_examples.json`: `make openapi`.

Answers to questions about an applicant are asked for again. The others, such as those of jobs and lists, are written by
hand; a test says where one is not as its schema describes it.
"""

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.api.examples import DEMO_MODEL, PREDICT_EXAMPLES, RECOURSE_EXAMPLES, VERIFY_EXAMPLES
from app.questions.correction_schema import CORRECT_EXAMPLES
from app.questions.frontier_schema import FRONTIER_EXAMPLES
from app.questions.offers_schema import OFFERS_EXAMPLES
from app.questions.validity_schema import VALIDITY_EXAMPLES
from app.reasons.route import REASONS_EXAMPLES

if TYPE_CHECKING:
    import httpx

FILE = Path(__file__).parents[1] / "app/api/answer_examples.json"

OF_ONE_ANSWER = frozenset(
    ("id", "created_at", "expires_at", "verified_at", "date", "last", "reach_until", "valid_until", "elapsed_ms")
)
"""What differs from answer to answer: the examples keep theirs."""


def asked(client: "httpx.Client") -> dict[str, Any]:
    """The answer of the demo to an example request of each operation about an applicant, by operation id.

    Of a curve, offers, reasons, stresses and stored records and their changes, the first one, without its steps.
    """

    def post(path: str, examples: Any, name: str = "") -> Any:
        example = examples[name or next(iter(examples))]
        return client.post(path, json=example["value"]).raise_for_status().json()

    def get(path: str) -> Any:
        return client.get(path).raise_for_status().json()

    def shortened(answer: Any) -> Any:
        first = answer["counterfactuals"][0]
        return answer | {"counterfactuals": [first | {"changes": first["changes"][:1], "steps": None}]}

    recourse = post("/recourse", RECOURSE_EXAMPLES)
    curve = post("/recourse/frontier", FRONTIER_EXAMPLES, "retraining")
    terms = post("/recourse/offers", OFFERS_EXAMPLES)
    certified = post("/recourse/validity", VALIDITY_EXAMPLES)
    model = get(f"/models/{DEMO_MODEL}")
    reasons = post("/reasons", REASONS_EXAMPLES)
    corrected = post("/recourse/correct", CORRECT_EXAMPLES)
    return {
        "create_recourse": recourse,
        "get_recourse": shortened(get(f"/recourse/{recourse['id']}")),
        "get_notice": get(f"/recourse/{recourse['id']}/notice"),
        "verify_recourse": post(f"/recourse/{recourse['id']}/verify", VERIFY_EXAMPLES),
        "create_frontier": curve | {"points": curve["points"][:1]},
        "list_offers": terms | {"offers": terms["offers"][:1]},
        "certify_counterfactuals": shortened(certified),
        "correct_plan": shortened(corrected),
        "state_reasons": reasons | {"reasons": reasons["reasons"][:1]},
        "predict_decisions": post(f"/models/{DEMO_MODEL}/predict", PREDICT_EXAMPLES),
        "get_model": model | {"futures": model["futures"] | {"stress": model["futures"]["stress"][:1]}},
    }


def renewed(example: Any, answer: Any) -> Any:
    """An answer with what the example has of `OF_ONE_ANSWER`, and its numbers where another processor gives others.

    Of the strengths of a stress the first one.
    """
    if isinstance(example, dict) and isinstance(answer, dict):
        return {
            name: example[name]
            if name in OF_ONE_ANSWER and name in example
            else renewed(example.get(name), value[:1] if name == "curve" else value)
            for name, value in answer.items()
        }
    if isinstance(example, list) and isinstance(answer, list):
        return [renewed(example[k] if k < len(example) else None, value) for k, value in enumerate(answer)]
    if (
        isinstance(example, float)
        and isinstance(answer, float)
        and math.isclose(example, answer, rel_tol=1e-5, abs_tol=1e-9)
    ):
        return example
    return answer


def main() -> None:
    """Start the service with the demo model, and write its answers."""
    import httpx

    from app.settings import Settings
    from tests.conftest import DEMO_STORE, run

    examples = json.loads(FILE.read_text(encoding="utf-8"))
    for service in run(Settings(models_store=DEMO_STORE, lanes_sync=1)):
        with httpx.Client(base_url=service.url, timeout=60.0) as client:
            for name, answer in asked(client).items():
                examples[name] = renewed(examples.get(name), answer)
    FILE.write_text(json.dumps(examples, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
