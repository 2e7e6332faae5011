"""A trained model to the Hugging Face hub: weights, tokenizer and card, and nothing else of a run.

What goes up is chosen by what it is, not by what it is not: safetensors and texts. Optimiser states, which
are pickles, rollouts and logs stay where they are, also where a checkpoint is named instead of a run.

The token is the one of `hf auth login` or ``HF_TOKEN``, the address that of ``HF_ENDPOINT``.
"""

from __future__ import annotations

from pathlib import Path

from rlcr.errors import RlcrError, need
from rlcr.terminal import one_line
from rlcr.training.card import HUB_NAME
from rlcr.training.recipes.checks import TRAINING
from rlcr.training.saving import BEST, MODEL

_FILES = ("*.safetensors", "*.json", "*.jinja", "*.txt", "*.model", "README.md")
_OTHERS = ("trainer_state.json", "replay-*.json")  # of a checkpoint
_LOG_IN = "log in with `hf auth login`, or set HF_TOKEN to a token that may write there"


def push_model(run: Path | str, name: str, *, public: bool = False, best: bool = False) -> str:
    """Upload the model of a run, or a model's folder, to the repository ``name`` of the hub: its address.

    A repository that is not there is made, private unless ``public``; one that is public already is written
    to only with ``public``. ``best`` takes the best by the held-out metric instead of the last.
    """
    folder = _model_folder(Path(run), BEST if best else MODEL)
    if not HUB_NAME.fullmatch(name):
        raise RlcrError(f"{name!r} is no repository of the hub: it should look like my-name/my-model")
    need("pushing to the hub", "huggingface_hub", install='pip install "rlcr[hub]"')
    from huggingface_hub import HfApi, get_token
    from huggingface_hub.errors import HfHubHTTPError

    if not get_token():
        raise RlcrError(f"no token for the hub: {_LOG_IN}")
    api = HfApi()
    try:
        address = str(api.create_repo(name, private=not public, exist_ok=True))
        if not public and not api.model_info(name).private:
            raise RlcrError(f"{address} is there already and public: --public says that this is meant")
        message = f"Model of {folder.resolve().parent.name} (rlcr)"
        api.upload_folder(
            repo_id=name,
            folder_path=folder,
            commit_message=message,
            allow_patterns=list(_FILES),
            ignore_patterns=list(_OTHERS),
        )
    except HfHubHTTPError as error:
        status = error.response.status_code
        hint = f"; {_LOG_IN}" if status in (401, 403) else ""
        raise RlcrError(f"{name}: the hub says HTTP {status}: {_said(error)}{hint}") from None
    except RlcrError:
        raise
    except Exception as error:  # of its HTTP library, of a thread that uploads, of what the hub replies
        cause = f" ({_said(error.__cause__)})" if isinstance(error, RuntimeError) and error.__cause__ else ""
        raise RlcrError(f"{name}: not pushed: {_said(error)}{cause}") from error
    return address


def _model_folder(run: Path, part: str) -> Path:
    """The folder of the model: in a run, or the one that is named."""
    if not run.is_dir():
        raise RlcrError(f"{run}: no such folder")
    folder = run / part if (run / part).is_dir() or part == BEST else run
    if (folder / "config.json").is_file() and any(folder.glob("*.safetensors")):
        return folder
    if part == BEST:
        raise RlcrError(f"{run}: it has no {BEST}/: nothing was held out")
    if (run / TRAINING).exists():
        raise RlcrError(f"{run}: it has no {MODEL}/: --resume continues it")
    raise RlcrError(f"{run}: neither a run nor a model, which has a config.json and safetensors")


def _said(error: BaseException) -> str:
    """What an error says, on one line."""
    said = getattr(error, "server_message", None) or str(error) or type(error).__name__
    line = " ".join(said.split())
    return one_line(line if len(line) <= 300 else line[:299] + "…")
