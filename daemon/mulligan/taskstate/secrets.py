"""Secrets in texts: what looks like one is replaced before anything is written down for others to read.

Pure. Judged are the forms in which secrets stand in shell commands and notes: values with a telling name, options,
headers, addresses, keys of known makers, words that look drawn by lot; and, exactly, the values of environment files.
A word too much is taken out rather than one too few. It is a net and no proof: a password that looks like any word, and
that nothing beside it names, stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

REDACTED = "[redacted]"

_VALUE = r"""(?P<secret>"[^"\n]*"|'[^'\n]*'|[^\s"'`,;&|)]+)"""
_TELLING = (
    r"(?:secret|token(?!s)|passw(?:or)?d|passphrase|pwd|credential"
    r"|(?:api|access|auth|account|client|private|signing|encryption|master|shared|storage|license)[_.-]?key)"
)
#: What an option only says about a secret, and is none.
_ABOUT = r"(?:file|path|dir|stdin|env|name|type|url|uri|limit|length|count|id|from|policy|expiry|ttl)"
_NAMED = re.compile(
    rf"(?<![\w.-])[\w.-]{{0,64}}?{_TELLING}[\w.-]{{0,64}}[\"']?\]?"
    rf"\s*(?P<sign>=>|(?<![=!<>])=(?!=)|:(?![:/]))\s*{_VALUE}",
    re.I,
)
_OPTION = re.compile(rf"(?<![\w-])--?[\w-]{{0,64}}?{_TELLING}(?!-?{_ABOUT}\b)[\w-]{{0,64}}(?:=|\s+)(?!-){_VALUE}", re.I)
_MARKERS = (
    # private keys, whole; one that was cut ends with the text
    re.compile(r"(?P<secret>-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z))", re.S),
    # addresses with a password, or with a token for a name
    re.compile(r"(?<=://)[^\s/:@\"']{0,200}:(?P<secret>[^\s@\"']{1,500})@"),
    re.compile(r"(?<=://)(?P<secret>[^\s/:@\"']{16,500})@"),
    # headers
    re.compile(
        r"\bauthorization[\"']?\s*[:=]\s*[\"']?(?:(?:bearer|basic|token|digest|apikey)\s+)?(?P<secret>[^\s\"',;]+)",
        re.I,
    ),
    re.compile(r"\bbearer\s+(?P<secret>[\w.~+/=-]{8,})", re.I),
    re.compile(
        r"(?<![\w-])(?:x-[\w-]{0,40}(?:key|token|auth)[\w-]{0,40}|(?:set-)?cookie)\s*:\s*(?P<secret>[^\"'\n]+)", re.I
    ),
    # programs that take a password as a word of their command line
    re.compile(r"\b(?:mysql|mariadb)[\w-]*\b[^\n|;&]{0,200}?\s-p(?P<secret>[^\s\"']+)"),
    re.compile(r"\blogin\b[^\n|;&]{0,200}?\s-p[\s=]*(?P<secret>[^\s\"']+)"),
    re.compile(rf"\bsshpass\s+-p\s*{_VALUE}"),
    re.compile(rf"\bredis-cli\b[^\n|;&]{{0,200}}?\s-a\s+{_VALUE}"),
    re.compile(r"(?<!\w)(?:-u|--user)[\s=]*[\"']?[^\s:\"'/]+:(?P<secret>(?!\d+\b)[^\s\"'/][^\s\"']*)"),
    re.compile(r"\bpass:(?P<secret>[^\s\"']+)"),
    re.compile(
        r"\b(?:echo|printf)\s+(?:-n\s+)?(?P<secret>\"[^\"\n]*\"|'[^'\n]*'|\S+)\s*\|\s*"
        r"(?:sudo|docker|podman|gh|glab|helm|npm|kubectl|vault|op)\b"
    ),
    # what makers of keys begin them with
    re.compile(
        r"(?<![\w-])(?P<secret>gh[pousr]_\w{16,}|github_pat_\w{20,}|gl(?:pat|ptt|dt|rt|cbt)-[\w-]{16,}|npm_\w{20,}"
        r"|pypi-[\w-]{16,}|sk-[\w-]{16,}|[rs]k_(?:live|test)_\w{10,}|whsec_\w{16,}|xox[a-z]-[\w-]{10,}"
        r"|xapp-[\w-]{10,}|(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}|AIza[\w-]{30,}|ya29\.[\w-]{10,}"
        r"|SG\.[\w-]{16,}\.[\w-]{16,}|eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?|hf_\w{20,}|do[opr]_v1_\w{20,}"
        r"|shp(?:at|ca|pa|ss)_\w{16,}|AGE-SECRET-KEY-1\w{20,}|hv[sb]\.[\w-]{16,}|lin_api_\w{16,}|\d{8,10}:[\w-]{35})"
    ),
    re.compile(r"hooks\.slack\.com/services/(?P<secret>[\w/]+)"),
)
_WORD = re.compile(r"[A-Za-z0-9+_=-]{24,}")
_CLASSES = ((r"[A-Z]", 2), (r"[a-z]", 2), (r"[0-9]", 2))
#: A word drawn by lot changes between capitals, small letters and digits at two of three places; a name at few.
_CHANGES = 0.4
_CHANGE = re.compile(r"(?<=[A-Z])[a-z0-9]|(?<=[a-z])[A-Z0-9]|(?<=[0-9])[A-Za-z]")

