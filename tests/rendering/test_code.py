"""Code in its frame: coloured where that is cheap, complete always."""

import time

import pytest
from dom import parse

from app.rendering.code import CLASSES, LONGEST_CODE, LONGEST_LINE, Budget, highlighted, language_of
from app.rendering.markdown import render_markdown

PYTHON = "def f(x):  # why\n    return f\"{x!r} <b> & '{1.5}'\"\n"


def test_a_block_names_its_language_and_offers_to_be_copied() -> None:
    html = parse(render_markdown(f"```python title=x\n{PYTHON}```\n"))
    assert html.one("span", class_="code-language").text == "python"
    button = html.one("button")
    assert (button["type"], button["data-copy-code"]) == ("button", "")
    assert html.one("pre").text == PYTHON


def test_colours_are_a_dozen_classes_and_take_no_character_away() -> None:
    html = highlighted(PYTHON, "py", Budget())
    assert html is not None
    assert parse(html).text == PYTHON
    assert {span["class"] for span in parse(html).all("span")} <= CLASSES
    assert len(CLASSES) <= 15


@pytest.mark.parametrize("code", ["", "\n", "\n\nx", "x", "x\n\n\n", "\t x \n"])
def test_blanks_at_either_end_stay(code: str) -> None:
    html = parse(render_markdown(f"```python\n{code}\n```\n"))
    assert html.one("pre").text == code + "\n"


@pytest.mark.parametrize(
    ("info", "language"),
    [("python", "python"), ("c++ x", "c++"), ("{.js}", "js"), ('js" hx-get="/x', "js"), ("<b>", ""), ("日本", "")],
)
def test_the_language_is_a_word_or_nothing(info: str, language: str) -> None:
    assert language_of(info) == language


@pytest.mark.parametrize("code", ["x" * (LONGEST_LINE + 1), "x = 1\n" * (LONGEST_CODE // 6 + 1)])
def test_what_is_too_large_stays_plain(code: str) -> None:
    assert highlighted(code, "python", Budget()) is None


@pytest.mark.parametrize(
    ("language", "unit"), [("java", "a "), ("js", '\\"'), ("php", "$"), ("diff", "+"), ("xml", "<?")]
)
def test_code_made_to_keep_a_lexer_busy_is_given_up_and_stays_plain(language: str, unit: str) -> None:
    code = ((unit * 300)[:500] + "\n") * 100
    began = time.thread_time()
    first = render_markdown(f"```{language}\n{code}```\n")
    assert time.thread_time() - began < 6
    assert parse(first).one("pre").text == code
    # The same again, however fast the machine is this time: a streamed page and a loaded one are alike.
    assert render_markdown(f"```{language}\n{code}```\n") == first
