"""The configuration: every key with its default and limits, read strictly, shown as it is in effect.

A configuration that cannot be used in full is not used at all. Every refusal is a ConfigError that names file, line,
column and key, what was expected, and the nearest key there is. Nothing here looks at the environment.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from mulligan.errors import ConfigError
from mulligan.quantities import GIB, MIB, parse_duration, parse_size, show_duration

if TYPE_CHECKING:
    from mulligan.yaml_loader import Pair, Position

StrategyName = Literal["manual", "per_prompt", "per_tool_use", "smart"]
LogLevel = Literal["debug", "info", "warning", "error"]
LegacyImport = Literal["namespace", "off"]

_Flag = Annotated[bool, Meta(extra={"expected": "true or false"})]
_Size = Annotated[
    int,
    Meta(ge=1, le=2**62, extra={"expected": "a number of bytes, or a size with its unit such as 512 MiB or 10 GB"}),
]
_Count = Annotated[int, Meta(ge=0, le=1_000_000, extra={"expected": "a whole number; 0 is no rule"})]
BUDGET_EXPECTED = "null, or a size of 1 MiB and more"
_Directory = Annotated[str, Meta(pattern=r"^(/|~/|~$)")]
_Pattern = Annotated[str, Meta(pattern=r"^(/|~/|~$|\*)")]
_Patterns = Annotated[
    tuple[_Pattern, ...],
    Meta(extra={"expected": "a list of directories: each an absolute path, ~/… or a pattern that begins with *"}),
]


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The configuration in effect: sizes in bytes, durations in seconds, None where it is off or a rule applies.

    `config/default.yaml` explains each key to the person who sets it. A later version adds keys and renames none.
    """

    strategy: StrategyName = "smart"
    auto_checkpoint: _Flag = True
    turn_end: _Flag = True
    auto_add: _Flag = True
    exclude: _Patterns = ()
    include: _Patterns = ()
    budget_bytes: Annotated[int, Meta(ge=MIB, le=2**62, extra={"expected": BUDGET_EXPECTED})] | None = None
    project_budget_bytes: Annotated[int, Meta(ge=MIB, le=2**62, extra={"expected": BUDGET_EXPECTED})] | None = None
    max_file_bytes: _Size = 256 * MIB
    max_project_files: Annotated[int, Meta(ge=1, le=2**62, extra={"expected": "a whole number above 0"})] = 200_000
    max_project_bytes: _Size = 5 * GIB
    claude_config_dirs: Annotated[
        tuple[_Directory, ...], Meta(extra={"expected": "a list of directories: each an absolute path or ~/…"})
    ] = ()
    keep_last: _Count = 0
    keep_hourly: _Count = 0
    keep_daily: _Count = 0
    keep_weekly: _Count = 0
    max_age: Annotated[int, Meta(ge=1, le=100 * 366 * 86_400)] | None = None
    interval: Annotated[int, Meta(ge=1, le=366 * 86_400)] | None = None
    scrub: Annotated[int, Meta(ge=86_400, le=366 * 86_400)] | None = 30 * 86_400
    drill: Annotated[int, Meta(ge=3600, le=366 * 86_400)] | None = 86_400
    database_path: (
        Annotated[
            str, Meta(pattern=r"^(/|~/)[^\x00]*[^/\x00]$", extra={"expected": "null, or an absolute path or ~/…"})
        ]
        | None
    ) = None
    history_limit: Annotated[int, Meta(ge=1, le=10_000, extra={"expected": "a whole number of 1 to 10000"})] = 10
    autosave_every: Annotated[
        int, Meta(ge=0, le=1_000_000, extra={"expected": "a number of prompts; false or 0 is never"})
    ] = 5
    handoff: _Flag = True
    handoff_dir: (
        Annotated[
            str,
            Meta(
                pattern=r"^(?!/|~)(?!(.*/)?(\.\.?|\.git)(/|$))[^\x00]+$",
                extra={
                    "expected": "null, or a directory below the project: no absolute path, and no .. and no .git in it"
                },
            ),
        ]
        | None
    ) = None
    max_injection_chars: Annotated[
        int, Meta(ge=0, le=1_000_000, extra={"expected": "a number of characters; 0 is nothing"})
    ] = 20_000
    legacy_import: LegacyImport = "namespace"
    log_level: LogLevel = "info"

    def directories(self, key: Literal["exclude", "include", "claude_config_dirs"], home: str) -> list[str]:
        """The paths and patterns of a key, with `~` replaced by the home directory."""
        return [home + text[1:] if text.startswith("~") else text for text in getattr(self, key)]

    def own_files(self) -> list[str]:
        """What mulligan itself writes into projects, as lines of an ignore file: hand-offs, if they lie there."""
        if self.handoff_dir is None:
            return []
        directory = re.sub(r"([\\*?\[\]!# ])", r"\\\1", self.handoff_dir.strip("/"))
        return [f"/{directory}/handoff-*.md", f"/{directory}/handoff-*.md.new"]

    def state_database(self, home: str) -> str | None:
        """The configured place of the state database, with `~` replaced by the home directory."""
        path = self.database_path
        return home + path[1:] if path and path.startswith("~") else path


