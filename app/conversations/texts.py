"""What texts are made of before they are kept, whoever wrote them."""


def clean(text: str) -> str:
    """The text with LF line ends and without what some databases refuse (NUL, lone surrogates)."""
    return storable(text.replace("\r\n", "\n").replace("\r", "\n"))


def storable(text: str) -> str:
    """The text as it is, but for what some databases refuse."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")
