"""Every setting of Rheo: its name, type, default and help line. The only reader of the environment."""

import difflib
import ipaddress
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

import platformdirs
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    model_validator,
)

from app.errors import Misconfigured

PREFIX = "RHEO_"
SECRET = ("password", "remote_key", "remote_url")
"""What is not repeated when it can't be used: an address may hold a password."""


def _split(value: object) -> object:
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


def _prefix(value: object) -> object:
    return "/" + value.strip("/") if isinstance(value, str) and value.strip("/") else ""


def _urls(values: tuple[str, ...]) -> tuple[str, ...]:
    for value in values:
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("an address must be like http://127.0.0.1:9000")
        if parts.username or parts.password or parts.query:
            raise ValueError("an address must hold no name, password or query; a key goes into RHEO_REMOTE_KEY")
    return values


def _origin(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or value.lower() != f"{parts.scheme}://{parts.netloc}".lower():
        raise ValueError("each must be like https://example.org or http://localhost:3000")
    return value.lower()


def _text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("it must be a text in UTF-8") from None
    return value


Text = Annotated[str, AfterValidator(_text)]
Names = Annotated[tuple[Text, ...], BeforeValidator(_split)]
Urls = Annotated[tuple[str, ...], BeforeValidator(_split), AfterValidator(_urls)]
Origins = Annotated[tuple[Annotated[str, AfterValidator(_origin)], ...], BeforeValidator(_split)]
Seconds = Annotated[float, Field(gt=0, le=366 * 86_400)]
"""At most a year: threads can't wait for ever longer."""


class Settings(BaseModel):
    """What the person who runs Rheo decides. Immutable; made once, at the start."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    host: str = Field("127.0.0.1", description="the address to listen on")
    port: int = Field(8000, ge=0, le=65535, description="the port to listen on; 0 picks a free one")
    data_dir: Path = Field(
        default_factory=lambda: Path(platformdirs.user_data_dir("rheo")),
        description="the folder of the database and the logs (default: the user's data folder)",
    )
    cache_dir: Path = Field(
        default_factory=lambda: Path(platformdirs.user_cache_dir("rheo")),
        description="the folder of converted weights (default: the user's cache folder)",
    )
    database_url: str = Field(
        "", description="an SQLAlchemy URL of an SQLite database (default: rheo.db in the data folder)"
    )
    hosts: Names = Field((), description="host names to answer to, besides localhost; separated by commas")
    root_path: Annotated[str, BeforeValidator(_prefix)] = Field(
        "", description="the URL prefix under which a proxy serves Rheo"
    )
    password: SecretStr | None = Field(None, description="one password for all; needed to listen beyond this machine")
    open: bool = Field(False, description="1: listen beyond this machine without a password")
    origins: Origins = Field(
        (), description="web pages of other sites that may use the API, as https://example.org; separated by commas"
    )
    engine: Literal["batching", "local", "remote", "scripted"] = Field(
        "batching",
        description="what runs the model: batching (many answers at once), local (one), remote (another server), "
        "scripted (a file)",
    )
    model: Annotated[Names, Field(min_length=1)] = Field(
        ("smollm2",),
        description="smollm2 (comes with Rheo), a name on the Hugging Face hub, a folder, or a .gguf file; "
        "several separated by commas, the first answers where no other is chosen",
    )
    models_dir: Path | None = Field(
        None, description="a folder of further models to choose from; what comes is found"
    )
    models_loaded: int = Field(1, ge=1, description="models in memory at one time, at most")
    remote_url: Urls = Field(
        (), description="the address of the server that runs the model, for the engine remote; several by commas"
    )
    remote_key: SecretStr | None = Field(None, description="the key for that server")
    remote_connect_s: Seconds = Field(5, description="seconds that it may take to answer a short question")
    remote_window: int = Field(
        4096, ge=1, description="the tokens that its model takes, where the server does not tell"
    )
    script: Path | None = Field(None, description="the file that the scripted engine plays")
    device: Literal["auto", "cpu", "cuda", "mps"] = Field("auto", description="where the model runs")
    dtype: Literal["auto", "bfloat16", "float32"] = Field("auto", description="the number type of the weights")
    trust_remote_code: bool = Field(False, description="1: run the program code that some models bring")
    threads: int | None = Field(
        None, ge=1, description="generations at one time (default: as many as the engine takes)"
    )
    queue: int = Field(64, ge=0, description="generations that may wait")
    temperature: float = Field(
        0.4, ge=0, le=5, description="how freely the model chooses; 0 always takes the likeliest"
    )
    top_p: float = Field(0.9, gt=0, le=1, description="the share of likeliest tokens that the model chooses from")
    top_k: int = Field(0, ge=0, description="how many of the likeliest tokens the model chooses from (default: all)")
    repetition_penalty: float = Field(
        1.0, ge=0.1, le=10, description="above 1, what was there before is chosen less; only the engine local can"
    )
    max_tokens: int = Field(1024, ge=1, description="the longest answer, in tokens")
    seed: int | None = Field(
        None, ge=0, description="the same seed gives the same answer again; only the engine local can"
    )
    stop: Names = Field((), description="texts at which an answer ends, separated by commas; \\n is a line break")
    system_prompt: Text = Field("", description="what the model is told before each conversation")
    overflow: Literal["drop", "stop"] = Field(
        "drop", description="when a conversation outgrows the window: drop (the oldest turns) or stop (and say so)"
    )
    titles: Literal["words", "model"] = Field(
        "words", description="titles of chats: words (their first ones), or model (when it has nothing else to do)"
    )
    message_chars: int = Field(200_000, ge=1, description="the longest message that is taken, in characters")
    body_bytes: int = Field(4_000_000, ge=1, description="the largest request that is taken, in bytes")
    import_bytes: int = Field(
        2_000_000_000, ge=1, description="the largest upload that is taken to be brought in, in bytes"
    )
    trash_days: float = Field(
        30, gt=0, le=36_600, description="days for which deleted conversations can be brought back"
    )
    save_s: Seconds = Field(0.02, description="seconds between two writes of what running answers made")
    pace_s: Seconds = Field(0.045, description="least seconds between frames of a stream; twice that when it is fast")
    ping_s: Seconds = Field(15, description="seconds after which a silent stream says that it lives")
    expiry_s: Seconds = Field(60, description="seconds for which the pieces of an ended answer are kept")
    stall_s: Seconds = Field(120, description="seconds without a token after which an answer is given up")
    shutdown_s: Seconds = Field(5, description="seconds that open requests get at the end")
    lock_s: Seconds = Field(5, description="seconds to wait for another Rheo to leave the data folder")

    @model_validator(mode="after")
    def _check_database(self) -> Self:
        if self.database_url and not self.database_url.startswith("sqlite"):
            kind = self.database_url.partition(":")[0]
            raise ValueError(f"{PREFIX}DATABASE_URL: the database must be SQLite; {kind} is not supported")
        return self

    @model_validator(mode="after")
    def _check_remote(self) -> Self:
        if self.engine == "remote" and not self.remote_url:
            raise ValueError("RHEO_ENGINE=remote needs RHEO_REMOTE_URL, the address of the server")
        return self

    def apart(self) -> Self:
        """For a model server beside a page: a folder and a port of its own, where none are chosen."""
        own = {"data_dir": self.data_dir.with_name(f"{self.data_dir.name}-model-server"), "port": 8001}
        return self.model_copy(update={k: value for k, value in own.items() if k not in self.model_fields_set})

    @property
    def sqlite_url(self) -> str:
        """The URL of the database, the default filled in."""
        return self.database_url or f"sqlite:///{self.data_dir / 'rheo.db'}"

    @property
    def beyond_loopback(self) -> bool:
        """Whether other machines can reach the address that we listen on."""
        if self.host == "localhost":
            return False
        try:
            return not ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return True

    @classmethod
    def read(cls, environ: Mapping[str, str], options: Mapping[str, Any] | None = None) -> Self:
        """Settings from `RHEO_…` variables; options of the command come first.

        Raises `Misconfigured` with one line for an unknown name or a value that can't be used.
        """
        values: dict[str, Any] = {}
        for name, value in environ.items():
            if name.startswith(PREFIX) and value != "":
                values[_known(name)] = value
        values |= options or {}
        try:
            return cls(**values)
        except ValidationError as error:
            first = error.errors()[0]
            field = str(first["loc"][0]) if first["loc"] else ""
            words = first["msg"].removeprefix("Value error, ")
            given = f" (given: {values[field]})" if field in values and field not in SECRET else ""
            where = f"{PREFIX}{field.upper()}: " if field else ""
            raise Misconfigured(f"{where}{words}{given}") from None


def _known(name: str) -> str:
    field = name.removeprefix(PREFIX).lower()
    if field in Settings.model_fields:
        return field
    near = difflib.get_close_matches(field, Settings.model_fields, n=1)
    hint = f"; did you mean {PREFIX}{near[0].upper()}?" if near else ""
    raise Misconfigured(f"{name} is not a setting of Rheo{hint}")
