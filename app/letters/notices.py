"""Letters about recourse that was given."""

from datetime import date

from app.errors import Fault, InvalidRequest
from app.ledger.given import GivenRecourse
from app.letters.facts import version_of
from app.letters.given import lender_of, missing_reasons, notice_about, offer_share_of
from app.letters.notice import Notice
from app.letters.regime import Templates
from app.models.models import Models
from app.questions import use_cases
from app.questions.answers import Json
from app.registry.version import RegisteredModel
from app.settings import Settings


class Notices:
    """Writes the lender's letters about answers in the ledger.

    Raises
    ------
    TemplateFaulty : a file of the lender's letters has a fault
    """

    def __init__(self, settings: Settings, given: GivenRecourse, models: Models) -> None:
        self.templates = Templates.of(settings)
        self._given = given
        self._models = models
        self._lender, self._offer_share = lender_of(settings), offer_share_of(settings)

    async def notice(
        self, recourse_id: str, language: str, *, addressee: tuple[str, ...] = (), applied_on: date | None = None,
        draft: bool = False,
    ) -> Notice:  # fmt: skip
        """The letter to `addressee` about a recourse that was applied for on a date.

        The same recorded answer gives the same letter.

        If the answer states no reasons, they are computed now, by the version that answered and with the answer's seed.

        Parameters
        ----------
        draft : whether settings may be missing; then the letter shows their names in place of their values

        Raises
        ------
        UnknownRecourse, Erased, LedgerUnavailable : the answer cannot be read
        UnknownModel, ModelUnusable, ModelOutputInvalid, ModelUnavailable, Overloaded, LaneCrashed, LaneTimeout : the
            reasons have to be computed, but the version that answered cannot be asked
        NoticeIncomplete : settings or words that the letter states are missing
        InvalidRequest : there is no letter in this language
        """
        if language not in self.templates.letters:
            known = ", ".join(self.templates.letters)
            raise InvalidRequest(faults=[Fault("", f"the query parameter lang must be one of {known}")])
        answer, request = await self._given.asked(recourse_id)
        model = self._models.find(version_of(answer), include_inactive=True)
        reasons = await self.missing_reasons(model, answer, request)
        return notice_about(
            answer,
            request,
            model,
            reasons,
            templates=self.templates,
            language=language,
            lender=self._lender,
            addressee=addressee,
            applied_on=applied_on,
            draft=draft,
            offer_share=self._offer_share,
        )

    async def missing_reasons(self, model: RegisteredModel, answer: Json, request: Json) -> Json | None:
        """The reasons for a refusal, computed where the answer states none; else None.

        `model` is the version that answered. Raises `ModelUnusable`, `ModelOutputInvalid`, `ModelUnavailable`,
        `Overloaded`, `LaneCrashed` or `LaneTimeout` where the model cannot be asked.
        """
        asked = missing_reasons(answer, request, model)
        return None if asked is None else await self._models.ask(model, use_cases.answer, *asked)
