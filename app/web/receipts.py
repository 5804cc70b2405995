"""Receipts as people and programs read them, and what came of running one again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.engines.catalog import Catalog
from app.generation.models import Replay
from app.generation.receipts import Kept
from app.generation.steering import escaped

FORM = 1
"""The version of the JSON; docs/receipts.md tells what stands in it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a replay: in two words, in some more, and what was otherwise than at first."""

    headline: str
    words: str
    otherwise: list[str]


def facts(kept: Kept) -> list[tuple[str, str]]:
    """What a receipt says, each with its name. Hashes and ids are told elsewhere."""
    receipt, generation = kept.receipt, kept.generation
    identity, sampling = receipt.identity, receipt.sampling
    made = len(receipt.answer_ids or ())
    told = [
        ("Model", receipt.model),
        ("Weights", identity["revision"]),
        ("Numbers", f"{identity['dtype']}, on {identity['device']}"),
        ("Engine", identity["engine"]),
        ("Chat template", identity["template"]),
        ("Sampling", _sampling(sampling)),
        ("Seed", "none" if sampling["seed"] is None else str(sampling["seed"])),
        ("Stop strings", ", ".join(f"“{escaped(text)}”" for text in sampling["stop"]) or "none"),
        ("Prompt", _prompt(kept)),
        ("Answer", f"{made:,} tokens, {_ending(kept)}" if receipt.answer_ids is not None else "not ended yet"),
        ("Asked", _moment(generation.created_at)),
        ("Took", _took(kept)),
        ("Made by", ", ".join(f"{name} {version}" for name, version in identity["libraries"].items())),
    ]
    return [(name, value) for name, value in told if value]


def verdict(kept: Kept, replay: Replay) -> Verdict:
    """What came of a replay that is over."""
    if replay.state == "failed":
        return Verdict("It could not be run again", replay.error or "The model failed.", [])
    if replay.state == "stopped":
        return Verdict("Stopped", "It was stopped before its end.", [])
    if replay.state == "interrupted":
        return Verdict("Interrupted", "Rheo was ended in the middle of it.", [])
    otherwise = _otherwise(kept.receipt.identity, replay.identity or {})
    total, at = replay.tokens or 0, replay.differs_at
    if at is None:
        certain = f" It was made {kept.rounded}, so that was not certain." if kept.rounded else ""
        same = "The answer is empty again." if not total else f"All {total:,} tokens are the same."
        return Verdict("Identical", same + certain, otherwise)
    same = f"The first {at:,} of {total:,} tokens are the same; token {at + 1:,} differs."
    if kept.rounded:
        why = f"It was made {kept.rounded}, where numbers are rounded otherwise and the other of two words may win."
        return Verdict("Close, not exact", f"{same} {why}", otherwise)
    return Verdict("Not identical", f"{same} It was made alone in float32, so it should be the same.", otherwise)


def as_json(kept: Kept, replays: Sequence[Replay]) -> dict[str, Any]:
    """A receipt for programs."""
    receipt, generation, message = kept.receipt, kept.generation, kept.message
    identity = receipt.identity
    return {
        "receipt": FORM,
        "conversation": kept.conversation.id,
        "message": message.id,
        "generation": generation.id,
        "runs": list(kept.runs),
        "model": {
            "name": receipt.model,
            "revision": identity["revision"],
            "dtype": identity["dtype"],
            "device": identity["device"],
            "template": identity["template"],
        },
        "engine": identity["engine"],
        "libraries": identity["libraries"],
        "sampling": receipt.sampling,
        "prompt": {
            "token_ids": receipt.prompt_ids,
            "tokens": len(receipt.prompt_ids),
            "reused_tokens": generation.reused_tokens,
            "given": receipt.given,
            "left_out_messages": generation.left_out,
        },
        "answer": {
            "token_ids": receipt.answer_ids,
            "tokens": len(receipt.answer_ids or ()),
            "text": message.text if len(kept.runs) == 1 and not message.active else None,
            "state": message.state if kept.is_last else None,
            "ending": message.ending if kept.is_last else None,
        },
        "timings": {
            "asked_at": _iso(generation.created_at),
            "started_at": _iso(generation.started_at),
            "ended_at": _iso(generation.ended_at),
            "first_token_s": generation.first_token_s,
            "last_token_s": generation.last_token_s,
            "restarts": generation.restarts,
        },
        "replays": [_replay_as_json(replay) for replay in replays],
    }


def prompt_text(kept: Kept, catalog: Catalog) -> str:
    """The text of the prompt as the model reads it; empty where another model is loaded, or none."""
    engine = catalog.loaded(kept.receipt.model)
    same = engine is not None and engine.identity.revision == kept.receipt.identity["revision"]
    return engine.decode(kept.receipt.prompt_ids) if engine is not None and same else ""


def _replay_as_json(replay: Replay) -> dict[str, Any]:
    return {
        "replay": replay.id,
        "state": replay.state,
        "error": replay.error,
        "identical": replay.differs_at is None if replay.state == "finished" else None,
        "tokens": replay.tokens,
        "differs_at": replay.differs_at,
        "difference": replay.difference,
        "identity": replay.identity,
        "asked_at": _iso(replay.created_at),
        "ended_at": _iso(replay.ended_at),
    }


def _otherwise(then: Mapping[str, Any], today: Mapping[str, Any]) -> list[str]:
    """What of an identity is not as it was."""
    before = {**then, **then.get("libraries", {})}
    after = {**today, **today.get("libraries", {})}
    names = [name for name in before if name != "libraries" and name in after and before[name] != after[name]]
    return [f"{name}: {before[name]} at first, {after[name]} now" for name in names]


def _sampling(sampling: Mapping[str, Any]) -> str:
    longest = f"longest answer {sampling['max_tokens']:,}"
    if not sampling["temperature"]:
        return f"always the likeliest token (temperature 0), {longest}"
    top_k = f"top-k {sampling['top_k']:,}, " if sampling["top_k"] else ""
    penalty = sampling["repetition_penalty"]
    penalised = f"repetition penalty {penalty:g}, " if penalty != 1 else ""
    return f"temperature {sampling['temperature']:g}, top-p {sampling['top_p']:g}, {top_k}{penalised}{longest}"


def _prompt(kept: Kept) -> str:
    receipt, generation = kept.receipt, kept.generation
    told = [f"{len(receipt.prompt_ids):,} tokens"]
    if generation.reused_tokens:
        told.append(f"{generation.reused_tokens:,} of them read before")
    if generation.left_out:
        told.append(f"the {generation.left_out:,} oldest messages left out")
    if receipt.given:
        told.append(f"the last {receipt.given:,} of them are what the answer had said before")
    return ", ".join(told)


def _ending(kept: Kept) -> str:
    words = {"stop": "finished", "length": "cut at its longest length", "cancelled": "stopped"}
    return words.get(kept.message.ending or "", kept.message.state) if kept.is_last else "then continued"


def _took(kept: Kept) -> str:
    generation = kept.generation
    if generation.first_token_s is None or generation.last_token_s is None:
        return ""
    return f"{generation.first_token_s:.2f} s to the first token, {generation.last_token_s:.2f} s to the last"


def _moment(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def _iso(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment is not None else None
