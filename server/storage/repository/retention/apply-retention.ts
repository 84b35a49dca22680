/** Retires the versions that retention rules do not keep, through the commit queue. */
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { refuseUnknownFacts } from "../collection.js";
import type { RepositoryContext } from "../context.js";
import type { VersionState } from "../state/version-state.js";
import { versionsIn } from "../state/version-table.js";
import { versionsInUse } from "../state/versions-in-use.js";
import type { Fate, RetentionOptions, RetentionOutcome } from "./fleet-retention.js";
import { candidateOf, fateOf, planInSteps, reasonOf, type Candidate } from "./plan-versions.js";
import { ruleFor, type Retired, type RetentionPlan, type ScopedRule } from "./retention-plan.js";
import { rulesOf, settingsOf } from "./rules-in-force.js";
import { makerOf } from "../state/version-state.js";

/**
 * Plans that are made for one application at most, where versions are retired or rules set again and again meanwhile.
 * The next application retires what is left.
 */
const maxPlans = 5;

/**
 * Retires versions by the rules. The plan is made beside other work. Each batch of it is decided exclusively, against
 * the state that it is appended to: versions that were held, tagged, assigned, activated or built on meanwhile stay.
 * After a crash, the next application retires the remaining versions, with the same result.
 * @throws RETENTION_RULE_INVALID, COLLECTION_REFUSED where facts of a newer Stemma may keep something
 */
export async function applyRetention(
  context: RepositoryContext,
  { busy, batchSize = 2048 }: Pick<RetentionOptions, "busy" | "batchSize"> = {},
): Promise<RetentionOutcome> {
  refuseUnknownFacts(context);
  const nowMs = context.clock.now();
  const retired: Fate[] = [];
  for (let plans = 1; ; plans++) {
    const application = await RetentionApplication.plan(context, nowMs, busy);
    const isWhole = await application.retire(batchSize, retired);
    if (isWhole || plans === maxPlans) return { nowMs, retired, kept: application.kept };
  }
}

class RetentionApplication {
  readonly #going: readonly Retired<Candidate>[];
  /** The planned versions that are not retired. */
  kept: number;

  private constructor(
    private readonly context: RepositoryContext,
    private readonly options: {
      readonly nowMs: number;
      readonly busy: RetentionOptions["busy"];
      readonly rules: readonly ScopedRule[];
      readonly settings: string;
      /** The length of the journal when the plan was begun. */
      readonly length: number;
    },
    private expectedRetired: number,
    { keep, retire }: RetentionPlan<Candidate>,
  ) {
    this.kept = keep.length + retire.length;
    this.#going = retire;
  }

  static async plan(
    context: RepositoryContext,
    nowMs: number,
    busy: RetentionOptions["busy"],
  ): Promise<RetentionApplication> {
    const { length, retiredCount } = context.state;
    const rules = rulesOf(context, undefined);
    const options = { nowMs, busy, rules, settings: textOfSettings(context), length };
    const plan = await planInSteps(context, rules, nowMs, busy);
    return new RetentionApplication(context, options, retiredCount, plan);
  }

  /** Returns false where the plan holds no more: somebody else retired a version, or set a rule. */
  async retire(batchSize: number, retired: Fate[]): Promise<boolean> {
    const { context } = this;
    for (let from = 0; from < this.#going.length; from += batchSize) {
      const planned = this.#going.slice(from, from + batchSize);
      const batch = await this.#retireBatch(planned);
      if (batch === undefined) return false;
      this.kept -= batch.length;
      retired.push(
        ...batch.map((going) => fateOf(context, { version: going.version, because: reasonOf(going) })),
      );
    }
    return true;
  }

  async #retireBatch(
    planned: readonly Retired<Candidate>[],
  ): Promise<readonly Retired<Candidate>[] | undefined> {
    const { context } = this;
    const { nowMs, settings } = this.options;
    let batch: readonly Retired<Candidate>[] | undefined;
    await context.queue.submit({
      requiredObjects: [],
      isExclusive: true,
      decide: () => {
        const holds =
          context.state.retiredCount === this.expectedRetired && textOfSettings(context) === settings;
        batch = holds ? this.#stillGoing(planned) : undefined;
        return (batch ?? []).map((going) => ({
          type: "retired",
          atMs: nowMs,
          versionId: going.version.versionId,
          because: reasonOf(going),
        }));
      },
      onApplied: () => {
        this.expectedRetired += batch?.length ?? 0;
        context.versionsChanged((batch ?? []).map(({ version }) => version.versionId));
      },
    });
    return batch;
  }

  /** The planned ones that nothing keeps now. */
  #stillGoing(planned: readonly Retired<Candidate>[]): readonly Retired<Candidate>[] {
    const { context } = this;
    const { state, byBase } = context;
    const { busy, rules, length } = this.options;
    const inUse = versionsInUse(state);
    const underWay = busy?.() ?? new Map<Hash, string>();
    const isKept = (version: VersionState): boolean => {
      const now = candidateOf(context, version, inUse, underWay);
      const isReleased = ruleFor(rules, now)?.rule.releaseBases === true && now.distributed;
      return now.needed !== undefined || now.tags.length > 0 || isReleased || isNewestOfSeries(context, now);
    };
    /** A child that was recorded since the plan, or that something keeps since then, keeps its base. */
    const keepsBase = (child: VersionState): boolean =>
      child.retired === undefined && (child.position >= length || isKept(child));
    return planned.filter(({ version: { versionId, ...planVersion } }) => {
      const version = state.versions.get(versionId);
      if (version === undefined || version.retired !== undefined || isKept(version)) return false;
      if (ruleFor(rules, planVersion)?.rule.bases !== true) return true;
      for (const child of versionsIn(state, byBase.of(versionId))) if (keepsBase(child)) return false;
      return true;
    });
  }
}

function textOfSettings(context: RepositoryContext): string {
  return JSON.stringify(settingsOf(context));
}

/** Looks at the versions of its name that came after it, the newest first. */
function isNewestOfSeries(
  { state, records }: RepositoryContext,
  { name, position, device, line }: Candidate,
): boolean {
  for (const later of versionsIn(state, state.names.reversed(name))) {
    if (later.position <= position) return true;
    const record = records.get(later.versionId);
    if (record === undefined || later.retired !== undefined) continue;
    if (makerOf(later, record) === device && record.line === line) return false;
  }
  return true;
}
