"""What texts are made of before they are kept, whoever wrote them."""


def clean(text: str) -> str:
    """The text with LF line ends and without what some databases refuse (NUL, lone surrogates)."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return storable(text)


def storable(text: str) -> str:
    """The text as it is, but for what some databases refuse."""
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text
