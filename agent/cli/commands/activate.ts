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
    .argument("<version>", "a version id of `stemma agent status -o json`, or its first digits")
    .description("run another version that is on this device")
    .action(async (line: string, prefix: string, _: unknown, command: Command) => {
      const { home, output } = commonOptionsOf(command);
      const status = (await callRunningAgent(home, "control", { do: "status" })) as AgentStatus;
      const { versionId, name } = findVersion(status, line, prefix);
      const request = { do: "activate", line, versionId };
      const answer = await callRunningAgent(home, "control", request, activationTimeoutMs);
      new Output(output).print({
        data: answer,
        names: [versionId],
        text: `${line} now runs ${name} (${versionId.slice(0, 12)})`,
      });
    });
}

/** The only version of a line whose id starts with `prefix`. @throws MODEL_NOT_FOUND, MODEL_AMBIGUOUS */
function findVersion(status: AgentStatus, line: string, prefix: string): VersionStatus {
  const found = status.lines
    .filter((candidate) => candidate.line === line)
    .flatMap(({ versions }) => versions)
    .filter(({ versionId }) => prefix.length >= minPrefixLength && versionId.startsWith(prefix));
  const [only] = found;
  if (only === undefined || found.length > 1)
    throw new StemmaError(
      only === undefined ? "MODEL_NOT_FOUND" : "MODEL_AMBIGUOUS",
      `${found.length} versions of ${line} on this device begin with "${prefix}" (give ${minPrefixLength} digits or more). \`stemma agent status\` lists them.`,
    );
  return only;
}
