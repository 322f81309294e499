"""The tables of the state database, step by step: what each version added to the one before."""

from __future__ import annotations

_SETTINGS = (
    "create table setting (scope text not null, subject text not null, key text not null, value text not null,"
    " primary key (scope, subject, key)) without rowid",
)

#: Times are journal time (nanoseconds). A project's row stays when it is no longer protected, and so does a session's:
#: state outlives transcripts, directories and clients. `state_version` has what each real state was from `saved` on.
#: `snapshot.checkpoint` is the one that was taken at the same event; `operation` the restore that a pre-restore
#: snapshot is the way back from. `session_runtime` has what triggers need to know. `migration` has what was imported.
_TASK_STATE = (
    "create table project (id integer primary key, path blob not null unique)",
    "create table session (id text primary key, project integer not null references project (id))",
    "create table state (session text primary key references session (id) on delete cascade, updated int not null,"
    " synthesized int not null, value text not null)",
    "create table state_version (id integer primary key, session text not null references session (id)"
    " on delete cascade, saved int not null, value text not null)",
    "create index state_version_time on state_version (session, saved, id)",
    "create table snapshot (id integer primary key, session text not null references session (id) on delete cascade,"
    " name text not null, kind text not null, taken int not null, value text not null,"
    " checkpoint text not null default '', operation text not null default '', unique (session, name))",
    "create table session_runtime (session text primary key references session (id) on delete cascade,"
    " prompts int not null default 0, injected text not null default '')",
    "create table migration (id integer primary key, project integer not null references project (id),"
    " namespace text not null, source text not null, hash text not null, value text not null, imported int not null,"
    " adopted_by text not null default '', adopted int not null default 0, unique (namespace, hash))",
)

STEPS = (_SETTINGS, _TASK_STATE)
VERSION = len(STEPS)
