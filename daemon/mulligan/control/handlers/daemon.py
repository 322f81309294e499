"""hello, daemon.status, daemon.stats, daemon.reload, daemon.stop."""

from __future__ import annotations

import os
import resource
from typing import Any

from mulligan import __version__
from mulligan.clock import NANOSECONDS, to_rfc3339
from mulligan.control.framing import PROTOCOL_VERSION
from mulligan.control.methods import METHODS, Params, method
from mulligan.control.objects import is_at_work, path_fields, show_path
from mulligan.control.services import Call, Services
from mulligan.errors import NotFoundError, UsageError
from mulligan.journal.alarm import Alarm
from mulligan.journal.forecast import forecast
from mulligan.project.alerts import call_words
from mulligan.project.integrity import times
from mulligan.project.opcode_import import REASON
from mulligan.project.registry import EXCLUDED, REMOVED
from mulligan.project.space import without_room
from mulligan.project.worker import ProjectWorker
from mulligan.store.catalogue import Project
from mulligan.watch.hidden import Summary

_DAY = 24 * 3600 * NANOSECONDS
#: From here on somebody is warned of the budget: its part that is used, or the days that are left.
_NEARLY_USED, _SOON_DAYS = 0.9, 7


class HelloParams(Params, frozen=True, kw_only=True):
    """Who calls, and which protocol versions it speaks."""

    client: str = ""
    protocol: tuple[int, ...] = (PROTOCOL_VERSION,)


@method("hello", HelloParams)
def hello(_call: Call, params: HelloParams) -> dict[str, Any]:
    """Agree on a protocol version."""
    if PROTOCOL_VERSION not in params.protocol:
        raise UsageError(
            f"protocol {list(params.protocol)} is not spoken here", hint=f"this daemon speaks {PROTOCOL_VERSION}",
            protocol=[PROTOCOL_VERSION],
        )  # fmt: skip
    return {
        "server": "mulligan",
        "version": __version__,
        "protocol": PROTOCOL_VERSION,
        "capabilities": sorted([*METHODS, "events.subscribe"]),
    }


class StatusParams(Params, frozen=True, kw_only=True):
    """`project` is a path: the answer says whether it is protected."""

    project: str = ""


