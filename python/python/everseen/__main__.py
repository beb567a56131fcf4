"""The command: `python -m everseen`, and the script `everseen` that is installed with the package."""

import signal
import sys
from typing import NoReturn

from everseen._everseen import run_command


def main() -> NoReturn:
    """Run the command with the arguments of this process, and end the process."""
    # Ctrl-C asks the command for an orderly end. Where the process ignores it, as behind a shell's `&`, that stays.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    run_command(sys.argv[1:])


if __name__ == "__main__":
    main()
