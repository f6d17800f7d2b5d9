"""
What can go wrong with the control plane.

    ControlPlaneError
    ├── BuildError         the binaries are neither there nor buildable
    ├── ProcessError       a process did not start, or ended on its own
    ├── CommandError       kubectl or the API server refused
    └── WaitTimeoutError   something did not happen in time
"""


class ControlPlaneError(Exception):
    """
    The control plane cannot do what was asked.

    *summary* is one line for people; *detail* may be many lines (the end of a log).
    """

    def __init__(self, summary: str, detail: str = "") -> None:
        super().__init__(f"{summary}\n{detail}" if detail else summary)
        self.summary = summary
        self.detail = detail


class BuildError(ControlPlaneError):
    """The binaries are neither there nor buildable."""


class ProcessError(ControlPlaneError):
    """A process did not start, or ended on its own."""


class CommandError(ControlPlaneError):
    """kubectl or the API server refused what was asked."""


class WaitTimeoutError(ControlPlaneError, TimeoutError):
    """Something did not happen in time."""