def process_bytes() -> int:
    """Resident memory of this process."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def project_object(services: Services, worker: ProjectWorker) -> dict[str, Any]:
    """One project of `daemon.status`."""
    catalogue, health = services.store.catalogue(), worker.health
    record = worker.record()
    (checkpoints,) = catalogue.db.execute("select count(*) from checkpoint where project = ?", (record.id,)).fetchone()
    newest = catalogue.checkpoints("project = ?", (record.id,), 1)
    state = "baseline" if health.state == "starting" else health.state
    last = max(record.last_capture, health.last_capture)
    allowance = worker.capture.allowance
    gaps = [
        {"start": to_rfc3339(start), "end": to_rfc3339(end), "reason": reason}
        for start, end, reason in catalogue.gaps(record.id)[-20:]
    ]
    return {
        **path_fields(record.path),
        "state": state,
        "reason": health.reason,
        **({"hint": f"mulligan list --project {show_path(record.path)}"} if record.reason == REASON else {}),
        "files": record.files,
        "dirs": record.dirs,
        "bytes": record.size,
        "budget_bytes": allowance.budget or None,
        "budget_used_bytes": allowance.used() if allowance.budget else None,
        "budget_short": allowance.short,
        "backlog": health.backlog,
        "last_capture": to_rfc3339(last) if last else None,
        "overflows": health.overflows,
        "rescans": health.rescans,
        "gaps": gaps,
        "ignored": health.hidden.ignored,
        "mostly_hidden": mostly_hidden(health.hidden, record),
        "watched": worker.observer.watched if worker.observer else 0,
        "watch_limit": health.limit,
        "progress": {"done": health.done, "total": health.total} if state == "baseline" else None,
        "checkpoints": checkpoints,
        "newest_checkpoint": _newest(newest[0]) if newest else None,
        "last_error": health.last_error,
        "alarms": [_alarm(worker, alarm) for alarm in health.alarms.shown(worker.now())],
    }


def _alarm(worker: ProjectWorker, alarm: Alarm) -> dict[str, Any]:
    session, tool, command = call_words(worker, alarm.call)
    return {
        "timestamp": to_rfc3339(alarm.moment),
        "session_id": session,
        "call_id": alarm.call,
        "tool": tool,
        "command": command,
        "vanished": alarm.vanished,
        "emptied": alarm.emptied,
        "bytes": alarm.size,
        "paths": [show_path(path) for path in alarm.paths],
    }


def mostly_hidden(hidden: Summary, record: Project) -> dict[str, Any] | None:
    """What ignore files hide of a project, if that is more than half of its top directory or of the whole."""
    if record.baseline_end == 0 or (found := hidden.most(record.files + record.dirs + record.links)) is None:
        return None
    where, share = found
    return {
        "where": where,
        "hidden": share.hidden,
        "entries": share.of,
        "rule": share.rule.encode(errors="surrogateescape").decode(errors="replace"),
        "hidden_by_rule": share.by_rule,
    }


def project_warnings(project: dict[str, Any]) -> list[str]:
    """What `project_object` says that somebody should look at, in words."""
    path, found = project["path"], project["mostly_hidden"]
    warnings = [f"{path}: {project[key]}" for key in ("last_error", "watch_limit") if project[key]]
    warnings += [alarm_words(path, alarm) for alarm in project["alarms"]]
    if project["budget_short"]:
        way_out = "a larger project_budget_bytes, or less to keep, makes room"
        warnings.append(f"{path}: {project['budget_short']}; {way_out}")
    elif project["budget_bytes"] and project["budget_used_bytes"] >= _NEARLY_USED * project["budget_bytes"]:
        share = project["budget_used_bytes"] / project["budget_bytes"]
        warnings.append(f"{path} has used {share:.0%} of its own budget; mulligan usage says by what")
    if found:
        share = f"{found['hidden']:,} of {found['entries']:,} entries" + (
            " at the top" if found["where"] == "top" else ""
        )
        who, most = f'"{found["rule"]}" hides', ""
        if found["hidden"] != found["hidden_by_rule"]:
            who, most = "ignore files hide", f' ({found["hidden_by_rule"]:,} by "{found["rule"]}")'
        warnings.append(f"{path}: {who} {share}{most} from capture; .mulliganignore can take them in")
    return warnings


def room_warnings(services: Services) -> list[str]:
    """Which files are in no checkpoint as they are now, because there was no room for them."""
    warnings = []
    for worker in services.registry.workers():
        if found := without_room(services.store.catalogue(), worker.project_id):
            others = f" and {len(found) - 1:,} more" if len(found) > 1 else ""
            root, first = show_path(worker.root), show_path(found[0])
            way_out = "a larger budget, or less to keep, makes room"
            warnings.append(f"{root}: there was no room for the last version of {first}{others}; {way_out}")
    return warnings


def alarm_words(path: str, alarm: dict[str, Any]) -> str:
    """`/src/shop: a call did away with 37 files (Bash "rm -rf src"); mulligan rescue brings them back`."""
    count = alarm["vanished"] + alarm["emptied"]
    command = " ".join(alarm["command"].split())
    what = f'{alarm["tool"]} "{command[:60]}"' if command else alarm["tool"]
    return f"{path}: a call did away with {count:,} files ({what}); mulligan rescue brings them back"


def _newest(made: Any) -> dict[str, Any]:
    return {
        "id": made.id,
        "ordinal": made.ordinal,
        "description": made.description,
        "trigger": made.trigger,
        "timestamp": to_rfc3339(made.timestamp),
    }


@method("daemon.status", StatusParams)
def status(call: Call, params: StatusParams) -> dict[str, Any]:
    """Whether a project is protected, and how the daemon, the projects, the sessions and the store are."""
    services = call.services
    store = services.store
    projects = [project_object(services, worker) for worker in services.registry.workers()]
    mine, reason, hint = None, "", ""
    if params.project:
        try:
            root = show_path(services.registry.find(params.project).root)
            mine = next(item for item in projects if item["path"] == root)
        except NotFoundError as error:
            reason, hint = error.message, error.hint
    warnings = [warning for item in projects for warning in project_warnings(item)] + room_warnings(services)
    warnings += store.warnings
    warnings += services.integrity.warnings()
    if services.state.newer:
        warnings.append(f"{services.state.path} is of a newer version, and only read: no setting or task state is kept")
    if (drill := services.state.last_drill()) and drill["restorable"] < drill["total"]:
        warnings.append(f"the last drill could restore {drill['restorable']} of {drill['total']} checkpoints")
    room = store_object(services)
    warnings += store_warnings(room)
    if store.room.short:
        warnings.append(f"{store.room.short}: a larger budget_bytes, or less to keep, makes room")
    for project in store.catalogue().projects():
        if project.state == EXCLUDED:
            projects.append({**path_fields(project.path), "state": "excluded"})
    return {
        "daemon": {
            "version": __version__,
            "pid": os.getpid(),
            "uptime_seconds": (store.clock.now() - services.started) // NANOSECONDS,
            "protocol": PROTOCOL_VERSION,
            "socket": services.places.socket,
            "rss_bytes": process_bytes(),
            "claude_config_dirs": services.claude_config_dirs,
            "transcripts": services.transcript_counts(),
            "hooks": services.hook_counts(),
        },
        "project": mine,
        "reason": reason,
        "hint": hint,
        "projects": projects,
        "sessions": recent_sessions(services),
        "store": room,
        "warnings": warnings,
    }


def recent_sessions(services: Services) -> list[dict[str, Any]]:
    """The sessions that were active in the last day, newest first."""
    now = services.store.clock.now()
    cursor = services.store.catalogue().db.execute(
        "select s.id, p.path, s.last, s.state, (select count(*) from prompt where session = s.id),"
        " (select count(*) from call where session = s.id),"
        " (select coalesce(sum(input + output + cache_creation + cache_read), 0) from usage where session = s.id)"
        " from session s join project p on p.id = s.project"
        " where s.last >= ? and p.state not in (?, ?) order by s.last desc limit 20",
        (now - _DAY, REMOVED, EXCLUDED),
    )
    return [
        {
            "id": session,
            "project_path": show_path(path),
            "last_activity": to_rfc3339(last),
            "at_work": is_at_work(state, now - last),
            "prompts": prompts,
            "calls": calls,
            "total_tokens": tokens,
            "strategy": services.settings.value("strategy", show_path(path), session),
        }
        for session, path, last, state, prompts, calls, tokens in cursor
    ]


def store_object(services: Services) -> dict[str, Any]:
    """The `store` of `daemon.status`."""
    store = services.store
    (objects,) = store.catalogue().db.execute("select count(*) from content").fetchone()
    size, budget, growth = store.disk_bytes(), services.budget, services.growth
    return {
        "path": store.directory,
        "bytes": size,
        "objects": objects,
        "budget_bytes": budget,
        "growth_bytes_per_day": growth,
        "days_left": forecast(size, budget, growth).days,
        "damage": store.damage,
        "last_drill": services.state.last_drill(),
        "scrub": times(services.integrity.scrubbed()),
        "damaged_contents": len(services.integrity.damage.marks()),
    }


def store_warnings(store: dict[str, Any]) -> list[str]:
    """What `store_object` says that somebody should look at, in words."""
    warnings = []
    if store["damage"]:
        warnings.append(f"the store is read-only: {store['damage']}; mulligan store rebuild makes it writable again")
    used, days = store["bytes"] / store["budget_bytes"], store["days_left"]
    if used >= _NEARLY_USED:
        warnings.append(f"the store has used {used:.0%} of its budget; mulligan usage says by what")
    elif days is not None and days < _SOON_DAYS:
        warnings.append(f"the store's budget is reached in {days:.0f} days at this rate; mulligan usage says by what")
    return warnings


class NoParams(Params, frozen=True, kw_only=True):
    """No parameters."""


@method("daemon.stats", NoParams)
def stats(call: Call, _params: NoParams) -> dict[str, Any]:
    """Counters and capture latencies of this daemon's life."""
    projects = []
    for worker in call.services.registry.workers():
        latencies = sorted(worker.health.latencies)
        captured = {
            "count": worker.capture.captured,
            "p50_ms": _percentile(latencies, 0.5),
            "p99_ms": _percentile(latencies, 0.99),
        }
        health = worker.health
        projects.append({
            **path_fields(worker.root), "captured": captured, "overflows": health.overflows, "rescans": health.rescans,
            "backlog": health.backlog,
        })  # fmt: skip
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "projects": projects,
        "rss_bytes": process_bytes(),
        "cpu_seconds": used.ru_utime + used.ru_stime,
        "events": call.services.bus.cursor,
        "batches": call.services.store.catalogue().meta("batch"),
        "transcripts": call.services.transcript_counts(),
        "hooks": call.services.hook_counts(),
    }


def _percentile(ordered: list[int], share: float) -> float | None:
    if not ordered:
        return None
    return round(ordered[min(len(ordered) - 1, int(len(ordered) * share))] / 1e6, 3)


@method("daemon.reload", NoParams)
def reload(call: Call, _params: NoParams) -> dict[str, Any]:
    """Read the configuration again; a bad one is refused and the old one stays in effect."""
    call.services.reload()
    return {"reloaded": True, "config_file": call.services.places.config_file}


@method("daemon.stop", NoParams)
def stop(call: Call, _params: NoParams) -> dict[str, Any]:
    """End the daemon after the write in hand."""
    call.services.stop()
    return {"stopping": True}
