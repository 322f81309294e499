"""The command `mulligand`: the daemon in the foreground, for a service manager."""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import sys
from collections.abc import Sequence

from mulligan import __version__, logs
from mulligan.config import dump, load
from mulligan.errors import MulliganError
from mulligan.paths import places
from mulligan.supervisor.daemon import Daemon


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mulligand",
        description="Watch projects, follow agents' transcripts, take checkpoints. Runs in the foreground.",
        epilog="People use `mulligan start` and `mulligan service install`.",
        allow_abbrev=False,
    )
    parser.add_argument("--config", metavar="FILE", help="the configuration file")
    parser.add_argument("--log-format", choices=("text", "json"), default="text", help="how the log is written")
    parser.add_argument("--check-config", action="store_true", help="check the configuration, then exit (78 if bad)")
    parser.add_argument("--show-config", action="store_true", help="print the configuration in effect, then exit")
    parser.add_argument("--version", action="version", version=f"mulligand {__version__}")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the daemon. Exits 0 on SIGTERM, 75 if another one holds the data directory, 78 on a bad configuration."""
    options = _parser().parse_args(argv)
    environ = dict(os.environ)
    where = places(environ)
    if options.config:
        where = where._replace(config_file=os.path.abspath(options.config))
    try:
        config = load(where.config_file)
        if options.show_config:
            sys.stdout.write(dump(config))
        if options.show_config or options.check_config:
            return 0
        os.umask(0o077)
        # A collection looks at all that is alive, which is rows that were just read and live on: it took a twentieth of
        # a first look at 100,000 files. What was imported is never garbage.
        gc.freeze()
        gc.set_threshold(20_000, 20, 100)
        logs.set_up(config.log_level, options.log_format, environ=environ, state_dir=where.state_dir)
        asyncio.run(Daemon(where, environ, config).run())
    except MulliganError as error:
        sys.stderr.write(f"mulligand: {error.message}\n" + (f"  {error.hint}\n" if error.hint else ""))
        return error.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main())
