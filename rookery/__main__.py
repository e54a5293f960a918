"""``python -m rookery`` is the `rookery` command."""

import sys

from rookery.cli.main import main

sys.exit(main())
