"""
Become another program that ends when its parent does.

Run by path, with the parent's process id and the command as arguments. It asks the
kernel to kill this process when the parent is gone, then turns into the command: same
process id, nothing in between. A hook in the parent (`preexec_fn`) would do the same, but
runs Python between fork and exec, which can hang when the parent has threads.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main() -> None:
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        # KILL and not TERM: all children get it at once, and a kube-apiserver that loses
        # its etcd first hangs in an orderly shutdown.
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
            sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")
    if os.getppid() != parent:
        sys.exit("the parent was gone before the start")
    try:
        os.execv(command[0], command)
    except OSError as e:
        sys.exit(f"cannot run {command[0]}: {e.strerror}")


if __name__ == "__main__":
    main()
