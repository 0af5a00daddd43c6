"""What the ledger keeps of an answer: request and answer as they were, and how they are read again."""

import json
from collections.abc import Mapping

from app.errors import Erased
from app.ledger.chain import PersonalData
from app.ledger.ledger import NewRecord
from app.ledger.rows import Record
from app.questions.answers import Json, encoded


def entry_of(
    answer: Json, request: Json, job: str | None = None, *, key: str | None = None, sent: bytes | None = None
) -> NewRecord:
    """The record to add to the ledger for an answer.

    Parameters
    ----------
    job : id of the job that computed the answer; None for an answer to a direct request
    key : id of the API key that asked for the answer
    sent : the bytes of the answer, if they are known
    """
    return entry_of_texts(answer, encoded(request), encoded(answer) if sent is None else sent, job, key=key)


def entry_of_texts(
    answer: Json, request: bytes, sent: bytes, job: str | None = None, *, key: str | None = None
) -> NewRecord:
    """The record to add to the ledger for an answer whose bytes are known.

    Parameters
    ----------
    answer : only its id, reference, times, model and status are read
    request : the encoded request
    sent : the bytes of the answer
    job : id of the job that computed the answer; None for an answer to a direct request
    key : id of the API key that asked for the answer
    """
    model = answer["model"]
    return NewRecord(
        id=answer["id"],
        at=answer["created_at"],
        expires_at=answer["expires_at"],
        model=model["id"],
        version=model["version"],
        sha256=model["sha256"],
        status=answer["status"],
        key=key,
        personal_data=PersonalData(
            reference=answer["reference"],
            job=job,
            request=request,
            answer=sent,
        ),
    )


def personal_data(record: Record) -> PersonalData:
    """The personal data that the ledger keeps with a record. Raises `Erased` where the personal data was erased."""
    if record.personal_data is None:
        raise Erased(f"{Erased.__doc__} It was erased at {record.erased_at}.")
    return record.personal_data


def promised(record: Record) -> list[Mapping[str, object]]:
    """The counterfactuals of a stored answer, each by feature name. Raises `Erased`."""
    return [one["applicant"] for one in json.loads(personal_data(record).answer)["counterfactuals"]]


def offered(record: Record) -> Mapping[str, object] | None:
    """The applicant's record with the offered terms, if a stored answer has an offer; else None. Raises `Erased`."""
    offer = json.loads(personal_data(record).answer).get("offer")
    return offer and offer["applicant"]
