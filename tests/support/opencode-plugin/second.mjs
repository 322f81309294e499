// OpenCode 2 as a plugin meets it: domains with hooks, and events. Driven by lines of JSON on standard input.
import { createInterface } from "node:readline"

const [, , file, directory] = process.argv
const { default: plugin } = await import(file)
const hooks = {}
const events = []
const parents = {}
let wake = () => {}

const domain = (name) => ({ hook: async (hook, callback) => void (hooks[`${name}.${hook}`] = callback) })
async function* subscribe({ signal }) {
  while (!signal.aborted) {
    while (events.length) yield events.shift()
    await new Promise((done) => (wake = done))
  }
}

const cleanup = await plugin.setup({
  options: {},
  location: { directory },
  session: { ...domain("session"), get: async ({ sessionID }) => ({ parentID: parents[sessionID] }) },
  tool: domain("tool"),
  event: { subscribe },
})

for await (const line of createInterface({ input: process.stdin })) {
  const { hook, event, type, data, child, parent } = JSON.parse(line)
  const began = performance.now()
  if (child) parents[child] = parent
  if (hook) await hooks[hook](event)
  if (type) {
    events.push({ id: `evt_${began}`, created: Date.now(), type, data })
    wake()
    await new Promise((done) => setTimeout(done, 5))
  }
  console.log(JSON.stringify({ event, milliseconds: performance.now() - began }))
}
await cleanup()
process.exit(0)
