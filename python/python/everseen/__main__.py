"""The command: `python -m everseen`, and the script `everseen` that is installed with the package."""

import os
import signal
import sys
from typing import NoReturn

from everseen._everseen import run_command


def _take_standard_descriptors() -> None:
    """Open the null device for each that is closed: else a file of the store gets its number, and messages go into it."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def main() -> NoReturn:
    """Run the command with the arguments of this process, and end the process."""
    # The command has looked at them when it was imported, and refuses a closed output.
    _take_standard_descriptors()
    # Ctrl-C asks the command for an orderly end. Where the process ignores it, as behind a shell's `&`, that stays.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    run_command(sys.argv[1:])


if __name__ == "__main__":
    main()
