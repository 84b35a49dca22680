/** Live trials of one line on files in memory, whose line runs `running` and has `next` staged. */
import { LiveTrials, type LiveTrialsOptions } from "../../../../agent/trials/live-trials.js";
import { silentLog } from "../../../../shared/adapters/node-ports.js";
import { StemmaError } from "../../../../shared/errors.js";
import type { Files } from "../../../../shared/ports.js";
import { sha256 } from "../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { anyRelease } from "../../../helpers/any-release.js";
import { manualClock } from "../../../helpers/manual-clock.js";

export const line = "cam";
export const running = sha256("running");
export const next = sha256("next");

/** What of the device the trials see, and what they did to it. */
export class TrialDevice {
  runs: Hash = running;
  readonly staged = new Set<Hash>([next]);
  readonly installed = new Set<Hash>();
  revoked = false;
  readonly events: string[] = [];
  readonly clock = manualClock();

  open(files: Files): Promise<LiveTrials> {
    const baseOf = (versionId: Hash) => ({ versionId, folder: `/home/versions/${versionId}` });
    const options: LiveTrialsOptions = {
      files,
      home: "/home",
      clock: this.clock,
      log: silentLog(),
      lines: [line],
      activator: {
        base: () => baseOf(this.runs),
        installBase: (_, versionId) => {
          this.installed.add(versionId);
          return Promise.resolve(baseOf(versionId));
        },
        installed: (versionId) =>
          Promise.resolve(this.installed.has(versionId) ? baseOf(versionId) : undefined),
        discard: (versionId, inUse) => {
          if (!inUse.has(versionId)) this.installed.delete(versionId);
          return Promise.resolve();
        },
      },
      outbox: {
        entry: (versionId) =>
          (this.staged.has(versionId) ? { lines: [line], origin: "adopted" } : undefined) as ReturnType<
            LiveTrialsOptions["outbox"]["entry"]
          >,
        dropStaged: (_, versionId) => {
          this.staged.delete(versionId);
          return Promise.resolve();
        },
      },
      releases: {
        ...anyRelease,
        requireInstallable: async () => {
          if (this.revoked) throw new StemmaError("RELEASE_REVOKED", "It was revoked.");
          await Promise.resolve();
        },
      },
      inUse: () => new Set(),
      onEvent: (name) => {
        this.events.push(name);
      },
    };
    return LiveTrials.open(options);
  }
}

export const request = { line, rollout: "spring", versionId: next, before: running, inputs: 4, minutes: 60 };

/** Observations of the two models on trial. */
export const of = (observations: Parameters<LiveTrials["observe"]>[1]["observations"]) => ({
  trial: next,
  running,
  observations,
});
