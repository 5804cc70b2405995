"""Runs migrations on the connection it is handed, or on the database of the settings."""

import os

from alembic import context
from sqlalchemy import Connection

import app.conversations.models
import app.conversations.search.index
import app.events.table
import app.generation.models
import app.transfer.models
import app.web.sign_ins  # noqa: F401  (each import brings its tables)
from app.database import Base, Database
from app.settings import Settings


def migrate(connection: Connection) -> None:
    # The transaction is the caller's: on SQLite a failed migration must leave nothing behind.
    context.configure(connection=connection, target_metadata=Base.metadata, transactional_ddl=False)
    context.run_migrations()


if (handed := context.config.attributes.get("connection")) is not None:
    migrate(handed)
else:
    with Database(Settings.read(os.environ).sqlite_url).migrating() as own:
        migrate(own)
