"""``python -m headgate.server.workers``: a worker, as the supervisor starts it."""

from __future__ import annotations

import gc
import logging
import os
import socket
import sys
from pathlib import Path

from headgate.errors import HeadgateError
from headgate.server import log
from headgate.server.config import load_config
from headgate.server.serve import GC_THRESHOLDS
from headgate.server.service import Service, run_service
from headgate.server.workers.front_service import FrontService
from headgate.server.workers.home_service import HomeService
from headgate.wire.resp.workers.places import HOME

logger = logging.getLogger("headgate")


def main(arguments: list[str]) -> int:
    number, workers, start, descriptor = map(int, arguments[:4])
    source, ready = (Path(text) if text else None for text in arguments[4:6])
    end = socket.socket(fileno=descriptor)
    os.set_inheritable(descriptor, False)
    try:
        config = load_config(source, os.environ)
        log.set_up(config.log.level, config.log.format, marks={"worker": number})
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        place = (end, number, workers, start)
        service: Service
        if number == HOME:
            service = HomeService(config, ready, os.environ, place)
        else:
            service = FrontService(config, os.environ, place)
        run_service(service)
    except HeadgateError as error:
        logger.error("not started", extra={"fields": {"error": str(error)}})
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
