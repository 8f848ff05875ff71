"""The instrument inside of a worker, which the supervisor starts: ``HOLD_QUESTIONS`` names the
socket over which somebody outside asks. See `tests/hold/launch.py`.

Python imports a module of this name by itself when it starts, if it finds one; `tests/hold/crew.py`
has it found.
"""

from __future__ import annotations

import os
import sys

WORKER = "headgate.server.workers"

if WORKER in sys.orig_argv and "HOLD_QUESTIONS" in os.environ:
    from tests.hold.launch import join

    join(os.environ["HOLD_QUESTIONS"])
