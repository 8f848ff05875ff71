r"""Conversations as a reader of the protocol would write them, replayed byte for byte.

``C> SUBSCRIBE news`` is sent as an array of bulks, with the quotes of an inline command;
``C> raw PING\r\n`` is sent as it is. ``S< *3 $9 subscribe $4 news :1`` is the frame that must
come next: blanks stand for the ends of lines, ``""`` for an empty line, ``\x20`` for a blank. A
frame that starts with + or - is one line. ``S< ?`` is any frame, ``S< end`` the end of the
connection. Further connections are ``C2>`` and ``S2<``. A file whose first line is ``# headgate``
has what Redis 7.0 does otherwise.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.support.resp_client import Client
from tests.support.resp_servers import Dial, Server

FOLDER = Path(__file__).parent / "transcripts"
FILES = sorted(FOLDER.glob("*.txt"))
LINE = re.compile(r"(?P<side>[CS])(?P<number>\d*)[<>] (?P<text>.*)")
OURS = "# headgate\n"


def frame_bytes(text: str) -> bytes:
    lines = [text] if text[0] in "+-" else text.split(" ")
    unquoted = ["" if line == '""' else line for line in lines]
    return b"".join(unescaped(line) + b"\r\n" for line in unquoted)


def unescaped(text: str) -> bytes:
    return text.encode().decode("unicode_escape").encode("latin-1")


def play(path: Path, server: Server, dial: Dial) -> None:
    clients: dict[str, Client] = {}
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        if not line or line.startswith("#"):
            continue
        match = LINE.fullmatch(line)
        assert match is not None, f"{path.name}:{number}: {line}"
        client = clients.get(match["number"]) or dial(server)
        clients[match["number"]] = client
        text = match["text"]
        if match["side"] == "C" and text.startswith("raw "):
            client.send_raw(unescaped(text.removeprefix("raw ")))
        elif match["side"] == "C":
            client.send(*map(unescaped, shlex.split(text)))
        elif text == "end":
            assert client.until_closed() == [], f"{path.name}:{number}"
        elif text == "?":
            client.read()
        else:
            came = client.read_raw()
            assert came == frame_bytes(text), f"{path.name}:{number}: {line}"
    for client in clients.values():
        client.close()


def is_for(path: Path, name: str) -> bool:
    return name == "headgate" or not path.read_text().startswith(OURS)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.stem))
def test_a_transcript_is_replayed_by_the_router(path: Path, headgate: Server, dial: Dial) -> None:
    """RESP-1, RESP-26, RESP-31, RESP-33."""
    play(path, headgate, dial)


@pytest.mark.parametrize(
    "path", [path for path in FILES if is_for(path, "redis")], ids=lambda path: str(path.stem)
)
def test_a_transcript_is_replayed_by_redis(path: Path, redis: Server, dial: Dial) -> None:
    """RESP-1, RESP-26, RESP-31, RESP-33: so the transcripts are right."""
    play(path, redis, dial)


def test_there_are_transcripts_of_both_protocols() -> None:
    texts = [path.read_text() for path in FILES]
    assert any("C> HELLO 3" in text for text in texts)
    assert any("HELLO" not in text for text in texts)
