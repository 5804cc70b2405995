"""What a server is sent: a prompt as messages, a choice of tokens as the fields of its kind."""

from typing import Any

from app.engines.choice import Choice
from app.engines.protocol import Prompt
from app.engines.remote.kinds import Kind

_NOTHING_ASKED = Choice(temperature=1, top_p=1, top_k=0, max_tokens=1)


def asked(model: str, prompt: Prompt, choice: Choice, kind: Kind) -> tuple[str, dict[str, Any]]:
    """The path and the body of a streamed completion: of a chat, or of a text as it stands."""
    path = "/v1/completions" if prompt.plain else "/v1/chat/completions"
    given = {"prompt": text_of(prompt)} if prompt.plain else messages(prompt, kind)
    body: dict[str, Any] = {"model": model, **given, "stream": True, **kind.plain}
    body |= {"temperature": choice.temperature, "top_p": choice.top_p, "max_tokens": choice.max_tokens}
    # What changes nothing is not said: not every server takes all.
    for name in ("top_k", "repetition_penalty", "presence_penalty", "frequency_penalty", "seed", "logprobs"):
        value = getattr(choice, name)
        if value != getattr(_NOTHING_ASKED, name):
            body[kind.names.get(name, name)] = value
    if not kind.fussy:
        body["stream_options"] = {"include_usage": True}
    if kind.gives_ids:
        body["return_token_ids"] = True
    return path, body


def text_of(prompt: Prompt) -> str:
    """The text of a prompt that is read as it stands."""
    return "".join(part.text for part in prompt.parts)


def messages(prompt: Prompt, kind: Kind) -> dict[str, Any]:
    """A prompt as messages, and whether the last is to be gone on with."""
    told: list[dict[str, Any]] = []
    for part in prompt.parts:
        # Many templates want the roles to alternate, and an answer that failed leaves two questions in a row.
        if told and told[-1]["role"] == part.role:
            told[-1]["content"] += "\n\n" + part.text
        else:
            told.append({"role": part.role, "content": part.text})
            if part.token_ids and kind.takes_ids:
                told[-1]["token_ids"] = list(part.token_ids)
    asked = prompt.continues and kind.continues == "asked"
    going_on = {"continue_final_message": True, "add_generation_prompt": False} if asked else {}
    return {"messages": told, **going_on}
