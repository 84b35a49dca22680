/**
 * Simulates a device: the agent itself over a simulated link, with fine-tunes and measurements that take no training.
 * Its files are in memory, and what all devices of the process have equal is kept once. Everything else is as on a
 * device: keys, announcements, outbox, transfers, receipts, offers, the switch of the version.
 */
import { arch, release, type } from "node:os";
import { join } from "node:path";
import { nodeClock, nodeRandom } from "../../shared/adapters/node-ports.js";
import { programVersion } from "../../shared/adapters/program-version.js";
import { defined } from "../../shared/defined.js";
import { messageOf, messageWithCode } from "../../shared/error-text.js";
import { isStemmaError, StemmaError } from "../../shared/errors.js";
import { filesInMemory } from "../../shared/files/memory-files.js";
import type { Files, Log, LogFields } from "../../shared/ports.js";
import { seededNumbers } from "../../shared/random/seeded-numbers.js";
import type { DeviceOrder, SimulatedSave } from "../../shared/simulation/simulation-messages.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { Enrolment } from "../../shared/trust/enrolment.js";
import { Agent } from "../agent.js";
import { deviceKeyOf } from "../identity/device-key.js";
import { requestEnrolment, takeEnrolment } from "../identity/enrol-invited.js";
import { sendInvited } from "../identity/exchanges.js";
import { RecentEvents, recentLog } from "../../shared/adapters/recent-log.js";
import { parseConfig } from "../settings/config.js";
import type { Profile } from "../settings/profile.js";
import { ServedSettings } from "../settings/served-settings.js";
import { fineTuned } from "./fine-tune.js";
import { pooledContents, type PiecePool } from "./pooled-content.js";
import { askedVersions, simulatedEvaluation } from "./simulated-measurement.js";
import { SimulatedLink } from "./simulated-link.js";

/** The folder of every device, each on a disk of its own. */
const home = "/simulated";
const enrolmentPath = join(home, "enrolment.json");
/** Seconds between two looks at folders that nobody puts anything into. */
const watchSeconds = 3600;
/** The decoded cache of each device: a thousand of them share the memory of a few processes. */
const decodedCacheBytes = 1024 * 1024;
/** The pause after which a certificate is asked for again, when the server gives no more to this address for now. */
const certificateAgainMs = 2_000;
/** The pause before another save, when the line runs nothing yet or the disk's budget is used up for now. */
const saveAgainMs = 5_000;

const standings: Readonly<Record<string, SimulatedSave["standing"]>> = {
  recorded: "recorded",
  stored: "stored",
  released: "released",
};
/** Codes that links that break lead to. */
const expected = new Set(["disconnected", "send-failed"]);

export interface Trouble {
  readonly event: string;
  readonly text: string;
}

export class SimulatedDevice {
  readonly saves = new Map<Hash, Pick<SimulatedSave, "standing" | "recordedAfterMs">>();
  readonly link: SimulatedLink;
  runs: Hash | undefined;
  isConnected = false;
  savesToCome = 0;
  readonly #clock = nodeClock();
  readonly #draw: () => number;
  readonly #files: Files;
  readonly #cancels = new Set<() => void>();
  /** Versions that are complete on the device. */
  readonly #completeVersions = new Set<Hash>();
  /** Versions that have no receipt yet → when they were announced first, on the clock that never jumps. */
  readonly #announcedMs = new Map<Hash, number>();
  #agent: Agent | undefined;
  #isStopped = false;

  constructor(
    private readonly order: DeviceOrder,
    private readonly profile: Profile,
    pool: PiecePool,
    private readonly onTrouble: (trouble: Trouble) => void,
  ) {
    this.#draw = seededNumbers(order.seed);
    this.#files = filesInMemory(pooledContents(pool), { now: () => this.#clock.now() });
    this.link = new SimulatedLink({
      shape: order.link,
      clock: this.#clock,
      draw: this.#draw,
    });
  }

