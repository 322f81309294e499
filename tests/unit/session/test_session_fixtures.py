"""Prompts, calls and tokens of real transcripts, against values read off the raw lines by eye.

Every number below is a line of the file (the first is 1). A prompt is (line, first words). A call is (line of the tool
use, line of its result, tool). Usage is (last line of the message, output tokens, cache reads); each message of these
recordings has 12 input tokens and 40 written to the cache.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from mulligan.session.events import CloseCall, OpenCall, RecordPrompt, Settings, Strategy, TakeCheckpoint
from support.transcripts import FIXTURES, Feeder

Prompts = list[tuple[int, str]]
Calls = list[tuple[int, int, str]]
Usages = list[tuple[int, int, int]]


@dataclass(frozen=True)
class Recording:
    path: str
    prompts: Prompts
    calls: Calls
    usage: Usages
    before: tuple[str, ...] = ()  # files whose history this one copies
    session: str = ""


A060 = "1.0.60/print/projects/-home-dev-A-1-0-60/"
A210 = "2.1.0/print/projects/-home-dev-A-2-1-0/"
A332 = "2.1.332/print/projects/-home-dev-A-2-1-332/"
B332 = "2.1.332/branch/projects/-home-dev-Br-2-1-332/"

# fmt: off
RECORDINGS = [
    # Stream-json input: every prompt has an enqueue and a dequeue line before it (1-2, 30-31, ...), which are not more
    # prompts. 142-145: a custom command. 166-168: refused by a hook. 203: a task notification. 216: queued while
    # "recovered" came, its line is 220. 235: an unknown command is sent to the model as it is. 248: built in.
    Recording(
        "2.1.332/kitchen/projects/-home-dev-K-2-1-332---x/2ad0265b-a908-4890-9a78-d733e541a7ee.jsonl",
        [(3, "k1 "), (32, "k2 look"), (38, "k3 "), (56, "k4 "), (64, "k5 "), (77, "k6 "), (90, "k7 "), (98, "k8 "),
         (110, "k9 "), (121, "k10 "), (128, "k11 "), (136, "k12 "), (144, "/foo some args"), (152, "k13 @a.txt"),
         (158, "k14 "), (171, "k16 "), (178, "k17 "), (186, "k18 "), (195, "k19 "), (211, "k20 "), (220, "k21 "),
         (235, "/nosuchcommand x"), (252, "k22 "), (265, "k23 ")],
        [(21, 24, "Write"), (41, 42, "ToolSearch"), (50, 51, "mcp__mock__write_note"),
         (58, 59, "mcp__mock__write_note"), (67, 68, "Read"), (71, 72, "NotebookEdit"), (79, 80, "Read"),
         (82, 83, "MultiEdit"), (92, 93, "TodoWrite"), (100, 101, "Glob"), (102, 103, "Grep"), (113, 114, "Bash"),
         (130, 131, "NoSuchTool"), (138, 139, "Write"), (160, 163, "Write"), (180, 181, "Bash"), (197, 198, "Bash"),
         (256, 258, "Write")],
        [(21, 41, 12750), (27, 21, 12874), (35, 21, 12993), (41, 21, 13033), (50, 21, 13931), (53, 21, 14036),
         (58, 21, 14072), (61, 21, 14169), (67, 21, 14205), (71, 21, 14292), (74, 21, 14401), (79, 21, 14437),
         (82, 21, 14511), (87, 21, 14636), (92, 21, 14673), (95, 21, 14797), (102, 41, 14834), (107, 21, 15047),
         (113, 21, 15085), (116, 21, 15740), (125, 61, 15777), (130, 21, 15848), (133, 21, 15928), (138, 21, 15967),
         (141, 21, 16087), (149, 21, 16166), (155, 21, 16209), (160, 21, 16242), (165, 21, 16342), (175, 21, 16403),
         (180, 21, 16436), (183, 21, 16562), (188, 21, 16601), (192, 21, 16685), (197, 21, 16715), (200, 21, 16865),
         (206, 21, 17126), (218, 21, 17155), (256, 1, 17614), (262, 21, 17744), (267, 21, 17783)],
    ),
    # 114: a task notification, not a prompt. 122-130: /compact with its summary at 127. Four parallel calls at 70-73,
    # the results out of order; three failures at 91-93; an agent started in the background at 107.
    Recording(
        A332 + "2ede0281-80d2-46da-991a-bcd1e2cc7a84.jsonl",
        [(3, "first"), (36, "second"), (55, "third"), (67, "fourth"), (86, "fifth"), (103, "sixth"),
         (144, "after compact")],
        [(21, 24, "Write"), (39, 40, "Read"), (45, 46, "Edit"), (58, 59, "Bash"), (70, 74, "Write"),
         (71, 75, "Write"), (72, 77, "Bash"), (73, 76, "Read"), (88, 91, "Read"), (89, 92, "Bash"), (90, 93, "Edit"),
         (107, 108, "Agent")],
        [(21, 41, 12728), (29, 21, 12848), (39, 21, 12885), (45, 61, 12957), (48, 21, 13112), (58, 21, 13149),
         (61, 21, 13228), (73, 101, 13266), (79, 21, 13609), (90, 61, 13646), (95, 21, 13912), (107, 41, 13951),
         (110, 21, 14314), (117, 21, 14664), (158, 21, 13450)],
    ),
    # The fork of the one above: 6-66 are the old lines under their old ids; only 67 and 73 are new.
    Recording(
        A332 + "9282025c-4dc7-490d-8ac0-3f6f833d1ab5.jsonl", [(67, "forked")], [], [(73, 21, 14694)],
        before=(A332 + "2ede0281-80d2-46da-991a-bcd1e2cc7a84.jsonl",),
    ),
    # A subagent: its first line is its parent's words; its calls and tokens are the parent session's.
    Recording(
        A332 + "2ede0281-80d2-46da-991a-bcd1e2cc7a84/subagents/agent-a5c6eb88900542904.jsonl", [],
        [(14, 15, "Write"), (21, 22, "Bash")], [(14, 21, 7349), (21, 21, 8011), (24, 21, 8092)],
        session="2ede0281-80d2-46da-991a-bcd1e2cc7a84",
    ),
    # /branch: 1-29 bear `forkedFrom`. 62: the summary of "summarize from here"; 64 is the same words typed anew.
    Recording(
        B332 + "eece9a7a-7e32-4d3d-98b3-1de4cd2f50c6.jsonl",
        [(43, "four"), (64, "two"), (91, "five"), (101, "six")], [(75, 76, "Read"), (80, 81, "Edit")],
        [(49, 21, 14793), (75, 21, 14611), (80, 61, 14690), (88, 21, 14834), (93, 21, 14871), (106, 21, 15036)],
    ),
    # Lines were cut out of this one; 22 and 27 are the client's own words, 32 is synthetic.
    Recording("2.1.332/tombstone/projects/-home-dev-T/176b2fd7-50a9-434d-b3a0-52cabe60a043.jsonl",
              [(3, "x [[malformed2]]")], [], [(31, 41, 12800)]),
    # Interactive: 32 and 36 are interruptions, 37 was interrupted before any reply, 44 waited in the queue, 48 is a
    # shell command of the person's, 52 and 57 built-in commands, 65 the summary of 67.
    Recording(
        "2.1.100/interactive/projects/-home-dev-D-2-1-100/e3c770bf-7aba-45a3-abd9-12191120e88e.jsonl",
        [(3, "one"), (10, "two"), (19, "three"), (24, "four"), (28, "five"), (33, "six"), (37, "seven"), (39, "eight"),
         (44, "queued while busy"), (48, "echo bang > bang.txt"), (70, "nine")],
        [(6, 8, "Write"), (11, 13, "Read"), (16, 17, "Edit"), (20, 22, "Bash"), (30, 31, "Bash"), (41, 42, "Bash"),
         (73, 74, "Write")],
        [(6, 41, 24427), (9, 21, 24536), (11, 21, 24573), (16, 61, 24644), (18, 21, 24782), (20, 21, 24819),
         (23, 21, 24898), (26, 21, 24678), (30, 21, 24718), (35, 1, 24841), (41, 21, 24895), (43, 21, 24981),
         (46, 21, 25021), (73, 41, 24517), (75, 21, 24628)],
    ),
    # As above, older: 46 was queued and heard at 48, with no line of its own. 23 follows a rewind.
    Recording(
        "2.0.76/interactive/projects/-home-dev-D-2-0-76/f99c25ad-c112-40be-8009-1b0cd2c51d1e.jsonl",
        [(2, "one"), (9, "two"), (18, "three"), (23, "four"), (32, "five"), (37, "six"), (41, "seven"), (44, "eight"),
         (48, "queued while busy"), (53, "echo bang > bang.txt"), (72, "nine")],
        [(4, 6, "Write"), (10, 11, "Read"), (14, 15, "Edit"), (19, 20, "Bash"), (24, 25, "Read"), (28, 29, "Edit"),
         (33, 34, "Bash"), (45, 47, "Bash"), (74, 75, "Write")],
        [(4, 41, 18180), (7, 21, 18298), (10, 21, 18335), (14, 61, 18499), (16, 21, 18657), (19, 21, 18823),
         (21, 21, 18909), (24, 21, 18447), (28, 61, 18618), (30, 21, 18777), (33, 21, 18942), (38, 1, 19071),
         (45, 21, 19151), (49, 21, 19401), (50, 21, 19440), (74, 41, 18461), (76, 21, 18591)],
    ),
    # 2: the caveat of /clear at 3; 10: /exit.
    Recording("2.0.76/interactive/projects/-home-dev-D-2-0-76/ededf7b3-44e2-470e-b615-28952ec08362.jsonl",
              [(6, "ten")], [], [(7, 21, 18204)]),
    # 50: summary; 52: /compact; 55: synthetic; dequeue lines without an enqueue.
    Recording(
        A210 + "0c15fa9b-14b1-4f4e-a949-6dd7db1874a2.jsonl",
        [(2, "first"), (8, "second"), (17, "third"), (22, "fourth"), (34, "fifth"), (43, "sixth"),
         (56, "after compact")],
        [(4, 5, "Write"), (9, 10, "Read"), (13, 14, "Edit"), (18, 19, "Bash"), (24, 28, "Write"), (25, 29, "Write"),
         (26, 31, "Bash"), (27, 30, "Read"), (35, 38, "Read"), (36, 39, "Bash"), (37, 40, "Edit"), (45, 46, "Task")],
        [(4, 41, 17473), (6, 21, 17584), (9, 21, 17629), (13, 61, 17793), (15, 21, 17956), (18, 21, 18109),
         (20, 21, 18195), (27, 101, 18235), (32, 21, 18762), (37, 61, 18503), (41, 21, 18766), (45, 41, 18661),
         (47, 21, 18791), (57, 21, 17814)],
    ),
    # 56-57: a custom command. 65: refused by a hook. 67: a hook's output. 75 and 83: synthetic. 85: an unknown command
    # that the client answers itself. 87: built in.
    Recording(
        "1.0.128/kitchen/projects/-home-dev-K-1-0-128---x/1ab29553-d439-4197-b53f-621cc020d597.jsonl",
        [(1, "k1 "), (6, "k2 look"), (8, "k3 "), (14, "k4 "), (18, "k5 "), (24, "k6 "), (30, "k7 "), (34, "k8 "),
         (40, "k9 "), (44, "k10 "), (48, "k11 "), (52, "k12 "), (56, "/foo some args"), (59, "k13 "), (61, "k14 "),
         (66, "k16 "), (69, "k17 "), (73, "k18 "), (76, "k19 "), (80, "k20 "), (82, "k21 "), (89, "k22 "),
         (94, "k23 ")],
        [(3, 4, "Write"), (9, 10, "ToolSearch"), (11, 12, "mcp__mock__write_note"), (15, 16, "mcp__mock__write_note"),
         (19, 20, "Read"), (21, 22, "NotebookEdit"), (25, 26, "Read"), (27, 28, "MultiEdit"), (31, 32, "TodoWrite"),
         (35, 37, "Glob"), (36, 38, "Grep"), (41, 42, "Bash"), (49, 50, "NoSuchTool"), (53, 54, "Write"),
         (62, 63, "Write"), (70, 71, "Bash"), (77, 78, "Bash"), (91, 92, "Write")],
        [(3, 41, 15455), (5, 21, 15578), (7, 21, 15661), (9, 21, 15701), (11, 21, 15798), (13, 21, 15902),
         (15, 21, 16052), (17, 21, 16156), (19, 21, 16185), (21, 21, 16279), (23, 21, 16388), (25, 21, 16417),
         (27, 21, 16576), (29, 21, 16711), (31, 21, 16741), (33, 21, 16872), (36, 41, 16789), (39, 21, 17021),
         (41, 21, 17059), (43, 21, 24734), (47, 61, 24899), (49, 21, 24956), (51, 21, 25043), (53, 21, 25075),
         (55, 21, 25202), (58, 21, 25278), (60, 21, 25485), (62, 21, 25354), (64, 21, 25463), (68, 21, 25520),
         (70, 21, 25561), (72, 21, 25777), (74, 21, 25703), (77, 21, 25789), (79, 21, 25887), (81, 21, 25913),
         (91, 1, 26385), (93, 21, 26497), (95, 21, 26536)],
    ),
    # Resumed into a new file: 2-6 are copies under new ids and times (their message and tool ids are the old ones).
    # 10-15 are the subagent's, inside the same file.
    Recording(
        A060 + "ead5b045-4f41-489c-920e-69deff34a5e7.jsonl",
        [(7, "sixth")], [(9, 16, "Task"), (11, 12, "Write"), (13, 14, "Bash")],
        [(9, 41, 14531), (11, 21, 10506), (13, 21, 10613), (15, 21, 10694), (17, 21, 14733)],
        before=(A060 + "443848cc-8e80-435f-a58b-d0a43b6a4aa2.jsonl",),
    ),
    # The same by two steps: 6-9 were new in the file before.
    Recording(
        A060 + "a7158848-4274-4715-a4e6-0167bc1e7e55.jsonl",
        [(10, "third")], [(11, 12, "Bash")], [(11, 21, 14717), (13, 21, 14881)],
        before=(A060 + "443848cc-8e80-435f-a58b-d0a43b6a4aa2.jsonl",
                A060 + "4f20d311-5412-4e89-a99c-562c99de238b.jsonl"),
    ),
]
# fmt: on


def line_of(raw: list[str], mark: str) -> int:
    """The number of the first line that holds a text."""
    return next(number for number, line in enumerate(raw, 1) if mark in line)


def fed(recording: Recording, settings: Settings) -> tuple[Feeder, list[object], str]:
    feeder = Feeder(settings)
    for other in recording.before:
        feeder.file(Path(other).stem, FIXTURES / other)
    session = recording.session or Path(recording.path).stem
    return feeder, list(feeder.file(session, FIXTURES / recording.path)), session


ids = [Path(recording.path).stem for recording in RECORDINGS]


@pytest.mark.parametrize("recording", RECORDINGS, ids=ids)
def test_prompts_are_those_that_a_person_finds_in_the_file(recording: Recording) -> None:
    _, commands, _ = fed(recording, Settings(strategy=Strategy.PER_PROMPT, turn_end=False))
    raw = (FIXTURES / recording.path).read_text().split("\n")
    found = []
    for prompt in commands:
        if isinstance(prompt, RecordPrompt):
            mark = f'"uuid":"{prompt.message_uuid}"' if prompt.message_uuid else '"operation":"remove"'
            found.append((line_of(raw, mark), prompt.text))
    assert [line for line, _ in found] == [line for line, _ in recording.prompts]
    for (_, text), (_, start) in zip(found, recording.prompts, strict=True):
        assert text.startswith(start)
    ordinals = [command.ordinal for command in commands if isinstance(command, RecordPrompt)]
    assert ordinals == list(range(1, len(ordinals) + 1))
    taken = [command.trigger for command in commands if isinstance(command, TakeCheckpoint)]
    assert taken == ["prompt"] * len(recording.prompts)


@pytest.mark.parametrize("recording", RECORDINGS, ids=ids)
def test_calls_are_those_that_a_person_finds_in_the_file(recording: Recording) -> None:
    _, commands, _ = fed(recording, Settings(strategy=Strategy.PER_TOOL_USE, turn_end=False))
    raw = (FIXTURES / recording.path).read_text().split("\n")
    opened = [command for command in commands if isinstance(command, OpenCall)]
    ends = {command.tool: command for command in commands if isinstance(command, CloseCall)}
    found = []
    for call in opened:
        assert ends[call.tool].reason == "result"
        start = next(n for n, line in enumerate(raw, 1) if f'"id":"{call.tool}"' in line and '"tool_use"' in line)
        found.append((start, line_of(raw, f'"tool_use_id":"{call.tool}"'), call.name))
    assert found == recording.calls
    taken = [c.tool.id for c in commands if isinstance(c, TakeCheckpoint) and c.trigger == "tool_use" and c.tool]
    by_result = [json.dumps(raw[end - 1]) for _, end, _ in sorted(recording.calls, key=lambda call: call[1])]
    assert len(taken) == len(by_result)
    assert all(tool in line for tool, line in zip(taken, by_result, strict=True))


@pytest.mark.parametrize("recording", RECORDINGS, ids=ids)
def test_tokens_are_each_messages_last_line_once(recording: Recording) -> None:
    feeder, _, session = fed(recording, Settings())
    metadata, messages = feeder.machine(session).metadata(), len(recording.usage)
    assert (metadata.input_tokens, metadata.cache_creation_tokens) == (12 * messages, 40 * messages)
    assert metadata.output_tokens == sum(output for _, output, _ in recording.usage)
    assert metadata.cache_read_tokens == sum(read for _, _, read in recording.usage)


def test_every_fixture_line_is_understood() -> None:
    files = sorted(FIXTURES.glob("*/*/projects/**/*.jsonl"))
    assert len(files) == 68
    for path in files:
        feeder = Feeder()
        feeder.file(path.stem, path)
        assert feeder.faults == [], path
