"""The hook program: hands an agent's raw input to the daemon, and prints what that answers, nearly always nothing.

Run as `python -I -S -E hook.py EVENT [STATE_DIR]`. It imports what is built into the interpreter, and `_socket`: the
agent waits for a few milliseconds. It judges nothing, says nothing and always exits with 0; if the daemon has not
answered within 200 ms of the program's start, it gives up.
"""

import _signal  # type: ignore[import-not-found]
import _socket
import sys
from posix import O_RDONLY, W_OK, _exit, access, close, environ, getppid, getuid, read, stat
from posix import open as open_file
from posix import write as write_to
from time import monotonic_ns

SECONDS = 0.185  # from the first line here; the interpreter has taken up to 15 ms before
LARGEST = 1_000_000  # a message has a mebibyte at the most


def ask(event: str, raw: str, sent: int, state_dir: str = "") -> bytes:
    """The daemon's answer as a line; b"" if nobody answers."""
    params = f'"event":{quoted(event)},"pid":{getppid()},"sent":{sent},"input":'
    text = quoted(raw)
    if len(text.encode()) > LARGEST:
        text = '"","cut":true'
    message = f'{{"jsonrpc":"2.0","id":1,"method":"hook.deliver","params":{{{params}{text}}}}}\n'.encode()
    for address in sockets(environ, state_dir):
        stream = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            stream.connect(address)
        except OSError:
            stream.close()
            continue
        stream.sendall(message)
        reply = b""
        while not reply.endswith(b"\n") and (part := stream.recv(65536)):
            reply += part
        return reply
    return b""


def quoted(text: str) -> str:
    """A string as JSON has it."""
    text = text.replace("\\", "\\\\").replace('"', '\\"')
    for number in range(32):
        if chr(number) in text:
            text = text.replace(chr(number), f"\\u{number:04x}")
    return f'"{text}"'


def sockets(environ: dict[bytes, bytes], state_dir: str = "", platform: str = sys.platform) -> list[bytes]:
    """Where the daemon may listen, in order: as the client looks for it, with a state directory for an empty one."""
    home = environ.get(b"HOME") or password_home()
    state = runtime = home + b"/Library/Application Support/mulligan"
    default = state
    if platform == "darwin":
        runtime = home + b"/Library/Caches/TemporaryItems/mulligan"
    else:
        default = home + b"/.local/state/mulligan"
        base = environ.get(b"XDG_STATE_HOME", b"")
        state = base + b"/mulligan" if base.startswith(b"/") else default
        runtime = environ.get(b"XDG_RUNTIME_DIR", b"")
        if not runtime.startswith(b"/"):
            runtime = b"/run/user/%d" % getuid()
            if not is_writable(runtime):
                runtime = b"/tmp/runtime-%d" % getuid()
        runtime += b"/mulligan"
    given = environ.get(b"MULLIGAN_STATE_DIR") or state_dir.encode("utf-8", "surrogateescape")
    written = [read_address(place + b"/control.json") for place in (given or state, default)]
    return [address for address in (environ.get(b"MULLIGAN_SOCKET"), *written, runtime + b"/control.sock") if address]


def password_home() -> bytes:
    """The home directory of a user without HOME."""
    import pwd  # noqa: PLC0415 - rarely needed

    return pwd.getpwuid(getuid()).pw_dir.encode("utf-8", "surrogateescape")


def is_writable(path: bytes) -> bool:
    """Whether there is a directory that takes files."""
    try:
        return stat(path).st_mode & 0o170000 == 0o040000 and access(path, W_OK)
    except OSError:
        return False


def read_address(path: bytes) -> bytes:
    """The socket that a daemon wrote into its address file; b"" if there is none."""
    try:
        descriptor = open_file(path, O_RDONLY)
    except OSError:
        return b""
    data = read(descriptor, 65536)
    close(descriptor)
    found = data.partition(b'"path": "')[2].partition(b'"')[0]
    if b"\\" in found:
        import json  # noqa: PLC0415 - rarely needed

        return str(json.loads(data)["path"]).encode("utf-8", "surrogateescape")
    return found


def main(arguments: list[str], sent: int) -> None:
    """Read the input, ask, print the answer."""
    raw = b""
    while part := read(0, 1 << 20):
        raw = raw + part if len(raw) <= LARGEST else raw
    reply = ask(arguments[0], raw.decode("utf-8", "replace"), sent, *arguments[1:2])
    if b'"output":""' in reply or b'"output":' not in reply:
        return
    import json  # noqa: PLC0415 - rarely needed

    output = json.loads(reply)["result"]["output"].encode()
    _signal.setitimer(_signal.ITIMER_REAL, 0)
    while output:
        output = output[write_to(1, output) :]


def run(arguments: list[str]) -> None:
    """`main` within its time; ends the process with 0, whatever happens."""
    try:
        _signal.signal(_signal.SIGALRM, lambda *_: _exit(0))
        _signal.setitimer(_signal.ITIMER_REAL, SECONDS)
        main(arguments, monotonic_ns())
    finally:
        _exit(0)


if __name__ == "__main__":
    run(sys.argv[1:])
