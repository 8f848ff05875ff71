"""Questions between workers: each has a number, and is answered by every worker that is there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
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

SLICE_SECONDS = 0.005
"""Seconds of answering one worker in a pass; then others get a turn."""


class Question:
    """A question that some workers have not answered yet."""

    __slots__ = ("answers", "done", "missing")

    def __init__(self, missing: set[int], done: Callable[[Answers], None]) -> None:
        self.missing = missing
        self.answers: Answers = {}
        self.done = done


class Questions:
    """Questions of this worker to others, and its answers to theirs. A worker that is gone is not
    waited for.

    The answer to a short question may be a value of megabytes, and each session of the other worker
    may ask one. So questions wait while the other worker has still to take as much as one answer
    may be.
    """

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
        link.unanswered.clear()
        for number, question in list(self._open.items()):
            if link.worker in question.missing:
                self._settle(number, question, link.worker)

    def _settle(self, number: int, question: Question, worker: int) -> None:
        question.missing.discard(worker)
        if not question.missing:
            del self._open[number]
            question.done(question.answers)

    def asked(self, link: LinkSession, number: int, word: bytes, words: list[bytes]) -> None:
        """Answer a question of another worker, after those that came before."""

        def reply(content: bytes) -> None:
            if self._relay.links.get(link.worker) is link:
                for part in frames.answer(number, content):
                    link.port.write(part)

        handler = self.handlers.get(word)
        if handler is None:
            link.port.close("not the words of a worker: an unknown question")
            return
        link.unanswered.append(partial(handler, words, reply))
        if len(link.unanswered) == 1:
            self._go_on(link)

    def taken(self, link: LinkSession) -> None:
        """Go on with the questions of another worker: it has taken something."""
        if link.unanswered:
            self._relay.hub.shell.next_pass(partial(self._go_on, link))

    def _go_on(self, link: LinkSession) -> None:
        shell = self._relay.hub.shell
        if link.slice_end is None:
            link.slice_end = shell.clock() + SLICE_SECONDS
            shell.soon(partial(self._end_slice, link))
        elif shell.clock() > link.slice_end:
            return
        while self._may_answer(link):
            link.unanswered.popleft()()
            if shell.clock() > link.slice_end:
                return

    def _end_slice(self, link: LinkSession) -> None:
        link.slice_end = None
        if self._may_answer(link):
            self._relay.hub.shell.next_pass(partial(self._go_on, link))

    def _may_answer(self, link: LinkSession) -> bool:
        most = self._relay.hub.broker.limits.reply_bytes
        return bool(link.unanswered) and link.port.unwritten <= most
