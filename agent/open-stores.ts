/** Opens what an agent has on its disk: outbox, installed versions, samples of each line, session counter. */
import { join } from "node:path";
import type { Files } from "../shared/ports.js";
import type { AgentParts, Stores } from "./agent-parts.js";
import { CurrentStore } from "./current/current-store.js";
import { transfersFolder } from "./home/agent-home.js";
import { Intake } from "./intake/intake.js";
import { LineForms } from "./lines/line-forms.js";
import { SessionCounter } from "./link/session-counter.js";
import { Outbox } from "./outbox/outbox.js";
import { pinnedSamples } from "./outbox/outbox-state.js";
import { UploadCoding } from "./outbox/upload-coding.js";

/** Milliseconds after which a download that was not continued is removed. */
const oldTransferMs = 7 * 24 * 3_600_000;

/** The folder whose files are read as samples of a line. */
export function inboxOf({ config, home }: Pick<AgentParts, "config" | "home">, line: string): string {
  return config.lines[line]?.watch ?? join(home, "inbox", line);
}

export async function openStores(parts: AgentParts): Promise<Stores> {
  const { files, home, clock, random, log, profile, enrolment, onFatal, decodedCacheBytes } = parts;
  await clearOldTransfers(files, transfersFolder(parts.home), clock.now());
  await UploadCoding.clear(files, transfersFolder(parts.home));
  const counter = await SessionCounter.open(files, home);
  const outbox = await Outbox.open({
    files,
    folder: join(home, "outbox"),
    clock,
    random,
    log,
    onFatal,
    decodedCacheBytes,
  });
  const current = await CurrentStore.open(files, home, clock);
  const forms = new LineForms({ files, config: parts.config, outbox, current });
  const intakes = new Map<string, Intake>();
  for (const line of enrolment.lines) {
    const intake = await Intake.open({
      files,
      folder: join(home, "samples", line),
      line,
      limits: profile.samples,
      clock,
      log,
      pins: () => pinnedSamples(outbox.state, line),
      neededForm: () => forms.of(line),
    });
    intakes.set(line, intake);
    await files.makeFolder(inboxOf(parts, line));
  }
  return { counter, outbox, current, intakes };
}

async function clearOldTransfers(files: Files, folder: string, nowMs: number): Promise<void> {
  for (const name of await files.list(folder)) {
    const stat = await files.stat(join(folder, name));
    if (stat !== undefined && nowMs - stat.modifiedMs > oldTransferMs) await files.remove(join(folder, name));
  }
}
