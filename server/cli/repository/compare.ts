/** `stemma diff`: several versions side by side: what was said and measured of them, and which layers differ. */
import type { ModelDiff } from "../../storage/repository/answers/version-answers.js";
import { StemmaError } from "../../../shared/errors.js";
import { listed, plain, type PlainContext, type Printed } from "../plain-command.js";
import { nameOf } from "../version-text.js";
import { currentOfFolder, type Described } from "./current-version.js";
import { factsOf } from "./facts-of-version.js";
import { verb } from "./verb.js";

const maxModels = 16;
/** Changed tensors of a model that are named; others are counted. */
const maxNamed = 12;

export const define = verb(
  plain(null, {
    name: "diff",
    takes: {
      models: "[models...] name, name:version, name:tag or id; one alone is compared with what it came from",
    },
    options: { all: "also what is equal in all of them" },
    help: `
The table has what differs: network, hyper-parameters, files, data, figures. Below it, which
tensors differ from those of the first. Two models tensor by tensor: stemma model diff A B.

  stemma diff                        the current version and the one before
  stemma diff curve:1 curve:2 wide
`,
    run: async ({ models, all }, context) => compare(context, models ?? [], all),
  }),
);

async function compare({ call }: PlainContext, named: readonly string[], all: boolean): Promise<Printed> {
  if (named.length > maxModels)
    throw new StemmaError("USAGE", `At most ${maxModels} models are compared at a time. Name fewer.`);
  const described = await Promise.all(
    (await atLeastTwo(call, named)).map((model) => call("model", { model })),
  );
  const rows = rowsOf(described).filter(({ values }) => all || new Set(values).size > 1);
  const [first, ...others] = described;
  const changes: { readonly of: string; readonly diff: ModelDiff }[] = [];
  for (const other of others)
    changes.push({
      of: nameOf(other),
      diff: await call("diff", { a: (first as Described).versionId, b: other.versionId }),
    });
  return {
    ...listed(rows, {
      nameOf: ({ name }) => name,
      columns: [
        { title: "", value: ({ name }) => name },
        ...described.map((version, at) => ({
          title: nameOf(version),
          value: ({ values }: Row): string | undefined => values[at],
        })),
      ],
      empty: "nothing that was stated or measured differs",
    }),
    data: {
      versions: described.map(({ versionId, name, version }) => ({ versionId, name, version })),
      rows,
      changes,
    },
    names: described.map(nameOf),
    text: changes.map(({ of, diff }) => describeChanges(nameOf(first as Described), of, diff)).join("\n"),
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
  { changes, sameArchitecture, opaque }: ModelDiff,
): string {
  if (changes.length === 0) return `${other} has the same tensors as ${first}`;
  const named = changes.slice(0, maxNamed).map(({ kind, name }) => `${name} ${kind}`);
  const more = changes.length > named.length ? `, and ${changes.length - named.length} more` : "";
  const network = opaque ? "" : sameArchitecture ? ", same network" : ", another network";
  return `${other} against ${first}: ${changes.length} tensors differ${network}: ${named.join(", ")}${more}`;
}
