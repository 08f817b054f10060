"""Bundle folders: read without following links, appear whole, and swap in one step."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import glob
import os
import secrets
import shutil
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from flashnerd_ext.errors import FlashNerdError, one_line

CARD_FILE = "card.json"
WEIGHTS_FILE = "weights.safetensors"
MAX_CARD_BYTES = 16 * 2**20
"""Largest card that is read [bytes]."""
MAX_WEIGHTS_BYTES = 2 * 2**30
"""Largest weights file that is read [bytes]."""

_LIMITS = {CARD_FILE: MAX_CARD_BYTES, WEIGHTS_FILE: MAX_WEIGHTS_BYTES}
_LFS = b"version https://git-lfs"
_RENAME_EXCHANGE = 2
_AT_FDCWD = -100


def read_folder(folder: Path) -> tuple[bytes, bytes]:
    """The bytes of card and weights, both from one state of the folder even while another process replaces it.

    Raises:
        FlashNerdError: When a file is missing, not a regular file, empty, too large or a Git LFS pointer.
    """
    for _ in range(20):
        try:
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            raise FlashNerdError(
                f"the bundle folder {_name(folder)} does not exist: type python scripts/bundle.py list."
            ) from None
        except NotADirectoryError:
            raise FlashNerdError(
                f"{_name(folder)} is a file, but a bundle is a folder: give the one with {CARD_FILE}."
            ) from None
        except (OSError, ValueError) as error:
            raise FlashNerdError(
                f"the bundle folder {_name(folder)} cannot be opened ({one_line(error, 80)}): check the path."
            ) from None
        try:
            return _read_file(handle, folder, CARD_FILE), _read_file(handle, folder, WEIGHTS_FILE)
        except _Missing as missing:
            # The folder that was opened may have been replaced meanwhile; then the new one is read.
            with contextlib.suppress(OSError):
                if os.stat(folder).st_ino != os.fstat(handle).st_ino:
                    continue
            raise FlashNerdError(str(missing)) from None
        finally:
            os.close(handle)
    raise FlashNerdError(f"the bundle folder {_name(folder)} is replaced faster than it can be read: try again.")


class _Missing(Exception):
    pass


def _name(path: Path) -> str:
    return "".join(c if c.isprintable() else "?" for c in one_line(path, 160))


def _read_file(folder_handle: int, folder: Path, name: str) -> bytes:
    where = f"{name} in {_name(folder)}"
    try:
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder_handle)
    except FileNotFoundError:
        raise _Missing(
            f"{where} is missing, but a bundle is a folder with {CARD_FILE} and {WEIGHTS_FILE}: fetch it again."
        ) from None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise FlashNerdError(
                f"{where} is a symbolic link, but a regular file is needed: copy the file itself there."
            ) from None
        raise FlashNerdError(
            f"{where} cannot be read ({one_line(error.strerror, 60)}): check the file and its permissions."
        ) from None
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise FlashNerdError(f"{where} is not a regular file, but one is needed: fetch the bundle again.")
        limit = _LIMITS[name]
        if status.st_size > limit:
            raise FlashNerdError(
                f"{where} has {status.st_size} bytes, but at most {limit} are read: fetch the bundle again."
            )
        with os.fdopen(handle, "rb", closefd=False) as stream:
            data = stream.read(limit + 1)
    except OSError as error:
        raise FlashNerdError(f"{where} cannot be read ({one_line(error.strerror, 60)}): check the disk.") from None
    finally:
        os.close(handle)
    if data.startswith(_LFS):
        raise FlashNerdError(
            f"{where} has {len(data)} bytes because this is a Git LFS pointer, not the file: "
            "type git lfs pull in its repository."
        )
    if not data:
        raise FlashNerdError(f"{where} is empty (0 bytes), but its content is needed: fetch the bundle again.")
    return data


@contextlib.contextmanager
def staged(target: Path) -> Iterator[Path]:
    """A new empty folder beside ``target`` that takes its place when the block ends without an error.

    An existing bundle is exchanged in one system call, so that a reader sees the old or the new one. A folder
    that holds anything but a bundle is never replaced.

    Raises:
        FlashNerdError: When ``target`` is something else than a bundle folder, or cannot be written.
    """
    _refuse_foreign(target)
    _sweep(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.parent / f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}"
        temporary.mkdir()
    except OSError as error:
        raise FlashNerdError(
            f"the bundle cannot be saved at {_name(target)} ({one_line(error.strerror, 60)}): "
            "give a folder that can be written."
        ) from None
    try:
        yield temporary
        for item in (*temporary.iterdir(), temporary):
            handle = os.open(item, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        _put(temporary, target)
    except OSError as error:
        raise FlashNerdError(
            f"the bundle cannot be saved at {_name(target)} ({one_line(error.strerror, 60)}): "
            "free the place or give another."
        ) from None
    finally:
        # After an exchange this is the bundle that was replaced.
        shutil.rmtree(temporary, ignore_errors=True)


def _sweep(target: Path) -> None:
    """Remove what saves that were killed left beside ``target`` more than an hour ago."""
    with contextlib.suppress(OSError):
        for item in target.parent.glob(f".{glob.escape(target.name)}.*-*"):
            if item.is_dir() and time.time() - item.stat().st_mtime > 3600:
                shutil.rmtree(item, ignore_errors=True)


def _refuse_foreign(target: Path) -> None:
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise FlashNerdError(f"{_name(target)} is not a folder, but a bundle is saved as one: give another path.")
    if target.is_dir():
        other = sorted(item.name for item in target.iterdir() if item.name not in (CARD_FILE, WEIGHTS_FILE))
        if other:
            raise FlashNerdError(
                f"the folder {_name(target)} holds {one_line(other[0], 60)!r}, which is not part of a bundle, and "
                "would be replaced: give a new folder."
            )


def _put(temporary: Path, target: Path) -> None:
    for _ in range(50):
        try:
            os.rename(temporary, target)  # also replaces an empty folder
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        _refuse_foreign(target)
        if _exchange(temporary, target):
            return
    raise FlashNerdError(f"{_name(target)} is replaced faster than the bundle can be saved: try again.")


def _exchange(temporary: Path, target: Path) -> bool:
    """Swap two folders; False when ``target`` vanished meanwhile."""
    library = ctypes.CDLL(None, use_errno=True)
    rename = getattr(library, "renameat2", None)
    if rename is not None:
        if rename(_AT_FDCWD, os.fsencode(temporary), _AT_FDCWD, os.fsencode(target), _RENAME_EXCHANGE) == 0:
            return True
        code = ctypes.get_errno()
        if code == errno.ENOENT:
            return False
        if code not in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
            raise OSError(code, os.strerror(code))
    # File systems without an exchange: the name is free for a moment, but no state is ever half a bundle.
    aside = temporary.with_name(temporary.name + "-old")
    try:
        os.rename(target, aside)
    except FileNotFoundError:
        return False
    try:
        os.rename(temporary, target)
    except OSError:
        with contextlib.suppress(OSError):
            os.rename(aside, target)
        raise
    shutil.rmtree(aside, ignore_errors=True)
    return True
