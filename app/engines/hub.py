"""Models by their name on the Hugging Face hub: from its local cache, or fetched into it."""

import re
from pathlib import Path

from app.engines import model_folder
from app.engines.progress import creeping
from app.engines.protocol import Progress, Report
from app.errors import Invalid, Unavailable

_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")
_FILES = ["*.json", "*.safetensors", "*.model", "*.txt", "*.jinja", "*.tiktoken", "*.py"]
"""Code is fetched, and never run unless a setting says so."""


def may_hold(name: str) -> bool:
    """Whether this is written as the hub's names are."""
    return _NAME.fullmatch(name) is not None and not name.endswith(".gguf")


def find(name: str, report: Report) -> Path:
    """The folder of a model. What is in the cache is used as it is, and nothing is asked of the network then.

    Raises `Invalid` where the hub has none of that name, `Unavailable` where it can't be asked.
    """
    from huggingface_hub import errors  # noqa: PLC0415

    try:
        return _cached(name) or _fetched(name, report)
    except errors.GatedRepoError as error:
        words = f"The hub gives {name} only to those who have accepted its terms there; set HF_TOKEN to your token."
        raise Unavailable(words) from error
    except (errors.RepositoryNotFoundError, errors.HFValidationError) as error:
        raise Invalid(f"There is no model {name}: neither here nor, for all to see, on the hub.") from error
    except errors.LocalEntryNotFoundError as error:
        raise Unavailable(
            f"There is no model {name} on this machine, and the Hugging Face hub can't be asked for it. "
            "Give smollm2, a folder, a .gguf file, or a name that is in the hub's cache."
        ) from error
    except (OSError, errors.HfHubHTTPError) as error:
        raise Unavailable(f"The model {name} can't be fetched from the hub: {error}") from error


def _cached(name: str) -> Path | None:
    from huggingface_hub import errors, snapshot_download  # noqa: PLC0415

    try:
        found = Path(snapshot_download(name, local_files_only=True, allow_patterns=_FILES))
    except errors.LocalEntryNotFoundError:
        return None
    # Other programs may have fetched a part of it only.
    return found if _is_whole(found) else None


def _fetched(name: str, report: Report) -> Path:
    from huggingface_hub import snapshot_download  # noqa: PLC0415
    from huggingface_hub.utils.tqdm import disable_progress_bars  # noqa: PLC0415

    disable_progress_bars()
    with creeping(lambda fraction: report(Progress("fetching", fraction)), 0.0, 0.1, usual_s=120):
        found = Path(snapshot_download(name, allow_patterns=_FILES))
        if not _is_whole(found):
            found = Path(snapshot_download(name, allow_patterns=[*_FILES, "*.bin"]))
    return found


def _is_whole(found: Path) -> bool:
    adapter = (found / "adapter_config.json").is_file() and any(found.glob("adapter_model.*"))
    return adapter or model_folder.holds_weights(found)
