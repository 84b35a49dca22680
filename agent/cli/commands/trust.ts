/** `stemma agent trust`: pins the root of the fleet's releases on this device. */
import { resolve } from "node:path";
import { Option, type Command } from "commander";
import { Output } from "../../../shared/cli/output.js";
import { regularFiles } from "../../../shared/files/regular-files.js";
import { forgetTime } from "../../identity/device-time.js";
import { pinByHand, releasePolicies, type ReleasePolicy } from "../../releases/release-pin.js";
import { commonOptionsOf } from "../common-options.js";

interface Choices {
  readonly policy: ReleasePolicy;
  readonly replace: boolean;
}

export function addTrust(program: Command): void {
  program
    .command("trust")
    .argument("<file>", "root of releases, as `stemma release root` writes it")
    .addOption(
      new Option(
        "--policy <policy>",
        "required: install only released versions and own ones; accepted: others too",
      )
        .choices(releasePolicies)
        .default("required"),
    )
    .option(
      "--replace",
      "in place of what this device pinned before; what time it is, is forgotten too",
      false,
    )
    .description(
      "pin the root of the fleet's releases on this device; a running agent takes it when it starts again",
    )
    .action(async (file: string, { policy, replace }: Choices, command: Command) => {
      const { home, output } = commonOptionsOf(command);
      const files = regularFiles();
      const root = new TextDecoder().decode(await files.read(resolve(file)));
      const result = await pinByHand(files, home, { root, policy }, replace);
      if (replace) await forgetTime(files, home);
      new Output(output).print({
        data: { result, policy },
        names: [result],
        text:
          result === "pinned" ? `pinned, ${policy}; start the agent again` : "that root is pinned already",
      });
    });
}
