"""Questions between workers: each has a number, and is answered by every worker that is there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from headgate.wire.resp.workers import link_frames as frames

if TYPE_CHECKING:
    from headgate.wire.resp.workers.link_session import LinkSession
    from headgate.wire.resp.workers.relay import Relay

Answers: TypeAlias = dict[int, bytes]
"""Answers by the number of the worker."""
Reply: TypeAlias = Callable[[bytes], None]
Handler: TypeAlias = Callable[[list[bytes], Reply], None]
"""Answers a question, at once or later."""


class Question:
    """A question that some workers have not answered yet."""

    __slots__ = ("answers", "done", "missing")

    def __init__(self, missing: set[int], done: Callable[[Answers], None]) -> None:
        self.missing = missing
        self.answers: Answers = {}
        self.done = done


class Questions:
    """Questions of this worker to others, and its answers to theirs. A worker that is gone is not
    waited for."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._open: dict[int, Question] = {}
        self._last = 0
        self.handlers: dict[bytes, Handler] = {}

    def ask(
        self, links: Iterable[LinkSession], words: Sequence[bytes], done: Callable[[Answers], None]
    ) -> None:
        """Ask some workers; `done` is called with their answers, later or at once."""
        asked = {link.worker: link for link in links}
        if not asked:
            done({})
            return
        self._last += 1
        self._open[self._last] = Question(set(asked), done)
        for link in asked.values():
            link.port.write(frames.ask(self._last, words))

    def answered(self, link: LinkSession, number: int, content: bytes) -> None:
        question = self._open.get(number)
        if question is not None and link.worker in question.missing:
            question.answers[link.worker] = content
            self._settle(number, question, link.worker)

    def leave(self, link: LinkSession) -> None:
        for number, question in list(self._open.items()):
            if link.worker in question.missing:
                self._settle(number, question, link.worker)

    def _settle(self, number: int, question: Question, worker: int) -> None:
        question.missing.discard(worker)
        if not question.missing:
            del self._open[number]
            question.done(question.answers)

    def asked(self, link: LinkSession, number: int, word: bytes, words: list[bytes]) -> None:
        """Answer a question of another worker."""

        def reply(content: bytes) -> None:
            if self._relay.links.get(link.worker) is link:
                link.port.write(frames.answer(number, content))

        handler = self.handlers.get(word)
        if handler is None:
            link.port.close("not the words of a worker: an unknown question")
        else:
            handler(words, reply)
