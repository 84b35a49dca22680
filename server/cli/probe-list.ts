/** Lists what is known of each architecture's exactness: by summaries of probes, or by its layers alone. */
import { probeDifferences, whyIncomparable } from "../../shared/determinism/compare-probes.js";
import { describeMachine } from "../../shared/determinism/probe-text.js";
import type { ProbeSummary } from "../../shared/determinism/probe-summary.js";
import { isStemmaError } from "../../shared/errors.js";
import { architectureHash } from "../../shared/model/architecture.js";
import type { Architecture } from "../../shared/model/model.js";
import { drawsRandomNumbers } from "../../shared/train/layer-construction.js";
import { listed, type PlainContext, type Printed } from "./plain-command.js";
import { readProbe } from "./probe-files.js";
import { knownArchitectures, type ProbedModel } from "./probed-model.js";
import { nameOf } from "./version-text.js";

/** An architecture and what is known of it: "probed" by runs, the others by their layers alone. */
interface ArchitectureRow {
  readonly architecture: string;
  readonly layers: number;
  readonly versions: number;
  readonly example: string;
  readonly exact: "probed: same bits" | "probed: different" | "probed once" | "refused" | "not probed";
  readonly because: string;
}

interface NamedProbe {
  readonly name: string;
  readonly summary: ProbeSummary;
}
type RunProbe = (probed: ProbedModel) => Promise<ProbeSummary>;

export async function listProbed(
  files: readonly string[],
  context: PlainContext,
  run: RunProbe | undefined,
): Promise<Printed> {
  const given: NamedProbe[] = [];
  for (const name of files) given.push({ name, summary: await readProbe(name) });
  const rows: ArchitectureRow[] = [];
  for (const known of await knownArchitectures(context)) {
    const architecture = await known.read();
    const hash = architectureHash(architecture);
    const own = given.filter(({ summary }) => summary.model.architecture === hash);
    const failure =
      run === undefined
        ? undefined
        : await addRun(own, { title: `architecture ${hash.slice(0, 12)}`, architecture }, { run, context });
    rows.push({
      architecture: known.hash,
      layers: architecture.layers.length,
      versions: known.versions.length,
      example: nameOf(known.versions.at(-1)!),
      ...(own.length > 0 ? judgeProbes(own) : judgeLayers(architecture, failure)),
    });
  }
  return listed(rows, {
    nameOf: (row) => row.architecture,
    columns: [
      { title: "ARCHITECTURE", value: (row) => row.architecture.slice(0, 12) },
      { title: "LAYERS", value: (row) => row.layers, align: "right" },
      { title: "VERSIONS", value: (row) => row.versions, align: "right" },
      { title: "SUCH AS", value: (row) => row.example },
      { title: "EXACT", value: (row) => row.exact },
    ],
    empty: "no model of this fleet has an architecture",
    text: context.output.wrap(rows.map((row) => `${row.architecture.slice(0, 12)}: ${row.because}`)),
  });
}

/** Adds a probe of now. Returns why there is none: one architecture that is too large does not end the list. */
async function addRun(
  own: NamedProbe[],
  probed: ProbedModel,
  { run, context }: { readonly run: RunProbe; readonly context: PlainContext },
): Promise<string | undefined> {
  try {
    own.push({ name: "this machine, now", summary: await run(probed) });
    return undefined;
  } catch (error) {
    context.signal.throwIfAborted();
    if (!isStemmaError(error)) throw error;
    return error.message;
  }
}

type Judgement = Pick<ArchitectureRow, "exact" | "because">;

/** Judges by the layers alone. */
function judgeLayers({ layers }: Architecture, failure: string | undefined): Judgement {
  const index = layers.findIndex((leaf) => drawsRandomNumbers(leaf));
  return index < 0
    ? {
        exact: "not probed",
        because:
          `not probed${failure === undefined ? "" : ` (${failure})`}; by its layers alone: none draws random numbers ` +
          `that the seed does not reach${failure === undefined ? ". Probe it: --run" : ""}`,
      }
    : {
        exact: "refused",
        because:
          `layer ${index} (${layers[index]!.className}) draws random numbers that the seed does not reach, ` +
          "so the engine does not train it; known by its layers, not probed",
      };
}

/** Judges by what ran: each summary's own runs, then all comparable ones with the first. */
function judgeProbes(own: readonly NamedProbe[]): Judgement {
  const refused = own.find(({ summary }) => summary.refused !== null)?.summary.refused;
  if (refused != null) return { exact: "refused", because: refused.because };
  for (const { name, summary } of own)
    if (summary.runs.differing > 0)
      return {
        exact: "probed: different",
        because:
          `${name}: ${summary.runs.count} runs on one machine differ in ${summary.runs.differing} values ` +
          `(${describeMachine(summary)})`,
      };
  const [first, ...others] = own as [NamedProbe, ...NamedProbe[]];
  const compared = [first];
  for (const other of others) {
    if (whyIncomparable(first.summary, other.summary).length > 0) continue;
    compared.push(other);
    const [difference] = probeDifferences(first.summary, other.summary).differences;
    if (difference !== undefined)
      return {
        exact: "probed: different",
        because:
          `${first.name} and ${other.name} differ from layer ${difference.layer} (${difference.className}) on, ` +
          `${difference.value} (${describeMachine(first.summary)}; ${describeMachine(other.summary)})`,
      };
  }
  // Equal bits are a statement about two runs at least.
  const isCompared = compared.length > 1 || own.some(({ summary }) => summary.runs.count > 1);
  const apart = own.length - compared.length;
  return {
    exact: isCompared ? "probed: same bits" : "probed once",
    because:
      own.map(({ name, summary }) => sameText(name, summary)).join("; ") +
      (apart === 0 ? "" : `; ${apart} of other weights or inputs than the first, and not compared with it`),
  };
}

function sameText(name: string, summary: ProbeSummary): string {
  const { count } = summary.runs;
  return `${name}: ${count === 1 ? "one run" : `${count} runs`} (${describeMachine(summary)})`;
}