_FIELDS = {field.name: field for field in msgspec.structs.fields(Config)}
SIZE_KEYS = ("budget_bytes", "project_budget_bytes", "max_file_bytes", "max_project_bytes")
DURATION_KEYS = ("interval", "max_age", "scrub", "drill")
_EXPECTED = {
    "interval": "off, or a duration such as 30m, 2h or 1h30m",
    "max_age": "off, or a duration such as 12h or 90d",
    "scrub": "off, or a duration of 1d and more",
    "drill": "off, or a duration of 1h and more",
}


def load(path: str) -> Config:
    """The configuration in a file; an absent or empty file is the default. Raises ConfigError."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return Config()
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be read: {error.strerror}", hint="make it a file that you can read", file=path
        ) from error
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - (data.rfind(b"\n", 0, error.start) + 1) + 1
        raise ConfigError(
            f"{path}:{line}:{column}: not UTF-8", hint="save it as UTF-8", file=path, line=line, column=column
        ) from error
    return parse(text, path)


def parse(text: str, file: str = "config.yaml") -> Config:
    """The configuration that a text says; `file` is its name in messages. Raises ConfigError."""
    from mulligan.yaml_loader import NotYamlError, read_mapping  # YAML costs 10 ms of every start  # noqa: PLC0415

    try:
        pairs = read_mapping(text)
    except NotYamlError as error:
        raise _refusal(file, error.position, error.message, hint="check it with: mulligan config check") from error
    return Config(**{pair.key: _value(pair, file) for pair in pairs})


def dump(config: Config) -> str:
    """The configuration in effect as YAML: every key, and `parse` gives the same configuration back."""
    import yaml  # noqa: PLC0415

    values: dict[str, Any] = {name: getattr(config, name) for name in _FIELDS}
    values |= {name: list(value) for name, value in values.items() if isinstance(value, tuple)}
    values |= {key: "off" if values[key] is None else show_duration(values[key]) for key in DURATION_KEYS}
    # PyYAML leaves U+0085 as it is, and reads it as a line break; escaping is for all or none.
    texts = [text for value in values.values() for text in (value if isinstance(value, list) else [value])]
    plain = all(text.isprintable() for text in texts if isinstance(text, str))
    return str(yaml.safe_dump(values, sort_keys=False, allow_unicode=plain, width=10_000))


def expected(key: str) -> str:
    """What may stand at a key, in words."""
    if key in _EXPECTED:
        return _EXPECTED[key]
    kind = _FIELDS[key].type
    for part in (kind, *getattr(kind, "__args__", ())):
        for meta in getattr(part, "__metadata__", ()):
            if meta.extra:
                return str(meta.extra["expected"])
    return "one of " + ", ".join(kind.__args__)


def _value(pair: Pair, file: str) -> Any:
    key, value, position = pair.key, pair.value.value, pair.value.position
    if key not in _FIELDS:
        nearest = difflib.get_close_matches(key, _FIELDS, n=1, cutoff=0.5)
        hint = f'did you mean "{nearest[0]}"?' if nearest else "the keys there are: " + ", ".join(_FIELDS)
        raise _refusal(file, pair.position, f"there is no key {_shown(key)}", hint=hint, key=key, nearest=nearest)
    try:
        return msgspec.convert(_plain(key, value), _FIELDS[key].type)
    except (ValueError, OverflowError) as error:  # msgspec's ValidationError is a ValueError
        if item := re.search(r"\$\[(\d+)\]$", str(error).rstrip("`")):
            position = pair.value.items[int(item[1])]
            value = value[int(item[1])]
        raise _refusal(
            file,
            position,
            f"{key}: expected {expected(key)}, found {_shown(value)}",
            hint="every key is explained by: mulligan config show --default",
            key=key,
            expected=expected(key),
        ) from error


def _plain(key: str, value: Any) -> Any:
    """Sizes as bytes, durations as seconds, no autosave as 0; everything else as it is."""
    if key == "autosave_every" and value is False:
        return 0
    if key in SIZE_KEYS and isinstance(value, str):
        return parse_size(value)
    if key not in DURATION_KEYS:
        return value
    if not isinstance(value, str):
        raise ValueError("a duration is text")
    return None if value == "off" else parse_duration(value)


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f'"{text[:60]}"' if text.isprintable() else ascii(text[:60])


def _refusal(file: str, position: Position, reason: str, *, hint: str, **data: Any) -> ConfigError:
    line, column = position.line, position.column
    return ConfigError(f"{file}:{line}:{column}: {reason}", hint=hint, file=file, line=line, column=column, **data)
