"""The form by which people steer a conversation: what it shows, and what they send with it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends

from app.errors import Invalid
from app.generation.steering import KNOBS, Knob, checked, escaped, honoured, unescaped
from app.texts import clean
from app.web.forms import Fields
from app.web.model_forms import ChosenModel
from app.web.parts import Parts, PartsOf


@dataclass(frozen=True, slots=True)
class KnobField:
    """A knob as the form shows it: the conversation's own value, the default, and whether the engine honours it."""

    knob: Knob
    value: str
    default: str
    honoured: bool


@dataclass(frozen=True, slots=True)
class SteeringForm:
    """The values of the form. `own_system` is what the template adds where there is no system prompt."""

    system: str
    own_system: str
    knobs: list[KnobField]
    stop: str
    overflow: str


def steering_form(parts: Parts, own: Mapping[str, Any] | None, model: str | None) -> SteeringForm:
    """The form for what a conversation has of its own, as its model takes it."""
    engine = parts.catalog.loaded(model)
    steering = parts.steering.changed_by(own)
    defaults = parts.steering.kept()
    knobs = [
        KnobField(
            knob,
            _number(own[knob.name]) if own and knob.name in own else "",
            _number(defaults[knob.name]),
            # While the model loads nobody knows; what can't be honoured is refused then, by its name.
            engine is None or honoured(knob.name, 0, engine.supports),
        )
        for knob in KNOBS
    ]
    own_system = engine.own_system if engine is not None else ""
    stop = "\n".join(escaped(text) for text in steering.stop)
    return SteeringForm(steering.system, own_system, knobs, stop, steering.overflow)


def _posted(fields: Fields, parts: PartsOf, model: ChosenModel) -> dict[str, Any]:
    """What was sent with the form, as a conversation keeps it. An empty number is the default. Raises `Invalid`."""
    system = clean(fields.get("system", ""))
    if len(system) > parts.settings.message_chars:
        raise Invalid(
            f"This system prompt is {len(system):,} characters long; "
            f"at most {parts.settings.message_chars:,} can be kept."
        )
    engine = parts.catalog.loaded(model)
    lines = clean(fields.get("stop", "")).split("\n")
    chosen: dict[str, Any] = {
        "system": system,
        "stop": [unescaped(line) for line in lines if line.strip()],
        "overflow": fields.get("overflow") or parts.steering.overflow,
    }
    chosen |= {k.name: _parsed(k, text) for k in KNOBS if (text := fields.get(k.name, "").strip())}
    return parts.steering.own(checked(chosen, engine.supports if engine is not None else None))


PostedSteering = Annotated[dict[str, Any], Depends(_posted)]


async def _chosen(fields: Fields, parts: PartsOf) -> dict[str, Any]:
    """What was chosen for a chat that is not begun yet: its composer carries it. Raises `Invalid`."""
    text = fields.get("steering", "")
    if not text:
        return {}
    try:
        given = json.loads(text)
        if not isinstance(given, dict):
            raise TypeError
        return parts.steering.own(checked(given, None))
    except (ValueError, TypeError, RecursionError) as error:
        raise Invalid("The settings of this chat can’t be read. Choose them again.") from error


ChosenSteering = Annotated[dict[str, Any], Depends(_chosen)]


def carried(own: Mapping[str, Any]) -> str:
    """What a composer carries for `ChosenSteering`."""
    return json.dumps(own) if own else ""


def _parsed(knob: Knob, text: str) -> object:
    try:
        return int(text) if knob.whole else float(text)
    except ValueError:
        return knob.check(text)


def _number(value: Any) -> str:
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
