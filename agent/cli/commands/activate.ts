/** `stemma agent activate`: runs another version that is on the device. */
import type { Command } from "commander";
import { Output } from "../../../shared/cli/output.js";
import { StemmaError } from "../../../shared/errors.js";
import type { AgentStatus, VersionStatus } from "../../status.js";
import { callRunningAgent, commonOptionsOf } from "../common-options.js";

const activationTimeoutMs = 10 * 60_000;
const minPrefixLength = 8;

export function addActivate(program: Command): void {
  program
    .command("activate")
    .argument("<line>")
    .argument(
      "<version>",
      "a model or version that `stemma agent status` lists: name:version, or a version id or its first digits",
    )
    .description("run another version that is on this device")
    .action(async (line: string, wanted: string, _: unknown, command: Command) => {
      const { home, output } = commonOptionsOf(command);
      const status = (await callRunningAgent(home, "control", { do: "status" })) as AgentStatus;
      const { versionId, name } = findVersion(status, line, wanted);
      const request = { do: "activate", line, versionId };
      const answer = await callRunningAgent(home, "control", request, activationTimeoutMs);
      new Output(output).print({
        data: answer,
        names: [versionId],
        text: `${line} now runs ${name} (${versionId.slice(0, 12)})`,
      });
    });
}

/**
 * The only version of a line with this name, or whose id starts with these digits.
 * @throws MODEL_NOT_FOUND, MODEL_AMBIGUOUS
 */
export function findVersion(status: Pick<AgentStatus, "lines">, line: string, wanted: string): VersionStatus {
  const versions = status.lines.filter((one) => one.line === line).flatMap((one) => one.versions);
  const named = versions.filter(({ name }) => name === wanted);
  const found =
    named.length > 0
      ? named
      : versions.filter(({ versionId }) => wanted.length >= minPrefixLength && versionId.startsWith(wanted));
  const [only] = found;
  if (only === undefined || found.length > 1)
    throw new StemmaError(
      only === undefined ? "MODEL_NOT_FOUND" : "MODEL_AMBIGUOUS",
      only === undefined
        ? `No version of ${line} on this device has the name "${wanted}", or an id that begins with it (give ${minPrefixLength} digits or more). \`stemma agent status\` lists them.`
        : `${found.length} versions of ${line} on this device match "${wanted}": ${found.map(({ versionId }) => versionId.slice(0, 12)).join(", ")}. Name one by its version id.`,
    );
  return only;
}
