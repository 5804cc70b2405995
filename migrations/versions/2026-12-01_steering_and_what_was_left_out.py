"""Conversations are steered; generations keep what they were made with, and what did not go into the window."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Plain ADD COLUMNs: rebuilding the tables would be a risk for their children, and is not needed.
    op.add_column("conversations", sa.Column("steering", sa.JSON(), nullable=True))
    op.add_column("generations", sa.Column("steering", sa.JSON(), nullable=True))
    op.add_column("generations", sa.Column("changed", sa.JSON(), nullable=True))
    op.add_column("generations", sa.Column("left_out", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("generations", sa.Column("lost_at", sa.Integer(), nullable=True))


def downgrade() -> None:
    for column in ("lost_at", "left_out", "changed", "steering"):
        op.drop_column("generations", column)
    op.drop_column("conversations", "steering")
