"""JSON Schemas of results, written shortly: `name:type` with `?` for null, `[type]` for a list, `~` for what may miss.

Types are text, time, int, number, bool, any and object, and the objects of `OBJECTS` by their names. More keys may come
with any version, so none is forbidden; each result also has `version`, and perhaps `exit_status`.
"""

from __future__ import annotations

import re
from typing import Any

OBJECTS = {
    "Reasoned": "path:text ~path_b64:text reason:text",
    "Tool": "name:text id:text is_error:bool ~unguarded:bool",
    "Git": "head:text branch:text",
    "Metadata": "total_tokens:int input_tokens:int output_tokens:int cache_creation_tokens:int cache_read_tokens:int"
    " model_used:text user_prompt:text ~file_changes:int ~added:int ~modified:int ~deleted:int ~snapshot_size:int",
    "Checkpoint": "id:text ordinal:int session_id:text project_id:text project_path:text parent_checkpoint_id:text?"
    " timestamp:time description:text trigger:text placement:text strategy:text complete:bool"
    " incomplete_paths:[Reasoned] special:[text] pinned:bool tree:text message_uuid:text? message_index:int tool:Tool?"
    " git:Git? metadata:Metadata ~damaged_files:int",
    "CheckpointNode": "checkpoint:Checkpoint children:[CheckpointNode]",
    "TreeFile": "file_path:text ~file_path_b64:text hash:text? is_deleted:bool permissions:int? kind:text size:int"
    " ~target:text ~reason:text ~torn:bool ~unproven:bool ~damaged:text",
    "FileDiff": "path:text ~path_b64:text additions:int deletions:int ~diff_content:text ~diff_content_b64:text"
    " binary:bool old_mode:text? new_mode:text? renamed_from:text?",
    "Changes": "from_checkpoint_id:text modified_files:[FileDiff] added_files:[FileDiff] deleted_files:[FileDiff]"
    " directories:[object] unseen:[Reasoned]",
    "Group": "by:text session_id:text? ~write:[text] ~delete:[text] ~chmod:[text] ~mkdir:[text] ~rmdir:[text] bytes:int"
    " lines:int? uncertain:[text] files:[object]",
    "Plan": "write:[text] delete:[text] chmod:[text] mkdir:[text] rmdir:[text] kept:[text] skipped:[text]"
    " reasons:object exchange:bool ~groups:[Group]",
    "Conflict": "path:text ~path_b64:text ours:any theirs:any ~base:text ~reason:text ~marked:bool",
    "Resume": "session_id:text command:text directory:text",
    "Conversation": "session_id:text? messages:int refused:text?",
    "SideEffect": "kind:text command:text timestamp:time session_id:text call_id:text? is_error:bool",
    "Loss": "path:text ~path_b64:text how:text kind:text size:int hash:text? timestamp:time lost_at:time now:object?"
    " newer:bool moved_to:text? call:object? grade:text",
    "Version": "id:text ordinal:int? path:text ~path_b64:text renamed_from:text? timestamp:time kind:text size:int"
    " mode:int hash:text? session_id:text? prompt:text? prompt_number:int? tool:text? tool_id:text? model:text?"
    " grade:text ~unguarded:bool ~torn:bool ~reason:text",
    "Origin": "checkpoint_id:text? ordinal:int? timestamp:time session_id:text? prompt:text? prompt_number:int?"
    " tool:text? tool_id:text? model:text? grade:text ~unguarded:bool",
    "Line": "line:int text:text ~text_b64:text checkpoint_id:text? ordinal:int? timestamp:time session_id:text?"
    " prompt:text? prompt_number:int? tool:text? tool_id:text? model:text? grade:text ~unguarded:bool",
    "Match": "path:text ~path_b64:text renamed_from:text? line_number:int line:text appeared:Origin vanished:Origin?"
    " last:object",
    "Project": "path:text ~path_b64:text state:text ~reason:text ~hint:text ~files:int ~dirs:int ~bytes:int"
    " ~budget_bytes:int? ~budget_used_bytes:int? ~budget_short:text ~backlog:int"
    " ~last_capture:time? ~overflows:int ~rescans:int ~gaps:[object] ~ignored:int ~mostly_hidden:object? ~watched:int"
    " ~watch_limit:text ~progress:object? ~checkpoints:int ~newest_checkpoint:object? ~last_error:text"
    " ~alarms:[object]",
    "Session": "id:text project_path:text ~transcript:text ~first_activity:time last_activity:time at_work:bool"
    " strategy:text prompts:int calls:int ~metadata:Metadata ~current_checkpoint_id:text? ~shared_files:[object]"
    " ~total_tokens:int",
    "Store": "path:text bytes:int objects:int budget_bytes:int growth_bytes_per_day:number? days_left:number?"
    " damage:text last_drill:object? scrub:object damaged_contents:int",
    "StateSnapshot": "name:text kind:text timestamp:time title:text status:text ~checkpoint_id:text?",
}

