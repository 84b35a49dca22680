/** `stemma replay explain`: what is known of why a replay, or another version, differs (MERIT, appendix B; ME12). */
import { exitStatus } from "../../../../shared/errors.js";
import { defined } from "../../../../shared/defined.js";
import type { CanonicalValue } from "../../../../shared/model/canonical-json.js";
import { compareLibraries, type ComparedLibraries } from "../../../../shared/programs/program-libraries.js";
import { readProgramRecord } from "../../../../shared/programs/program-record.js";
import { compareCheckpoints } from "../../../../shared/provenance/compare-checkpoints.js";
import {
  explainReplay,
  explainVersions,
  explanationLines,
  type Explanation,
  type FieldOfBoth,
} from "../../explain-difference.js";
import { plain, type PlainContext, type Printed } from "../../plain-command.js";
import { compareSides } from "../../reproduce/compare-sides.js";

const explain = plain(null, {
  name: "explain",
  about: "why a replay, or another version, differs: what was found at each point",
  takes: { model: "<model> a version", other: "[other] another one; else its replay, which is run" },
  help: `
Looked at in this order: predictions, weights, evaluations, provenance, versions of libraries,
load order, machine. What is not recorded on both sides is said so. No cause is guessed: the
recorded differences are listed, or that there are none.

  stemma replay explain pack-soh:3
  stemma replay explain pack-soh:3 pack-soh:4

Status 4: the weights differ; 5: they were not compared.
`,
  run: async ({ model, other }, context): Promise<Printed> => {
    const explanation =
      other === undefined ? await ofReplay(model, context) : await ofVersions(model, other, context);
    const status = statusOf(explanation);
    return {
      data: explanation,
      names: explanation.points.flatMap(({ point, verdict }) => (verdict === "different" ? [point] : [])),
      text: context.output.wrap([...explanationLines(explanation)]),
      ...(status === undefined ? {} : { status }),
    };
  },
});

async function ofReplay(model: string, { call, output }: PlainContext): Promise<Explanation> {
  output.progress(`replaying ${model}`);
  const report = await call("replay", { model });
  output.endProgress();
  const { versionId } = report;
  const { environment } = await call("model", { model: versionId });
  const { environment: compared } = await call("verify", { model: versionId });
  const here = new Map(compared.differing.map((each) => [each.field, each.here]));
  const names = new Set([...Object.keys(environment), ...here.keys()]);
  const fields = [...names].map((field): FieldOfBoth => {
    const recorded = environment[field];
    return { field, a: recorded, b: here.has(field) ? here.get(field) : recorded };
  });
  return explainReplay(report, fields);
}

async function ofVersions(a: string, b: string, context: PlainContext): Promise<Explanation> {
  const { call } = context;
  const [one, other] = [await call("model", { model: a }), await call("model", { model: b })];
  const ids = { a: one.versionId, b: other.versionId };
  const { metadata: metricsA = {} } = one;
  const { metadata: metricsB = {} } = other;
  const others = new Map(other.record.uses?.checkpoints?.map(({ iteration, tree }) => [iteration, tree]));
  const checkpoints = (one.record.uses?.checkpoints ?? []).filter(({ iteration }) => others.has(iteration));
  return explainVersions({
    comparison: await compareSides(ids.a, ids.b, context),
    provenance: (await call("diff", ids)).provenance,
    metrics: fieldsOf(metricsA, metricsB).filter(({ field }) => field.startsWith("metric.")),
    fields: fieldsOf(one.environment, other.environment),
    checkpoints: compareCheckpoints(checkpoints, others),
    ...defined({ libraries: librariesOfBoth(one.provenance, other.provenance) }),
  });
}

/** Both versions' libraries, of stories that may be hostile; undefined where not both record them. */
function librariesOfBoth(...stories: readonly unknown[]): ComparedLibraries | undefined {
  const [a, b] = stories.map((story) => {
    const { program } = (story ?? {}) as { readonly program?: CanonicalValue };
    return readProgramRecord(program)?.libraries;
  });
  return a && b && compareLibraries(a, b, ["", ""]);
}

type Values = Readonly<Record<string, string | number | boolean>>;

function fieldsOf(a: Values, b: Values): readonly FieldOfBoth[] {
  const names = new Set([...Object.keys(a), ...Object.keys(b)]);
  return [...names].map((field) => ({ field, a: a[field]?.toString(), b: b[field]?.toString() }));
}

function statusOf({ points }: Explanation): number | undefined {
  const weights = points.find(({ point }) => point === "weights")?.verdict;
  if (weights === "equal") return undefined;
  return weights === "different" ? exitStatus.verification : exitStatus.partly;
}

export const commands = [explain];
