/** `stemma diff`: several versions side by side: what was said and measured of them, and which layers differ. */
import type { ModelDiff } from "../../storage/repository/answers/version-answers.js";
import { StemmaError } from "../../../shared/errors.js";
import { listed, plain, type PlainContext, type Printed } from "../plain-command.js";
import { filesText } from "../file-text.js";
import { nameOf } from "../version-text.js";
import { currentOfFolder, type Described } from "./current-version.js";
import { factsOf } from "./facts-of-version.js";
import { pageOptions, writePage } from "../page/write-page.js";
import { verb } from "./verb.js";
import { counted } from "../../../shared/printable.js";

const maxModels = 16;
/** Changed tensors of a model that are named; others are counted. */
const maxNamed = 12;

export const define = verb(
  plain(null, {
    name: "diff",
    takes: {
      models: "[models...] name, name:version, name:tag or id; one alone is compared with what it came from",
    },
    options: { all: "also what is equal in all of them", ...pageOptions },
    help: `
The table has what differs: network, hyper-parameters, files, data, figures. Below it, which
tensors differ from those of the first. Two models tensor by tensor: stemma model diff A B.

  stemma diff                        the current version and the one before
  stemma diff curve:1 curve:2 wide
  stemma diff curve:1 curve:2 --html curve.html    what is equal is folded
`,
    run: async ({ models, all, html, force }, context) => {
      if (html === undefined) return await compare(context, models ?? [], all);
      return await writePage(html, { force }, async () => {
        const compared = await gather(context, models ?? []);
        const { comparisonPage } = await import("../page/comparison-page.js");
        return comparisonPage({ ...compared, writtenAtMs: Date.now() });
      });
    },
  }),
);

interface Compared {
  readonly versions: readonly Described[];
  readonly facts: readonly Row[];
  /** The tensors of each but the first against those of the first. */
  readonly diffs: readonly ModelDiff[];
}

async function gather({ call }: PlainContext, named: readonly string[]): Promise<Compared> {
  if (named.length > maxModels)
    throw new StemmaError("USAGE", `At most ${maxModels} models are compared at a time. Name fewer.`);
  const versions = await Promise.all(
    (await atLeastTwo(call, named)).map((model) => call("model", { model })),
  );
  const [first, ...others] = versions;
  const diffs: ModelDiff[] = [];
  for (const other of others)
    diffs.push(await call("diff", { a: (first as Described).versionId, b: other.versionId }));
  return { versions, facts: rowsOf(versions), diffs };
}

async function compare(context: PlainContext, named: readonly string[], all: boolean): Promise<Printed> {
  const { versions, facts, diffs } = await gather(context, named);
  const rows = facts.filter(({ values }) => all || new Set(values).size > 1);
  const [first, ...others] = versions.map(nameOf);
  const changes = diffs.map((diff, at) => ({ of: others[at] as string, diff }));
  return {
    ...listed(rows, {
      nameOf: ({ name }) => name,
      columns: [
        { title: "", value: ({ name }) => name },
        ...versions.map((version, at) => ({
          title: nameOf(version),
          value: ({ values }: Row): string | undefined => values[at],
        })),
      ],
      empty: "nothing that was stated or measured differs",
    }),
    data: {
      versions: versions.map(({ versionId, name, version }) => ({ versionId, name, version })),
      rows,
      changes,
    },
    names: versions.map(nameOf),
    text: changes.map(({ of, diff }) => describeChanges(first as string, of, diff)).join("\n"),
  };
}

/** @throws NOT_FOUND where a single one came from nothing */
async function atLeastTwo(call: PlainContext["call"], named: readonly string[]): Promise<readonly string[]> {
  if (named.length > 1) return named;
  const model = named[0] ?? (await currentOfFolder(call));
  const { bases, name, version } = await call("model", { model });
  if (bases[0] !== undefined) return [bases[0].versionId, model];
  throw new StemmaError(
    "NOT_FOUND",
    `${name}:${version} came from no other version. Name one to compare it with.`,
  );
}

interface Row {
  readonly name: string;
  readonly values: readonly (string | undefined)[];
}

/** Every fact of any of them, in the order in which the first that has it shows it. */
function rowsOf(versions: readonly Described[]): readonly Row[] {
  const facts = versions.map((version) => new Map(factsOf(version)));
  const names = [...new Set(facts.flatMap((each) => [...each.keys()]))];
  return names.map((name) => ({ name, values: facts.map((each) => each.get(name)) }));
}

function describeChanges(
  first: string,
  other: string,
  { changes, sameArchitecture, opaque, files }: ModelDiff,
): string {
  if (files !== undefined) return `${other} against ${first}: ${filesText(files)}`;
  if (changes.length === 0) return `${other} has the same tensors as ${first}`;
  const named = changes.slice(0, maxNamed).map(({ kind, name }) => `${name} ${kind}`);
  const more = changes.length > named.length ? `, and ${changes.length - named.length} more` : "";
  const network = opaque ? "" : sameArchitecture ? ", same network" : ", another network";
  return `${other} against ${first}: ${counted(changes.length, "tensor differs", "tensors differ")}${network}: ${named.join(", ")}${more}`;
}
