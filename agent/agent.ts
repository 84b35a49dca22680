/**
 * The agent's parts wired to each other: what follows from a receipt, an offer, a training, a command.
 * Every part has its own file; this one only knows who has to hear of what. main.ts makes the ports.
 */
import { join } from "node:path";
import { isStemmaError, StemmaError } from "../shared/errors.js";
import type { Clock, Files, Log, Random } from "../shared/ports.js";
import type { Hash } from "../shared/tensor/tensor.js";
import { chooseBackend } from "../shared/train/backends/choose.js";
import type { trainInChild } from "../shared/train/train-in-child.js";
import type { Enrolment } from "../shared/trust/enrolment.js";
import { oldestProtocolVersion } from "../shared/wire/limits.js";
import type { Block, Command, CommandResult, ManifestPart, Offer } from "../shared/wire/messages.js";
import { judgeDisk, usedBytes, type DiskUse } from "./resources/disk-budget.js";
import { ClockError } from "./session/clock-error.js";
import type { AgentConfig } from "./settings/config.js";
import { CurrentStore } from "./current/current-store.js";
import { Intake } from "./intake/intake.js";
import { takeFolderIn } from "./intake/watch-folder.js";
import { Activator } from "./lines/activator.js";
import { Link } from "./link/link.js";
import { mqttOptionsOf } from "./link/mqtt-options.js";
import { Pacer } from "./link/pacer.js";
import { SessionCounter } from "./link/session-counter.js";
import { Downloads } from "./offers/downloads.js";
import { Offers } from "./offers/offers.js";
import { Outbox } from "./outbox/outbox.js";
import { pinnedSamples, unreleased } from "./outbox/outbox-state.js";
import { UploadCoding } from "./outbox/upload-coding.js";
import { Uploads } from "./outbox/uploads.js";
import type { Profile } from "./settings/profile.js";
import { Conversation } from "./session/conversation.js";
import { lineStatus, type AgentStatus } from "./status.js";
import { Trainer, type Trained, type TrainingRequest } from "./trainer/trainer.js";

export interface AgentParts {
  readonly home: string;
  readonly version: string;
  readonly enrolment: Enrolment;
  readonly config: AgentConfig;
  readonly profile: Profile;
  readonly files: Files;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly train: typeof trainInChild;
  readonly runtime: string;
  /** The outbox can take nothing any more; the agent has to be started again. */
  readonly onFatal: (error: StemmaError) => void;
  readonly utcOffsetMinutes: () => number;
}

const housekeepingMs = 30_000;
const offerRetryMs = 60_000;
const oldTransferMs = 7 * 24 * 3_600_000;
/** Offers that trying again does not help. */
const finalOfferErrors = new Set([
  "SIGNATURE_INVALID",
  "LINE_UNKNOWN",
  "OBJECT_HASH_MISMATCH",
  "ROOT_MISMATCH",
  "RECORD_INVALID",
  "LAYER_NOT_ALLOWED",
  "ARCHITECTURE_MISMATCH",
  "INTERRUPTED",
]);

export class Agent {
  readonly #clockError = new ClockError();
  readonly #link: Link;
  readonly #conversation: Conversation;
  readonly #uploads: Uploads;
  readonly #downloads: Downloads;
  readonly #offers: Offers;
  readonly #activator: Activator;
  readonly #trainer: Trainer;
  readonly #pacer: Pacer;
  readonly #cancels = new Set<() => void>();
  #stopping = false;

