"""test/world over verbs, in a guest with Soft-RoCE; world_test_verbs has all of it, on an RDMA port of our own.

    world_test.py BUILD/test/world_test
"""

from __future__ import annotations

import os
import pathlib
import sys
import tempfile

from guests import Guests, Missing


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="maestro-guests-") as folder:
        try:
            guests = Guests(pathlib.Path(folder))
        except Missing as what:
            print(f"skip: this machine lacks {what}")
            return 77
        with guests:
            os.environ["MAESTRO_TEST_NETWORK"] = "verbs"
            run = guests.run(0, sys.argv[1], "--gtest_filter=*PromptNetworked*:*AgreementTest*Networked*:*ChannelTest*LateNetworked*", timeout=500)
            print(run.stdout, run.stderr)
            return 0 if "[  PASSED  ]" in run.stdout and run.returncode == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
