"""Settings: from the environment and from options, and mistakes in them."""

import re

import pytest

from app.errors import Misconfigured
from app.settings import Settings


def test_there_is_a_default_for_everything() -> None:
    settings = Settings.read({})
    assert (settings.host, settings.port, settings.engine, settings.model) == (
        "127.0.0.1",
        8000,
        "batching",
        ("smollm2",),
    )
    assert settings.sqlite_url.endswith("rheo.db")


def test_options_come_before_the_environment_and_blank_means_not_set() -> None:
    settings = Settings.read({"RHEO_PORT": "1234", "RHEO_HOST": "", "OTHER": "x"}, {"port": "4321"})
    assert (settings.port, settings.host) == (4321, "127.0.0.1")


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"RHEO_PROT": "1"}, "RHEO_PROT is not a setting of Rheo; did you mean RHEO_PORT?"),
        ({"RHEO_XYZZY": "1"}, "RHEO_XYZZY is not a setting of Rheo"),
        ({"RHEO_PORT": "abc"}, "RHEO_PORT: .*abc"),
        ({"RHEO_PORT": "70000"}, "RHEO_PORT: .*70000"),
        ({"RHEO_ENGINE": "magic"}, "RHEO_ENGINE: .*magic"),
        ({"RHEO_THREADS": "0"}, "RHEO_THREADS: .*0"),
        ({"RHEO_SAVE_S": "0"}, "RHEO_SAVE_S"),
        ({"RHEO_SAVE_S": "nan"}, "RHEO_SAVE_S"),
        ({"RHEO_OPEN": "perhaps"}, "RHEO_OPEN: .*perhaps"),
        ({"RHEO_MODEL": ","}, "RHEO_MODEL"),
        ({"RHEO_DATABASE_URL": "postgresql://u:secret@h/d"}, "RHEO_DATABASE_URL: .*postgresql is not supported"),
        ({"RHEO_TEMPERATURE": "-1"}, "RHEO_TEMPERATURE"),
        ({"RHEO_SYSTEM_PROMPT": "caf\udce9"}, "RHEO_SYSTEM_PROMPT: .*UTF-8"),
        ({"RHEO_STOP": "caf\udce9,end"}, "RHEO_STOP.*: .*UTF-8"),
    ],
)
def test_a_mistake_is_told_in_one_line_that_names_the_setting(environ: dict[str, str], words: str) -> None:
    with pytest.raises(Misconfigured) as error:
        Settings.read(environ)
    assert re.search(words, error.value.words)
    assert "\n" not in error.value.words
    assert "secret" not in error.value.words


@pytest.mark.parametrize("name", ["EXPIRY_S", "SAVE_S", "SHUTDOWN_S", "TRASH_DAYS"])
@pytest.mark.parametrize("value", ["inf", "1e10", "nan", "0"])
def test_a_time_is_one_that_can_be_waited_for(name: str, value: str) -> None:
    with pytest.raises(Misconfigured, match=f"RHEO_{name}"):
        Settings.read({f"RHEO_{name}": value})


def test_a_password_is_never_shown() -> None:
    settings = Settings.read({"RHEO_PASSWORD": "correct horse"})
    assert "horse" not in repr(settings)
    with pytest.raises(Misconfigured) as error:
        Settings.read({"RHEO_PASSWORD": "correct horse", "RHEO_PORT": "x"})
    assert "horse" not in error.value.words


@pytest.mark.parametrize(
    ("given", "root"), [("/rheo", "/rheo"), ("rheo/", "/rheo"), ("/", ""), ("", ""), ("/a/b/", "/a/b")]
)
def test_the_root_path_begins_with_a_slash_and_ends_without(given: str, root: str) -> None:
    assert Settings.read({"RHEO_ROOT_PATH": given}).root_path == root


@pytest.mark.parametrize(
    ("host", "beyond"),
    [
        ("127.0.0.1", False),
        ("localhost", False),
        ("::1", False),
        ("127.1.2.3", False),
        ("0.0.0.0", True),
        ("::", True),
        ("192.168.1.5", True),
        ("chat.example", True),
    ],
)
def test_what_other_machines_can_reach_is_known(host: str, beyond: bool) -> None:
    assert Settings.read({"RHEO_HOST": host}).beyond_loopback is beyond


def test_every_setting_has_a_help_line() -> None:
    for name, field in Settings.model_fields.items():
        assert field.description, name
        assert not field.description.endswith("."), name