_ENV_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][\w.-]*)\s*=\s*(.*)")
_SECRET_NAME = re.compile(rf"{_TELLING}|auth|dsn|salt|cert|pass|sign|private|webhook", re.I)
_SECRET_KEY = re.compile(rf"{_TELLING}\Z", re.I)
_PLAIN = re.compile(r"[a-z]+|[A-Z]+|[A-Z][a-z]+|[\d.]{1,7}|https?://[\w.:-]+/?|[/~.][\w./-]*", re.A)


class Redactor:
    """Takes secrets out of texts: those of some environment files, and what looks like one."""

    def __init__(self, environment_files: Iterable[bytes] = ()) -> None:
        values = {value for data in environment_files for value in secret_values(data)}
        longest_first = sorted(values, key=lambda value: (-len(value), value))
        self._exact = re.compile("|".join(map(re.escape, longest_first))) if values else None

    def redact(self, text: str) -> str:
        """The text with `REDACTED` in the place of each secret. Idempotent; never raises."""
        if self._exact is not None:
            text = self._exact.sub(REDACTED, text)
        for pattern in _MARKERS:
            text = pattern.sub(_taken_out, text)
        text = _NAMED.sub(_named, text)
        text = _OPTION.sub(_assigned, text)
        return _WORD.sub(lambda found: REDACTED if _drawn_by_lot(found[0]) else found[0], text)

    def redact_value(self, value: Any, name: str = "") -> Any:
        """The same for every text in a value of JSON, keys too; what a key calls a secret goes in any case."""
        if isinstance(value, str):
            return REDACTED if value and _SECRET_KEY.search(name) else self.redact(value)
        if isinstance(value, dict):
            return {self.redact(key): self.redact_value(inner, key) for key, inner in value.items()}
        return [self.redact_value(inner, name) for inner in value] if isinstance(value, list) else value


def secret_values(data: bytes) -> Iterator[str]:
    """The values of an environment file (`NAME=value` lines) that are worth hiding wherever they stand.

    Everything with a telling name; else what is not a plain word, number, path or address.
    """
    for line in data.decode("utf-8", "replace").splitlines():
        found = _ENV_LINE.fullmatch(line)
        if found is None:
            rest = line.strip()
            if len(rest) >= 16 and not rest.startswith("#"):
                yield rest  # a value of several lines goes on
            continue
        value = found[2].strip()
        if value[:1] in ("'", '"'):
            value = value[1:].removesuffix(value[0]) if value.endswith(value[0]) else value[1:]
        else:
            value = value.split(" #", 1)[0].rstrip()
        is_telling = _SECRET_NAME.search(found[1]) is not None
        if len(value) >= (3 if is_telling else 6) and (is_telling or not _PLAIN.fullmatch(value)):
            yield value


def _taken_out(found: re.Match[str]) -> str:
    """The match with its secret replaced, in its quotes if it has any."""
    secret, whole = found["secret"], found[0]
    start = found.start("secret") - found.start()
    quote = secret[0] if len(secret) > 1 and secret[0] in "\"'" and secret[-1] == secret[0] else ""
    return whole[:start] + quote + REDACTED + quote + whole[start + len(secret) :]


def _assigned(found: re.Match[str]) -> str:
    """As `_taken_out`, but what the shell or a program puts in there only later is no secret."""
    return found[0] if found["secret"].lstrip('"').startswith(("$", "<", REDACTED)) else _taken_out(found)


def _named(found: re.Match[str]) -> str:
    """As `_assigned`; behind a colon a plain word is prose."""
    if found["sign"] == ":" and re.fullmatch(r"[A-Za-z'-]+\.?", found["secret"]):
        return found[0]
    return _assigned(found)


def _drawn_by_lot(word: str) -> bool:
    if any(len(re.findall(kind, word)) < least for kind, least in _CLASSES):
        return False
    return len(_CHANGE.findall(word)) >= _CHANGES * len(word)
