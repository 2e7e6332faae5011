"""What is done once before commands are forked: the command line is built, which takes longer than a fork."""

from rlcr.cli.commands import app
from rlcr.cli.help import with_plain_help

with_plain_help(app)
