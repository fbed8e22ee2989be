"""``python -m pytest_gsw.cli``: the same as ``pytest-gsw``."""

import sys

from pytest_gsw.cli import main

sys.exit(main())
