"""HTTP server of one judge, for programs that ask it often: trainers, agents, other machines."""

import secrets

from evokernel.judging.application import BatchLimits, JudgeApplication, error_answer
from evokernel.judging.judge import Judge
from evokernel.serve.application import ServerLimits
from evokernel.serve.web_server import WebServer

TOKEN_VARIABLE = "EVOKERNEL_JUDGE_TOKEN"
DEFAULTS = BatchLimits()
_HEAD_BYTES = 16_384


class BatchServer(WebServer):
    """A server that listens once it is made, on loopback unless told otherwise. Every request needs its token."""

    def __init__(
        self, judge: Judge, *, token: str = "", host: str = "127.0.0.1", port: int = 0, limits: BatchLimits = DEFAULTS
    ) -> None:
        """Listen; without a token one is made at random.

        Raises `ConfigError` if the host, the port or the token cannot be used.
        """
        given = {TOKEN_VARIABLE: token or secrets.token_urlsafe(24)}
        super().__init__(host=host, port=port, environment=given, variable=TOKEN_VARIABLE)
        self.judge = judge
        self.answer_with(
            JudgeApplication(judge, self.access, limits=limits),
            # head and the beginning of a body may come together
            limits=ServerLimits(head_bytes=limits.body_bytes + _HEAD_BYTES),
            refuse=error_answer,
        )
