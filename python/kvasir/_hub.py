"""Models by their names on Hugging Face's Hub, by huggingface_hub: `pip install kvasir[hub]`."""

from __future__ import annotations

import os
import re

from . import _native as native

# What is taken without a quant, in this order; as `kvasir pull` has it.
_USUAL = ("Q4_K_M", "Q4_K_S", "UD-Q4_K_XL", "Q4_0", "IQ4_XS", "Q5_K_M", "Q6_K", "Q8_0", "MXFP4", "Q3_K_M", "Q2_K", "BF16", "F16", "F32")
_WHOLE = {"BF16", "F16", "F32", "MXFP4", "FP16"}
_PART = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.gguf$", re.IGNORECASE)
# Of a folder of safetensors: what it is read by.
_FOLDER = ("*.safetensors", "*.safetensors.index.json", "*.json", "*.jinja", "tokenizer.model", "vocab.txt", "merges.txt")
_NAME = re.compile(r"(?:hf:)?([\w.-]+/[\w.-]+)(?::([\w.-]+)|/([\w ./()+,=@-]+\.gguf))?$")


def named(model: str) -> re.Match | None:
    """The name's parts (repository, quant, file), where `model` is a name and no path that is here."""
    found = _NAME.match(model)
    if not found or (not model.startswith("hf:") and (os.path.exists(model) or model.endswith(".gguf"))):
        return None
    return found


def _stem(path: str) -> str:
    part = _PART.match(path)
    return part[1] if part else path[: -len(".gguf")]


def _quant(path: str) -> str:
    """The last word of a file's name that is a weight type: "Q4_K_M", "UD-Q4_K_XL"; "": none."""
    words = re.split(r"([-./])", _stem(path).upper())
    for i in range(len(words) - 1, -1, -2):
        if words[i] in _WHOLE or re.match(r"(Q|IQ|TQ)[1-8]", words[i]):
            return ("UD-" if i >= 2 and words[i - 2] == "UD" and words[i - 1] == "-" else "") + words[i]
    return ""


def choose(files: list[str], name: str, quant: str = "", file: str = "") -> list[str]:
    """The GGUF file of a repository that a name means, or its parts in order; []: it has none."""
    models: dict[str, list[str]] = {}
    for path in sorted(files):
        base = path.rsplit("/", 1)[-1].upper()
        if base.endswith(".GGUF") and "MMPROJ" not in base and "IMATRIX" not in base:
            models.setdefault(_stem(path), []).append(path)

    def whole(paths: list[str]) -> list[str]:
        part = _PART.match(paths[0])
        if len(paths) != (int(part[3]) if part else 1):
            raise native.BadInput(f"{name}: has only some of the parts of {paths[0]}")
        return paths

    def of(wanted: str) -> list[str] | None:
        return min((p for p in models.values() if _quant(p[0]) == wanted), key=lambda p: len(_stem(p[0])), default=None)

    if file:
        for paths in models.values():
            if file in paths:
                return whole(paths)
    elif quant:
        if found := of(quant.upper()):
            return whole(found)
    else:
        for usual in _USUAL:
            if found := of(usual):
                return whole(found)
        if len(models) == 1:
            return whole(next(iter(models.values())))
        if not models:
            return []
    if not models:
        raise native.BadInput(f"{name}: has no GGUF files")
    quants = sorted({_quant(p[0]) for p in models.values()} - {""})
    raise native.BadInput(f"{name}: " + (f"is not there; there is {', '.join(quants)}" if quants else f"name one of its {len(models)} files"))


def _pulled(repository: str, name: str, quant: str, file: str) -> str | None:
    """Where `kvasir pull` put it."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.environ.get("HOME", ""), ".cache")
    base = os.path.join(os.environ.get("KVASIR_MODELS") or os.path.join(home, "kvasir", "models"), repository)
    files = [os.path.relpath(os.path.join(at, f), base) for at, _, names in os.walk(base) for f in names]
    try:
        return next((os.path.join(base, path) for path in choose(files, name, quant, file)), None)
    except native.BadInput:
        return None


def _listed(hub, repository: str) -> list[str]:
    """A repository's files; offline those that are here."""
    if not hub.constants.HF_HUB_OFFLINE:
        return hub.HfApi().list_repo_files(repository)
    folder = hub.snapshot_download(repository, local_files_only=True)
    return [os.path.relpath(os.path.join(at, f), folder) for at, _, names in os.walk(folder) for f in names]


def _download(hub, repository: str, name: str, quant: str, file: str) -> str:
    files = _listed(hub, repository)
    if paths := choose(files, name, quant, file):
        return [hub.hf_hub_download(repository, path) for path in paths][0]
    if not any("/" not in f and f.endswith(".safetensors") for f in files):
        raise native.BadInput(f"{name}: has neither GGUF files nor safetensors")
    # Not what lies deeper, nor the same weights in Mistral's own form.
    return hub.snapshot_download(repository, allow_patterns=list(_FOLDER), ignore_patterns=["*/*", "consolidated*"])


def local(model: str, progress: bool | None = None) -> str:
    """The path of `model`: a path as it is; of a name of the Hub what `kvasir pull` or huggingface_hub has, or downloads.

    A repository with GGUF files gives one, by the rules of `kvasir pull`; another one its folder of safetensors.
    HF_ENDPOINT, HF_TOKEN, HF_HOME and HF_HUB_OFFLINE mean what they mean to huggingface_hub, which shows its own bars.
    """
    parts = named(model)
    if not parts:
        return model
    repository, quant, file = parts[1], parts[2] or "", parts[3] or ""
    name = model if model.startswith("hf:") else "hf:" + model
    if pulled := _pulled(repository, name, quant, file):
        return pulled
    try:
        import huggingface_hub as hub
        import huggingface_hub.constants
        import huggingface_hub.utils
    except ImportError:
        raise native.BadInput(
            f"{model}: is no file or folder here, and names of the Hub need huggingface_hub: pip install 'kvasir[hub]' "
            f"(or `kvasir pull {name}`)"
        ) from None
    if hidden := progress is False and not hub.utils.are_progress_bars_disabled():
        hub.utils.disable_progress_bars()
    try:
        return _download(hub, repository, name, quant, file)
    except native.Error:
        raise
    except Exception as e:  # of the network they are requests', httpx's or httpx2's, by huggingface_hub's version
        raise native.IoError(f"{name}: {(str(e).strip() or type(e).__name__).splitlines()[0]}") from e
    finally:
        if hidden:
            hub.utils.enable_progress_bars()
