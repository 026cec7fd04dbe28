"""Put a folder on the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from hiertree.errors import MissingResourceError, raised_as, require_package


def upload(
    folder: Path,
    name: str,
    *,
    kind: Literal["model", "dataset"],
    message: str,
    private: bool | None = None,
    token: str | None = None,
) -> str:
    """Put the files of a folder on the hub as ``OWNER/NAME``, made if it does not exist; the commit's address.

    Raises:
        MissingResourceError: the hub is out of reach, or refuses.
        MissingPackageError: huggingface_hub is not installed.
    """
    require_package("huggingface_hub", extra="train")  # timm needs it too
    from huggingface_hub import HfApi

    api = HfApi(token=token)
    expected, remedy = "OWNER/NAME where you may write, and a connection", "`hf auth login` sets your token"
    with raised_as(MissingResourceError, f"{name} on the hub", expected=expected, remedy=remedy, on=Exception):
        repository = api.create_repo(name, private=private, repo_type=kind, exist_ok=True).repo_id
        done = api.upload_folder(repo_id=repository, folder_path=folder, repo_type=kind, commit_message=message)
    return str(done)
