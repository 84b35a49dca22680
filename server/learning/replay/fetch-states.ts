/**
 * Fetches from a device the states with which chosen segments of its training begin. What has come stays in the home's
 * work folder while others are awaited, until the server's next start.
 */
import { join } from "node:path";
import { nodeFiles } from "../../../shared/files/node-files.js";
import { segmentCount, type StateCommitment } from "../../../shared/provenance/state-commitment.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import { requireRoom } from "../../services/context/room-for-models.js";
import { workFolderOf } from "../../services/context/work-folder.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { askForState } from "./asked-states.js";
import { maxStateBytes } from "./committed-ends.js";

/** Milliseconds in which all states of a check have to come; what is missing then is awaited. */
const statesMs = 15 * 60_000;

/** Segments without a state, each with the reason: it is lost, or the device does not answer now. */
export interface Unanswered {
  readonly gone: readonly string[];
  readonly silent: readonly string[];
}

export interface StatesWanted {
  readonly context: Pick<OperationsContext, "home" | "live">;
  readonly repository: Pick<FleetRepository, "fleet" | "hasSent" | "objects">;
  readonly summary: Pick<VersionSummary, "versionId" | "record">;
  readonly commitment: StateCommitment;
  readonly signal: AbortSignal;
}

export function stateFolder(
  { home }: Pick<OperationsContext, "home">,
  { versionId }: Pick<VersionSummary, "versionId">,
): string {
  return join(workFolderOf(home), `states-${versionId}`);
}

export const stateFile = (folder: string, segment: number): string =>
  join(folder, `segment-${segment}.state`);

/**
 * Has the states sent that are not here; the first segment begins with none.
 * @throws DISK_FULL, TRAINING_STOPPED when aborted
 */
export async function fetchStates(
  { context, repository, summary, commitment, signal }: StatesWanted,
  segments: readonly number[],
  folder: string,
): Promise<Unanswered & { readonly come: readonly number[] }> {
  const { home } = context;
  const { versionId, record } = summary;
  const { device } = record;
  const files = nodeFiles();
  const come: number[] = [];
  const gone: string[] = [];
  const silent: string[] = [];
  const fleet = await context.live?.fleet(repository.fleet);
  const isDevices = repository.hasSent(device, versionId);
  const maxBytes = await maxStateBytes(repository, record);
  const untilMs = home.ports.clock.monotonic() + statesMs;
  await files.makeFolder(folder);
  for (const segment of segments.filter((each) => each < segmentCount(commitment))) {
    const path = stateFile(folder, segment);
    if (segment === 0 || (await files.stat(path)) !== undefined) come.push(segment);
    else if (!isDevices) gone.push(`segment ${segment}: ${device} is revoked, replaced or of another fleet`);
    else if (fleet === undefined)
      silent.push(`segment ${segment}: no server runs here that ${device} could answer`);
    // One that does not answer is not asked for the others too.
    else if (silent.length === 0) {
      await requireRoom(home, maxBytes);
      const asked = { device, versionId, step: segment * commitment.everySteps, maxBytes };
      const { clock } = home.ports;
      const part = `${path}.part`;
      const answer = await askForState(fleet, asked, { path: part, clock, untilMs, signal });
      if (answer.kind === "came") {
        await files.rename(part, path);
        come.push(segment);
      } else {
        (answer.kind === "gone" ? gone : silent).push(`segment ${segment}: ${answer.because}`);
        await files.remove(part);
      }
    }
  }
  return { come, gone, silent };
}
