/**
 * The agent: how it reacts to receipts, offers, finished trainings and commands, and what it does regularly.
 * compose-agent.ts connects its parts.
 */
import { defined } from "../shared/defined.js";
import { messageOf, messageWithCode, stackOf } from "../shared/error-text.js";
import { isStemmaError, StemmaError } from "../shared/errors.js";
import type { Hash } from "../shared/tensor/tensor.js";
import type { DeviceSettings } from "../shared/wire/device-settings.js";
import type { Receipt } from "../shared/wire/messages.js";
import { BackgroundTasks } from "./background-tasks.js";
import type { AgentParts, AgentReactions, AgentServices } from "./agent-parts.js";
import { composeAgent } from "./compose-agent.js";
import type { Observations } from "./control/observation.js";
import type { Intake } from "./intake/intake.js";
import type { ListedSample, Removal, Removed, Taken } from "./intake/intake-answers.js";
import { takeFolderIn } from "./intake/watch-folder.js";
import { OfferReactions } from "./offer-reactions.js";
import { inboxOf } from "./open-stores.js";
import { unreleased } from "./outbox/outbox-state.js";
import { judgeConditions, readConditions } from "./resources/conditions.js";
import { usedBytes } from "./resources/disk-budget.js";
import { runServerCommand, type CommandTarget } from "./server-commands.js";
import type { FileSaver, SavedFile, SaveFileRequest } from "./saving/save-file.js";
import type { StoredModel } from "./saving/store-model.js";
import { historyStatus, lineStatus, type AgentStatus } from "./status.js";
import { describeWait, type StopAnswer, type StopAsked } from "./control/stop-asked.js";
import { answerableGates } from "./trainer/answerable-gates.js";
import type { Trained } from "./trainer/save-result.js";
import type { EvaluationRequest, LineEvaluation } from "./trainer/evaluator.js";
import type { TrainingRequest } from "./trainer/training-job.js";
import type { ObservationsTaken, TrialForSoftware } from "./trials/trial-answers.js";

const housekeepingMs = 30_000;
/** A time that is later by less than that is not worth a write when the agent stops. */
const stopStepMs = 60_000;
/** Longest text of an event, in UTF-16 code units. */
const maxEventLength = 2000;

/** The folder of the model that a line runs; null while it has none. */
export interface CurrentFolder {
  readonly line: string;
  readonly versionId: Hash | null;
  readonly folder: string | null;
  /** The file in the folder that the model is, where it is one that is kept as it is. */
  readonly file?: string;
}

export class Agent {
  readonly #tasks: BackgroundTasks;
  readonly #offers: OfferReactions;
  #services!: AgentServices;
  /** A command may open an agent only to use its stores; it trains and connects nothing then. */
  #isStarted = false;
  #isEnding = false;

