"""`python -m tcpx.cli`."""

from __future__ import annotations

import sys

from tcpx.cli import main

sys.exit(main())
