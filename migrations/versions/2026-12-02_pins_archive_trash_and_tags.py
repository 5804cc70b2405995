"""Conversations can be pinned, archived, tagged and put into the trash; indexes in the order of their lists."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Plain ADD COLUMNs: rebuilding the table would be a risk for its children, and is not needed.
    for column in ("pinned_at", "archived_at", "trashed_at"):
        op.add_column("conversations", sa.Column(column, sa.DateTime(), nullable=True))
    op.drop_index(op.f("ix_conversations_owner_updated_at"), "conversations")
    for columns in _LISTS:
        op.create_index(op.f(f"ix_conversations_{'_'.join(columns)}"), "conversations", columns)
    op.create_table(
        "tags",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("key", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tags")),
    )
    op.create_index(op.f("ix_tags_owner_key"), "tags", ["owner", "key"], unique=True)
    op.create_table(
        "taggings",
        sa.Column("conversation_id", sa.String(32), nullable=False),
        sa.Column("tag_id", sa.String(32), nullable=False),
        sa.ForeignKeyConstraint(
            ["conversation_id"],
            ["conversations.id"],
            name=op.f("fk_taggings_conversation_id_conversations"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(["tag_id"], ["tags.id"], name=op.f("fk_taggings_tag_id_tags"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("conversation_id", "tag_id", name=op.f("pk_taggings")),
    )
    op.create_index(op.f("ix_taggings_tag_id_conversation_id"), "taggings", ["tag_id", "conversation_id"])


def downgrade() -> None:
    op.drop_table("taggings")
    op.drop_table("tags")
    # An older Rheo can't hide them: what a person has deleted must not come back. Foreign keys are off here.
    trashed = "SELECT id FROM conversations WHERE trashed_at IS NOT NULL"
    messages = f"SELECT id FROM messages WHERE conversation_id IN ({trashed})"  # noqa: S608  (names of ours)
    generations = f"SELECT id FROM generations WHERE message_id IN ({messages})"  # noqa: S608
    op.execute(f"DELETE FROM generation_pieces WHERE generation_id IN ({generations})")  # noqa: S608
    op.execute(f"DELETE FROM generations WHERE message_id IN ({messages})")  # noqa: S608
    op.execute(f"DELETE FROM ratings WHERE message_id IN ({messages})")  # noqa: S608
    op.execute(f"DELETE FROM messages WHERE conversation_id IN ({trashed})")  # noqa: S608
    op.execute(f"DELETE FROM origins WHERE conversation_id IN ({trashed})")  # noqa: S608
    op.execute("DELETE FROM conversations WHERE trashed_at IS NOT NULL")
    for columns in _LISTS:
        op.drop_index(op.f(f"ix_conversations_{'_'.join(columns)}"), "conversations")
    op.create_index(op.f("ix_conversations_owner_updated_at"), "conversations", ["owner", "updated_at"])
    for column in ("trashed_at", "archived_at", "pinned_at"):
        op.drop_column("conversations", column)


_LISTS = (
    ["owner", "trashed_at", "archived_at", "pinned_at", "updated_at", "id"],
    ["owner", "trashed_at", "archived_at", "updated_at", "id"],
)