  get name(): string {
    return this.order.device;
  }
  async start(): Promise<void> {
    const { answers } = this.order;
    const recent = new RecentEvents(this.#clock);
    const files = this.#files;
    await files.makeFolder(home);
    const enrolment = await this.#enrol();
    this.link.ca = enrolment.ca;
    this.#agent = await Agent.open({
      home,
      version: programVersion(),
      enrolment,
      enrolmentPath,
      deviceKey: deviceKeyOf(enrolment, undefined),
      config: parseConfig({ format: 1, watchSeconds }, "(simulated)"),
      profile: this.profile,
      files,
      clock: this.#clock,
      random: nodeRandom(),
      log: recentLog(this.#log(), recent, () => "info"),
      recent,
      served: await ServedSettings.open(files, home),
      train: () => Promise.reject(trainsNothing()),
      evaluate: () => Promise.reject(trainsNothing()),
      runtime: `simulated by Node ${process.version}, ${type()} ${release()} ${arch()}`,
      commandOwner: undefined,
      onFatal: (error) => {
        this.onTrouble({ event: "disk-failed", text: messageOf(error) });
      },
      utcOffsetMinutes: () => 0,
      decodedCacheBytes,
      network: (own) => this.link.identity(own),
      evaluator: {
        inUse: new Set(),
        stop: () => undefined,
        // A promise's function turns an error into a rejection.
        evaluate: (line, request) =>
          new Promise((resolve) => {
            const asked = askedVersions(request, this.runs);
            const has = (versionId: Hash): boolean => this.#completeVersions.has(versionId);
            resolve(simulatedEvaluation(line, asked, { answers, draw: this.#draw, has }));
          }),
      },
    });
    await this.#agent.start();
    this.saveLater(this.order.savesAtMs);
  }

  /** Enrols the device; with an invitation it makes its keys, as a real one does. */
  async #enrol(): Promise<Enrolment> {
    const { admission } = this.order;
    if ("enrolment" in admission) return admission.enrolment;
    const parts = { files: this.#files, random: nodeRandom(), path: enrolmentPath };
    const { invitation } = admission;
    const request = await requestEnrolment(parts, invitation);
    return await takeEnrolment(parts, invitation, await this.#send(invitation, request));
  }

  /** All devices have one address, of which a server takes so many requests a minute. */
  async #send(...request: Parameters<typeof sendInvited>): ReturnType<typeof sendInvited> {
    for (;;) {
      try {
        return await sendInvited(...request);
      } catch (error) {
        if (this.#isStopped || !isStemmaError(error, "QUOTA_EXCEEDED")) throw error;
        await new Promise<void>((resolve) => {
          this.#clock.after(certificateAgainMs, resolve);
        });
      }
    }
  }

  /** Saves a fine-tuned model at each of these times, in milliseconds from now. */
  saveLater(atMs: readonly number[]): void {
    this.savesToCome += atMs.length;
    for (const delayMs of atMs) this.#after(delayMs, () => this.#save());
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    for (const cancel of this.#cancels) cancel();
    this.#cancels.clear();
    await this.#agent?.stop();
  }

  async #save(): Promise<void> {
    try {
      const saved = await this.#agent?.saveMade(this.order.line, "simulated", (base, outbox) =>
        fineTuned(base, outbox, { share: this.order.changes, draw: this.#draw }),
      );
      if (saved === undefined) return;
      if (!this.saves.has(saved.versionId)) this.saves.set(saved.versionId, { standing: "pending" });
      this.#completeVersions.add(saved.versionId);
      this.savesToCome--;
    } catch (error) {
      const isPassing =
        isStemmaError(error) && ["MODEL_NOT_FOUND", "DISK_BUDGET_EXHAUSTED"].includes(error.code);
      if (isPassing) this.#after(saveAgainMs, () => this.#save());
      else this.#trouble("save-failed", isStemmaError(error) ? messageWithCode(error) : messageOf(error));
    }
  }

  #after(delayMs: number, run: () => Promise<void>): void {
    if (this.#isStopped) return;
    const cancel = this.#clock.after(delayMs, () => {
      this.#cancels.delete(cancel);
      void run();
    });
    this.#cancels.add(cancel);
  }

  #trouble(event: string, text: string): void {
    if (!this.#isStopped) this.onTrouble({ event, text: `${this.name}: ${text}` });
  }

  #noteAnnouncement(version: Hash): void {
    const hasReceipt = (this.saves.get(version)?.standing ?? "pending") !== "pending";
    if (!hasReceipt && !this.#announcedMs.has(version))
      this.#announcedMs.set(version, this.#clock.monotonic());
  }

  #noteReceipt(version: Hash, standing: SimulatedSave["standing"]): void {
    const announcedMs = this.#announcedMs.get(version);
    this.#announcedMs.delete(version);
    const recordedAfterMs =
      announcedMs === undefined
        ? this.saves.get(version)?.recordedAfterMs
        : this.#clock.monotonic() - announcedMs;
    this.saves.set(version, { standing, ...defined({ recordedAfterMs }) });
  }

  /** Follows what the agent logs; it is the agent's own account of what happened. */
  #log(): Log {
    const note = (event: string, fields: LogFields = {}): void => {
      const version = fields["versionId"] as Hash | undefined;
      if (event === "connected") this.isConnected = true;
      if (event === "disconnected" || event === "not-admitted") this.isConnected = false;
      if (version === undefined) return;
      if (event === "announced") this.#noteAnnouncement(version);
      const standing = standings[event];
      if (standing !== undefined) this.#noteReceipt(version, standing);
      if (event === "fetched" || event === "activated") this.#completeVersions.add(version);
      if (event === "activated") this.runs = version;
    };
    const warn = (event: string, fields: LogFields = {}): void => {
      note(event, fields);
      if (!expected.has(event))
        this.#trouble(event, typeof fields["text"] === "string" ? fields["text"] : "");
    };
    const log: Log = { debug: note, info: note, warn, error: warn, child: () => log };
    return log;
  }
}

function trainsNothing(): StemmaError {
  return new StemmaError(
    "TRAINING_REFUSED",
    "A simulated device trains nothing. Ask a real one, or let it save simulated fine-tunes.",
  );
}
