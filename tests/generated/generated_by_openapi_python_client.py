"""Asks one recourse with what openapi-python-client has made: python FILE URL REQUEST; prints the status."""

import json
import sys

from recourse_client import Client
from recourse_client.api.recourse import create_recourse
from recourse_client.models import RecourseRequest

url, request = sys.argv[1:]

with Client(base_url=url) as client:
    answer = create_recourse.sync(client=client, body=RecourseRequest.from_dict(json.loads(request)))
print(answer.status.value)