_OPERATION = (
    "plan:Plan operation_id:text? pre_restore_checkpoint_id:text? ~post_restore_checkpoint_id:text?"
    " ~files_processed:int ~verified:bool warnings:[text] ~plan_digest:text"
)
_STATE = "session_id:text exists:bool synthesized:bool updated_at:time?"

RESULTS = {
    "checkpoint.create": "checkpoint:Checkpoint files_processed:int warnings:[text]",
    "checkpoint.list": "checkpoints:[Checkpoint] current_checkpoint_id:text?",
    "checkpoint.show": "checkpoint:Checkpoint changes:Changes? warnings:[text] files:[TreeFile] ~state:object?",
    "checkpoint.describe": "checkpoint:Checkpoint",
    "checkpoint.pin": "checkpoint:Checkpoint",
    "checkpoint.unpin": "checkpoint:Checkpoint",
    "checkpoint.delete": "removed:[text] checkpoints:[Checkpoint] freed_bytes:int",
    "checkpoint.cleanup": "removed:[text] checkpoints:[Checkpoint] freed_bytes:int",
    "checkpoint.diff": "from_checkpoint_id:text to_checkpoint_id:text? modified_files:[FileDiff] added_files:[FileDiff]"
    " deleted_files:[FileDiff] directories:[object] unseen:[Reasoned] token_delta:int",
    "checkpoint.restore": f"checkpoint:Checkpoint? position:text {_OPERATION} resume:Resume? conversation:Conversation?"
    " ~side_effects:[SideEffect] ~state:object?",
    "checkpoint.fork": "checkpoint:Checkpoint position:text session_id:text? directory:text resume:Resume?"
    " conversation:Conversation warnings:[text] ~files_processed:int ~plan:Plan ~state:object?",
    "operation.revert": f"target:text conflicts:[Conflict] {_OPERATION}",
    "operation.undo": f"conflicts:[Conflict] {_OPERATION}",
    "operation.redo": f"conflicts:[Conflict] {_OPERATION}",
    "operation.rescue": f"since:time entries:[Loss] left_out:object conflicts:[Conflict] {_OPERATION}",
    "timeline.get": "session_id:text ~roots:[CheckpointNode] ~root_node:CheckpointNode? ~checkpoints:[Checkpoint]"
    " current_checkpoint_id:text? auto_checkpoint_enabled:bool checkpoint_strategy:text total_checkpoints:int",
    "file.recent": "files:[object]",
    "file.history": "path:text ~path_b64:text versions:[Version] left_out:int",
    "file.blame": "path:text ~path_b64:text lines:[Line]",
    "file.cat": "path:text ~path_b64:text checkpoint_id:text kind:text mode:int size:int hash:text? content:text?"
    " ~content_b64:text next_offset:int?",
    "file.search": "text:text regex:bool matches:[Match] prompts:[object] complete:bool unsearched_paths:int cut:bool"
    " index:object",
    "project.add": "project:Project warnings:[text]",
    "project.import_opcode": "timelines:[object] dry_run:bool ~exit_status:int",
    "project.remove": "removed:text dry_run:bool ~checkpoints:int ~files:int ~freed_bytes:int ~left:[text]",
    "project.exclude": "excluded:text",
    "project.list": "projects:[Project] ~found:[object]",
    "project.pause": "project:Project",
    "project.resume": "project:Project",
    "session.list": "sessions:[Session]",
    "session.show": "session:Session",
    "session.forget": "session:Session was_in_memory:bool",
    "session.of": "session_id:text? source:text?",
    "settings.get": "settings:object",
    "settings.set": "key:text value:any scope:text subject:text",
    "settings.unset": "key:text removed:bool scope:text subject:text",
    "state.save": f"{_STATE} state:object? changed:bool snapshot:StateSnapshot?",
    "state.load": f"{_STATE} state:object?",
    "state.status": f"{_STATE} title:text? status:text? steps:object blockers:int snapshots:int",
    "state.clear": "session_id:text cleared:bool snapshots:int ~exists:bool ~title:text?",
    "state.list": "session_id:text snapshots:[StateSnapshot]",
    "state.load_snapshot": "session_id:text name:text kind:text timestamp:time ~title:text ~status:text"
    " ~checkpoint_id:text? state:object",
    "state.restore_snapshot": "session_id:text name:text undo:text? updated_at:time state:object",
    "state.migrate": "session_id:text legacy:[object] foreign:[Reasoned] adopted:text? ~undo:text?",
    "state.handoff": "session_id:text path:text ~path_b64:text text:text",
    "state.backup": "path:text bytes:int",
    "state.check": "path:text schema_version:int newer:bool ok:bool integrity:[text] foreign_keys:[text]",
    "hook.deliver": "output:text",
    "store.drill": "restorable:int total:int time:time seconds:number checkpoints:[object]",
    "store.gc": "freed_bytes:int versions:int contents:int segments:int bytes:int budget_bytes:int damaged:[text]",
    "store.purge": "versions:int contents:int paths:[object] paths_total:int elsewhere:[object] warnings:[text]"
    " ~freed_bytes:int ~left:[text]",
    "store.rebuild": "batch:int snapshot:int? batches_replayed:int contents:int missing_contents:int paths:[object]"
    " lost:[text] store:text",
    "store.usage": "bytes:int budget_bytes:int by_kind:object growth:object growth_bytes_per_day:number?"
    " forecast:object projects:[object] directories:[object] paths:[object]",
    "store.verify": "clean:bool contents:int bytes:int total_contents:int total_bytes:int sample:number? repair:bool"
    " checkpoints_looked_at:int checkpoints_total:int healed:[object] damaged:[object] digests:[object] paths:[object]"
    " checkpoints:[object] store:text",
    "daemon.status": "daemon:object project:Project? reason:text hint:text projects:[Project] sessions:[Session]"
    " store:Store warnings:[text]",
    "daemon.stats": "projects:[object] rss_bytes:int cpu_seconds:number events:int batches:int transcripts:object"
    " hooks:object",
    "daemon.reload": "reloaded:bool config_file:text",
    "daemon.stop": "stopping:bool",
    "message.track": "tracked:bool commands:int",
    "watch.sync": "synced:int",
    "events.subscribe": "cursor:int",
    "rpc.discover": "openrpc:text info:object methods:[object] components:object",
}

