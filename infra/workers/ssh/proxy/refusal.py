"""What a box is told when its request does not go on to the Prefect API."""

FORBIDDEN = 403


class Refusal(Exception):
    """A request that is not let through; the message is one sentence for whoever sent it.

    Attributes:
        status: of the answer.
        after_s: seconds after which it may be tried again; None where that is no use.
    """

    def __init__(self, sentence: str, status: int = FORBIDDEN, *, after_s: int | None = None) -> None:
        super().__init__(sentence)
        self.status, self.after_s = status, after_s
