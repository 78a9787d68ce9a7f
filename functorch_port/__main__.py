"""``python -m functorch_port`` is the command ``functorch-port``."""

import sys

from functorch_port.cli import main

sys.exit(main())
