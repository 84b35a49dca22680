/** `stemma query`: selects models by a query, or derives new ones (docs/dql.md). */
import { StemmaError } from "../../../shared/errors.js";
import { defined } from "../../../shared/defined.js";
import { formatTime, type Column } from "../../../shared/cli/output.js";
import type { FoundModel, QueryAnswer } from "../../interface/api/models/query-definitions.js";
import { listed, plain, type Printed } from "../plain-command.js";
import { readTextFile } from "../text-file.js";
import { nameOf } from "../version-text.js";
import { derivedText } from "./derived-text.js";
import { verb } from "./verb.js";

/** More bytes than a query may have characters: the server's answer names the limit. */
const maxFileBytes = 65_536;

export const define = verb(
  plain("runQuery", {
    name: "query",
    takes: { query: "[query] such as: select m where m.name like 'alexnet_%'" },
    options: {
      file: "<file> read the query from this file; - for standard input",
      explain: "instead of the results, print what was asked of which list, and how many versions that left",
      limit: "<n> only the newest n (100)",
      offset: "<n> skip the newest n",
      save: "save the models that construct or slice derives, as versions",
      seed: "<number> with --save: draw new weights by this seed, not by a fresh one",
    },
    help: `
The language is described in docs/dql.md. -o name prints a line for each result. With
construct and slice it prints what would be made; --save makes it.

  stemma query 'select m where m.device = "van-7" and m["loss"] < 0.1'
  stemma query 'select m where m["conv*"].next has POOL("MAX")' -o name
  stemma query --file best.dql --explain
  stemma query 'construct b from a where a.tag = "best" mutate a["conv*($1)"].insert = RELU("relu$1")' --save
`,
    run: async (
      { query: written, file, explain, save, seed, offset = 0, limit },
      { call },
    ): Promise<Printed> => {
      if ((written === undefined) === (file === undefined))
        throw new StemmaError("USAGE", "Name a query, or a file that has one with --file.");
      if (!save && seed !== undefined)
        throw new StemmaError("USAGE", "--seed is for --save. Add it, or leave --seed away.");
      if (save && explain)
        throw new StemmaError("USAGE", "--explain saves nothing. Leave it or --save away.");
      const query = written ?? (await readTextFile(file ?? "-", maxFileBytes));
      if (save) {
        const saved = await call("saveDerived", { query, ...defined({ seed }) });
        return { ...derivedText(saved.derived, saved.seed), data: saved };
      }
      const answer = await call("runQuery", { query, offset, ...defined({ limit }) });
      if (explain) return planOf(answer);
      if (answer.derived === undefined) return resultsOf(answer, offset);
      const { notes = [], ...shown } = derivedText(answer.derived);
      return { ...shown, data: answer, notes: [...unknownIn(answer), ...notes] };
    },
  }),
);

type Found = readonly FoundModel[];

const columnsOfOne: readonly Column<Found>[] = [
  { title: "VERSION", value: ([found]) => found && nameOf(found) },
  { title: "ID", value: ([found]) => found?.versionId.slice(0, 8) },
  { title: "DEVICE", value: ([found]) => found?.device || "-" },
  { title: "LINE", value: ([found]) => found?.line || "-" },
  { title: "STATE", value: ([found]) => found?.state },
  { title: "SAVED", value: ([found]) => found && formatTime(found.savedAtMs) },
];

function resultsOf(answer: QueryAnswer, offset: number): Printed {
  const { variables, rows, total } = answer;
  const columnsOfSeveral = variables.map((title, index): Column<Found> => ({
    title,
    value: (row) => row[index] && nameOf(row[index]),
  }));
  const next = offset + rows.length;
  const isCut = rows.length > 0 && (total === null || next < total);
  return {
    ...listed(rows, {
      nameOf: (row) => row.map(nameOf).join("\t"),
      columns: variables.length === 1 ? columnsOfOne : columnsOfSeveral,
      empty: "no version matches",
    }),
    data: answer,
    notes: [
      ...unknownIn(answer),
      ...(isCut
        ? [
            `stemma: note: ${rows.length}${total === null ? "" : ` of ${total}`} results are shown; ` +
              `more follow with --offset ${next}`,
          ]
        : []),
    ],
  };
}

function planOf(answer: QueryAnswer): Printed {
  return {
    ...listed(answer.plan, {
      nameOf: ({ step }) => step,
      columns: [
        { title: "FOR", value: ({ variable }) => variable },
        { title: "LOOKED AT", value: ({ lookedAt }) => lookedAt, align: "right" },
        { title: "NETWORKS", value: ({ networks }) => networks, align: "right" },
        { title: "UNKNOWN", value: ({ unknown }) => unknown, align: "right" },
        { title: "KEPT", value: ({ kept }) => kept, align: "right" },
        { title: "BY", value: ({ step }) => step },
      ],
    }),
    data: answer,
    notes: unknownIn(answer),
  };
}

/** Notes of what could not be known, so that nobody takes silence for a no. */
function unknownIn({ withoutNetwork, unreadable }: QueryAnswer): readonly string[] {
  const versions = (count: number): string => (count === 1 ? "1 version" : `${count} versions`);
  return [
    ...(withoutNetwork === 0
      ? []
      : [
          `stemma: note: of ${versions(withoutNetwork)} no network is known: conditions on layers leave out what depends on it`,
        ]),
    ...(unreadable === 0
      ? []
      : [
          `stemma: note: of ${versions(unreadable)} something cannot be read that the query asks about; ` +
            "see stemma storage check",
        ]),
  ];
}
