/** Measures what an agent's home takes on the disk, by what it is for. */
import { join } from "node:path";
import type { Files } from "../shared/ports.js";
import type { CurrentStore } from "./current/current-store.js";
import { transfersFolder } from "./home/agent-home.js";
import type { Intake } from "./intake/intake.js";
import type { Outbox } from "./outbox/outbox.js";
import { trialBytes } from "./trials/open-trial.js";
import type { DiskUse } from "./resources/disk-budget.js";

export interface MeasuredHome {
  readonly files: Pick<Files, "list" | "stat" | "freeBytes">;
  readonly home: string;
  readonly lines: readonly string[];
  readonly outbox: Pick<Outbox, "bytes">;
  readonly current: Pick<CurrentStore, "bytes">;
  readonly states: { bytes(): Promise<number> };
  readonly intakes: ReadonlyMap<string, Pick<Intake, "bytes">>;
}

export async function measureDisk({
  files,
  home,
  lines,
  outbox,
  current,
  intakes,
  states,
}: MeasuredHome): Promise<DiskUse> {
  const { packs, journal } = await outbox.bytes();
  const samples = [...intakes.values()].reduce((sum, intake) => sum + intake.bytes, 0);
  const folder = transfersFolder(home);
  let transfers = 0;
  for (const name of await files.list(folder)) transfers += (await files.stat(join(folder, name)))?.size ?? 0;
  const trials = await trialBytes(files, home, lines);
  const kept = await states.bytes();
  const versions = await current.bytes();
  const free = await files.freeBytes(home);
  return { packs, journal, samples, transfers, trials, states: kept, versions, free };
}
