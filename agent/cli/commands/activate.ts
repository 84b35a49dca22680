/** `stemma agent activate`: runs another version that is on the device. */
import type { Command } from "commander";
import { Output } from "../../../shared/cli/output.js";
import { findVersion } from "../../saving/find-version.js";
import type { AgentStatus } from "../../status.js";
import { callRunningAgent, commonOptionsOf } from "../common-options.js";

const activationTimeoutMs = 10 * 60_000;

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
      const versions = status.lines.filter((one) => one.line === line).flatMap((one) => one.versions);
      const { versionId, name } = findVersion(versions, line, wanted);
      const request = { do: "activate", line, versionId };
      const answer = await callRunningAgent(home, "control", request, activationTimeoutMs);
      new Output(output).print({
        data: answer,
        names: [versionId],
        text: `${line} now runs ${name} (${versionId.slice(0, 12)})`,
      });
    });
}
