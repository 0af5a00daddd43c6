"""Paths that stay inside, bytes that arrive."""

import hashlib
from pathlib import Path

import pytest

from app.registry.files import copy, digest, inside, write, write_atomic


def test_inside_follows_links_that_stay_inside(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "file").write_text("x")
    (tmp_path / "link").symlink_to("sub/file")
    assert inside(tmp_path, "sub/file").read_text() == "x"
    assert inside(tmp_path, "link").read_text() == "x"


def test_what_is_no_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("x")
    (tmp_path / "loop").symlink_to("loop")
    for path, sentence in {
        "none": "no file", "file/none": "no file", "folder": "not a file", ".": "not a file", "loop": "cannot be read",
        "a\0b": "relative path inside",
    }.items():  # fmt: skip
        with pytest.raises(ValueError, match=sentence):
            inside(tmp_path, path)


def test_copy_and_write_tell_the_digest_of_what_is_on_disk(tmp_path: Path) -> None:
    content = bytes(range(256)) * 9_000
    (tmp_path / "source").write_bytes(content)
    expected = hashlib.sha256(content).hexdigest()
    assert copy(tmp_path / "source", tmp_path / "deep" / "copy") == expected
    assert write(tmp_path / "written", content) == expected
    assert digest(tmp_path / "deep" / "copy") == digest(tmp_path / "written") == expected


def test_nothing_is_overwritten_by_accident(tmp_path: Path) -> None:
    write(tmp_path / "file", b"first")
    with pytest.raises(FileExistsError):
        write(tmp_path / "file", b"second")
    write_atomic(tmp_path / "file", b"third")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"third"]
