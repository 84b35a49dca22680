/** `stemma reproduce run`: the loop in a folder of its own, and what is kept of it. */
import { mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { exitStatus } from "../../../shared/errors.js";
import { writeDurably } from "../../../shared/files/durable-write.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import type { PlainContext, Printed } from "../plain-command.js";
import { refuseExisting } from "../stream-file.js";
import { describeLoop } from "./loop-text.js";
import { moveFolder, withWork, writeProfile } from "./record.js";
import { pairNames, runLoop, type LoopResult } from "./run-loop.js";

interface LoopChoices {
  readonly command: readonly string[];
  readonly asset: readonly string[];
  readonly keep: string | undefined;
  readonly file: string | undefined;
  readonly timeout: number;
  readonly force: boolean;
}

export async function reproduceRun(
  { command, asset: assets, keep, file, timeout: timeoutSeconds, force }: LoopChoices,
  { signal, output }: PlainContext,
): Promise<Printed> {
  if (file !== undefined) await refuseExisting(file, force);
  if (keep !== undefined) await refuseExisting(keep, false);
  const onRun = (run: number, what: string): void => {
    output.progress(`run ${run}: ${what}`);
  };
  const { report } = await withWork(undefined, async (workFolder) => {
    const result = await runLoop(
      { command, assets, timeoutSeconds, workFolder },
      { signal, onRun, onLine: () => undefined },
    );
    if (keep !== undefined) await keepPair(result, workFolder, keep);
    return result;
  });
  output.endProgress();
  if (file !== undefined) {
    await mkdir(dirname(file), { recursive: true });
    await writeDurably(nodeFiles(), file, Buffer.from(`${JSON.stringify(report, null, 2)}\n`));
  }
  return {
    data: report,
    names: report.equalBy === null ? [] : [report.equalBy],
    text: output.wrap(describeLoop(report)),
    ...(report.equalBy === null ? { status: exitStatus.verification } : {}),
  };
}

async function keepPair({ recording }: LoopResult, workFolder: string, keep: string): Promise<void> {
  for (const place of pairNames) await moveFolder(join(workFolder, place), join(keep, place));
  if (recording !== undefined) await writeProfile(join(keep, "randomness.profile"), recording.bytes);
}