  private constructor(
    private readonly parts: AgentParts,
    counter: SessionCounter,
    private readonly outbox: Outbox,
    private readonly current: CurrentStore,
    private readonly intakes: ReadonlyMap<string, Intake>,
  ) {
    const { profile, enrolment, clock, log, files, home } = parts;
    const shared = {
      files,
      home,
      profile,
      enrolment,
      outbox,
      clock,
      log,
      diskUse: () => this.#diskUse(),
      clockErrorMs: () => this.#clockError.errorMs(clock.monotonic()),
    };
    this.#pacer = new Pacer(profile.link.bytesPerSecond, clock.monotonic());
    this.#link = new Link(
      { enrolment, counter, clock, random: parts.random, log, mqtt: mqttOptionsOf(profile) },
      {
        onOpen: (session) => {
          log.info("connected", { session, text: `connected in session ${session}` });
          this.#conversation.onOpen(session);
          this.#downloads.reconnected();
        },
        onClosed: () => {
          this.#conversation.onClosed();
        },
        onMessage: (envelope) => {
          this.#conversation.receive(envelope);
        },
        onBlock: (transfer, block) => {
          this.#downloads.onBlock(transfer, block);
        },
      },
    );
    this.#uploads = new Uploads({
      objects: outbox.objects,
      clock,
      log,
      blockBytes: profile.link.blockBytes,
      coding: new UploadCoding({
        objects: outbox.objects,
        files,
        folder: join(home, "transfers"),
        clock,
        log,
        link: profile.link,
        memoryLimitMb: profile.training.memoryLimitMb,
        mayTake: async (bytes) => judgeDisk(profile.disk, await this.#diskUse(), "report", bytes).allowed,
      }),
      send: (transfer, message) => this.#sendPaced(transfer, message),
    });
    this.#downloads = new Downloads({
      files,
      folder: join(home, "transfers"),
      clock,
      blockBytes: profile.link.blockBytes,
      window: profile.link.window,
      send: (body) => this.#link.send(body),
    });
    this.#offers = new Offers({ ...shared, downloads: this.#downloads });
    this.#activator = new Activator({ ...shared, current, session: () => this.#link.session });
    this.#conversation = new Conversation(
      {
        enrolment,
        outbox,
        uploads: this.#uploads,
        clock,
        clockError: this.#clockError,
        log,
        birth: () => ({
          agentVersion: parts.version,
          profile: profile.name,
          runtime: `${parts.runtime}; ${this.backend}`,
          oldestProtocol: oldestProtocolVersion,
        }),
        send: (body, options) => this.#link.send(body, options),
        onNotAdmitted: (why) => {
          this.#link.refuse(why);
        },
      },
      {
        onReceipt: (line, receipt) => {
          this.#later(() => this.#onReceipt(line, receipt.kind));
        },
        onOffer: (offer, isEcho) => {
          if (isEcho) this.#conversation.onOutboxChange();
          else this.#later(() => this.#onOffer(offer));
        },
        onManifest: (part) => {
          this.#downloads.onManifest(part);
        },
        onTransferRefused: (transfer, error) => this.#downloads.onRefused(transfer, error),
        onCommand: (command) => this.#command(command),
        onEvent: (name, text, line) => {
          this.#tell(name, text, line);
        },
      },
    );
    this.#trainer = new Trainer({
      ...shared,
      config: parts.config,
      activator: this.#activator,
      intakes,
      train: parts.train,
      version: parts.version,
      isOnline: () => this.#conversation.isWelcomed,
      utcOffsetMinutes: parts.utcOffsetMinutes,
      onTrained: (line) => {
        this.#later(async () => {
          await this.#activator.activateNewest(line);
        });
      },
      onEvent: (name, text, line) => {
        this.#tell(name, text, line);
      },
    });
    this.#cancels.add(
      outbox.onChange(() => {
        this.#conversation.onOutboxChange();
      }),
    );
  }

  static async open(parts: AgentParts): Promise<Agent> {
    const { files, home, clock, random, log, profile, enrolment } = parts;
    await clearOldTransfers(files, join(home, "transfers"), clock.now());
    await UploadCoding.clear(files, join(home, "transfers"));
    const counter = await SessionCounter.open(files, home);
    const outbox = await Outbox.open({
      files,
      folder: join(home, "outbox"),
      clock,
      random,
      log,
      onFatal: parts.onFatal,
    });
    const current = await CurrentStore.open(files, home, clock);
    const intakes = new Map<string, Intake>();
    for (const line of enrolment.lines) {
      intakes.set(
        line,
        await Intake.open({
          files,
          folder: join(home, "samples", line),
          line,
          limits: profile.samples,
          clock,
          log,
          pins: () => pinnedSamples(outbox.state, line),
        }),
      );
      await files.makeFolder(inboxOf(parts, line));
    }
    return new Agent(parts, counter, outbox, current, intakes);
  }

  /** Which backend trains here, and why. */
  get backend(): string {
    const choice = chooseBackend({ preferred: this.parts.profile.training.backends[0] });
    return `${choice.backend}: ${choice.reason}`;
  }

  /** Puts everything where the last run left it, then connects, watches and trains. */
  async start(): Promise<void> {
    const { enrolment, log, profile, config } = this.parts;
    log.info("started", {
      fleet: enrolment.fleet,
      device: enrolment.device,
      text: `agent of ${enrolment.fleet}/${enrolment.device}, lines ${enrolment.lines.join(", ")}, profile ${profile.name}, trains with ${this.backend}`,
    });
    for (const line of Object.keys(config.lines))
      if (!enrolment.lines.includes(line))
        throw new StemmaError(
          "CONFIG_INVALID",
          `agent.json sets the line "${line}" (lines.${line}), and this device was enrolled with ${enrolment.lines.join(", ")}. Remove it there, or enrol the device again with that line.`,
          { line },
        );
    await this.#activator.reconcile(enrolment.lines);
    for (const line of enrolment.lines)
      await this.#activator.activateNewest(line).catch((error: unknown) => {
        this.#tell("activation-failed", (error as Error).message, line);
      });
    await this.#housekeeping();
    this.#link.start();
    await this.#trainer.start();
    this.#repeat(config.watchSeconds * 1000, () => this.#watch());
    this.#repeat(housekeepingMs, () => this.#housekeeping());
  }

  /** Ends all work; what was acknowledged stays, what was under way goes on at the next start. */
  async stop(): Promise<void> {
    if (this.#stopping) return;
    this.#stopping = true;
    for (const cancel of this.#cancels) cancel();
    this.#downloads.stop();
    await this.#trainer.stop();
    await this.#link.stop();
    this.#conversation.onClosed();
    await this.#conversation.idle();
    await this.#uploads.stop();
    await this.#activator.idle();
    for (const intake of this.intakes.values()) await intake.close();
    await this.outbox.close();
    this.parts.log.info("stopped", { text: "stopped; everything reported or not is kept" });
  }

  async status(): Promise<AgentStatus> {
    const { enrolment, profile } = this.parts;
    const { state } = this.outbox;
    return {
      fleet: enrolment.fleet,
      device: enrolment.device,
      profile: profile.name,
      backend: this.backend,
      link: {
        phase: this.#link.phase,
        session: this.#link.session,
        welcomed: this.#conversation.isWelcomed,
        lastError: this.#link.lastError,
      },
      training: this.#trainer.running ?? null,
      uploads: this.#uploads.progress(),
      unreleased: unreleased(state).length,
      disk: { usedBytes: usedBytes(await this.#diskUse()), budgetBytes: profile.disk.budgetBytes },
      lines: enrolment.lines.map((line) =>
        lineStatus(
          state,
          line,
          (versionId) => this.#conversation.attempt(versionId),
          this.intakes.get(line)?.status() ?? null,
        ),
      ),
    };
  }

  /** Fine-tunes a line now; resolves with the new model. */
  train(line: string, request?: TrainingRequest): Promise<Trained> {
    return this.#trainer.request(line, request);
  }
  activate(line: string, versionId: Hash): Promise<void> {
    return this.#activator.activate(this.#line(line), versionId);
  }
  takeSamples(line: string, samples: readonly unknown[], batch?: string): ReturnType<Intake["append"]> {
    const intake = this.intakes.get(this.#line(line));
    if (intake === undefined) throw this.#unknownLine(line);
    return intake.append(samples, batch).then((taken) => {
      this.#trainer.wake();
      return taken;
    });
  }

  /**
   * Where the model that a line runs lies now; readers that hold it open longer use current/read-current.ts.
   */
  currentFolder(line: string): {
    readonly line: string;
    readonly versionId: Hash | null;
    readonly folder: string | null;
  } {
    const base = this.#activator.base(this.#line(line));
    return { line, versionId: base?.versionId ?? null, folder: base?.folder ?? null };
  }

  #line(line: string): string {
    if (!this.parts.enrolment.lines.includes(line)) throw this.#unknownLine(line);
    return line;
  }
  #unknownLine(line: string): StemmaError {
    return new StemmaError(
      "LINE_UNKNOWN",
      `This device has no line "${line}"; it has ${this.parts.enrolment.lines.join(", ")}. Name one of these.`,
      { line },
    );
  }

  async #onReceipt(line: string, kind: "recorded" | "stored" | "released"): Promise<void> {
    const { profile } = this.parts;
    await this.#activator.activateNewest(line);
    if (kind === "released") await this.#forget(profile);
    this.#trainer.wake();
  }

  async #forget(profile: Profile): Promise<void> {
    const gone = await this.outbox.forget(profile.disk.keepLast, profile.save.releasedWhen);
    if (gone.length > 0)
      this.parts.log.info("forgotten", {
        versions: gone,
        text: `${gone.length} released ${gone.length === 1 ? "model is" : "models are"} deleted here; the server has ${gone.length === 1 ? "it" : "them"}`,
      });
  }

  async #onOffer(offer: Offer): Promise<void> {
    try {
      await this.#offers.take(offer);
      await this.#activator.activate(offer.line, offer.versionId);
      this.#trainer.wake();
    } catch (error) {
      if (!isStemmaError(error)) throw error;
      if (error.code === "INTERRUPTED") return;
      this.#tell(
        "offer-failed",
        `the offered model ${offer.name}:${offer.version} could not be taken: ${error.message}`,
        offer.line,
      );
      if (!finalOfferErrors.has(error.code)) this.#after(offerRetryMs, () => this.#onOffer(offer));
    }
  }

  /** Commands of the server's: answered when they have begun, not when they are done. */
  async #command(command: Command): Promise<CommandResult> {
    const body = parseCommand(command);
    switch (command.name) {
      case "report": {
        // One word: the newest versions of each line.
        const status = await this.status();
        return answer({
          ...status,
          lines: status.lines.map((line) => ({ ...line, versions: line.versions.slice(-8) })),
        });
      }
      case "train": {
        const line = this.#line(String(body["line"] ?? ""));
        const request: TrainingRequest = {
          recipe: body["recipe"] as string | undefined,
          parameters: body["parameters"] as TrainingRequest["parameters"],
        };
        this.#trainer.recipeOf(line, request);
        this.train(line, request).catch(() => undefined); // told as an event
        return answer({ line, message: `${line} trains as soon as it can` });
      }
      case "activate": {
        await this.activate(String(body["line"] ?? ""), String(body["versionId"] ?? "") as Hash);
        return answer({ line: body["line"], versionId: body["versionId"] });
      }
      default:
        return {
          type: "commandResult",
          code: "USAGE",
          json: JSON.stringify({
            message: `This agent knows the commands report, train and activate, not "${command.name.slice(0, 40)}".`,
          }),
        };
    }
  }

  async #sendPaced(transfer: string, message: ManifestPart | Block): Promise<boolean> {
    if (message.type === "manifest") return this.#link.send(message);
    const { clock } = this.parts;
    const waitMs = this.#pacer.book(message.data.length, clock.monotonic());
    if (waitMs > 0)
      await new Promise<void>((resolve) => {
        clock.after(waitMs, resolve);
      });
    return await this.#link.sendBlock(transfer, message);
  }

  async #watch(): Promise<void> {
    const { files, log, enrolment } = this.parts;
    for (const line of enrolment.lines) {
      const intake = this.intakes.get(line);
      if (intake !== undefined && (await takeFolderIn(files, inboxOf(this.parts, line), intake, log)) > 0)
        this.#trainer.wake();
    }
  }

  async #housekeeping(): Promise<void> {
    await this.#forget(this.parts.profile);
    const base = this.#trainer.running?.base;
    await this.#activator.sweep(new Set(base === undefined ? [] : [base]));
  }

  async #diskUse(): Promise<DiskUse> {
    const { files, home } = this.parts;
    const { packs, journal } = await this.outbox.bytes();
    const samples = [...this.intakes.values()].reduce((sum, intake) => sum + intake.status().bytes, 0);
    let transfers = 0;
    for (const name of await files.list(join(home, "transfers")))
      transfers += (await files.stat(join(home, "transfers", name)))?.size ?? 0;
    return {
      packs,
      journal,
      samples,
      transfers,
      versions: await this.current.bytes(),
      free: await files.freeBytes(home),
    };
  }

  /** For people here, and for those who watch the fleet. */
  #tell(name: string, text: string, line: string): void {
    this.parts.log.warn(name, { line, text });
    this.#link.send({ type: "event", name, text: text.slice(0, 2000), line });
  }

  #later(action: () => Promise<void>): void {
    action().catch((error: unknown) => {
      if (this.#stopping) return;
      if (isStemmaError(error)) this.#tell("failed", `${error.message} [${error.code}]`, "");
      else this.parts.log.error("failed", { text: (error as Error).stack ?? String(error) });
    });
  }

  #after(delayMs: number, action: () => Promise<void>): void {
    const cancel = this.parts.clock.after(delayMs, () => {
      this.#cancels.delete(cancel);
      if (!this.#stopping) this.#later(action);
    });
    this.#cancels.add(cancel);
  }

  #repeat(everyMs: number, action: () => Promise<void>): void {
    this.#after(everyMs, async () => {
      try {
        await action();
      } finally {
        if (!this.#stopping) this.#repeat(everyMs, action);
      }
    });
  }
}

/** Downloads that nobody has gone on with for a week. */
async function clearOldTransfers(files: Files, folder: string, nowMs: number): Promise<void> {
  for (const name of await files.list(folder)) {
    const stat = await files.stat(join(folder, name));
    if (stat !== undefined && nowMs - stat.modifiedMs > oldTransferMs) await files.remove(join(folder, name));
  }
}

function inboxOf({ config, home }: AgentParts, line: string): string {
  return config.lines[line]?.watch ?? join(home, "inbox", line);
}

function parseCommand({ json }: Command): Readonly<Record<string, unknown>> {
  const value: unknown = json === "" ? {} : JSON.parse(json);
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new StemmaError("USAGE", "A command's body is one JSON object. Correct it and send it again.");
  return value as Record<string, unknown>;
}

function answer(value: unknown): CommandResult {
  return { type: "commandResult", code: "", json: JSON.stringify(value) };
}
