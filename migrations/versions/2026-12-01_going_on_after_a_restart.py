"""Generations count their restarts, and keep that a reader stopped them."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Plain ADD COLUMNs: rebuilding the table would be a risk for its children, and is not needed.
    op.add_column("generations", sa.Column("restarts", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("generations", sa.Column("stop_asked", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("generations", sa.Column("stop_seen", sa.Integer(), nullable=True))


def downgrade() -> None:
    for column in ("stop_seen", "stop_asked", "restarts"):
        op.drop_column("generations", column)
