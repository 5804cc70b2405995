"""What only hostile texts have: beyond these a text is shown, but not read as Markdown."""

# Lines of Markdown in one text, code aside. A book's chapter has a few thousand.
LINES = 10_000
# How deep blocks may nest: a quote is one level, a list two.
LEVELS = 16
COLUMNS = 64
CELLS = 20_000
# Steps that the search for the ends of links' texts may take, for each character.
STEPS = 4
