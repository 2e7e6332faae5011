# pyright: basic
"""Models and tokenizers from wherever they lie: a folder, the hub, a LoRA adapter, a GGUF file.

A GGUF file (or a folder with one) is converted once to an ordinary folder, since that takes half a minute.
Converted models live under ``$RLCR_CACHE`` (default ``~/.cache/rlcr``), named by a hash of the file's
content; the cache may be deleted at any time.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from rlcr.errors import RlcrError, nearest, need
from rlcr.files import cache_folder
from rlcr.sample.fingerprint import fingerprint

log = logging.getLogger(__name__)

#: A folder of a model may hold code of its own, and transformers would ask on standard input whether to run
#: it. It is never run. Pickled weights are read by torch with ``weights_only``, as transformers does it.
ONLY_DATA: dict[str, Any] = {"trust_remote_code": False}
#: Raised when conversion changes, so that old results are not used.
_CONVERSION = "1"


def load(path_or_id: str | Path, *, device: str = "auto", dtype: str = "auto") -> tuple[Any, Any]:
    """A causal language model in evaluation mode, and its tokenizer.

    ``device`` "auto" is the first of cuda, mps and cpu that is there; ``dtype`` "auto" is float32 on a CPU,
    where half precision is slow, and bfloat16 elsewhere. Adapters are merged into their base.
    """
    _need_transformers()
    check_device(device, dtype)
    import torch
    from transformers.utils import logging as transformers_logging

    if not sys.stderr.isatty():
        transformers_logging.disable_progress_bar()  # in a pipe its bars are hundreds of lines
    device = find_device() if device == "auto" else device
    if dtype == "auto":
        dtype = "float32" if device == "cpu" else "bfloat16"
    model, tokenizer = _load(str(path_or_id), getattr(torch, dtype))
    if find_device() == "cpu":
        from rlcr.engine.threads import use_free_threads

        use_free_threads()
    try:
        return model.to(device).eval(), tokenizer
    except RuntimeError as error:
        raise RlcrError(f"{path_or_id}: cannot be moved to device {device!r}: {_line(error)}") from None


def load_tokenizer(name: str) -> Any:
    """The tokenizer of a folder or hub id alone."""
    _need_transformers()
    from transformers import AutoTokenizer

    path = Path(name).expanduser()
    if not path.exists():
        _check_hub_id(name)
    elif (path / "adapter_config.json").is_file() and not (path / "tokenizer_config.json").is_file():
        return load_tokenizer(_base(path))
    elif path.suffix == ".gguf":
        path = _converted(path)
    elif not (path / "config.json").is_file() and (files := sorted(path.glob("*.gguf"))):
        path = _converted(files[0])
    try:
        return AutoTokenizer.from_pretrained(str(path), **ONLY_DATA)
    except Exception as error:
        raise RlcrError(f"{name}: no tokenizer can be loaded from here: {_line(error)}") from error


def identify(path_or_id: str | Path) -> str:
    """The fingerprint of a model that was loaded from there, an adapter's with that of its base."""
    path = Path(path_or_id).expanduser()
    if (path / "adapter_config.json").is_file():
        return f"{fingerprint(path)} on {identify(_base(path))}"
    if path.exists():
        return fingerprint(path)
    from huggingface_hub import try_to_load_from_cache

    config = try_to_load_from_cache(str(path_or_id), "config.json")
    return fingerprint(Path(config).parent) if isinstance(config, str) else ""


def find_device() -> str:
    """The first of cuda, mps and cpu that is there."""
    import torch

    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def check_device(device: str, dtype: str = "auto") -> None:
    """Raise if this build of torch does not know a device or a dtype, or if the device is not there."""
    if device != "auto":
        import torch

        kind, _, number = device.partition(":")
        try:
            module = torch.get_device_module(kind)
        except RuntimeError:
            raise RlcrError(f"unknown device {device!r}: {nearest(device, ['cpu', 'cuda', 'mps'])}") from None
        if not module.is_available():
            cannot = kind == "cuda" and not torch.backends.cuda.is_built()
            why = f"torch {torch.__version__} is a build without it" if cannot else "there is none here"
            raise RlcrError(f"device {device}: {why}; leave it out to use the {find_device()}")
        if number and not (number.isdecimal() and int(number) < module.device_count()):
            raise RlcrError(f"device {device}: there are {module.device_count()}, counted from {kind}:0")
    if dtype != "auto":
        import torch

        if not isinstance(getattr(torch, dtype, None), torch.dtype):
            raise RlcrError(f"unknown dtype {dtype!r}: float32, bfloat16 or float16")


def _need_transformers() -> None:
    install = 'pip install "rlcr[train]", or give the address of a server instead'
    need("a local model", "torch", "transformers", install=install)


