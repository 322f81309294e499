"""The catalogue's tables. The catalogue is a fold of the log: it can be thrown away and made again."""

from __future__ import annotations

#: Raised with every change of a table: a catalogue of a smaller version is folded anew at the next start.
SCHEMA_VERSION = 5

SCHEMA = """
create table meta (key text primary key, value) without rowid;
create table content (
    id integer primary key, hash blob not null unique, size int not null, encoding int not null,
    segment int not null, offset int not null, stored int not null, base int not null, depth int not null
);
create table project (
    id integer primary key, path blob not null, state text not null, dev int not null, ino int not null,
    generation int not null, added int not null, baseline_end int not null, reason text not null,
    last_seq int not null default 0, next_ordinal int not null default 1,
    files int not null default 0, dirs int not null default 0, links int not null default 0,
    bytes int not null default 0, digest blob not null, last_capture int not null default 0,
    thinned int not null default 0
);
create index project_path on project (path);
create table path (
    id integer primary key, project int not null, dir blob not null, name blob not null,
    seq int not null, kind int not null, mode int not null, size int not null, hash blob not null,
    target blob not null, reason text not null, flags int not null, since int not null, at int not null,
    dev int not null, ino int not null, stat_size int not null, stat_mode int not null, mtime int not null,
    ctime int not null, seen int not null, born_unknown int not null,
    unique (project, dir, name)
);
create index path_odd on path (project, kind) where kind >= 4;
create index path_torn on path (project) where flags & 3;
create table row (
    seq integer primary key, project int not null, path int not null, kind int not null, mode int not null,
    size int not null, hash blob not null, target blob not null, reason text not null,
    since int not null, at int not null, flags int not null, call text not null, grade text not null
);
create index row_path on row (path, seq);
create index row_at on row (project, at);
create index row_call on row (call) where call != '';
create table checkpoint (
    id text primary key, project int not null, ordinal int not null, session text not null, parent text not null,
    timestamp int not null, seq int not null, moment int not null, trigger text not null, event_key text,
    pinned int not null, description text not null, body blob not null
) without rowid;
create unique index checkpoint_ordinal on checkpoint (project, ordinal);
create unique index checkpoint_key on checkpoint (project, event_key) where event_key is not null;
create index checkpoint_session on checkpoint (session, timestamp);
create index checkpoint_time on checkpoint (project, timestamp);
create table deleted (project int not null, event_key text not null, primary key (project, event_key)) without rowid;
create table current (
    project int not null, session text not null, checkpoint text not null, primary key (project, session)
) without rowid;
create table session (
    id text primary key, project int not null, transcript blob not null, first int not null, last int not null,
    state blob not null, ended int not null
) without rowid;
create index session_project on session (project, last);
create table prompt (
    key text primary key, session text not null, ordinal int not null, project int not null,
    moment int not null, text text not null, kind text not null
) without rowid;
create index prompt_session on prompt (session, ordinal);
create table call (
    id text primary key, session text not null, project int not null, name text not null, owns text not null,
    start int not null, end int not null, is_error int not null, paths blob not null, prompt int not null,
    agent int not null, background int not null, background_end int not null,
    command text not null, barrier int not null, unguarded int not null
) without rowid;
create index call_window on call (project, start);
create index call_session on call (session);
create table usage (
    message text primary key, session text not null, model text not null, input int not null, output int not null,
    cache_creation int not null, cache_read int not null, number int not null
) without rowid;
create index usage_session on usage (session, number);
create index usage_number on usage (number);
create table known (key text primary key, session text not null) without rowid;
create table offset (file blob primary key, state blob not null) without rowid;
create table gap (project int not null, start int not null, end int not null, reason text not null);
create table operation (
    id text primary key, project int not null, kind text not null, phase text not null, time int not null,
    target text not null, before text not null, undoes text not null, number int not null
) without rowid;
create table payload (operation text not null, phase text not null, body blob not null);
create unique index payload_operation on payload (operation, phase);
create table thinned (call text not null, path int not null, primary key (call, path)) without rowid;
create table purged (hash blob primary key) without rowid;
create index operation_project on operation (project, number);
"""

PRAGMAS = """
pragma journal_mode = wal;
pragma synchronous = normal;
pragma wal_autocheckpoint = 2000;
pragma temp_store = memory;
"""
