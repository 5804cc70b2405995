"""Imports, what became of each conversation in one, where brought-in conversations came from, and ratings."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Tables of their own: the large ones stay as they are.
    op.create_table(
        "origins",
        sa.Column("conversation_id", sa.String(32), nullable=False),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("source", sa.String(16), nullable=False),
        sa.Column("source_id", sa.String(255), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.ForeignKeyConstraint(
            ["conversation_id"],
            ["conversations.id"],
            name=op.f("fk_origins_conversation_id_conversations"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("conversation_id", name=op.f("pk_origins")),
    )
    op.create_index(
        op.f("ix_origins_owner_source_source_id"), "origins", ["owner", "source", "source_id"], unique=True
    )
    op.create_table(
        "imports",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("files", sa.JSON(), nullable=False),
        sa.Column("read_bytes", sa.Integer(), nullable=False),
        sa.Column("imported", sa.Integer(), nullable=False),
        sa.Column("updated", sa.Integer(), nullable=False),
        sa.Column("skipped", sa.Integer(), nullable=False),
        sa.Column("messages", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("ended_at", sa.DateTime(), nullable=True),
        sa.CheckConstraint(
            "state IN ('checking', 'checked', 'running', 'finished', 'interrupted')", name=op.f("ck_imports_state")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_imports")),
    )
    op.create_index(op.f("ix_imports_owner"), "imports", ["owner"])
    op.create_table(
        "import_outcomes",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("import_id", sa.String(32), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("source", sa.String(16), nullable=True),
        sa.Column("source_id", sa.String(255), nullable=True),
        sa.Column("result", sa.String(16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("messages", sa.Integer(), nullable=False),
        sa.Column("conversation_id", sa.String(32), nullable=True),
        sa.CheckConstraint("result IN ('imported', 'updated', 'skipped')", name=op.f("ck_import_outcomes_result")),
        sa.ForeignKeyConstraint(
            ["import_id"], ["imports.id"], name=op.f("fk_import_outcomes_import_id_imports"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_import_outcomes")),
    )
    op.create_index(op.f("ix_import_outcomes_import_id"), "import_outcomes", ["import_id"])
    op.create_table(
        "ratings",
        sa.Column("message_id", sa.String(32), nullable=False),
        sa.Column("good", sa.Boolean(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.ForeignKeyConstraint(
            ["message_id"], ["messages.id"], name=op.f("fk_ratings_message_id_messages"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("message_id", name=op.f("pk_ratings")),
    )


def downgrade() -> None:
    for table in ("ratings", "import_outcomes", "imports", "origins"):
        op.drop_table(table)
