#!/bin/sh
# Certificates for development and tests, for any host names:
#
#     certs/make-dev.sh DIRECTORY [HOST...]
#
# Writes ca.crt, tls.crt and tls.key (ECDSA, one year) into DIRECTORY, which should not be under
# version control. A set that is there, good and for these hosts is kept. The key of the
# authority is never written. Without a HOST: localhost, 127.0.0.1 and ::1.
set -eu
if [ $# -lt 1 ]; then
    echo "usage: certs/make-dev.sh DIRECTORY [HOST...]" >&2
    exit 2
fi
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
python=${PYTHON:-$root/.venv/bin/python}
if [ ! -x "$(command -v "$python")" ]; then
    echo "certs/make-dev.sh: no $python; run make demo once, or set PYTHON" >&2
    exit 2
fi
PYTHONPATH=$root exec "$python" - "$@" <<'PROGRAM'
import sys
from pathlib import Path

from webhook.tls.issue import DEVELOPMENT_HOSTS, ensure_development_certificate

directory, *hosts = sys.argv[1:]
try:
    paths = ensure_development_certificate(Path(directory), hosts or DEVELOPMENT_HOSTS)
except (OSError, ValueError) as error:
    sys.exit(f"certs/make-dev.sh: {error}")
for path in (paths.ca, paths.certificate, paths.key):
    print(path)
PROGRAM
