/** The agent's command in texts, as it is typed where this program runs. */

/** The place where the programs of a device leave the command that a person types: start.cjs, and the .tgz's. */
const typedCommand = Symbol.for("stemma.command");

/**
 * The agent's commands in a text as they are typed here: `stemma-agent status` on a device, which has no `stemma`.
 * @param command the agent's name here; undefined where `stemma agent` is
 */
export function asTyped(
  text: string,
  command = (globalThis as Record<symbol, string | undefined>)[typedCommand],
): string {
  return command === undefined ? text : text.replaceAll(/\bstemma agent\b/g, command);
}
