"""Pieces of running answers are rows in the order in which they come: one page for a commit, not one for each run."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # The table has no children, so it can be made anew.
    op.create_table(
        "pieces",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("generation_id", sa.String(32), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("token_ids", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_generation_pieces")),
    )
    _take_over("generation_pieces", "pieces")


def downgrade() -> None:
    op.create_table(
        "pieces",
        sa.Column("generation_id", sa.String(32), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("token_ids", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("generation_id", "number", name=op.f("pk_generation_pieces")),
    )
    _take_over("generation_pieces", "pieces")


def _take_over(old: str, new: str) -> None:
    columns = "generation_id, number, text, token_ids"
    op.execute(f"INSERT INTO {new} ({columns}) SELECT {columns} FROM {old} ORDER BY generation_id, number")  # noqa: S608  (names of ours)
    op.drop_table(old)
    op.rename_table(new, old)
