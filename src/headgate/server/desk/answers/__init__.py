"""The answers of the API, version 1. The texts here are those of ``docs/reference/openapi.json``.

Times are seconds since 1970, durations seconds, sizes bytes, and rates by the second. What peers
chose is cut and without control characters: it is text, and nothing else.
"""

from headgate.server.desk.answers.base import *
from headgate.server.desk.answers.channels import *
from headgate.server.desk.answers.domains import *
from headgate.server.desk.answers.expressions import *
from headgate.server.desk.answers.history import *
from headgate.server.desk.answers.live import *
from headgate.server.desk.answers.queues import *
from headgate.server.desk.answers.sessions import *
from headgate.server.desk.answers.settings import *
