"""Asks one recourse with what datamodel-code-generator has made: python FILE URL REQUEST; prints the status.

Its classes send null for everything that they were not given.
"""

import json
import sys

import httpx
from generated import RecourseAnswer, RecourseRequest

url, request = sys.argv[1:]

question = RecourseRequest.model_validate(json.loads(request)).model_dump_json(by_alias=True)
assert '"certificate":null' in question
response = httpx.post(f"{url}/recourse", content=question, headers={"Content-Type": "application/json"}, timeout=60)
response.raise_for_status()
print(RecourseAnswer.model_validate_json(response.content).status.value)
