"""
The tree of errors.

    WebhookError
    ├── DecodeError        the caller sent something that is no review (HTTP 400)
    ├── ManifestError      a file or text is no YAML/JSON document; says file and line
    ├── SpecError          a document of ours is wrong; *path* says where
    │   ├── MissingReferenceError  it names a document that is not there (yet)
    │   └── FieldConflictError     it claims what another document holds
    ├── QuantityError      a text is no Kubernetes quantity
    ├── ValueTypeError     a value is not of its field's type (model/values.py)
    ├── UnclearError       how many GPUs a pod has can't be told (policy/gpu/pod.py)
    ├── UnauthorizedError  nobody has shown who he is (api/auth.py, HTTP 401)
    ├── ForbiddenError     the caller lacks the right (api/auth.py, HTTP 403)
    ├── BadRequestError    a request of the API says what can't be (api/problems.py, HTTP 400)
    ├── PreconditionError  what a request asks to be so is not (api/problems.py, HTTP 412)
    ├── MediaTypeError     a body is of a type that is not read (api/problems.py, HTTP 415)
    ├── SlowBodyError      a body did not arrive in time (api/limits/bodies.py, HTTP 408)
    ├── BodyTooLargeError  a body is larger than we read (api/limits/bodies.py, HTTP 413)
    ├── BusyError          too many reviews came at once (api/limits/bodies.py, HTTP 503)
    ├── GoneError          a caller hung up before his turn (api/limits/line.py, 503 to nobody)
    ├── LostError          a connection ended amid a body (api/limits/bodies.py, 503 to nobody)
    ├── EvaluationError    a mapping failed on this object, at run time (HTTP 500)
    │   └── JqUnavailableError  jq could not be asked; nothing is known of the mapping
    │       └── JqBusyError     it had too much to do
    ├── NotReadyError      nothing is in force yet (HTTP 500)
    ├── StoreError         a document could not be read from or written to its store (HTTP 503)
    │   ├── NotFoundError  there is no such document (HTTP 404)
    │   ├── ConflictError  it exists already, was changed meanwhile, or can't be written (HTTP 409)
    │   │   └── HeldError  other documents stand against it (api/problems.py)
    │   └── RefusedError   the API server does not take a document as it is (HTTP 400)
    ├── KubeError          the API server refused a call, or did not answer
    ├── PrometheusError    Prometheus can't be asked, or its answer is of no use
    ├── CertificateError   certificates are not there, broken, or not ours to write
    └── SettingsError      a flag, variable or settings file is wrong

Beside it are those that only say how to go on, to a caller in this package who always catches them:
UnansweredError (mapping/answers.py), RefMismatchError (mapping/fields.py), UnknownFormError
(mapping/jq_tokens.py), DiedError (mapping/jq_child.py), NotJsonError and NotFiniteError
(model/manifests).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any


class WebhookError(Exception):
    """What went wrong, for a person to read: each text of one says what, and mostly where."""


class DecodeError(WebhookError):
    """
    A request body is not an AdmissionReview that we can answer.

    *uid* is that of the request, where it could be read.
    """

    uid: str = ""


class ManifestError(WebhookError):
    """A text is not a readable YAML or JSON document."""

    def __init__(self, source: str, problem: str, *, line: int | None = None) -> None:
        where = source if line is None else f"{source}:{line}"
        super().__init__(f"{where}: {problem}")
        self.source = source
        self.problem = problem
        self.line = line


class SpecError(WebhookError):
    """A policy, mapping or another document of ours is wrong; *path* says where."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}" if path else problem)
        self.path = path
        self.problem = problem


class MissingReferenceError(SpecError):
    """A document names another one that is not there (yet)."""


class FieldConflictError(SpecError):
    """
    A document claims what another one holds: a field, or a kind.

    *cost* says what that costs as long as it stays so; it is the end of *problem*.
    """

    def __init__(self, path: str, problem: str, *, cost: str = "") -> None:
        super().__init__(path, problem + cost)
        self.cost = cost


class QuantityError(WebhookError):
    """A text is not a Kubernetes quantity."""


class EvaluationError(WebhookError):
    """A mapping failed on this object. The cluster's failurePolicy decides."""


class JqUnavailableError(EvaluationError):
    """
    jq was busy with others, or does not run. The mapping is not to blame, and the same question
    may be answered later.
    """


class JqBusyError(JqUnavailableError):
    """jq was busy with others for longer than could be waited."""


class NotReadyError(WebhookError):
    """No snapshot is in force yet, so no request can be answered."""


class StoreError(WebhookError):
    """A document could not be read from its store, or written to it."""


class NotFoundError(StoreError):
    """The store has no such document."""


class ConflictError(StoreError):
    """A document exists already, was changed meanwhile, is in use, or is not ours to write."""


class RefusedError(StoreError):
    """The API server does not take a document: its CRD's schema or another webhook says no."""


class KubeError(WebhookError):
    """
    The API server refused a call, or gave no answer.

    *status* is that of HTTP, 0 where no answer came; *reason* is Kubernetes' own word
    (`NotFound`, `Conflict`, `Expired`), or `Unreachable`, `Timeout` or `TooLarge`. *retry_after_s*
    is how long the server asked to be left alone, None if it did not; *details* is what its
    `Status` says beside the message.
    """

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        details: dict[str, Any] | None = None,
        *,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(f"{reason}: {message}" if reason else message)
        self.status = status
        self.reason = reason
        self.message = message
        self.details = details or {}
        self.retry_after_s = retry_after_s

    @property
    def is_too_large(self) -> bool:
        """Whether there was an answer, and more of it than is read."""
        return self.status == 0 and self.reason == "TooLarge"


class PrometheusFault(StrEnum):
    """What can be wrong with a query to Prometheus; the words fit a condition's `reason`."""

    BAD_URL = "BadURL"
    NO_TOKEN = "NoToken"  # noqa: S105  A word, no token.
    UNREACHABLE = "Unreachable"
    TIMEOUT = "Timeout"
    REDIRECTED = "Redirected"
    REFUSED = "Refused"  # HTTP 4xx
    FAILED = "Failed"  # HTTP 5xx, or an error in an answer
    TOO_LARGE = "TooLarge"
    PARTIAL = "Partial"
    BAD_ANSWER = "BadAnswer"


class PrometheusError(WebhookError):
    """
    Prometheus can't be asked, or what it answered is no vector, or not all of it.

    *status* is that of HTTP, 0 where no answer came or it came with 200. *temporary* says that
    the same query may be answered soon; *retry_after_s* is how long the server asked to be left
    alone, None if it did not.
    """

    def __init__(
        self,
        fault: PrometheusFault,
        message: str,
        *,
        status: int = 0,
        temporary: bool = False,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(f"{fault}: {message}")
        self.fault = fault
        self.message = message
        self.status = status
        self.temporary = temporary
        self.retry_after_s = retry_after_s


class CertificateError(WebhookError):
    """Certificates are not there, can't be used, or are not ours to write."""


class SettingsError(WebhookError):
    """A flag, an environment variable or the settings file is wrong."""
