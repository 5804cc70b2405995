"""Brings the tables of a database to the state that this code expects."""

from pathlib import Path

import app
from app.database import SCHEMA, Database
from app.errors import Misconfigured

ROOT = Path(app.__file__).parent.parent


def upgrade(database: Database) -> bool:
    """Migrate if needed; whether anything was done.

    Raises `Misconfigured` where the database was made by a newer Rheo.
    """
    present = database.schema()
    if present == SCHEMA:
        return False
    # Alembic costs a third of a second; most starts need none.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    config = Config(ROOT / "alembic.ini")
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if present is not None and present not in known:
        raise Misconfigured(
            f"The database is at schema {present}, which this Rheo ({app.__version__}) does not know; "
            f"it was used by a newer one. Update Rheo, or choose another RHEO_DATA_DIR."
        )
    with database.migrating() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
    return True
