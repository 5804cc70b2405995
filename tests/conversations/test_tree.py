"""The tree of a conversation, from rows in any order, whole or damaged."""

import random
from datetime import UTC, datetime, timedelta

import pytest

from app.conversations.models import Message
from app.conversations.tree import Tree

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def message(number: int, parent: int | None = None, chosen: int = 0, deleted: bool = False) -> Message:
    """Message m<number>, made in that second."""
    return Message(
        id=f"m{number:03}",
        conversation_id="c",
        parent_id=None if parent is None else f"m{parent:03}",
        role="user",
        text="",
        chosen=chosen,
        created_at=BEGAN + timedelta(seconds=number),
        deleted_at=BEGAN if deleted else None,
    )


def numbers(messages: list[Message]) -> list[int]:
    return [int(one.id[1:]) for one in messages]


def forked() -> list[Message]:
    """1 → 2 → 3 → 4, and beside 3: 5 → 6, beside 1: 7 → 8; 9 is the third answer to 1."""
    return [
        message(1),
        message(2, 1),
        message(3, 2),
        message(4, 3),
        message(5, 2),
        message(6, 5),
        message(7),
        message(8, 7),
        message(9, 1),
    ]


def test_the_newest_is_shown_where_nothing_is_chosen() -> None:
    assert numbers(Tree(forked()).path()) == [7, 8]


def test_a_choice_is_kept_at_each_fork_apart() -> None:
    rows = forked()
    tree = Tree(rows)
    tree.choose(rows[3])
    assert numbers(tree.path()) == [1, 2, 3, 4]
    tree.choose(rows[8])
    assert numbers(tree.path()) == [1, 9]
    tree.choose(rows[1])
    assert numbers(tree.path()) == [1, 2, 3, 4], "the fork below is as it was left"
    tree.choose(rows[6])
    assert numbers(tree.path()) == [7, 8]
    tree.choose(rows[0])
    assert numbers(tree.path()) == [1, 2, 3, 4]


def test_choosing_what_is_shown_changes_nothing() -> None:
    rows = forked()
    Tree(rows).choose(rows[7])
    assert [row.chosen for row in rows] == [0] * 9


def test_a_branch_is_shown_through_a_message_without_being_chosen() -> None:
    rows = forked()
    tree = Tree(rows)
    assert numbers(tree.path("m003")) == [1, 2, 3, 4]
    assert numbers(tree.path("m002")) == [1, 2, 5, 6]
    assert numbers(tree.path("unknown")) == [7, 8]
    assert [row.chosen for row in rows] == [0] * 9


def test_a_message_knows_its_place_among_its_variants() -> None:
    rows = forked()
    tree = Tree(rows)
    variants = tree.variants_of(rows[8])
    assert (str(variants), variants.before, variants.after) == ("2/2", "m002", None)
    assert (tree.variants_of(rows[1]).before, tree.variants_of(rows[1]).after) == (None, "m009")
    assert str(tree.variants_of(rows[3])) == "1/1"


def test_the_order_of_the_rows_does_not_matter() -> None:
    chance = random.Random(5)
    rows = [message(1), *(message(number, chance.randrange(1, number)) for number in range(2, 60))]
    shown = numbers(Tree(rows).path())
    places = [str(Tree(rows).variants_of(row)) for row in rows]
    for _ in range(20):
        shuffled = chance.sample(rows, len(rows))
        assert numbers(Tree(shuffled).path()) == shown
        assert [str(Tree(shuffled).variants_of(row)) for row in rows] == places


def test_what_is_deleted_is_not_shown_and_not_counted() -> None:
    rows = forked()
    rows[6].deleted_at = rows[7].deleted_at = BEGAN
    tree = Tree(rows)
    assert numbers(tree.path()) == [1, 9]
    assert str(tree.variants_of(rows[0])) == "1/1"
    assert "m008" not in tree
    assert numbers(tree.path("m008")) == [1, 9]
    rows[8].deleted_at = BEGAN
    assert numbers(tree.path()) == [1, 2, 5, 6]


def test_the_model_is_given_only_what_is_above_an_answer() -> None:
    rows = forked()
    assert numbers(Tree(rows).ancestors(rows[5])) == [1, 2, 5]
    assert numbers(Tree(rows).ancestors(rows[0])) == []


def test_a_branch_is_a_message_and_everything_below() -> None:
    rows = forked()
    assert sorted(numbers(Tree(rows).branch(rows[1]))) == [2, 3, 4, 5, 6]


def test_a_message_whose_parent_is_missing_begins_a_branch() -> None:
    rows = [message(1), message(2, 1), message(5, 4), message(6, 5)]
    tree = Tree(rows)
    assert numbers(tree.path()) == [5, 6]
    assert numbers(tree.path("m001")) == [1, 2]
    assert str(tree.variants_of(rows[2])) == "2/2"
    assert tree.parent(rows[2]) is None


@pytest.mark.parametrize(
    "rows",
    [
        [message(1, 1)],
        [message(1, 2), message(2, 1)],
        [message(1, 3), message(2, 1), message(3, 2), message(4, 3)],
        [message(4, 3), message(3, 2), message(2, 1), message(1, 2), message(5), message(6, 5)],
        [message(1, 2), message(2, 1), message(3, 4), message(4, 3), message(5, 3)],
    ],
)
def test_a_ring_of_parents_hides_nothing_and_hangs_nothing(rows: list[Message]) -> None:
    tree = Tree(rows)
    assert {one.id for row in rows for one in tree.path(row.id)} == {row.id for row in rows}
    for row in rows:
        assert row in tree.variants(row)
        assert len(tree.branch(row)) <= len(rows)
        assert len(tree.ancestors(row)) < len(rows)
        tree.choose(row)
        assert row in tree.path()


def test_s68_thousands_of_messages_in_the_worst_order_are_a_path() -> None:
    rows = [message(1), *(message(number, number - 1) for number in range(2, 3000))][::-1]
    assert len(Tree(rows).path()) == 2999
