"""What an import of opcode's timelines came to, in lines."""

from __future__ import annotations

from mulligan.client.connection import JsonObject
from mulligan.client.context import SHOWN, Context
from mulligan.client.render.amounts import counted
from mulligan.client.render.text import shown_path, visible, word


def render_import(result: JsonObject, context: Context) -> None:
    """One paragraph for each timeline; what is not whole is named with its reasons."""
    dry = bool(result.get("dry_run"))
    for timeline in result.get("timelines") or []:
        made = timeline.get("checkpoints") or []
        archive = shown_path({"path": timeline.get("archive"), "path_b64": timeline.get("archive_b64")})
        did = "would be imported" if dry else "imported"
        known = f", {int(timeline['known']):,} were there" if timeline.get("known") else ""
        context.line(f"{counted(len(made), 'checkpoint')} {did} into {context.short(archive)}{known}", "safe")
        if removed := timeline.get("removed_by_opcode"):
            context.line(
                f"  {counted(len(removed), 'checkpoint')} that the timeline names are gone: opcode removed them"
            )
        for words in timeline.get("warnings") or []:
            context.line(f"  {visible(str(words))}", "look")
        for checkpoint in made:
            _checkpoint(checkpoint, context)
        if made and not dry:
            context.line(f"  mulligan list --project {word(archive)}", "dim")


def _checkpoint(checkpoint: JsonObject, context: Context) -> None:
    name = f"{checkpoint.get('ordinal') or ''}  {str(checkpoint.get('opcode_id'))[:8]}".strip()
    missing, notes = checkpoint.get("incomplete_paths") or [], checkpoint.get("notes") or []
    if missing:
        context.line(f"  {name} is not whole: {visible(str(checkpoint.get('description') or ''))}".rstrip(": "), "look")
    for entry in missing[:SHOWN]:
        path = shown_path(entry) or "the tree"
        context.line(f"    {path}: {visible(str(entry.get('reason')))}")
    if len(missing) > SHOWN:
        context.line(f"    and {len(missing) - SHOWN} more; --json names all")
    for note in notes if context.options.verbose else ():
        context.line(f"  {name}: {visible(str(note))}", "dim")
