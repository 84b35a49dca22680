/**
 * The only way into the journal: every fact of a fleet is written here. Facts are written in batches. A batch
 * is written with one fsync and while holding the lock that a collection also takes. Submissions that arrive
 * while a batch is written form the next batch. Decisions (version numbers, checks against the state) are
 * made when the batch is written, in order, so that each one sees the results of all earlier ones.
 */
import { isStemmaError } from "../../../shared/errors.js";
import type { Caller } from "../../../shared/journal/caller.js";
import type { Fact } from "../../../shared/journal/fact.js";
import type { Journal } from "../../../shared/journal/journal.js";
import type { ObjectPruner } from "../../../shared/objects/object-store.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { referencedMissing } from "./repository-errors.js";
import { causedBy } from "./state/fact-codec.js";
import { applyFact } from "./state/apply-fact.js";
import { nextVersionNumber } from "./state/apply-version.js";
import type { FleetState } from "./state/state.js";

/** The state that a submission can read and reserve in while its facts are decided. */
export interface Draft {
  readonly state: FleetState;
  /** Reserves the next version number of a name, after the numbers reserved earlier in the batch. */
  takeVersion(name: string): number;
  /** Versions that earlier submissions of the batch record. */
  readonly recordedHere: ReadonlySet<Hash>;
}

export interface Submission {
  /**
   * Objects that the facts refer to: all must be in the store, or the submission fails with
   * REFERENCE_MISSING.
   */
  readonly requiredObjects: readonly Hash[];
  /** Returns the facts to append, possibly none. Throws to refuse the submission. */
  decide(draft: Draft): readonly Fact[];
  /** Runs after the facts were applied and before the next batch is decided. */
  readonly onApplied?: (positions: readonly number[]) => void;
  /** Decided in a batch of its own. A retirement needs this, because it must not overtake an assignment. */
  readonly isExclusive?: boolean;
}

/** The queue as one caller uses it, or none (devices, rules). */
export interface FactQueue {
  /** Resolves with the positions of the facts once they are durable and applied. */
  submit(submission: Submission): Promise<readonly number[]>;
  /** Resolves when nothing is waiting or being written. */
  settled(): Promise<void>;
  /** The same queue; what is submitted through it is caused by `caller`, with `request`. */
  as(caller: Caller, request?: string): FactQueue;
}

interface PendingSubmission extends Submission {
  resolve(positions: readonly number[]): void;
  reject(error: unknown): void;
}

/** Submissions in one batch, at most, so that no fsync waits for a huge write. */
const maxBatchSubmissions = 1024;

export class CommitQueue implements FactQueue {
  readonly #waiting: PendingSubmission[] = [];
  #draining: Promise<void> | undefined;
  constructor(
    private readonly objects: Pick<ObjectPruner, "has" | "commitReferences">,
    private readonly journal: Pick<Journal, "append">,
    private readonly state: FleetState,
    /** Called when facts were applied, and nothing is being appended. */
    private readonly onApplied: () => void = () => undefined,
  ) {}

  submit(submission: Submission): Promise<readonly number[]> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ ...submission, resolve, reject });
      this.#draining ??= this.#drain();
    });
  }

  as(caller: Caller, request?: string): FactQueue {
    return {
      submit: (submission) =>
        this.submit({
          ...submission,
          decide: (draft) => submission.decide(draft).map((fact) => causedBy(fact, caller, request)),
        }),
      settled: () => this.settled(),
      as: (other, itsRequest) => this.as(other, itsRequest),
    };
  }

  async settled(): Promise<void> {
    while (this.#draining !== undefined) await this.#draining;
  }

  async #drain(): Promise<void> {
    // Waits for one turn of the event loop, so that all submissions of the current turn share the first
    // batch.
    await new Promise<void>((resolve) => {
      setImmediate(resolve);
    });
    while (this.#waiting.length > 0) await this.#write(this.#takeBatch());
    // Reset synchronously after the last check of the queue, so that no submission in between is missed.
    this.#draining = undefined;
  }

  #takeBatch(): readonly PendingSubmission[] {
    const firstAlone = this.#waiting.findIndex(({ isExclusive }) => isExclusive === true);
    const count = firstAlone === 0 ? 1 : firstAlone > 0 ? firstAlone : this.#waiting.length;
    return this.#waiting.splice(0, Math.min(count, maxBatchSubmissions));
  }

  async #write(batch: readonly PendingSubmission[]): Promise<void> {
    let open = batch;
    for (;;) {
      open = open.filter((one) => this.#hasRequiredObjects(one));
      const needed = new Set(open.flatMap((one) => [...one.requiredObjects]));
      try {
        await this.objects.commitReferences(needed, async () => {
          const accepted = this.#decide(open);
          const facts = accepted.flatMap((one) => one.facts);
          const positions = facts.length === 0 ? [] : await this.journal.append(facts);
          this.#apply(accepted, positions);
        });
        return;
      } catch (error) {
        // A collection ran between the check and the lock. Only submissions that lost an object are refused.
        if (isStemmaError(error, "REFERENCE_MISSING") && !open.every((one) => isPresent(this.objects, one)))
          continue;
        // Submissions that were already settled are not affected, because a promise settles only once.
        for (const one of open) one.reject(error);
        return;
      }
    }
  }

  /** True if the store has all that a submission requires. Rejects the submission where it does not. */
  #hasRequiredObjects(one: PendingSubmission): boolean {
    const absent = [...one.requiredObjects].filter((id) => !this.objects.has(id));
    if (absent.length === 0) return true;
    one.reject(referencedMissing(absent));
    return false;
  }

  #decide(
    batch: readonly PendingSubmission[],
  ): { readonly one: PendingSubmission; readonly facts: readonly Fact[] }[] {
    const taken = new Map<string, number>();
    const recordedHere = new Set<Hash>();
    const draft: Draft = {
      state: this.state,
      recordedHere,
      takeVersion: (name) => {
        const version = taken.get(name) ?? nextVersionNumber(this.state, name);
        taken.set(name, version + 1);
        return version;
      },
    };
    const accepted: { readonly one: PendingSubmission; readonly facts: readonly Fact[] }[] = [];
    for (const one of batch) {
      try {
        const facts = one.decide(draft);
        for (const fact of facts) if (fact.type === "recorded") recordedHere.add(fact.versionId);
        accepted.push({ one, facts });
      } catch (error) {
        one.reject(error);
      }
    }
    return accepted;
  }

  #apply(
    accepted: readonly { readonly one: PendingSubmission; readonly facts: readonly Fact[] }[],
    positions: readonly number[],
  ): void {
    let start = 0;
    for (const { one, facts } of accepted) {
      const own = positions.slice(start, start + facts.length);
      facts.forEach((fact, index) => {
        applyFact(this.state, own[index] as number, fact);
      });
      start += facts.length;
      one.onApplied?.(own);
      one.resolve(own);
    }
    this.onApplied();
  }
}

function isPresent(objects: Pick<ObjectPruner, "has">, { requiredObjects }: Submission): boolean {
  return requiredObjects.every((id) => objects.has(id));
}
