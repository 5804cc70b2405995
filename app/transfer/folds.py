"""What belongs to an answer but is not its text: reasoning and the use of tools, put where thinking is told apart."""

import re

from app.rendering.thinking import parts

_TAGS = ("think", "thinking", "thought", "reasoning")
_RUN = re.compile(r"`+|~+")
_NO_LANGUAGE = re.compile(r"[^\w+#.-]")


def folded(sections: list[str], answer: str) -> str:
    """An answer with sections before it that are shown in a fold, and are not taken for the answer by anyone."""
    inside = "\n\n".join(section.strip("\n") for section in sections if section.strip())
    if not inside:
        return answer
    for content in (inside, fenced(inside, "text")):
        for tag in _TAGS:
            text = f"<{tag}>\n{content}\n</{tag}>\n\n{answer}".rstrip("\n")
            # A tag or an open fence in it could end the fold early or never: ask the one who will read it.
            read = parts(text)
            told = [said.strip("\n") for part, said in read[1:] if part == "answer"]
            if read[0][0] == "thinking" and len(told) == len(read) - 1 and "\n\n".join(told) == answer.strip("\n"):
                return text
    return f"{fenced(inside, 'text')}\n\n{answer}".rstrip("\n")


def fenced(text: str, language: str = "") -> str:
    """A text as a code block. The fence is longer than every run in the text, so nothing in it ends the block."""
    longest = max((len(run) for run in _RUN.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join((fence + _NO_LANGUAGE.sub("", language), text.rstrip("\n"), fence))
