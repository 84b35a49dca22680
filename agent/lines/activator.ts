/**
 * Switches lines to versions. It recovers the model from the outbox's store (exact, or a typed error), installs it into
 * a slot, switches the link, then appends the fact. A restart at any step leads to the same state.
 */
import { SerialQueue } from "../../shared/concurrency/serial-queue.js";
import { messageOf } from "../../shared/error-text.js";
import { isStemmaError, StemmaError } from "../../shared/errors.js";
import type { Clock, Files, Log } from "../../shared/ports.js";
import type { SaveRecord } from "../../shared/model/model.js";
import { pipelineFileName } from "../../shared/provenance/pipeline-file-name.js";
import { optimizerFileName, safetensorsOfOptimizer } from "../../shared/recover/optimizer-file.js";
import { safetensorsChunks } from "../../shared/tensor/safetensors.js";
import { recoverModel } from "../../shared/recover/recover-model.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { judgeDisk, type DiskUse, noDiskFor } from "../resources/disk-budget.js";
import { heldBytes } from "../resources/held-bytes.js";
import type { CurrentStore } from "../current/current-store.js";
import { layoutIdOf } from "../../shared/layouts/base-layout.js";
import {
  originalBytesOf,
  originalFileName,
  originalSlotFile,
  slotFilesOf,
  type SlotFile,
} from "../../shared/layouts/slot-files.js";
import type { Outbox } from "../outbox/outbox.js";
import { activeVersion, newestVersion } from "../outbox/outbox-state.js";
import type { ReleaseTrust } from "../releases/release-trust.js";
import type { Profile } from "../settings/profile.js";
import { mayRun, nextActivation } from "./activation.js";
import { baseNotHere, noReceiptYet, versionNotHere } from "./line-errors.js";
import { pipelineFile } from "./pipeline-file.js";
import type { LineSwitch, SwitchHooks } from "./switch-hooks.js";

export interface ActivatorOptions {
  readonly files: Files;
  readonly outbox: Outbox;
  readonly current: CurrentStore;
  readonly profile: Profile;
  readonly clock: Clock;
  readonly log: Log;
  readonly diskUse: () => Promise<DiskUse>;
  readonly clockErrorMs: () => number | null;
  readonly session: () => number;
  /** Refuses what is neither released nor this device's own. */
  readonly releases: Pick<ReleaseTrust, "requireInstallable">;
  readonly hooks: Pick<SwitchHooks, "run">;
}

/** Milliseconds for which a line does not try by itself again what a hook refused. */
const refusedMs = 10 * 60_000;

interface Change {
  readonly line: string;
  readonly versionId: Hash;
  /** The version that the line's link named before; undefined: nothing. */
  readonly previous: Hash | undefined;
  readonly isChosen: boolean;
}

/** An installed version, as trainings read it. */
export interface BaseFolder {
  readonly versionId: Hash;
  readonly folder: string;
}

export class Activator {
  readonly #queue = new SerialQueue();
  /** The version of each line that a hook refused last, and until when it is not tried by itself. */
  readonly #refused = new Map<
    string,
    { readonly versionId: Hash; readonly untilMs: number; readonly error: StemmaError }
  >();
  constructor(private readonly options: ActivatorOptions) {}

  /**
   * Switches a line to a version of its own that is on this device, because it was chosen: assigned, or named by a
   * person. A training that began from the version before goes on, but the line does not run what it gives.
   * @throws MODEL_NOT_FOUND, ROOT_MISMATCH, DISK_BUDGET_EXHAUSTED, DISK_FULL, HOOK_FAILED
   */
  activate(line: string, versionId: Hash): Promise<void> {
    return this.#queue.run(() => this.#activate(line, versionId, true));
  }

