from __future__ import annotations

import subprocess
import sys

import pytest

# In a process of its own: nobody gets back what he has given up.
PROGRAM = """
import resource, sys
from webhook.cli.process import files_for_connections
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[2])))
print(files_for_connections(), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


@pytest.mark.parametrize(
    ("soft", "hard", "want"),
    [
        pytest.param(256, 2000, "1600 2000", id="takes-all-that-are-allowed"),
        pytest.param(2000, 2000, "1600 2000", id="has-all-that-are-allowed"),
        pytest.param(64, 100, "16 100", id="a-few-connections-in-any-case"),
    ],
)
def test_there_are_as_many_connections_as_files_allow(soft: int, hard: int, want: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(soft), str(hard)],
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.strip() == want
