"""One answer by `model.generate`, told token by token, with a choice of tokens of our own. Imports torch."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from threading import local
from typing import Any

import torch
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList

from app.engines import warpers
from app.engines.choice import Choice
from app.engines.requests import Request


class Left(Exception):
    """Nobody wants the answer any more; ends `generate` in the middle of a step."""


class Generator:
    """Runs `generate` on one model. Hooks in its layers tell that it lives, and end it early also within a step."""

    def __init__(self, model: Any, stops: list[int], stepped: Callable[..., None]) -> None:
        self._model = model
        self._stops = stops
        self._here = local()
        # What a model's maker thinks good would be added to what we ask for: penalties, forced tokens, beams.
        model.generation_config = GenerationConfig()
        self._hooks = ExitStack()
        layers = list(_layers(model))
        self._depth = len(layers)
        hooks = [model.register_forward_hook(stepped)]
        hooks += [layer.register_forward_pre_hook(self._pass) for layer in layers]
        for hook in hooks:
            self._hooks.callback(hook.remove)

    def run(self, request: Request, go_on: Callable[[], bool], made: Callable[[int], None]) -> None:
        """Fill a request; `made` is told how many tokens are new. Raises what the model raises."""
        # Each thread has its own: one that was given up may still be stuck within the model.
        self._here.passed = self._passing(request, go_on)
        choice = request.choice
        told = Told(request, made, go_on)
        choosing = Choosing(choice, len(request.prompt_ids), self._model.device)
        told.logprobs = choosing.logprobs
        ids = torch.tensor([request.prompt_ids], device=self._model.device)
        try:
            with torch.inference_mode():
                self._model.generate(
                    ids,
                    attention_mask=torch.ones_like(ids),
                    generation_config=self._config(choice),
                    logits_processor=LogitsProcessorList([choosing]),
                    streamer=told,
                )
        except Left:
            return
        told.end()

    def close(self) -> None:
        """Leave the model as it was."""
        self._hooks.close()

    def _pass(self, *_: object) -> None:
        passed = getattr(self._here, "passed", None)
        if passed is not None:
            passed()

    def _passing(self, request: Request, go_on: Callable[[], bool]) -> Callable[[], None]:
        """What is done at each layer. In the first step, which reads the prompt, they tell how far it is."""
        done = 0

        def passed() -> None:
            nonlocal done
            if not go_on():
                raise Left
            if done < self._depth:
                request.note_reading(len(request.prompt_ids) * done // self._depth)
                done += 1

        return passed

    def _config(self, choice: Choice) -> GenerationConfig:
        return GenerationConfig(
            do_sample=False,
            max_new_tokens=choice.max_tokens,
            eos_token_id=self._stops or None,
            pad_token_id=self._stops[0] if self._stops else 0,
        )


class Told:
    """A streamer for `generate` that hands on each id at once; text is made of it elsewhere."""

    def __init__(self, request: Request, made: Callable[[int], None], go_on: Callable[[], bool]) -> None:
        self._request = request
        self._made = made
        self._go_on = go_on
        self._ids: list[int] | None = None
        self.logprobs: list[float] = []

    def put(self, value: torch.Tensor) -> None:
        """The prompt, then each new id."""
        if self._ids is None:
            self._ids = []
            return
        self._ids += value.flatten().tolist()
        self._made(self._request.note_answer(self._ids, False, self.logprobs))
        if not self._go_on():
            raise Left

    def end(self) -> None:
        """All is made; `generate` calls it too."""
        self._request.note_answer(self._ids or [], True, self.logprobs)


class Choosing(LogitsProcessor):  # type: ignore[misc]  # transformers is not followed by mypy
    """Penalties, then one token drawn by numbers of its own; `generate` is told not to sample and takes it.

    Its own numbers: the same seed gives the same text, whatever else draws in this process.
    """

    def __init__(self, choice: Choice, prompt_tokens: int, device: torch.device) -> None:
        self._choice = choice
        self._prompt_tokens = prompt_tokens
        self._source = torch.Generator(device)
        if choice.seed is None:
            self._source.seed()
        else:
            self._source.manual_seed(choice.seed)
        self.logprobs: list[float] = []

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        penalised = self._penalised(input_ids, scores)
        token = penalised.argmax(-1, keepdim=True) if self._choice.temperature == 0 else self._drawn(penalised)
        if self._choice.logprobs:
            self.logprobs.append(float(scores.float().log_softmax(-1).gather(-1, token)))
        return scores.scatter(-1, token, torch.inf)

    def _drawn(self, scores: torch.Tensor) -> torch.Tensor:
        choice = self._choice
        top_k = torch.tensor([[choice.top_k]], device=scores.device)
        top_p = torch.tensor([[choice.top_p]], device=scores.device)
        return warpers.draw(scores / choice.temperature, top_k, top_p, warpers.LIKELY, self._source)

    def _penalised(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        choice = self._choice
        if choice.repetition_penalty != 1:
            seen = scores.gather(-1, input_ids)
            seen = torch.where(seen < 0, seen * choice.repetition_penalty, seen / choice.repetition_penalty)
            scores = scores.scatter(-1, input_ids, seen)
        if choice.presence_penalty or choice.frequency_penalty:
            counts = torch.bincount(input_ids[0, self._prompt_tokens :], minlength=scores.size(-1))
            scores = scores - choice.frequency_penalty * counts - choice.presence_penalty * (counts > 0)
        return scores


def _layers(model: Any) -> Iterator[Any]:
    """The model itself and its layers, which follow each other within a step."""
    yield model
    lists = [module for module in model.modules() if isinstance(module, torch.nn.ModuleList)]
    yield from max(lists, key=len, default=())
