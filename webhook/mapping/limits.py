"""What the evaluation of one object may take."""

from __future__ import annotations

from dataclasses import dataclass

_MIB = 1 << 20

# What is larger has a child of its own, so that smaller documents never wait for it. This much
# takes jq 10 to 80 ms to read.
LARGE_DOCUMENT_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLimits:
    """
    Limits of the processes that run jq.

    *evaluate_ms* is for what the expressions do: some hundred times what sound ones need.
    *evaluate_ms_per_mib* is for reading the document first. jq takes 50 ms for a MiB of long
    texts, 110 for the usual parts of a pod, 300 for small numbers, and several times that on a
    busy machine. So the largest object of an API server, 3 MiB, has 1.45 s, and nothing has more
    than *evaluate_max_ms*.

    *wait_ms* is the longest that a call waits for those before it. With *evaluate_max_ms* that
    is less than the 5 s after which an API server is gone; and four updates, or eight creations,
    of the largest objects, which is what the server admits at a time, get their turn within it.

    *memory_mib* is address space, of which the child has 16 MiB from the start.
    """

    evaluate_ms: int = 250
    evaluate_ms_per_mib: int = 400
    evaluate_max_ms: int = 1500
    compile_ms: int = 1000
    memory_mib: int = 512
    answer_max_bytes: int = 4 * _MIB
    wait_ms: int = 3000
    # For how long an expression that has ended a child runs apart from the others.
    suspect_s: float = 60.0

    def evaluation_ms(self, document_bytes: int) -> int:
        """The time for a document of that size. An *evaluate_ms* above the maximum counts too."""
        scaled_ms = self.evaluate_ms + self.evaluate_ms_per_mib * document_bytes // _MIB
        return max(self.evaluate_ms, min(scaled_ms, self.evaluate_max_ms))
