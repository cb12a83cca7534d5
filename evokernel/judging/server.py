"""HTTP server of one judge, for programs that ask it often: trainers, agents, other machines."""

import secrets

from evokernel.judging.application import BatchLimits, JudgeApplication, error_answer
from evokernel.judging.judge import Judge
from evokernel.serve.application import ServerLimits
from evokernel.serve.web_server import WebServer

_TOKEN = "--token or EVOKERNEL_JUDGE_TOKEN"
DEFAULTS = BatchLimits()
_HEAD_BYTES = 16_384


class BatchServer(WebServer):
    """A server that listens once it is made, on loopback unless told otherwise. Every request needs its token.

    Clients wait until it has a judge, which takes seconds to start, and serves.
    """

    def __init__(self, *, token: str = "", host: str = "127.0.0.1", port: int = 0) -> None:
        """Listen; without a token one is made at random.

        Raises `ConfigError` if the host, the port or the token cannot be used.
        """
        super().__init__(
            host=host, port=port, environment={_TOKEN: token or secrets.token_urlsafe(24)}, variable=_TOKEN
        )

    def ask(self, judge: Judge, *, limits: BatchLimits = DEFAULTS) -> None:
        """Set the judge that answers, and the limits of clients."""
        self.judge = judge
        self.answer_with(
            JudgeApplication(judge, self.access, limits=limits),
            # head and the beginning of a body may come together
            limits=ServerLimits(head_bytes=limits.body_bytes + _HEAD_BYTES),
            refuse=error_answer,
        )
