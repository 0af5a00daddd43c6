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
    """The record that is added to the ledger for an answer.

    `job` is the id of the job that computed it, `key` that of the API key that asked, `sent` its bytes if known.
    """
    return entry_of_texts(answer, encoded(request), encoded(answer) if sent is None else sent, job, key=key)


def entry_of_texts(
    answer: Json, request: bytes, sent: bytes, job: str | None = None, *, key: str | None = None
) -> NewRecord:
    """The record that is added to the ledger for an answer whose bytes (`sent`) and request are known.

    Of `answer` itself only fields outside its records are read.
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
    """The personal data of a record in the ledger. Raises `Erased` where it has none."""
    if record.personal_data is None:
        raise Erased(f"{Erased.__doc__} It was erased at {record.erased_at}.")
    return record.personal_data


def promised(record: Record) -> list[Mapping[str, object]]:
    """The records of all counterfactuals in a stored answer. Raises `Erased`."""
    return [one["applicant"] for one in json.loads(personal_data(record).answer)["counterfactuals"]]


def offered(record: Record) -> Mapping[str, object] | None:
    """The applicant's record with the terms that a stored answer offers; None without an offer. Raises `Erased`."""
    offer = json.loads(personal_data(record).answer).get("offer")
    return offer and offer["applicant"]
