// mulligan for OpenCode: tells the daemon what happens in a session, and hands it the task state when OpenCode compacts.
//
// One file for both plugin APIs: `server` is what OpenCode 1 calls, `setup` what OpenCode 2 calls. Needs nothing but the
// runtime's own modules. It never throws, never prints, never changes what a tool is given, and waits for the daemon in
// two places only: before a tool (so that the tree before it is exact) and before a compaction. What the daemon has not
// acknowledged is kept, within bounds, and told again when it is back; the daemon drops what it knows already.
// @ts-check

import { accessSync, constants, readFileSync } from "node:fs"
import { connect } from "node:net"
import { userInfo } from "node:os"
import { isAbsolute, join, resolve } from "node:path"

/** Where the daemon's address is if not in a usual place: `mulligan integrate opencode` writes it here. */
const STATE_DIR = ""
/** The longest wait for an answer (milliseconds). */
const PATIENCE = 200
/** After a daemon was not found, it is looked for again so much later; doubles up to the second (milliseconds). */
const AGAIN = 1_000, AGAIN_AT_MOST = 30_000
/** What is kept while the daemon is away. */
const MOST_KEPT = 1_000
/** Longer texts in a tool's input are cut, longer inputs and prompts too: a message may have 1 MiB, and escapes are long. */
const LONGEST = 20_000, LONGEST_INPUT = 60_000, LONGEST_PROMPT = 100_000
/** Ids of calls that are shorter are not unique. */
const LEAST = 12
/** Ids that are remembered so that nothing is told twice. */
const MOST_REMEMBERED = 2_000

/** @typedef {{ id: number, line: string, sent: boolean, done: (output: string) => void }} Told */
/** @typedef {Record<string, unknown>} Fields */

/** Where the daemon's socket may be, in the order in which mulligan's own client tries.
 * @param {NodeJS.ProcessEnv} env @returns {string[]} */
function candidates(env) {
  const home = env.HOME || userInfo().homedir
  const mac = process.platform === "darwin"
  /** @param {string} name */
  const absolute = (name) => (isAbsolute(env[name] ?? "") ? /** @type {string} */ (env[name]) : "")
  const bare = mac ? join(home, "Library/Application Support/mulligan") : join(home, ".local/state/mulligan")
  const xdg = mac ? bare : join(absolute("XDG_STATE_HOME") || join(home, ".local/state"), "mulligan")
  const runtime = mac ? join(home, "Library/Caches/TemporaryItems") : absolute("XDG_RUNTIME_DIR") || runtimeOf()
  const found = [
    env.MULLIGAN_SOCKET ? resolve(env.MULLIGAN_SOCKET) : "",
    ...[env.MULLIGAN_STATE_DIR || xdg, bare, STATE_DIR].map((directory) => directory && addressIn(directory)),
    join(runtime, "mulligan/control.sock"),
  ]
  return [...new Set(found.filter(Boolean))]
}

/** A value, or another one if there is none.
 * @template T @param {() => T} value @param {T} otherwise @returns {T} */
function tried(value, otherwise) {
  try {
    return value()
  } catch {
    return otherwise
  }
}

/** @returns {string} */
function runtimeOf() {
  const directory = `/run/user/${process.getuid?.() ?? 0}`
  const usable = tried(() => (accessSync(directory, constants.W_OK), true), false)
  return usable ? directory : `/tmp/runtime-${process.getuid?.() ?? 0}`
}

/** The socket that a daemon wrote down in a state directory; "" if nothing usable is there.
 * @param {string} directory @returns {string} */
function addressIn(directory) {
  const path = tried(() => JSON.parse(readFileSync(join(directory, "control.json"), "utf8")).path, "")
  return typeof path === "string" ? path : ""
}

/** One connection to the daemon, made when there is something to tell; what it is told stays until it was answered. */
class Daemon {
  /** @type {Told[]} */ #kept = []
  /** @type {import("node:net").Socket | undefined} */ #socket
  #connecting = false
  #answers = ""
  #number = 0
  #away = 0
  #pause = AGAIN

