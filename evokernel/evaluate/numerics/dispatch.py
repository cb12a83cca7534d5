"""Operations of torch under observation: a base of what looks at each one, or changes its result."""

from torch.utils._python_dispatch import TorchDispatchMode


class EagerMode(TorchDispatchMode):  # type: ignore[misc]  # torch does not type it
    """A dispatch mode under which nothing is compiled."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Tell torch so: otherwise it imports its compiler, for seconds."""
        return False
