"""Formulas as MathML, prices as prices, and the source of what can't be read."""

import pytest
from casefiles import FOLDER
from dom import Element, parse

from app.rendering.markdown import render_markdown
from app.rendering.maths import LONGEST, mathml


def rendered(text: str) -> Element:
    return parse(render_markdown(text))


def test_c04_prices_are_shown_as_typed() -> None:
    html = rendered((FOLDER / "markdown-math-currency.md").read_text(encoding="utf-8"))
    assert not html.all("math")
    for shown in (
        "$25 is more than $24.",
        "$1.50 or $2",
        "$/PR is down but $/session is up.",
        "$2k to $5-10k, and $7",
    ):
        assert shown in html.text


@pytest.mark.parametrize(
    "text",
    [
        *("US$5 and CA$6", "$5 (or 5$)", "5$ and 6$", "$10,000 and more$", "a $ b $ c", "cost: $5-$10"),
        "$5/month or $10/year",
        *("$", "$$", "$$$", "$ x$", "$x $", "`$x$`", r"\$x\$"),
    ],
)  # fmt: skip
def test_c04_no_formula_is_seen_in(text: str) -> None:
    assert not rendered(text).all("math")


def test_c05_tex_is_read_and_left_alone_in_code() -> None:
    html = rendered((FOLDER / "markdown-math-tex.md").read_text(encoding="utf-8"))
    assert len(html.all("math")) == 4
    assert len(html.all("math", display="block")) == 2
    assert not html.all("em")
    assert r"\(not math\)" in html.text
    assert r"\[ also not math_1*2* \]" in html.text


@pytest.mark.parametrize("text", ["$x_i$", "$a*b*c$", "$n$th", "数$x$は", "($x$)", r"\(x\)", "$$x$$", "$2 + 2 = 4$"])
def test_a_formula_is_seen_in(text: str) -> None:
    assert len(rendered(text).all("math")) == 1


@pytest.mark.parametrize(
    "text", ["$$\nx\n$$", "\\[\nx\n\\]", "text\n$$\nx\n$$\ntext", "- a\n  \\[ x \\]\n- b", "> $$\n> x\n> $$"]
)
def test_a_formula_stands_alone_in(text: str) -> None:
    html = rendered(text)
    assert html.one("div", class_="math-block").all("math")


@pytest.mark.parametrize(
    "tex",
    [
        r"\nosuch{x}",
        r"\frac",
        r"\left(",
        r"\href{javascript:x}{y}",
        r"\newcommand{\a}{\a\a}\a",
        "{" * 900,
        "x" * LONGEST,
    ],
)
def test_the_source_is_shown_of(tex: str) -> None:
    assert mathml(tex, False) is None or tex.startswith("x")
    html = rendered(rf"\({tex}\)")
    assert tex in html.text


def test_an_open_formula_is_its_source() -> None:
    assert rendered("$$\nx_1 *a* _b_\n").one("p").text == "$$\nx_1 *a* _b_"


@pytest.mark.parametrize(
    "inside", ["<script>alert(1)</script>", "</p>", "&lt;script&gt;", '<img src=x onerror="x">', "<hx-get>"]
)
def test_c06_what_stands_in_a_formula_is_text(inside: str) -> None:
    html = render_markdown(rf"\(\text{{{inside}}}\)")
    assert {element.tag for element in parse(html)} <= {"#document", "p", "math", "mrow", "mtext", "code", "mi", "mo"}
    assert "<hx-" not in html
