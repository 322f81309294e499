"""Which files a command names."""

from __future__ import annotations

import pytest

from mulligan.session.hints import written_paths


@pytest.mark.parametrize(
    ("command", "paths"),
    [
        ("rm -rf a b/c", [b"/p/a", b"/p/b/c"]),
        ("sudo rm -- '/x/a b'", [b"/x/a b"]),
        ("mv old new", [b"/p/old", b"/p/new"]),
        ("cp from to", [b"/p/to"]),
        (
            "sed -i s/one/uno/ a.txt && mv b.txt c.txt; rm -f p1.txt",
            [b"/p/a.txt", b"/p/b.txt", b"/p/c.txt", b"/p/p1.txt"],
        ),
        ("sed -i.bak -e s/a/b/ one two", [b"/p/one", b"/p/two"]),
        ("sed s/a/b/ one", []),
        ("truncate -s0 log", [b"/p/log"]),
        ("echo x > out 2>&1; cat < in >> all", [b"/p/out", b"/p/all"]),
        (": >f 2>/dev/null", [b"/p/f"]),
        ("make 2> err.log | tee build.log", [b"/p/err.log", b"/p/build.log"]),
        ("cd sub && rm x", [b"/p/sub/x"]),
        ("A=1 rm x", [b"/p/x"]),
        ("rm *.txt $HOME/x `ls`", []),
        ("rm ../../etc/x", [b"/etc/x"]),
        ("rm x; echo 'open", [b"/p/x"]),
        ("python - <<'E'\nprint(1)\nE", []),
        ("git rm a", [b"/p/a"]),
        ("dd if=/dev/zero of=img", [b"/p/img"]),
        ("", []),
        ("\0 ; rm \ud800", [b"/p/?"]),
    ],
)
def test_written_paths(command: str, paths: list[bytes]) -> None:
    assert list(written_paths(command, "/p")) == paths


def test_a_flood_of_names_is_cut() -> None:
    assert len(written_paths("rm " + " ".join(map(str, range(1000))), "/p")) == 64
