"""The command: serve, model-server, migrate, key, backup, restore, check."""

import argparse
import os
import sys
from pathlib import Path
from typing import Any

# Before torch is imported anywhere: its waiting threads would else keep the cores from everybody else.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import app
from app import heap
from app.data_folder import held
from app.errors import AppError, Invalid, Misconfigured
from app.settings import PREFIX, Settings

MAINTENANCE = ("backup", "restore", "check")


def main(arguments: list[str] | None = None) -> int:
    """Run the command; the exit status. A start that can't be is told in one line."""
    options = vars(_parser().parse_intermixed_args(arguments))
    command, words = options.pop("command") or "serve", options.pop("words")
    try:
        settings = Settings.read(os.environ, {name: value for name, value in options.items() if value is not None})
        if command == "key":
            return key(settings, words)
        if command in MAINTENANCE:
            return maintain(command, settings, words)
        if words:
            raise Misconfigured(f"rheo {command} takes nothing more than options; what is {words[0]}?")
        return COMMANDS[command](settings)
    except AppError as error:
        print(f"rheo: {error.words}", file=sys.stderr)  # noqa: T201  (the terminal is where it was asked)
        return 1
    except KeyboardInterrupt:
        return 130


def serve(settings: Settings) -> int:
    """Serve until told to stop."""
    if settings.beyond_loopback and settings.password is None and not settings.open:
        raise Misconfigured(
            f"Listening on {settings.host} lets other machines in: set RHEO_PASSWORD, "
            "or RHEO_OPEN=1 if everyone may read and write everything."
        )
    with held(settings):
        with heap.filling():
            from app.factory import create_app  # noqa: PLC0415  (so that --help and mistakes answer at once)
            from app.server import run  # noqa: PLC0415

        return run(settings, create_app)


def model_server(settings: Settings) -> int:
    """Serve the model alone, to programs and to the page of another process. Who asks from outside needs a key."""
    settings = settings.apart()
    with held(settings):
        with heap.filling():
            from app.model_server import create_model_server  # noqa: PLC0415
            from app.server import run  # noqa: PLC0415

        return run(settings, create_model_server)


def migrate(settings: Settings) -> int:
    """Bring the database up to date."""
    from app.database import Database  # noqa: PLC0415
    from app.schema import upgrade  # noqa: PLC0415

    with held(settings):
        database = Database(settings.sqlite_url)
        changed = upgrade(database)
        database.close()
    print("The database was brought up to date." if changed else "The database is up to date.")  # noqa: T201
    return 0


def maintain(command: str, settings: Settings, words: list[str]) -> int:
    """Keep the database: back it up, put a backup back, or check it."""
    from app import maintenance  # noqa: PLC0415

    if len(words) > 1:
        raise Misconfigured(f"rheo {command} takes the name of one file.")
    file = Path(words[0]) if words else None
    if command == "check":
        return maintenance.check(settings, file)
    if file is None:
        raise Misconfigured(f"rheo {command} needs the name of a file.")
    return {"backup": maintenance.backup, "restore": maintenance.restore}[command](settings, file)


def key(settings: Settings, words: list[str]) -> int:
    """Make, list or revoke keys of programs. Works beside a server that runs."""
    from app.api.keys import Keys  # noqa: PLC0415
    from app.database import SCHEMA, Database  # noqa: PLC0415

    database = Database(settings.sqlite_url)
    try:
        if not settings.data_dir.is_dir() or database.schema() != SCHEMA:
            migrate(settings)
        keys = Keys(database)
        match words:
            case ["new", name]:
                secret = keys.make(name)
                print(f"The key {name}, which is shown only this once:\n{secret}")  # noqa: T201
            case ["list"]:
                for one in keys.list():
                    state = f"revoked {one.revoked_at:%Y-%m-%d}" if one.revoked_at else "in use"
                    print(f"{one.name}\tmade {one.created_at:%Y-%m-%d}\t{state}")  # noqa: T201
            case ["revoke", name]:
                keys.revoke(name)
                print(f"The key {name} is worthless now.")  # noqa: T201
            case _:
                raise Invalid("Say key new NAME, key list or key revoke NAME.")
    finally:
        database.close()
    return 0


COMMANDS = {"serve": serve, "model-server": model_server, "migrate": migrate}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rheo",
        description="A browser chat for your own Hugging Face models.",
        epilog=f"Every option can also be set in the environment, as {PREFIX}NAME.",
    )
    parser.add_argument("--version", action="version", version=f"rheo {app.__version__}")
    parser.add_argument(
        "command",
        nargs="?",
        choices=[*COMMANDS, "key", *MAINTENANCE],
        help="serve (default), model-server (without the page), migrate the database, key, back the database up, "
        "restore it from a backup, check whether it is whole",
    )
    parser.add_argument(
        "words", nargs="*", help="the file of a backup (check may do without); for key: new NAME, list or revoke NAME"
    )
    for name, field in Settings.model_fields.items():
        parser.add_argument(f"--{name.replace('_', '-')}", dest=name, metavar="…", help=_help(name, field))
    return parser


def _help(name: str, field: Any) -> str:
    default = "" if field.default_factory or field.default in (None, "", ()) else f" [{field.default}]"
    return f"{field.description}{default} ({PREFIX}{name.upper()})".replace("%", "%%")


if __name__ == "__main__":
    sys.exit(main())
