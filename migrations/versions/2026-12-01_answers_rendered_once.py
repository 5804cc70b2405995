"""Answers keep their HTML with the renderer's version, how long they thought, and when their tokens came."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Plain ADD COLUMNs: rebuilding a parent table would delete its children.
    op.add_column("messages", sa.Column("html", sa.Text(), nullable=True))
    op.add_column("messages", sa.Column("renderer", sa.Integer(), nullable=True))
    op.add_column("messages", sa.Column("thought_s", sa.JSON(), nullable=True))
    op.add_column("generations", sa.Column("first_token_s", sa.Double(), nullable=True))
    op.add_column("generations", sa.Column("last_token_s", sa.Double(), nullable=True))
    op.add_column("generation_pieces", sa.Column("at", sa.Double(), nullable=False, server_default="0"))


def downgrade() -> None:
    op.drop_column("generation_pieces", "at")
    for column in ("last_token_s", "first_token_s"):
        op.drop_column("generations", column)
    for column in ("thought_s", "renderer", "html"):
        op.drop_column("messages", column)