def _load(name: str, dtype: Any) -> tuple[Any, Any]:
    path = Path(name).expanduser()
    if path.is_file():
        if path.suffix != ".gguf":
            raise RlcrError(f"{path}: not a model; give its folder, or a .gguf file")
        return _from_folder(_converted(path), dtype)
    if path.is_dir():
        if (path / "adapter_config.json").is_file():
            return _from_adapter(path, dtype)
        if (path / "config.json").is_file():
            return _from_folder(path, dtype)
        files = sorted(path.glob("*.gguf"))
        if len(files) == 1:
            return _from_folder(_converted(files[0]), dtype)
        if files:
            raise RlcrError(f"{path}: has {len(files)} GGUF files; name one, such as {files[0]}")
        raise RlcrError(f"{path}: no model here; expected config.json, adapter_config.json or a .gguf file")
    _check_hub_id(name)
    return _from_hub(name, dtype)


def _check_hub_id(name: str) -> None:
    """Raise for what is a path, so that the hub is not asked for it."""
    path = Path(name)
    if path.is_absolute() or name.startswith((".", "~")) or name.count("/") > 1 or path.suffix == ".gguf":
        raise RlcrError(f"{name}: no such file or folder; give a model's folder, a .gguf file or a hub id")


def _from_folder(path: Path, dtype: Any) -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        model = AutoModelForCausalLM.from_pretrained(str(path), dtype=dtype, **ONLY_DATA)
        return model, AutoTokenizer.from_pretrained(str(path), **ONLY_DATA)
    except Exception as error:
        raise RlcrError(f"{path}: cannot be loaded: {_line(error)}") from error


def _from_hub(name: str, dtype: Any) -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        # The tokenizer first: it is small, and a wrong name shows at once.
        tokenizer = AutoTokenizer.from_pretrained(name, **ONLY_DATA)
        return AutoModelForCausalLM.from_pretrained(name, dtype=dtype, **ONLY_DATA), tokenizer
    except Exception as error:
        raise RlcrError(
            f"{name}: no such folder, and not available from the Hugging Face hub ({_line(error)}); give"
            " a local folder, or download it where there is a network and set HF_HUB_OFFLINE=1"
        ) from error


def _from_adapter(path: Path, dtype: Any) -> tuple[Any, Any]:
    need(f"{path}: an adapter", "peft")
    from peft import PeftModel

    base = _base(path)
    try:
        model, tokenizer = _load(base, dtype)
    except RlcrError as error:
        raise RlcrError(f"{path / 'adapter_config.json'}: base_model_name_or_path: {error}") from error
    if (path / "tokenizer_config.json").is_file():
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(str(path), **ONLY_DATA)
    try:
        return PeftModel.from_pretrained(model, str(path)).merge_and_unload(), tokenizer
    except Exception as error:
        raise RlcrError(f"{path}: does not fit its base {base}: {_line(error)}") from error


def _base(adapter: Path) -> str:
    """What an adapter names as its base: a folder, looked for from here, then from beside it, or a hub id."""
    config = adapter / "adapter_config.json"
    try:
        base = json.loads(config.read_text(encoding="utf-8")).get("base_model_name_or_path")
    except ValueError as error:
        raise RlcrError(f"{config}: not JSON: {error}") from None
    if not base:
        raise RlcrError(f"{config}: does not name its base model; set base_model_name_or_path")
    beside = (adapter / base).resolve()
    return str(beside) if not Path(base).expanduser().exists() and beside.exists() else base


def _converted(file: Path) -> Path:
    """The folder of a GGUF file's model, converted if it is not in the cache."""
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, lambda: hashlib.blake2b(_CONVERSION.encode(), digest_size=8))
    folder = cache_folder() / "gguf" / f"{file.stem}-{digest.hexdigest()}"
    if folder.is_dir():
        return folder
    log.warning("%s: converting once; the result is kept in %s", file, folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=".new-", dir=folder.parent))
    except OSError as error:
        raise RlcrError(f"{folder.parent}: cannot be written ({error.strerror}); set RLCR_CACHE") from None
    try:
        _convert(file, partial)
        # Renaming is atomic: another process sees the whole model or none of it.
        partial.chmod(0o755)
        partial.rename(folder)
    except OSError as error:
        if not folder.is_dir():  # else another process was faster
            raise RlcrError(f"{folder}: cannot be written ({_line(error)}); set RLCR_CACHE") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def _convert(file: Path, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source = {"pretrained_model_name_or_path": str(file.parent), "gguf_file": file.name, **ONLY_DATA}
    try:
        model = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32)
        tokenizer = AutoTokenizer.from_pretrained(**source)
    except ImportError as error:
        raise RlcrError(f'{file}: {_line(error)}: pip install "rlcr[train]"') from None
    except Exception as error:
        raise RlcrError(f"{file}: cannot be read as GGUF: {_line(error)}") from error
    # The weights are plain float32 by now; without this, transformers takes the model for a quantised one.
    model.hf_quantizer = None  # pyright: ignore[reportArgumentType]
    model.config.__dict__.pop("quantization_config", None)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _line(error: BaseException) -> str:
    """The first line of an error, without a full stop."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0].rstrip(". ")
