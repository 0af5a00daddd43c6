"""Letters about recourse that was given."""

from app.compute import use_cases
from app.compute.answers import Frame, Json, identity
from app.compute.messages import Question, ReasonsQuestion
from app.compute.use_cases import REASONS
from app.errors import Fault, InvalidRequest
from app.notice import Facts, Lender, Notice, Templates, notice_of
from app.recourse.models.black_box import Output
from app.recourse.reasons import ReasonsParams
from app.registry.version import RegisteredModel
from app.service.ledger import GivenRecourse
from app.service.models import Models
from app.settings import Settings


class Notices:
    """The lender's letters, made of what the ledger holds.

    Raises
    ------
    TemplateFaulty : a file of the letter has a fault
    """

    def __init__(self, settings: Settings, given: GivenRecourse, models: Models) -> None:
        self.templates = Templates.read(settings.notice_regime, settings.notice_dir, settings.notice_language)
        self._given = given
        self._models = models
        self._lender = Lender(
            name=settings.lender_name,
            address=settings.lender_address,
            contact=settings.lender_contact,
            authority=settings.lender_authority,
        )

    async def notice(self, recourse_id: str, language: str) -> Notice:
        """The letter about a recourse; the same record gives the same letter.

        Reasons that the answer does not state are computed as they would have been with it.

        Raises
        ------
        UnknownRecourse, Erased, LedgerUnavailable : as `GivenRecourse.answer`
        UnknownModel, ModelUnusable, ModelOutputInvalid, ModelUnavailable, Overloaded, LaneCrashed, LaneTimeout : the
            version that answered has to be asked for the reasons, and cannot be
        InvalidRequest : there is no letter in this language
        """
        if language not in self.templates.letters:
            known = ", ".join(self.templates.letters)
            raise InvalidRequest(faults=[Fault("", f"the query parameter lang must be one of {known}")])
        answer, request = await self._given.asked(recourse_id)
        model = self._models.find(f"{answer['model']['id']}@{answer['model']['version']}", include_inactive=True)
        manifest = model.manifest
        facts = Facts(
            answer=answer,
            applicant=request["applicant"],
            reasons=answer.get("reasons") or await self._reasons(model, answer, request),
            features=model.space.schema,
            title=manifest.title,
            threshold=manifest.threshold if manifest.output is Output.PROBABILITY else None,
        )
        return notice_of(facts, self.templates.languages[language], self.templates.regime, self._lender)

    async def _reasons(self, model: RegisteredModel, answer: Json, request: Json) -> Json | None:
        if answer["factual"] is None or answer["factual"]["favourable"]:
            return None
        asked = Question.from_json(request["question"])
        question = ReasonsQuestion(factual_raw=asked.factual_raw, reasons=ReasonsParams(), seed=asked.seed)
        frame = Frame(model=identity(model), seed=asked.seed)
        found: Json = await self._models.ask(model, use_cases.answer, REASONS, question, frame, 0.0)
        return found