  /**
   * Switches a line to its newest version that may run, if it is newer than all that the line ever ran.
   * Returns the version that it switched to.
   * @throws as `activate`; HOOK_FAILED without asking again, for a while after a hook refused it
   */
  activateNewest(line: string): Promise<Hash | undefined> {
    return this.#queue.run(async () => {
      const next = nextActivation(this.options.outbox.state, line, this.options.profile.activation);
      if (next === undefined) return undefined;
      const refused = this.#refused.get(line);
      if (refused?.versionId === next.versionId && this.options.clock.monotonic() < refused.untilMs)
        throw refused.error;
      await this.#activate(line, next.versionId, false);
      return next.versionId;
    });
  }

  /**
   * Called at the start. The link decides which version a line runs, because the device's software reads it.
   * A slot that is missing or damaged is installed again.
   */
  reconcile(lines: readonly string[]): Promise<void> {
    return this.#queue.run(async () => {
      const { outbox, current } = this.options;
      for (const line of lines) {
        const linked = await current.active(line);
        const recorded = activeVersion(outbox.state, line);
        const wanted = linked ?? recorded;
        if (wanted === undefined) continue;
        if (outbox.entry(wanted) !== undefined) await this.#install(line, wanted);
        if (linked === undefined) await current.activate(line, wanted);
        if (recorded === wanted) continue;
        // Ended between the link and the fact: what the hooks after the switch said is not known.
        const next = nextActivation(outbox.state, line, this.options.profile.activation);
        const change = { line, versionId: wanted, previous: recorded, isChosen: wanted !== next?.versionId };
        await this.#commit(change).catch((error: unknown) => {
          if (!isStemmaError(error, "HOOK_FAILED")) throw error;
          this.options.log.warn("switch-returned", { line, versionId: wanted, text: error.message });
        });
      }
    });
  }

  /**
   * Removes installed versions that were replaced more than ten minutes ago; the last replaced one of each
   * line stays, and the base of a training that has not ended.
   */
  sweep(inUse: ReadonlySet<Hash>): Promise<readonly string[]> {
    return this.#queue.run(() => this.options.current.sweep(this.#keptVersions(inUse)));
  }

  /** Removes the installed files of a version at once, where they are not in use. */
  discard(versionId: Hash, inUse: ReadonlySet<Hash>): Promise<void> {
    return this.#queue.run(async () => {
      const { current, outbox } = this.options;
      if (this.#keptVersions(inUse).has(versionId)) return;
      for (const line of outbox.state.lines.keys()) if ((await current.active(line)) === versionId) return;
      await current.discard(versionId);
    });
  }

  /** Installed versions that stay: those in use, what lines run and ran last, and bases of trainings. */
  #keptVersions(inUse: ReadonlySet<Hash>): ReadonlySet<Hash> {
    const keep = new Set<Hash>(inUse);
    for (const line of this.options.outbox.state.lines.values())
      for (const versionId of [
        ...line.activations.slice(-2).map((activation) => activation.versionId),
        ...(line.begun === undefined ? [] : [line.begun.job.base]),
      ])
        keep.add(versionId);
    return keep;
  }

  /** The version whose slot the next training of a line starts from: the one it runs. */
  base(line: string): BaseFolder | undefined {
    const versionId = activeVersion(this.options.outbox.state, line);
    return versionId === undefined
      ? undefined
      : { versionId, folder: this.options.current.folderOf(versionId) };
  }

  /**
   * Returns the base as `base`, compared with its manifest; installed again where it is damaged.
   * @throws DISK_BUDGET_EXHAUSTED, ROOT_MISMATCH
   */
  async soundBase(line: string): Promise<BaseFolder | undefined> {
    const base = this.base(line);
    const isHere = base !== undefined && this.options.outbox.entry(base.versionId) !== undefined;
    return isHere ? await this.installBase(line, base.versionId) : base;
  }

  /**
   * Installs a version that a training starts from, where its slot is not there.
   * @throws MODEL_NOT_FOUND where the device no longer has it, DISK_BUDGET_EXHAUSTED, ROOT_MISMATCH
   */
  installBase(line: string, versionId: Hash): Promise<BaseFolder> {
    return this.#queue.run(async () => {
      const { outbox, current } = this.options;
      if (outbox.entry(versionId) === undefined) throw baseNotHere(line, versionId);
      await this.#install(line, versionId);
      return { versionId, folder: current.folderOf(versionId) };
    });
  }

  /** Name of the file that an installed version is, where it is one that is kept as it is. */
  async keptName(versionId: Hash): Promise<string | undefined> {
    return await this.options.current.keptName(versionId);
  }

  /** A version's folder, where it is installed; does not look at what is in it. */
  async installed(versionId: Hash): Promise<BaseFolder | undefined> {
    const { current } = this.options;
    return (await current.has(versionId)) ? { versionId, folder: current.folderOf(versionId) } : undefined;
  }

  async idle(): Promise<void> {
    await this.#queue.idle();
  }

  async #activate(line: string, versionId: Hash, isChosen: boolean): Promise<void> {
    const { outbox, current, profile } = this.options;
    const entry = outbox.entry(versionId);
    if (entry === undefined || !entry.lines.includes(line)) throw versionNotHere(line, versionId);
    if (!mayRun(entry, profile.activation)) throw noReceiptYet(line, versionId);
    if (activeVersion(outbox.state, line) === versionId && (await current.active(line)) === versionId) return;
    await this.options.releases.requireInstallable({ versionId, isOwn: entry.origin === "trained" });
    await this.#install(line, versionId);
    const previous = await current.active(line);
    const change = { line, versionId, previous, isChosen };
    try {
      await this.options.hooks.run("beforeSwitch", this.#switchOf(change));
    } catch (error) {
      this.#noteRefused(change, error);
      throw error;
    }
    await current.activate(line, versionId);
    await this.#commit(change);
  }

  /** The link names the new version. Where a hook refuses it, the line returns to what it ran. */
  async #commit(change: Change): Promise<void> {
    const { line, versionId, isChosen } = change;
    try {
      await this.options.hooks.run("afterSwitch", this.#switchOf(change));
    } catch (error) {
      this.#noteRefused(change, error);
      if (isStemmaError(error, "HOOK_FAILED")) await this.#return(change);
      throw error;
    }
    this.#refused.delete(line);
    await this.#recordActivation(line, versionId, isChosen);
  }

  async #return({ line, versionId, previous }: Change): Promise<void> {
    const { outbox, current, hooks, log } = this.options;
    if (previous === undefined) {
      await current.deactivate(line);
      return;
    }
    if (outbox.entry(previous) !== undefined) await this.#install(line, previous);
    await current.activate(line, previous);
    const back = { line, versionId: previous, previous: versionId, isChosen: true };
    await hooks.run("afterSwitch", { ...this.#switchOf(back), isReturn: true }).catch((error: unknown) => {
      log.warn("hook-failed", { line, versionId: previous, text: `after the return: ${messageOf(error)}` });
    });
  }

  #switchOf({ line, versionId, previous }: Change): LineSwitch {
    const modelOf = (id: Hash) => ({ versionId: id, folder: this.options.current.folderOf(id) });
    return {
      line,
      to: modelOf(versionId),
      from: previous === undefined ? undefined : modelOf(previous),
      isReturn: false,
    };
  }

  #noteRefused({ line, versionId }: Change, error: unknown): void {
    const untilMs = this.options.clock.monotonic() + refusedMs;
    if (isStemmaError(error, "HOOK_FAILED")) this.#refused.set(line, { versionId, untilMs, error });
  }

  async #install(line: string, versionId: Hash): Promise<void> {
    const { outbox, current, profile, clock, log } = this.options;
    if (await current.isSound(versionId)) {
      await this.#addOriginal(line, versionId);
      return;
    }
    if (await current.has(versionId))
      log.warn("slot-damaged", {
        line,
        versionId,
        text: `the installed model ${versionId.slice(0, 12)} of ${line} is not as its manifest states; it is installed again. Check the disk`,
      });
    const before = await current.fileOf(versionId, pipelineFileName);
    await current.discard(versionId);
    const layout = await this.#layoutOf(versionId);
    const bytes = (outbox.entry(versionId)?.tensorBytes ?? 0) + (layout?.originalBytes ?? 0);
    const verdict = judgeDisk(profile.disk, await this.options.diskUse(), "install", bytes);
    if (!verdict.allowed)
      throw noDiskFor(
        `The model ${versionId.slice(0, 12)} of ${line} cannot be installed`,
        verdict,
        "The line keeps running what it has.",
        { line, versionId },
      );
    const model = await recoverModel(outbox.objects, versionId, clock, {
      holdBytes: heldBytes(profile),
    });
    const { record } = model;
    await current.install({ versionId, name: record.name, contentId: record.contentId, root: record.root }, [
      ...slotFilesOf(model, layout?.bytes),
      ...(await this.#optimizerFile(versionId, record)),
      ...(await pipelineFile(
        { objects: outbox.objects, current, entry: (id) => outbox.entry(id), before },
        versionId,
        record,
      )),
    ]);
  }

  /** A version's own layout, and the bytes of its file in that. @throws MODEL_FILE_MALFORMED */
  async #layoutOf(
    versionId: Hash,
  ): Promise<{ readonly bytes: Uint8Array; readonly originalBytes: number } | undefined> {
    const { outbox } = this.options;
    const { record } = await outbox.record(versionId);
    const id = layoutIdOf(record);
    if (id === undefined || record.kind === "opaque") return undefined;
    const bytes = await outbox.objects.read("attachment", id);
    return { bytes, originalBytes: originalBytesOf(await outbox.leaves(record), bytes) };
  }

  /**
   * Adds the file in the model's layout to a slot of an agent that did not write it yet. Where that fails, the slot
   * serves as before, and it is tried again at its next use.
   */
  async #addOriginal(line: string, versionId: Hash): Promise<void> {
    const { outbox, current, profile, clock, log } = this.options;
    try {
      if (await current.lists(versionId, originalFileName)) return;
      const layout = await this.#layoutOf(versionId);
      if (layout === undefined) return;
      const verdict = judgeDisk(profile.disk, await this.options.diskUse(), "install", layout.originalBytes);
      if (!verdict.allowed)
        throw noDiskFor("It cannot be made", verdict, "It is tried again when the model is used.", {
          line,
          versionId,
        });
      const model = await recoverModel(outbox.objects, versionId, clock, { holdBytes: heldBytes(profile) });
      await current.add(versionId, originalSlotFile(model, layout.bytes));
      log.info("slot-completed", {
        line,
        versionId,
        text: `${originalFileName} was added to the installed model ${versionId.slice(0, 12)} of ${line}`,
      });
    } catch (error) {
      log.warn("slot-incomplete", {
        line,
        versionId,
        text: `the installed model ${versionId.slice(0, 12)} of ${line} serves without ${originalFileName}, which programs in PyTorch read: ${messageOf(error)}`,
      });
    }
  }

  /** The optimizer's state that a training kept with its model, for the next one to continue from. */
  async #optimizerFile(versionId: Hash, { uses }: Pick<SaveRecord, "uses">): Promise<readonly SlotFile[]> {
    const { outbox, clock } = this.options;
    // A model from the server came without it.
    if (uses?.optimizer === undefined || !outbox.objects.has(uses.optimizer)) return [];
    const state = await recoverModel(outbox.objects, versionId, clock, { part: "optimizer" });
    const { tensors, options } = await safetensorsOfOptimizer(state);
    return [{ name: optimizerFileName, chunks: safetensorsChunks(tensors, options) }];
  }

  async #recordActivation(line: string, versionId: Hash, isChosen: boolean): Promise<void> {
    const { outbox, clock, log } = this.options;
    const entry = outbox.entry(versionId);
    const waiting = nextActivation(outbox.state, line, "after-outbox");
    const isTraining = outbox.state.lines.get(line)?.begun !== undefined;
    const passedOver =
      isChosen && (isTraining || (waiting !== undefined && waiting.versionId !== versionId))
        ? "; what was trained from the version before, or is being trained, is reported and not run"
        : "";
    await outbox.append({
      type: "activated",
      atMs: Math.round(clock.now()),
      versionId,
      line,
      clockErrorMs: this.options.clockErrorMs(),
      session: this.options.session(),
      ...(isChosen ? { chosen: true } : {}),
    });
    log.info("activated", {
      line,
      versionId,
      name: entry?.name,
      newest: newestVersion(outbox.state, line)?.versionId === versionId,
      text: `${line} now runs ${entry?.name ?? "a model"} (${versionId.slice(0, 12)})${passedOver}`,
    });
  }
}