_SIMPLE: dict[str, dict[str, Any]] = {
    "text": {"type": "string"},
    "time": {"type": "string", "format": "date-time"},
    "int": {"type": "integer"},
    "number": {"type": "number"},
    "bool": {"type": "boolean"},
    "object": {"type": "object"},
    "any": {},
}
_KEY = re.compile(r"(~?)(\w+):(\[?)(\w+)\]?(\??)\Z")


def _property(word: str) -> tuple[str, bool, dict[str, Any]]:
    """Name, whether it is always there, and schema of one key."""
    found = _KEY.match(word)
    assert found is not None, word
    missing, name, listed, kind, null = found.groups()
    schema = _SIMPLE.get(kind, {"$ref": f"#/components/schemas/{kind}"})
    if listed:
        schema = {"type": "array", "items": schema}
    if null:
        schema = {"anyOf": [schema, {"type": "null"}]}
    return name, not missing, schema


def object_schema(words: str) -> dict[str, Any]:
    """The JSON Schema of an object that is written shortly."""
    properties = [_property(word) for word in words.split()]
    return {
        "type": "object",
        "properties": {name: schema for name, _, schema in properties},
        "required": [name for name, always, _ in properties if always],
    }


def result_schema(method: str) -> dict[str, Any]:
    """The JSON Schema of a method's result; of one that nobody has described yet it is any object."""
    if method == "hello":  # its `version` is the program's
        return object_schema("server:text version:text protocol:int capabilities:[text]")
    schema = object_schema(RESULTS.get(method, ""))
    common = {"version": {"const": 1}, "exit_status": {"type": "integer"}}
    return {**schema, "properties": {**common, **schema["properties"]}, "required": ["version", *schema["required"]]}


def component_schemas() -> dict[str, Any]:
    """The objects that several results have."""
    return {name: object_schema(words) for name, words in OBJECTS.items()}
