from __future__ import annotations

from headgate.server.desk.asking import shown, shown_bytes, shown_value


def test_what_peers_chose_is_cut_and_has_no_control_characters() -> None:
    assert shown("plain <b>") == "plain <b>"
    assert shown("a\x1b[31m\u202eb\n") == "a\ufffd[31m\ufffdb\ufffd"
    assert shown("x" * 201) == "x" * 200 + "…"
    assert shown_bytes(b"\xff" + b"x" * 10_000, 3) == "\ufffdxx…"
    assert [shown_value(v) for v in (True, 7, b"\x01")] == [True, 7, {"hex": "01"}]
