"""An index of all messages and titles; what is there already is put into it."""

import sqlalchemy as sa
from alembic import op

from app.conversations.search.index import write_index

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Tables of their own: the large ones stay as they are.
    op.create_table(
        "search_entries",
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("subject", sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint("place", name=op.f("pk_search_entries")),
        sa.UniqueConstraint("subject", name=op.f("uq_search_entries_subject")),
    )
    op.create_table(
        "search_changes",
        sa.Column("subject", sa.String(32), nullable=False),
        sa.Column("role", sa.String(16), nullable=True),
        sa.Column("text", sa.Text(), nullable=True),
        sa.Column("state", sa.String(16), nullable=True),
        sa.Column("ending", sa.String(16), nullable=True),
        sa.Column("model", sa.String(255), nullable=True),
        sa.PrimaryKeyConstraint("subject", name=op.f("pk_search_changes")),
    )
    op.create_table(
        "search_models",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_search_models")),
        sa.UniqueConstraint("name", name=op.f("uq_search_models_name")),
    )
    connection = op.get_bind()
    # Not by op.execute, which would take colons for names of values.
    for statement in (_INDEX, *_TRIGGERS):
        connection.exec_driver_sql(statement)
    connection.exec_driver_sql(
        "INSERT INTO search_changes (subject) "
        "SELECT id FROM (SELECT id, created_at FROM conversations UNION ALL SELECT id, created_at FROM messages) "
        "ORDER BY created_at"
    )
    write_index(connection)


def downgrade() -> None:
    for name in ("messages", "conversations"):
        for change in ("insert", "update", "delete"):
            op.execute(f"DROP TRIGGER search_{name}_{change}")
    for table in ("search_index", "search_models", "search_changes", "search_entries"):
        op.drop_table(table)


# Nothing but terms and the places that have them: the texts stay in their own tables, and no place within a text is
# kept. Terms come with blanks between them, and every sign may be in one.
_SIGNS = "".join(chr(code) for code in range(33, 127) if not chr(code).isalnum())
_TOKENS = f"ascii tokenchars '{_SIGNS.replace(chr(39), chr(39) * 2)}'".replace('"', '""')
_INDEX = (
    "CREATE VIRTUAL TABLE search_index USING fts5"
    f"(terms, content='', columnsize=0, detail=none, tokenize=\"{_TOKENS}\")"
)
# What was changed is noted with what it was before: an index that keeps no texts must be told what to forget.
_NOTE = "INSERT INTO search_changes (subject, role, text, state, ending, model)"
_ONCE = "WHERE NOT EXISTS (SELECT 1 FROM search_changes WHERE subject ="
_MESSAGE = f"{_NOTE} SELECT old.id, old.role, old.text, old.state, old.ending, old.model {_ONCE} old.id)"
_TITLE = f"{_NOTE} SELECT old.id, NULL, old.title, NULL, NULL, NULL {_ONCE} old.id)"
_NEW = f"INSERT INTO search_changes (subject) SELECT new.id {_ONCE} new.id)"
_OTHER = " OR ".join(f"old.{column} IS NOT new.{column}" for column in ("text", "state", "ending", "model"))
_TRIGGERS = (
    f"CREATE TRIGGER search_messages_insert AFTER INSERT ON messages BEGIN {_NEW}; END",
    f"CREATE TRIGGER search_messages_update AFTER UPDATE ON messages WHEN {_OTHER} BEGIN {_MESSAGE}; END",
    f"CREATE TRIGGER search_messages_delete AFTER DELETE ON messages BEGIN {_MESSAGE}; END",
    f"CREATE TRIGGER search_conversations_insert AFTER INSERT ON conversations BEGIN {_NEW}; END",
    f"CREATE TRIGGER search_conversations_update AFTER UPDATE OF title ON conversations BEGIN {_TITLE}; END",
    f"CREATE TRIGGER search_conversations_delete AFTER DELETE ON conversations BEGIN {_TITLE}; END",
)
