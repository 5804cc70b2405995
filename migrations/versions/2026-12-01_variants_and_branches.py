"""Messages keep which of the variants at a fork is shown, and whether their branch is deleted."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Plain ADD COLUMNs: rebuilding the table would be a risk for its children, and is not needed.
    # Nothing is chosen yet: of variants that are there already the newest is shown, as before.
    op.add_column("messages", sa.Column("chosen", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("messages", sa.Column("deleted_at", sa.DateTime(), nullable=True))


def downgrade() -> None:
    # An older Rheo can't hide them: what a person has deleted must not come back.
    deleted = "SELECT id FROM messages WHERE deleted_at IS NOT NULL"
    generations = f"SELECT id FROM generations WHERE message_id IN ({deleted})"  # noqa: S608  (names of ours)
    op.execute(f"DELETE FROM generation_pieces WHERE generation_id IN ({generations})")  # noqa: S608
    op.execute(f"DELETE FROM generations WHERE message_id IN ({deleted})")  # noqa: S608
    op.execute("DELETE FROM messages WHERE deleted_at IS NOT NULL")
    for column in ("deleted_at", "chosen"):
        op.drop_column("messages", column)
