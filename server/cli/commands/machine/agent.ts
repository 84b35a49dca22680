/**
 * `stemma agent …` is the agent's own program (agent/cli), which the server never imports. The `stemma`
 * binary starts it directly. This command lists it in the help, and starts it for callers that use the
 * server's program.
 */
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { Command } from "commander";
import { ownPart } from "../../../../shared/adapters/own-program.js";

export const agentProgram = fileURLToPath(new URL("../../../../agent/cli/main.js", import.meta.url));

export function define(command: Command): void {
  command
    .helpOption(false)
    .allowUnknownOption()
    .argument("[arguments...]")
    .action(async (args: string[], _: unknown, command: Command) => {
      const start = ownPart({
        script: agentProgram,
        args: command.args.length > args.length ? command.args : args,
      });
      const child = spawn(start.program, [...start.args], { stdio: "inherit" });
      for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
        process.on(signal, () => {
          child.kill(signal);
        });
      process.exitCode = await new Promise<number>((resolve, reject) => {
        child.on("error", reject);
        child.on("close", (code) => {
          resolve(code ?? 1);
        });
      });
    });
}
