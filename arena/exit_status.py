"""Exit statuses of all commands; those above 2 are from sysexits.h."""

FAILURE = 1
"""Any error without a status of its own; a supervisor may restart the process."""

BAD_USAGE = 2
"""The command line or a setting cannot be used."""

TRY_LATER = 75
"""EX_TEMPFAIL: something that the command needs, such as its database, is away; the same command may work later."""

BAD_CONFIGURATION = 78
"""EX_CONFIG: this installation or these files cannot work together; the same command fails again until they change."""

PERMANENT = frozenset({BAD_USAGE, BAD_CONFIGURATION})
"""A supervisor does not restart a process that ends with one of these."""