  /** Tell one thing; resolves with the answer, with "" at once where there is no daemon.
   * @param {string} event @param {Fields} input */
  tell(event, input) {
    const id = ++this.#number
    const params = { agent: "opencode", event, pid: process.pid, input: JSON.stringify(input) }
    const line = JSON.stringify({ jsonrpc: "2.0", id, method: "hook.deliver", params }) + "\n"
    return new Promise((done) => {
      this.#kept.push({ id, line, sent: false, done })
      while (this.#kept.length > MOST_KEPT) this.#kept.shift()?.done("")
      this.#pump()
    })
  }

  /** Resolves when everything was answered, or cannot be. */
  async settled() {
    await Promise.all(this.#kept.map((told) => new Promise((done) => {
      const before = told.done
      told.done = (output) => { before(output); done(undefined) }
      if (Date.now() < this.#away) done(undefined)
    })))
  }

  #pump() {
    const socket = this.#socket
    if (!socket) return this.#connect()
    for (const told of this.#kept) {
      if (told.sent) continue
      told.sent = true
      socket.write(told.line)
    }
  }

  #connect() {
    if (this.#connecting) return
    if (Date.now() < this.#away) return this.#release()
    this.#connecting = true
    const paths = candidates(process.env)
    const attempt = () => {
      const path = paths.shift()
      if (path === undefined) return this.#missing()
      const socket = connect(path)
      let lost = false
      const end = () => {
        if (lost) return
        lost = true
        socket.destroy()
        if (this.#socket === socket) this.#lost()
        else attempt()
      }
      socket.on("error", end)
      socket.on("close", end)
      socket.setEncoding("utf8").on("data", (text) => this.#read(String(text)))
      socket.once("connect", () => {
        this.#socket = socket
        this.#connecting = false
        this.#answers = ""
        this.#away = 0
        this.#pause = AGAIN
        socket.unref()
        this.#pump()
      })
    }
    attempt()
  }

  /** No daemon answers: nobody is to wait, and it is looked for again later. */
  #missing() {
    this.#connecting = false
    this.#away = Date.now() + this.#pause
    setTimeout(() => this.#kept.length && this.#pump(), this.#pause + 10).unref()
    this.#pause = Math.min(this.#pause * 2, AGAIN_AT_MOST)
    this.#release()
  }

  /** The connection ended; what was not answered is told again. */
  #lost() {
    this.#socket = undefined
    for (const told of this.#kept) told.sent = false
    this.#missing()
  }

  #release() {
    for (const told of this.#kept) told.done("")
  }

  /** @param {string} text */
  #read(text) {
    const lines = (this.#answers + text).split("\n")
    this.#answers = lines.pop() ?? ""
    for (const line of lines) {
      const reply = tried(() => JSON.parse(line), undefined)
      const place = this.#kept.findIndex((told) => told.id === reply?.id)
      if (place < 0) continue
      if (reply.error?.data?.code === "busy") {
        this.#socket?.destroy()
        return
      }
      const [told] = this.#kept.splice(place, 1)
      told?.done(typeof reply.result?.output === "string" ? reply.result.output : "")
    }
  }
}

/** A promise's value, or "" if it takes longer than somebody would wait. @param {Promise<string>} promise */
function patiently(promise) {
  return new Promise((done) => {
    const timer = setTimeout(() => done(""), PATIENCE)
    promise.then((output) => {
      clearTimeout(timer)
      done(output)
    })
  })
}

/**
 * A callback of which nothing gets out but its value.
 * @template {unknown[]} A
 * @param {(...args: A) => Promise<void> | void} callback
 * @returns {(...args: A) => Promise<void>}
 */
function quiet(callback) {
  return async (...args) => {
    try {
      await callback(...args)
    } catch {
      // an agent is never to suffer from what watches it
    }
  }
}

/** A tool's input without what the daemon has no use for. @param {unknown} input @returns {Fields} */
function cut(input) {
  /** @type {Fields} */ const kept = {}
  let room = LONGEST_INPUT
  for (const [name, value] of Object.entries(input && typeof input === "object" ? input : {})) {
    const text = typeof value === "string" ? value.slice(0, Math.min(LONGEST, room)).toWellFormed() : ""
    room -= text.length
    if (text) kept[name] = text
    else if (typeof value === "number" || typeof value === "boolean") kept[name] = value
  }
  return kept
}

/** Whether something is new; forgets the oldest of too many.
 * @param {Set<string>} known @param {string} key @returns {boolean} */
function isNew(known, key) {
  if (known.has(key)) return false
  known.add(key)
  for (const oldest of known) {
    if (known.size <= MOST_REMEMBERED) break
    known.delete(oldest)
  }
  return true
}

const daemon = new Daemon()

/** Whether this file tells of a directory: it may be installed for the person and for the project.
 * @param {string} directory */
function isTeller(directory) {
  const key = Symbol.for("dev.mulligan.tellers")
  const world = /** @type {Record<symbol, Map<string, string> | undefined>} */ (/** @type {unknown} */ (globalThis))
  const tellers = (world[key] ??= new Map())
  if (!tellers.has(directory)) tellers.set(directory, import.meta.url)
  return tellers.get(directory) === import.meta.url
}

/** What one OpenCode instance tells: sessions in one directory, with what has to be known of them. */
class Teller {
  /** @type {Map<string, string>} the parent of a session, "" of one that has none */ parents = new Map()
  /** @type {Map<string, string>} slash commands whose prompt is to come */ commands = new Map()
  /** @type {Set<string>} sessions whose agent works */ #busy = new Set()
  /** @type {Map<string, { tool: string, id: string }>} calls without a result */ #open = new Map()
  /** @type {Map<string, string>} models of messages that are being written */ models = new Map()
  /** @type {Set<string>} */ #told = new Set()

  /** @param {string} directory @param {(session: string) => Promise<string | undefined>} parentOf asks OpenCode */
  constructor(directory, parentOf) {
    this.directory = directory
    this.parentOf = parentOf
  }

  /** Learn a session's ancestors; after the first time this takes no time. @param {string} session */
  async learn(session) {
    for (let one = session; one; one = this.parents.get(one) ?? "") {
      if (!this.parents.has(one)) this.parents.set(one, (await this.parentOf(one).catch(() => "")) ?? "")
    }
  }

  /** @param {string} session @param {string} event @param {number} time @param {Fields} [fields] */
  tell(session, event, time, fields = {}) {
    let root = session
    for (let parent = this.parents.get(root); parent; parent = this.parents.get(root)) root = parent
    const family = root === session ? {} : { parent_session_id: root }
    const input = { hook_event_name: event, session_id: session, ...family, cwd: this.directory, time, ...fields }
    return daemon.tell(event, input)
  }

  /**
   * @param {string} session
   * @param {number} time
   * @param {string} id
   * @param {string} text
   * @param {boolean} genuine
   * @param {string} [model]
   */
  prompted(session, time, id, text, genuine, model) {
    const command = this.commands.get(session)
    this.commands.delete(session)
    if (!genuine && !command) return
    const kind = this.#busy.has(session) ? "queued" : command ? "command" : "typed"
    this.#busy.add(session)
    const prompt = (command ?? text).slice(0, LONGEST_PROMPT).toWellFormed()
    void this.tell(session, "UserPromptSubmit", time, { prompt, prompt_id: id, kind, model })
  }

  /** @param {string} session @param {number} time @param {string} id @param {string} tool @param {unknown} input */
  async starting(session, time, id, tool, input) {
    // some models count their calls anew in each answer
    const call = { tool, id: id.length < LEAST ? `${id}.${time.toString(36)}` : id }
    this.#open.set(`${session} ${id}`, call)
    const told = { tool_name: tool, tool_use_id: call.id, tool_input: cut(input) }
    await patiently(this.tell(session, "PreToolUse", time, told))
  }

  /** @param {string} session @param {number} time @param {string} id @param {boolean} isError */
  finished(session, time, id, isError) {
    const call = this.#open.get(`${session} ${id}`)
    if (!call) return
    this.#open.delete(`${session} ${id}`)
    void this.tell(session, "PostToolUse", time, { tool_name: call.tool, tool_use_id: call.id, is_error: isError })
  }

  /**
   * @param {string} session
   * @param {number} time
   * @param {string} id
   * @param {string} model "" if it was told before
   * @param {{ input?: number, output?: number, reasoning?: number, cache?: { read?: number, write?: number } }} tokens
   */
  used(session, time, id, model, tokens) {
    const output = (tokens.output ?? 0) + (tokens.reasoning ?? 0)
    const usage = {
      input_tokens: tokens.input ?? 0,
      output_tokens: output,
      cache_creation_input_tokens: tokens.cache?.write ?? 0,
      cache_read_input_tokens: tokens.cache?.read ?? 0,
    }
    const total = Object.values(usage).join("/")
    if (!isNew(this.#told, `${id}:${total}`)) return
    void this.tell(session, "Usage", time, { message_id: id, model: model || this.models.get(id) || "", usage })
    this.models.delete(id)
  }

  /** @param {string} session @param {number} time @param {"idle" | "error" | "interrupted"} reason */
  stopped(session, time, reason) {
    this.#busy.delete(session)
    void this.tell(session, "Stop", time, { reason })
  }

  /** @param {string} session @param {number} time */
  ended(session, time) {
    void this.tell(session, "SessionEnd", time)
    this.#busy.delete(session)
  }
}

/** OpenCode 1: hooks in an object. @type {import("@opencode-ai/plugin").Plugin} */
const server = async ({ client, directory }) => {
  if (!isTeller(directory)) return {}
  const teller = new Teller(directory, async (session) => {
    const { data } = await client.session.get({ path: { id: session } })
    return data?.parentID
  })
  return {
    "command.execute.before": quiet((input) => {
      teller.commands.set(input.sessionID, `/${input.command} ${input.arguments}`.trim())
    }),
    "chat.message": quiet(async (input, output) => {
      const time = Date.now()
      await teller.learn(input.sessionID)
      const parts = output.parts.filter((part) => !(part.type === "text" && (part.synthetic || part.ignored)))
      const text = parts.map((part) => (part.type === "text" ? part.text : "")).filter(Boolean).join("\n")
      const model = output.message.model?.modelID
      teller.prompted(input.sessionID, time, output.message.id, text, parts.length > 0, model)
    }),
    "tool.execute.before": quiet(async (input, output) => {
      const time = Date.now()
      await teller.learn(input.sessionID)
      await teller.starting(input.sessionID, time, input.callID, input.tool, output.args)
    }),
    "tool.execute.after": quiet((input, output) => {
      const exit = output?.metadata?.exit
      teller.finished(input.sessionID, Date.now(), input.callID, typeof exit === "number" && exit !== 0)
    }),
    "shell.env": quiet((input, output) => {
      if (input.sessionID) output.env.MULLIGAN_SESSION = input.sessionID
    }),
    "experimental.session.compacting": quiet(async (input, output) => {
      const time = Date.now()
      await teller.learn(input.sessionID)
      const text = await patiently(teller.tell(input.sessionID, "PreCompact", time))
      if (text) output.context.push(text)
    }),
    event: quiet(({ event }) => hearFirst(teller, event)),
    dispose: quiet(async () => void (await patiently(daemon.settled().then(() => "")))),
  }
}

/** @param {Teller} teller @param {import("@opencode-ai/sdk").Event} event */
function hearFirst(teller, event) {
  const time = Date.now()
  if (event.type === "session.created") {
    const { id, parentID } = event.properties.info
    teller.parents.set(id, parentID ?? "")
    void teller.tell(id, "SessionStart", time, { source: "startup" })
  } else if (event.type === "session.deleted") {
    teller.ended(event.properties.info.id, time)
  } else if (event.type === "session.idle") {
    teller.stopped(event.properties.sessionID, time, "idle")
  } else if (event.type === "session.error") {
    const { sessionID, error } = event.properties
    if (sessionID) teller.stopped(sessionID, time, error?.name === "MessageAbortedError" ? "interrupted" : "error")
  } else if (event.type === "session.compacted") {
    void teller.tell(event.properties.sessionID, "PostCompact", time)
  } else if (event.type === "message.updated") {
    const { info } = event.properties
    if (info.role === "assistant" && info.time.completed) {
      teller.used(info.sessionID, info.time.completed, info.id, info.modelID, info.tokens)
    }
  } else if (event.type === "message.part.updated") {
    // a tool that failed has no "after"
    const { part } = event.properties
    if (part.type === "tool" && (part.state.status === "error" || part.state.status === "completed")) {
      teller.finished(part.sessionID, part.state.time.end, part.callID, part.state.status === "error")
    }
  }
}

/**
 * OpenCode 2: hooks by domain. Its types are not published yet; these are the parts that are used. OpenCode 1 calls this
 * too, with a context that has none of them.
 * @typedef {object} Context
 * @property {{ directory?: string }} [location]
 * @property {{ hook?: (name: string, callback: (event: any) => Promise<void>) => Promise<unknown>,
 *   get?: (input: { sessionID: string }) => Promise<any> }} [session]
 * @property {{ hook?: (name: string, callback: (event: any) => Promise<void>) => Promise<unknown> }} [tool]
 * @property {{ subscribe?: (options: { signal: AbortSignal }) => AsyncIterable<any> }} [event]
 */

/** @type {(context: object) => Promise<any>} */
const setup = async (given) => {
  const context = /** @type {Context} */ (given)
  const directory = context.location?.directory ?? process.cwd()
  if (!context.tool?.hook || !context.session?.hook || !isTeller(directory)) return
  const teller = new Teller(directory, async (session) => {
    const found = await context.session?.get?.({ sessionID: session })
    return found?.parentID ?? found?.data?.parentID
  })
  await context.session.hook("prompt", quiet(async (event) => {
    const time = Date.now()
    await teller.learn(event.sessionID)
    teller.prompted(event.sessionID, time, event.messageID, event.prompt?.text ?? "", true)
  }))
  await context.session.hook("compaction", quiet(async (event) => {
    const time = Date.now()
    await teller.learn(event.sessionID)
    const text = await patiently(teller.tell(event.sessionID, "PreCompact", time))
    if (text) event.system.push({ type: "text", text })
  }))
  await context.tool.hook("execute.before", quiet(async (event) => {
    const time = Date.now()
    await teller.learn(event.sessionID)
    await teller.starting(event.sessionID, time, event.id, event.tool, event.input)
  }))
  await context.tool.hook("execute.after", quiet((event) => {
    const exit = event.result?.metadata?.exit ?? event.result?.output?.exit
    teller.finished(event.sessionID, Date.now(), event.id, event.status === "error" || (exit ?? 0) !== 0)
  }))
  const ending = new AbortController()
  void quiet(async () => {
    for await (const event of context.event?.subscribe?.({ signal: ending.signal }) ?? []) hearSecond(teller, event)
  })()
  return async () => {
    ending.abort()
    await patiently(daemon.settled().then(() => ""))
  }
}

/** @param {Teller} teller @param {{ type: string, data?: any }} event */
function hearSecond(teller, { type, data }) {
  const time = Date.now()
  const session = data?.sessionID
  if (typeof session !== "string") return
  if (type === "session.created") {
    teller.parents.set(session, data.parentID ?? data.info?.parentID ?? "")
    void teller.tell(session, "SessionStart", time, { source: "startup" })
  } else if (type === "session.deleted") {
    teller.ended(session, time)
  } else if (type === "session.execution.succeeded") {
    teller.stopped(session, time, "idle")
  } else if (type === "session.execution.failed") {
    teller.stopped(session, time, "error")
  } else if (type === "session.execution.interrupted") {
    teller.stopped(session, time, "interrupted")
  } else if (type === "session.compaction.ended") {
    void teller.tell(session, "PostCompact", time)
  } else if (type === "session.step.started") {
    teller.models.set(data.assistantMessageID, data.model?.id ?? data.model?.modelID ?? "")
  } else if (type === "session.step.ended" && data.tokens) {
    teller.used(session, time, data.assistantMessageID, "", data.tokens)
  }
}

export default { id: "mulligan", server, setup }
