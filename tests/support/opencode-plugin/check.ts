// The plugin is what both plugin APIs call one.
import type { PluginModule } from "@opencode-ai/plugin"
import type { Plugin } from "@opencode-ai/plugin/v2/promise"
import mulligan from "./mulligan.mjs"

export const first: PluginModule = mulligan
export const second: Plugin = mulligan
