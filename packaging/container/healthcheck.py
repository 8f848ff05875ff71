"""Whether the router of this container answers; the container's HEALTHCHECK."""

import http.client
import os
import sys

port = int(os.environ.get("HEADGATE_ADMIN__PORT", "8222"))
try:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=4)
    connection.request("GET", "/healthz")
    status = connection.getresponse().status
except OSError as error:
    sys.exit(f"the admin port does not answer: {error}")
sys.exit(0 if status == 200 else f"the admin port answers {status}")
