"""Transcripts that are kept here, for agents that write none: what their hooks told, an event a line. Pure.

A line is an event as it is, so reading one back is no judgement; what a hook's input means was decided when it came.
The files lie as other transcripts do, below `projects/` of a directory that is watched like an agent's own.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from mulligan.transcript.events import Parsed, TranscriptEvent

#: Ids of OpenCode's sessions, as they stand in file names.
SESSION = r"ses_[0-9A-Za-z]{8,64}"
_ENCODER = msgspec.json.Encoder()
_DECODER: msgspec.json.Decoder[TranscriptEvent] = msgspec.json.Decoder(TranscriptEvent)


def kept_lines(events: Iterable[TranscriptEvent]) -> bytes:
    """The lines for some events."""
    return b"".join(_ENCODER.encode(event) + b"\n" for event in events)


def parse_kept(line: bytes) -> Parsed:
    """The event of a line; a line that was cut off is odd, and no more."""
    if not line.strip():
        return Parsed()
    try:
        return Parsed((_DECODER.decode(line),))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Parsed(fault="malformed")
