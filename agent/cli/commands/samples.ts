/** `stemma agent samples`: submits samples to a running agent. */
import { readFile } from "node:fs/promises";
import type { Command } from "commander";
import { Output } from "../../../shared/cli/output.js";
import { messageOf } from "../../../shared/error-text.js";
import { StemmaError } from "../../../shared/errors.js";
import { parseJsonLines } from "../../intake/json-lines.js";
import { callRunningAgent, commonOptionsOf } from "../common-options.js";

export function addSamples(program: Command): void {
  program
    .command("samples")
    .argument("<line>")
    .argument("[file]", "one JSON object per line; standard input when absent")
    .description(
      'submit samples: {"label": 1, "shape": [28, 28, 1], "values": numbers or base64 of float32}; returns when they are on the disk',
    )
    .action(async (line: string, file: string | undefined, _: unknown, command: Command) => {
      const { home, output } = commonOptionsOf(command);
      const samples = parseJsonLines(
        file === undefined ? await readStandardInput() : await readText(file),
        file ?? "standard input",
      );
      const answer = (await callRunningAgent(home, "samples", { do: "samples", line, samples })) as {
        accepted: number;
        alreadyThere: number;
      };
      const duplicates = answer.alreadyThere > 0 ? `, ${answer.alreadyThere} were stored already` : "";
      new Output(output).print({
        data: answer,
        text: `${answer.accepted} samples stored for ${line}${duplicates}`,
      });
    });
}

async function readText(file: string): Promise<string> {
  try {
    return await readFile(file, "utf8");
  } catch (cause) {
    throw new StemmaError(
      "FILE_MISSING",
      `The file ${file} cannot be read: ${messageOf(cause)}. Check its path.`,
      { cause },
    );
  }
}

async function readStandardInput(): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of process.stdin) parts.push(part as Buffer);
  return Buffer.concat(parts).toString("utf8");
}
