"""A model server as lenders run them, around any function from a table to scores.

It speaks the Open Inference Protocol v2, `/v2/models/credit` and its `/infer`, and that of MLflow, `/invocations`, on a
free port of loopback.
"""

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

Columns = dict[str, list[Any]]
"""Values of a table, by column."""

Predict = Callable[[Columns], np.ndarray]
"""The probability of each class, (n, 2), for the rows of a table."""


@contextmanager
def serving(datatypes: Mapping[str, str], predict: Predict) -> Iterator[str]:
    """The address of a server, such as ``http://127.0.0.1:40123``, that runs until the end of the block.

    Parameters
    ----------
    datatypes : of each column, such as ``FP64``, ``INT64`` or ``BYTES``
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *args: object) -> None:
            """Requests are not logged."""

        def do_GET(self) -> None:
            """Describe the model."""
            inputs = [{"name": name, "datatype": kind, "shape": [-1, 1]} for name, kind in datatypes.items()]
            outputs = [
                {"name": "label", "datatype": "INT64", "shape": [-1]},
                {"name": "probabilities", "datatype": "FP64", "shape": [-1, 2]},
            ]
            self._send({"name": "credit", "platform": "python", "inputs": inputs, "outputs": outputs})

        def do_POST(self) -> None:
            """Answer for some records."""
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path == "/invocations":
                table = body["dataframe_split"]
                found = predict(dict(zip(table["columns"], map(list, zip(*table["data"], strict=True)), strict=True)))
                return self._send({"predictions": found.tolist()})
            found = predict({tensor["name"]: tensor["data"] for tensor in body["inputs"]})
            data = found.ravel().tolist()
            tensor = {"name": "probabilities", "datatype": "FP64", "shape": list(found.shape), "data": data}
            return self._send({"model_name": "credit", "outputs": [tensor]})

        def _send(self, document: Mapping[str, Sequence[Any] | Any]) -> None:
            content = json.dumps(document).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
