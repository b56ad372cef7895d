"""`python -m tcpx.cli`."""

import sys

from tcpx.cli import main

sys.exit(main())
