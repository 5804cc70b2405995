"""Messages as programs send them, to what an engine is given."""

from app.api.faults import Unusable
from app.api.requests import ChatMessage, ContentPart, GenerateRequest, Messages
from app.engines.protocol import Engine, Part, Prompt, Role
from app.texts import storable

_ROLES: dict[str, Role] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
_KINDS = {
    "image_url": "images (image_url)",
    "input_image": "images (input_image)",
    "input_audio": "sounds (input_audio)",
    "file": "files (file)",
}


def chat_prompt(request: Messages, engine: Engine) -> Prompt:
    """The prompt of a conversation. Raises `Unusable`, naming the message that can't be taken."""
    parts = [_part(number, message, engine) for number, message in enumerate(request.messages)]
    if not request.continue_final_message:
        if request.add_generation_prompt is False:
            raise Unusable("Without add_generation_prompt nothing is answered.", "add_generation_prompt")
        return Prompt(tuple(parts))
    if request.add_generation_prompt:
        raise Unusable("An answer can't be continued and begun.", "continue_final_message")
    if parts[-1].role != "assistant":
        raise Unusable("Only an assistant's message can be continued.", "continue_final_message")
    parts[-1] = _with_thinking(parts[-1], request.messages[-1].reasoning_content)
    # Nothing said yet is an answer to be begun.
    return Prompt(tuple(parts), continues=True) if parts[-1].text else Prompt(tuple(parts[:-1]))


def text_prompt(request: GenerateRequest, _: Engine) -> Prompt:
    """The prompt of one text that is to be answered."""
    system = (Part("system", storable(request.system)),) if request.system else ()
    return Prompt((*system, Part("user", storable(request.text))))


def plain_prompt(text: str, _: Engine) -> Prompt:
    """The prompt of a text that is to be gone on with."""
    return Prompt((Part("user", storable(text)),), plain=True)


def _part(number: int, message: ChatMessage, engine: Engine) -> Part:
    where = f"messages[{number}]"
    if message.role not in _ROLES or (message.model_extra or {}).get("tool_calls"):
        raise Unusable("Tools can't be used here.", f"{where}.role")
    role = _ROLES[message.role]
    text = storable(_text(message.content, f"{where}.content"))
    ids = (
        tuple(message.token_ids or ()) if role == "assistant" and _came_from(text, message.token_ids, engine) else ()
    )
    return Part(role, text, ids or None)


def _text(content: str | list[ContentPart] | None, where: str) -> str:
    if content is None:
        raise Unusable("content must be a text, or a list of parts.", where)
    return content if isinstance(content, str) else "".join(_text_of(part, where) for part in content)


def _text_of(part: ContentPart, where: str) -> str:
    if part.type not in ("text", "input_text", "output_text"):
        kind = _KINDS.get(part.type, f"parts of the type {part.type[:40]}")
        raise Unusable(f"This model reads only text: {kind} are not supported.", where)
    if part.text is None:
        raise Unusable("A part of the type text needs a text.", where)
    return part.text


def _came_from(text: str, token_ids: list[int] | None, engine: Engine) -> bool:
    """Whether a text is what these ids say; a character may be cut in two at the end."""
    if not token_ids:
        return False
    try:
        said = engine.decode(token_ids)
    except (LookupError, OverflowError, ValueError, TypeError):
        return False  # ids of another model
    return said.rstrip("\ufffd") == text.rstrip("\ufffd")


def _with_thinking(part: Part, reasoning: str | None) -> Part:
    """An answer to be continued, with the thinking that was told apart from it."""
    if not reasoning or part.token_ids:
        return part
    thought = f"<think>\n{storable(reasoning)}"
    return Part(part.role, f"{thought}\n</think>\n\n{part.text}" if part.text else thought)
