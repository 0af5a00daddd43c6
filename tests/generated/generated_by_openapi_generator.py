"""Asks one recourse with what openapi-generator has made: python FILE URL REQUEST; prints the status."""

import json
import sys

from openapi_client import ApiClient, Configuration, RecourseApi, RecourseRequest

url, request = sys.argv[1:]

with ApiClient(Configuration(host=url)) as client:
    answer = RecourseApi(client).create_recourse(RecourseRequest.from_dict(json.loads(request)))
print(answer.status.value)
