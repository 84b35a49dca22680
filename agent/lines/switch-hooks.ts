/**
 * Runs the hooks of a line: commands of the device's owner before a line switches to another model and after it
 * (docs/hooks.md). The first that fails or takes too long ends them. Knows no models, only folders.
 */
import { join } from "node:path";
import { messageOf } from "../../shared/error-text.js";
import type { Clock, Files, Log } from "../../shared/ports.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { endLeftProcess, noteProcess } from "../../shared/programs/left-process.js";
import { plainEnvironment, runProgram, type ProgramEnd } from "../../shared/adapters/run-program.js";
import { checkCommand } from "../../shared/programs/trusted-command.js";
import type { AgentConfig } from "../settings/config.js";
import type { Hook, HookMoment } from "../settings/hooks.js";
import { hookFailed, switchInterrupted } from "./line-errors.js";

export interface SwitchHooksOptions {
  readonly home: string;
  readonly config: Pick<AgentConfig, "lines">;
  readonly files: Pick<Files, "makeFolder" | "remove">;
  readonly clock: Clock;
  readonly log: Log;
  /** User id that owns agent.json; undefined where the system has no user ids. */
  readonly commandOwner: number | undefined;
}

/** A switch of a line from one installed model to another. */
export interface LineSwitch {
  readonly line: string;
  readonly to: InstalledModel;
  /** The model before; undefined: the line ran none. */
  readonly from: InstalledModel | undefined;
  /** The line returns to what it ran, because a hook failed. */
  readonly isReturn: boolean;
}

export interface InstalledModel {
  readonly versionId: Hash;
  readonly folder: string;
}

/** Lines of output of a hook that are logged, and the characters of each. */
const maxLines = 50;
const maxLineCharacters = 500;

export class SwitchHooks {
  readonly #abort = new AbortController();

  constructor(private readonly options: SwitchHooksOptions) {}

  /** Ends a hook that runs; its switch goes on at the next start. */
  stop(): void {
    this.#abort.abort();
  }

  /**
   * Runs the hooks of a moment, one after the other.
   * @throws HOOK_FAILED by the first that fails; INTERRUPTED when the agent stops
   */
  async run(moment: HookMoment, change: LineSwitch): Promise<void> {
    const hooks = this.options.config.lines[change.line]?.hooks[moment] ?? [];
    for (const [index, hook] of hooks.entries())
      await this.#run(hook, `lines.${change.line}.hooks.${moment}.${index}`, moment, change);
  }

  async #run(hook: Hook, field: string, moment: HookMoment, change: LineSwitch): Promise<void> {
    const { home, files, clock, log, commandOwner } = this.options;
    const { line } = change;
    const folder = join(home, "hooks", line);
    const { signal } = this.#abort;
    if (signal.aborted) throw switchInterrupted();
    let left = maxLines;
    let end: ProgramEnd;
    try {
      await endLeftProcess(folder);
      await files.remove(folder);
      await files.makeFolder(folder);
      await checkCommand(hook, { field: `${field}.exec`, owner: commandOwner });
      end = await runProgram(
        { ...hook, folder, environment: environmentOf(home, folder, moment, change) },
        {
          clock,
          signal,
          onLine: (text) => {
            if (left-- > 0)
              log.info("hook-output", { line, hook: field, text: text.slice(0, maxLineCharacters) });
          },
          onStarted: (pid) => noteProcess(folder, pid),
        },
      );
    } catch (cause) {
      throw hookFailed(field, `could not be run: ${messageOf(cause)}`, "", cause);
    } finally {
      await files.remove(folder);
    }
    if (left < 0) log.info("hook-output", { line, hook: field, text: `… ${-left} more lines` });
    const { code, reason, errors } = end;
    if (reason === "stopped") throw switchInterrupted();
    if (reason === "timed-out")
      throw hookFailed(field, `did not end within ${hook.timeoutSeconds} seconds and was ended`, errors);
    if (code !== 0)
      throw hookFailed(
        field,
        `ended with ${code === null ? `the signal ${end.signal}` : `status ${code}`}`,
        errors,
      );
    log.info("hook-done", {
      line,
      hook: field,
      versionId: change.to.versionId,
      text: `${field} of agent.json let it pass`,
    });
  }
}

/** All that a hook gets from its surroundings; nothing of the agent's own environment. */
function environmentOf(
  home: string,
  folder: string,
  moment: HookMoment,
  { line, to, from, isReturn }: LineSwitch,
): Record<string, string> {
  return {
    ...plainEnvironment,
    HOME: folder,
    TMPDIR: folder,
    STEMMA_HOOK: moment === "beforeSwitch" ? "before-switch" : isReturn ? "after-return" : "after-switch",
    STEMMA_LINE: line,
    STEMMA_CURRENT: join(home, "current", line),
    STEMMA_VERSION: to.versionId,
    STEMMA_FOLDER: to.folder,
    STEMMA_PREVIOUS_VERSION: from?.versionId ?? "",
    STEMMA_PREVIOUS_FOLDER: from?.folder ?? "",
  };
}
