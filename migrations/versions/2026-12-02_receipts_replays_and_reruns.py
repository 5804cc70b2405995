"""Receipts: with what each answer was made, exactly; replays of them; reruns of conversations on another model."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Tables of their own: the large ones stay as they are, and these are rarely read.
    op.create_table(
        "receipts",
        sa.Column("generation_id", sa.String(32), nullable=False),
        sa.Column("model", sa.String(255), nullable=False),
        sa.Column("identity", sa.JSON(), nullable=False),
        sa.Column("sampling", sa.JSON(), nullable=False),
        sa.Column("given", sa.Integer(), nullable=False),
        sa.Column("resumed_at", sa.Integer(), nullable=False),
        sa.Column("prompt_ids", sa.LargeBinary(), nullable=False),
        sa.Column("answer_ids", sa.LargeBinary(), nullable=True),
        sa.ForeignKeyConstraint(
            ["generation_id"],
            ["generations.id"],
            name=op.f("fk_receipts_generation_id_generations"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("generation_id", name=op.f("pk_receipts")),
    )
    op.create_table(
        "replays",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("generation_id", sa.String(32), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("identity", sa.JSON(), nullable=True),
        sa.Column("tokens", sa.Integer(), nullable=True),
        sa.Column("differs_at", sa.Integer(), nullable=True),
        sa.Column("difference", sa.JSON(), nullable=True),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("ended_at", sa.DateTime(), nullable=True),
        sa.CheckConstraint(
            "state IN ('queued', 'running', 'finished', 'stopped', 'failed', 'interrupted')",
            name=op.f("ck_replays_state"),
        ),
        sa.ForeignKeyConstraint(
            ["generation_id"],
            ["generations.id"],
            name=op.f("fk_replays_generation_id_generations"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_replays")),
    )
    op.create_index(op.f("ix_replays_generation_id"), "replays", ["generation_id"])
    op.create_index(op.f("ix_replays_state"), "replays", ["state"])
    op.create_table(
        "reruns",
        sa.Column("conversation_id", sa.String(32), nullable=False),
        sa.Column("source_id", sa.String(32), nullable=False),
        sa.Column("leaf_id", sa.String(32), nullable=False),
        sa.Column("answer_id", sa.String(32), nullable=False),
        sa.Column("asked", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.CheckConstraint("state IN ('running', 'finished', 'stopped')", name=op.f("ck_reruns_state")),
        sa.ForeignKeyConstraint(
            ["conversation_id"],
            ["conversations.id"],
            name=op.f("fk_reruns_conversation_id_conversations"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["source_id"],
            ["conversations.id"],
            name=op.f("fk_reruns_source_id_conversations"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("conversation_id", name=op.f("pk_reruns")),
    )
    for column in ("source_id", "answer_id", "state"):
        op.create_index(op.f(f"ix_reruns_{column}"), "reruns", [column])


def downgrade() -> None:
    for table in ("reruns", "replays", "receipts"):
        op.drop_table(table)
