"""The fixtures of the command line."""

from tests.cli.conftest import call as call
from tests.cli.conftest import project as project
