"""The table: what holds, what does not, and nothing that names this machine's folders."""

from bench.figures import compared
from bench.report import Row, Section, compared_row, document, machine, table


def test_a_row_says_whether_its_target_holds() -> None:
    slow = compared([(7, 1), (7, 1)])
    assert compared_row("16 requests", slow, "tokens/s", least=8).holds is False
    assert compared_row("16 requests", slow, "tokens/s", least=7).holds is True
    assert compared_row("first token", slow, "s", most=7).holds is True
    assert compared_row("first token", slow, "s", most=0.2).holds is False
    assert compared_row("4 requests", slow, "tokens/s").holds is None


def test_the_table_has_a_line_for_each_row_and_says_a_missed_target_aloud() -> None:
    rows = [Row("a", "1", holds=False), Row("b", "2", holds=True)]
    lines = table([Section("Speed", "measured", rows)]).splitlines()
    assert len(lines) == 5
    assert lines[3].endswith("| **no** |")
    assert lines[4].endswith("| yes |")
    assert {line.count("|") for line in lines} == {7}


def test_the_page_names_versions_and_method() -> None:
    page = document([Section("Speed", "measured so", [Row("a", "1")])], machine(), 12)
    assert "torch" in page
    assert "cores" in page
    assert "- **Speed**: measured so" in page
