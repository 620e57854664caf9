"""The entry point of a remote of mops' that keeps its lease alive by our means; usage as of mops' own."""

from __future__ import annotations

from thds.mops.pure.core.entry.main import main

import mopslock.mops

if __name__ == "__main__":
    mopslock.mops.install()
    main()
