"""Conversations keep which model answers and whether their title is a person's own, generations which model it is."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Whose the titles are that are there already is not known; what differs from the first words is left alone.
    op.add_column("conversations", sa.Column("own_title", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("conversations", sa.Column("model", sa.String(255), nullable=True))
    op.add_column("generations", sa.Column("model", sa.String(255), nullable=True))


def downgrade() -> None:
    op.drop_column("generations", "model")
    op.drop_column("conversations", "model")
    op.drop_column("conversations", "own_title")
