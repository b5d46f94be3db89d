"""The one exception of the package."""

from __future__ import annotations


class Error(Exception):
    """Something that Maestro refuses or that failed; its text is the tool's own message.

    `status` is what the command line tools end with: 1, the input is at fault; 2, the machine or a peer failed; 130,
    interrupted.
    """

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status

    def __reduce__(self) -> tuple[type[Error], tuple[str, int]]:
        return type(self), (str(self), self.status)
