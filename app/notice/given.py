"""What the ledger holds of an answer, as a letter needs it."""

from app.compute.answers import Frame, Json, identity
from app.compute.messages import Question, ReasonsQuestion
from app.notice.letter import Facts, Lender
from app.recourse.models.score import Output
from app.recourse.reasons import ReasonsParams
from app.registry.version import RegisteredModel
from app.settings import Settings


def lender_of(settings: Settings) -> Lender:
    """Who sends letters."""
    return Lender(
        name=settings.lender_name,
        address=settings.lender_address,
        contact=settings.lender_contact,
        authority=settings.lender_authority,
    )


def missing_reasons(answer: Json, request: Json) -> ReasonsQuestion | None:
    """The question for the reasons of a refusal, where the answer does not state them."""
    if answer.get("reasons") or answer["factual"] is None or answer["factual"]["favourable"]:
        return None
    asked = Question.from_json(request["question"])
    return ReasonsQuestion(factual_raw=asked.factual_raw, reasons=ReasonsParams(), seed=asked.seed)


def frame_of(model: RegisteredModel, question: ReasonsQuestion) -> Frame:
    """The frame of the answer to that question."""
    return Frame(model=identity(model), seed=question.seed)


def facts_of(answer: Json, request: Json, model: RegisteredModel, reasons: Json | None) -> Facts:
    """What a letter is made of; `reasons` are those that the answer does not state."""
    manifest = model.manifest
    return Facts(
        answer=answer,
        applicant=request["applicant"],
        reasons=answer.get("reasons") or reasons,
        features=model.space.schema,
        title=manifest.title,
        threshold=manifest.threshold if manifest.output is Output.PROBABILITY else None,
        scale=manifest.points,
    )