  private constructor(private readonly parts: AgentParts) {
    this.#tasks = new BackgroundTasks(parts.clock, (error) => {
      if (isStemmaError(error)) this.#report("failed", messageWithCode(error), "");
      else parts.log.error("failed", { text: stackOf(error) });
    });
    this.#offers = new OfferReactions({
      tasks: this.#tasks,
      report: (...event) => {
        this.#report(...event);
      },
      services: () => this.#services,
    });
  }

  /** Opens the agent's stores; nothing runs before `start`. @throws OUTBOX_CORRUPT, CONFIG_INVALID */
  static async open(parts: AgentParts): Promise<Agent> {
    const agent = new Agent(parts);
    const services = await composeAgent(parts, agent.#reactions());
    agent.#services = services;
    agent.#tasks.addCancel(
      services.outbox.onChange(() => {
        services.conversation.onOutboxChange();
      }),
    );
    return agent;
  }

  /** Restores the state of the last run, then connects, watches folders and trains. @throws CONFIG_INVALID */
  async start(): Promise<void> {
    const { enrolment, log, profile, config } = this.parts;
    const { activator, link, trainer, backends } = this.#services;
    log.info("started", {
      fleet: enrolment.fleet,
      device: enrolment.device,
      text: `agent of ${enrolment.fleet}/${enrolment.device}, lines ${enrolment.lines.join(", ")}, profile ${profile.name}, trains with ${backends.text}`,
    });
    this.#checkLines();
    await activator.reconcile(enrolment.lines);
    for (const line of enrolment.lines) await this.#activateNewest(line);
    await this.#housekeeping();
    this.#isStarted = true;
    link.start();
    await trainer.start();
    this.#tasks.repeat(config.watchSeconds * 1000, () => this.#scanInboxes());
    this.#tasks.repeat(housekeepingMs, () => this.#housekeeping());
  }

  /**
   * Begins to end because a command asks for it; calling it again reports how far that is. For an update, a training
   * or measurement that runs may end first, or reach its next saved state, and a switch with its hooks may end: for
   * `limitMs` at most. Then `onStopAsked` is called.
   */
  endInOrder(asked: StopAsked, limitMs: number): StopAnswer {
    if (!this.#isEnding) {
      this.#isEnding = true;
      this.parts.log.info("stop-asked", {
        text: `asked to end${asked.isForUpdate ? " for an update; begins no training, and ends at a safe point" : ""}`,
      });
      this.#tasks.run(async () => {
        if (asked.isForUpdate) await this.#settle(limitMs);
        this.parts.onStopAsked?.(asked);
      });
    }
    return { waitsFor: asked.isForUpdate ? describeWait(this.#services.trainer.running) : null };
  }

  async #settle(limitMs: number): Promise<void> {
    const { trainer, activator } = this.#services;
    const limit = new AbortController();
    const cancel = this.parts.clock.after(limitMs, () => {
      limit.abort();
    });
    const isOver = new Promise<void>((resolve) => {
      limit.signal.addEventListener("abort", () => {
        resolve();
      });
    });
    await Promise.race([trainer.settle(limit.signal).then(() => activator.idle()), isOver]);
    cancel();
  }

  /** Ends all work. What was acknowledged is kept; what was under way is continued at the next start. */
  async stop(): Promise<void> {
    if (this.#tasks.isStopped) return;
    this.#tasks.stop();
    const {
      downloads,
      trainer,
      evaluator,
      saver,
      hooks,
      link,
      conversation,
      uploads,
      activator,
      intakes,
      outbox,
    } = this.#services;
    const { trials, time, segments } = this.#services;
    downloads.stop();
    evaluator.stop();
    saver.stop();
    segments.stop();
    hooks.stop();
    await trainer.stop();
    await link.stop();
    conversation.onClosed();
    await conversation.idle();
    await uploads.stop();
    await trials.stop();
    await activator.idle();
    for (const intake of intakes.values()) await intake.close();
    await outbox.close();
    await time.storeIfLater(stopStepMs);
    this.parts.log.info("stopped", { text: "stopped; all models and samples are kept" });
  }

  async status(): Promise<AgentStatus> {
    const { enrolment, profile } = this.parts;
    const { outbox, link, conversation, trainer, uploads, intakes, trials, backends } = this.#services;
    const { state } = outbox;
    return {
      fleet: enrolment.fleet,
      device: enrolment.device,
      profile: profile.name,
      backend: (await backends.look()).text,
      link: {
        phase: link.phase,
        session: link.session,
        welcomed: conversation.isWelcomed,
        lastError: link.lastError,
      },
      history: historyStatus(state),
      releases: this.#services.releases.status,
      recipes: await this.#services.recipes.status(),
      training: trainer.running ?? null,
      uploads: uploads.progress(),
      unreleased: unreleased(state).length,
      disk: { usedBytes: usedBytes(await this.#services.diskUse()), budgetBytes: profile.disk.budgetBytes },
      lines: await Promise.all(
        enrolment.lines.map(async (line) =>
          lineStatus(state, line, (versionId) => conversation.attempt(versionId), {
            samples: (await intakes.get(line)?.status()) ?? null,
            standstill: trainer.standstill(line) ?? null,
            lastFailure: trainer.lastFailure(line) ?? null,
            trial: trials.status(line) ?? null,
          }),
        ),
      ),
    };
  }

  /** Fine-tunes a line now; resolves with the new model. */
  train(line: string, request?: TrainingRequest): Promise<Trained> {
    return this.#services.trainer.request(line, request);
  }

  /**
   * Measures versions on the line's held-out samples, as soon as no training runs.
   * @throws LINE_UNKNOWN, TRAINING_REFUSED while one runs, what Evaluator.evaluate throws
   */
  async evaluate(line: string, request: EvaluationRequest): Promise<LineEvaluation> {
    const { trainer, evaluator } = this.#services;
    this.#requireLine(line);
    return trainer.between(() => evaluator.evaluate(line, request));
  }

  /**
   * Saves a model that another program trained as the next version of a line; resolves once it is durable. Then it
   * is reported and activated like a trained one.
   * @throws LINE_UNKNOWN, TRAINING_REFUSED for one with a check while a training runs, what FileSaver.save throws
   */
  async save(line: string, request: SaveFileRequest): Promise<SavedFile> {
    const { saver, trainer } = this.#services;
    this.#requireLine(line);
    const save = () => saver.save(line, request);
    // A check takes the memory of a training.
    const isBeside = request.check === undefined || !this.#isStarted;
    const saved = await (isBeside ? save() : trainer.between(save));
    await this.#onSaved(line);
    return saved;
  }

  /** Saves a model that this process makes (FileSaver.saveMade). @throws LINE_UNKNOWN, what saveMade throws */
  async saveMade(...[line, kind, make]: Parameters<FileSaver["saveMade"]>): Promise<StoredModel> {
    const saved = await this.#services.saver.saveMade(this.#requireLine(line), kind, make);
    await this.#onSaved(line);
    return saved;
  }

  async #onSaved(line: string): Promise<void> {
    await this.#activateNewest(line);
    if (this.#isStarted) this.#services.trainer.wake();
  }

  /** Switches a line to a version that is on this device. @throws LINE_UNKNOWN, MODEL_NOT_FOUND */
  async activate(line: string, versionId: Hash): Promise<void> {
    await this.#services.activator.activate(this.#requireLine(line), versionId);
  }

  /**
   * Adds samples to a line; resolves once they are durable.
   * @throws LINE_UNKNOWN, SAMPLE_INVALID, SAMPLE_QUOTA
   */
  async takeSamples(line: string, samples: readonly unknown[], batch?: string): Promise<Taken> {
    const taken = await this.#requireIntake(line).append(samples, batch);
    this.#services.trainer.wake();
    return taken;
  }

  /** The newest samples of a line, or the newest of those that its trainings skip. @throws LINE_UNKNOWN */
  async listSamples(line: string, limit: number, onlyUnfit: boolean): Promise<readonly ListedSample[]> {
    return await this.#requireIntake(line).list(limit, onlyUnfit);
  }

  /** Removes samples of a line for good. @throws LINE_UNKNOWN, FILE_FAILED, DISK_FULL */
  async removeSamples(line: string, removal: Removal): Promise<Removed> {
    const removed = await this.#requireIntake(line).remove(removal);
    this.#services.trainer.wake();
    return removed;
  }

  /** The folder of the line's current model. A reader that keeps it open uses current/read-current.ts. */
  async currentFolder(line: string): Promise<CurrentFolder> {
    const { activator } = this.#services;
    const base = activator.base(this.#requireLine(line));
    const file = base && (await activator.keptName(base.versionId));
    return { line, versionId: base?.versionId ?? null, folder: base?.folder ?? null, ...defined({ file }) };
  }

  /**
   * Returns the versions that the software of a line is to run beside each other. @throws LINE_UNKNOWN, what
   * an installation throws
   */
  trial(line: string): Promise<TrialForSoftware> {
    return this.#services.trials.forSoftware(this.#requireLine(line));
  }

  /**
   * Takes observations of live inputs with both versions. @throws LINE_UNKNOWN, TRIAL_REFUSED,
   * SAMPLE_INVALID, DISK_FULL
   */
  observe(line: string, observations: Observations): Promise<ObservationsTaken> {
    return this.#services.trials.observe(this.#requireLine(line), observations);
  }

  #reactions(): AgentReactions {
    return {
      onReceipt: (line, kind) => {
        this.#tasks.run(() => this.#onReceipt(line, kind));
      },
      onOffer: (offer) => {
        this.#offers.onOffer(offer);
      },
      onCommand: (command, request) => runServerCommand(command, this.#commandTarget(), request),
      onTrained: (line) => {
        this.#tasks.run(() => this.#activateNewest(line));
      },
      report: (name, text, line, versionId) => {
        this.#report(name, text, line, versionId);
      },
    };
  }

  /** Returns the target that commands of the server work on. */
  #commandTarget(): CommandTarget {
    return {
      status: () => this.status(),
      train: (line, request) => {
        this.#requireLine(line);
        this.#services.trainer.recipeOf(line, request);
        this.train(line, request).catch(() => undefined); // A failure is reported as an event.
      },
      activate: (line, versionId) => this.activate(line, versionId),
      evaluate: (line, request) => this.evaluate(line, request),
      setSettings: (settings) => this.#setSettings(settings),
      recentEvents: (query) => this.parts.recent.page(query),
      namedRecipes: () => this.#services.recipes.named(),
      receiveRecipe: (body) => this.#services.recipes.receive(body),
      gates: async (line) => {
        const { outbox, activator, intakes, trials } = this.#services;
        const settings = this.parts.config.lines[this.#requireLine(line)];
        const samples = await intakes.get(line)?.status();
        const live = trials.absence(line);
        return answerableGates(line, { settings, outbox, activator, samples, live });
      },
      trial: async (asked) => {
        const { trials } = this.#services;
        this.#requireLine(asked.line);
        if (!("end" in asked)) return await trials.ask(asked);
        await trials.end(asked);
        return undefined;
      },
      conditions: async (needs) => {
        const { files, clock, config } = this.parts;
        const answer = judgeConditions(needs, await readConditions(files, clock, config.conditions));
        if (!answer.allowed) this.parts.log.info("rollout-deferred", { text: answer.because });
        return answer;
      },
      trainingCourse: (asked) => this.#services.trainer.course(asked),
      endTraining: (asked) => this.#services.trainer.end(asked),
      keptState: (asked) => this.#services.states.part(asked),
      segmentLeaves: (asked) => {
        const { trainer, segments } = this.#services;
        return trainer.between(() => segments.run(asked));
      },
      requestCertificate: () => this.#services.credentials.request(),
      takeCertificate: async (answer) => {
        const { credentials } = this.#services;
        await credentials.take(answer);
        return credentials.notAfterMs ?? 0;
      },
    };
  }

  async #setSettings(settings: unknown): Promise<DeviceSettings> {
    const { served, log } = this.parts;
    const before = served.values;
    const after = await served.replace(settings);
    if (after !== before)
      log.info("settings-changed", {
        ...after,
        text: `the server has set: ${Object.keys(after).length === 0 ? "nothing any more" : JSON.stringify(after)}`,
      });
    return after;
  }

  /** A switch that fails is tried again later, so the work after it goes on. */
  async #activateNewest(line: string): Promise<void> {
    await this.#services.activator.activateNewest(line).catch((error: unknown) => {
      if (!isStemmaError(error, "INTERRUPTED")) this.#report("activation-failed", messageOf(error), line);
    });
  }

  async #onReceipt(line: string, kind: Receipt["kind"]): Promise<void> {
    await this.#activateNewest(line);
    if (kind === "released") await this.#forget();
    this.#services.trainer.wake();
  }

  async #scanInboxes(): Promise<void> {
    const { files, log, enrolment } = this.parts;
    for (const line of enrolment.lines) {
      const added = await takeFolderIn(files, inboxOf(this.parts, line), this.#requireIntake(line), log);
      if (added > 0) this.#services.trainer.wake();
    }
  }

  async #housekeeping(): Promise<void> {
    await this.#services.time.storeIfLater();
    await this.#services.credentials.renewIfDue();
    const { trainer, evaluator, activator, outbox, trials } = this.#services;
    await trials.housekeeping();
    await this.#forget();
    const { slots, outbox: reports, head } = this.parts.profile.disk.reserveBytes;
    await outbox.mergePacks(slots + reports + head);
    const base = trainer.running?.base;
    const inUse = [...evaluator.inUse, ...trials.inUse, ...(base === undefined ? [] : [base])];
    await activator.sweep(new Set(inUse));
  }

  /** Deletes released models that the profile does not keep. */
  async #forget(): Promise<void> {
    const { disk, save } = this.parts.profile;
    const { outbox, releases } = this.#services;
    const own = [...outbox.state.entries.values()].filter(({ origin }) => origin === "trained");
    await releases.noteOwn(own.map(({ versionId }) => versionId));
    const versions = await outbox.forget(disk.keepLast, save.releasedWhen);
    if (versions.length === 0) return;
    const isOne = versions.length === 1;
    this.parts.log.info("forgotten", {
      versions,
      text: `${versions.length} released ${isOne ? "model is" : "models are"} deleted here; the server has ${isOne ? "it" : "them"}`,
    });
  }

  #checkLines(): void {
    const { enrolment, config } = this.parts;
    for (const line of Object.keys(config.lines))
      if (!enrolment.lines.includes(line))
        throw new StemmaError(
          "CONFIG_INVALID",
          `agent.json sets the line "${line}" (lines.${line}), and this device was enrolled with ${enrolment.lines.join(", ")}. Remove it there, or enrol the device again with that line.`,
          { line },
        );
  }

  /** @throws LINE_UNKNOWN */
  #requireLine(line: string): string {
    const { lines } = this.parts.enrolment;
    if (!lines.includes(line))
      throw new StemmaError(
        "LINE_UNKNOWN",
        `This device has no line "${line}"; it has ${lines.join(", ")}. Name one of these.`,
        { line },
      );
    return line;
  }

  #requireIntake(line: string): Intake {
    const intake = this.#services.intakes.get(this.#requireLine(line));
    if (intake === undefined) throw new StemmaError("INTERNAL", `The line "${line}" collects no samples.`);
    return intake;
  }

  #report(name: string, text: string, line: string, versionId?: Hash): void {
    this.parts.log.warn(name, { line, ...defined({ versionId }), text });
    this.#services.link.send({ type: "event", name, text: text.slice(0, maxEventLength), line, versionId });
  }
}
