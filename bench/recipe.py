"""The published recipe, kept to be compared with: a thread with `generate` for each request.

TextIteratorStreamer behind a plain StreamingResponse, float32, greedy. `python -m bench.recipe PORT`.
"""

import sys
from collections.abc import Callable, Iterator
from itertools import chain
from threading import Thread
from typing import Annotated, Any

from fastapi import FastAPI, Form
from starlette.responses import StreamingResponse

NEW_TOKENS = 64


def application(model: Any, tokenizer: Any, streamer_of: Callable[[Any], Any]) -> FastAPI:
    """The recipe's server. `/made` says how many tokens it has made so far; all else is as published."""
    app = FastAPI()
    made: list[int] = []

    @app.post("/chat")
    def chat(text: Annotated[str, Form()]) -> StreamingResponse:
        inputs = tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], add_generation_prompt=True, return_tensors="pt", return_dict=True
        )
        streamer = streamer_of(tokenizer)

        def generate() -> None:
            ids = model.generate(**inputs, streamer=streamer, max_new_tokens=NEW_TOKENS, do_sample=False)
            made.append(ids.shape[-1] - inputs["input_ids"].shape[-1])

        thread = Thread(target=generate)
        thread.start()

        def ending() -> Iterator[str]:
            # The count must be there before the client sees the end.
            thread.join()
            yield from ()

        return StreamingResponse(chain(streamer, ending()), media_type="text/plain")

    @app.get("/made")
    def count() -> int:
        return sum(made)

    return app


def main() -> None:
    """Serve the packaged model, from the same converted weights that Rheo reads."""
    import torch  # noqa: PLC0415
    import uvicorn  # noqa: PLC0415
    from transformers import AutoModelForCausalLM, AutoTokenizer, TextIteratorStreamer  # noqa: PLC0415

    from app.engines import weights  # noqa: PLC0415
    from app.settings import Settings  # noqa: PLC0415

    folder = weights.prepare(Settings.read({}), "smollm2", lambda _: None)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()

    def streamer_of(tokenizer: Any) -> Any:
        return TextIteratorStreamer(tokenizer, skip_prompt=True, skip_special_tokens=True)

    uvicorn.run(application(model, tokenizer, streamer_of), port=int(sys.argv[1]), log_level="warning")


if __name__ == "__main__":
    main()
