/** `stemma query`: selects models by a query, derives new ones, or trains candidates; saved queries (docs/dql.md). */
import type { Command } from "commander";
import { StemmaError } from "../../../shared/errors.js";
import { defined } from "../../../shared/defined.js";
import { type Column, formatTime } from "../../../shared/cli/output.js";
import { counted } from "../../../shared/printable.js";
import {
  queryOperations,
  type FoundModel,
  type QueryAnswer,
} from "../../interface/api/models/query-definitions.js";
import type { CallOutput } from "../../interface/api/server-operations.js";
import type { Evaluate } from "../../learning/query/syntax.js";
import { listed, plain, type PlainContext, type Printed } from "../plain-command.js";
import { readBy } from "../input-option.js";
import { readTextFile } from "../text-file.js";
import { nameOf, timeOfSaving } from "../version-text.js";
import { derivedText } from "./derived-text.js";
import { verb } from "./verb.js";

/** More bytes than a query may have characters: the server's answer names the limit. */
const maxFileBytes = 65_536;

const maxMinutes = {
  text: "<n> evaluate: the minutes after which each training is ended",
  read: readBy("--max-minutes", queryOperations.evaluateQuery.body.shape.maxMinutes),
} as const;

const { patience } = queryOperations.evaluateQuery.body.shape;
const trainer =
  "<file> evaluate: a program of yours trains, which this file names as agent.json does (docs/own-models.md)";
const deviceOptions = {
  on: "<selection> evaluate: devices train that this means, not the server (docs/selections.md)",
  line: "<line> with --on: the devices' line, whose name begins with search (search)",
  patience: {
    text: "<minutes> with --on: how long a device may take to run a model, and to train it (30)",
    read: readBy("--patience", patience),
  },
} as const;

const run = plain("runQuery", {
  name: "run",
  isDefault: true,
  about: "ask a query; `stemma query 'select …'` does it, too",
  takes: { query: "[query] such as: select m where m.name like 'alexnet_%'" },
  options: {
    file: "<file> read the query from this file; - for standard input",
    explain:
      "instead of the results, print what was asked of which list, and how many versions that left; of an evaluation what it would train",
    limit: "<n> only the newest n (100)",
    offset: "<n> skip the newest n",
    save: "save the models that construct or slice derives, as versions",
    seed: "<number> with --save or evaluate: draw new weights by this seed, and train by it; not by a fresh one",
    rank: "<weights> evaluate: choose by prefix=1,quality=0.5,age=0.1 whom new layers inherit from",
    maxMinutes,
    trainer,
    ...deviceOptions,
  },
  help: `
The language is described in docs/dql.md. -o name prints a line for each result. With
construct and slice it prints what would be made; --save makes it. With evaluate it trains,
and saves what it keeps; Ctrl-C at any time, and the same command goes on.

  stemma query 'select m where m.device = "van-7" and m["loss"] < 0.1'
  stemma query 'select m where m["conv*"].next has POOL("MAX")' -o name
  stemma query --file best.dql --explain
  stemma query 'construct b from a where a.tag = "best" mutate a["conv*($1)"].insert = RELU("relu$1")' --save
  stemma query --file tune.dql --on line=search        (devices train, as for stemma nas run)
  stemma query --file tune.dql --trainer trainer.json  (a program of yours trains)
  stemma query 'evaluate m from "mine" with config = "config.json" vary config.lr auto keep top(1, m["loss"], 100)'
`,
  run: async (choices, context): Promise<Printed> => {
    const { query: written, file, explain, save, seed, offset = 0, limit } = choices;
    const { call } = context;
    if ((written === undefined) === (file === undefined))
      throw new StemmaError("USAGE", "Name a query, or a file that has one with --file.");
    const query = written ?? (await readTextFile(file ?? "-", maxFileBytes));
    const evaluated = await evaluationIn(query);
    if (evaluated !== undefined) return await evaluate(evaluated, { ...choices, query }, context);
    const other = (["rank", "trainer", "on", "line", "patience"] as const).find(
      (name) => choices[name] !== undefined,
    );
    if (other !== undefined) throw new StemmaError("USAGE", `--${other} is for evaluate. Leave it away.`);
    if (!save && seed !== undefined)
      throw new StemmaError("USAGE", "--seed is for --save and for evaluate. Add one, or leave --seed away.");
    if (save && explain) throw new StemmaError("USAGE", "--explain saves nothing. Leave it or --save away.");
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
});

/** The statement of an evaluation; undefined for any other query, which the server looks at. */
async function evaluationIn(query: string): Promise<Evaluate | undefined> {
  if (!/\bevaluate\b/i.test(query)) return undefined;
  const { parseQuery } = await import("../../learning/query/parse-query.js");
  const statement = parseQuery(query);
  return statement.kind === "evaluate" ? statement : undefined;
}

interface EvaluateChoices {
  readonly query: string;
  readonly explain: boolean;
  readonly save: boolean;
  readonly seed?: string | undefined;
  readonly rank?: string | undefined;
  readonly maxMinutes?: number | undefined;
  readonly trainer?: string | undefined;
  readonly on?: string | undefined;
  readonly line?: string | undefined;
  readonly patience?: number | undefined;
}

async function evaluate(
  { config: { value: path } }: Evaluate,
  {
    query,
    explain,
    save,
    seed,
    rank,
    maxMinutes: minutes,
    trainer: file,
    on,
    line,
    patience: most,
  }: EvaluateChoices,
  { call, operations, fleet, output, signal }: PlainContext,
): Promise<Printed> {
  if (save) throw new StemmaError("USAGE", "evaluate saves what it keeps. Leave --save away.");
  if (on === undefined && (line ?? most) !== undefined)
    throw new StemmaError(
      "USAGE",
      "--line and --patience go with --on SELECTION. Add it, or leave them away.",
    );
  if (on !== undefined && file !== undefined)
    throw new StemmaError(
      "USAGE",
      "With --on, devices train, each by its line's own settings. Leave --trainer or --on away.",
    );
  const { readConfig, planText, readProgram, reportText } = await import("./evaluation-text.js");
  const config = await readConfig(String(path));
  const program = file === undefined ? undefined : await readProgram(file);
  if (explain) {
    const answer = await call("runQuery", { query, config, ...defined({ seed, rank }) });
    if (answer.evaluation === undefined) throw new TypeError("the plan of an evaluation is missing");
    const { notes = [], ...shown } = planText(answer.evaluation, config);
    return { ...shown, data: answer, notes: [...unknownIn(answer), ...notes] };
  }
  const opened = await operations();
  const report = await opened.evaluateQuery(
    { fleet, query, config, ...defined({ seed, rank, maxMinutes: minutes, on, line, patience: most }) },
    { onProgress: ({ line }) => output.progress(line, true), signal, ...defined({ program }) },
  );
  output.endProgress();
  return reportText(report, program !== undefined);
}

const columnsOfSaved: readonly Column<CallOutput<"savedQueries">[number]>[] = [
  { title: "NAME", value: ({ name }) => name },
  { title: "SAVED", value: ({ savedAtMs }) => formatTime(savedAtMs) },
  { title: "BY", value: ({ by }) => by ?? "-" },
  { title: "QUERY", value: ({ query }) => query.replace(/\s+/g, " ").trim() },
];

const savedText = (queries: CallOutput<"savedQueries">): Printed =>
  listed(queries, { nameOf: ({ name }) => name, columns: columnsOfSaved, empty: "no query is saved" });

const commands = [
  run,
  plain("saveQuery", {
    name: "save",
    about: 'give a query a name, by which others begin: select m from "NAME"',
    takes: { name: "<name> of the query", query: "<query> which begins with select, construct or slice" },
    print: savedText,
  }),
  plain("savedQueries", { name: "list", about: "queries that have names", print: savedText }),
  plain("deleteQuery", {
    name: "delete",
    about: "forget a query's name",
    takes: { name: "<name> of the query" },
    print: savedText,
  }),
];

export async function define(command: Command): Promise<void> {
  for (const declaration of commands)
    await verb(declaration)(command.command(declaration.name, { isDefault: declaration === run }));
}

type Found = readonly FoundModel[];

const columnsOfOne: readonly Column<Found>[] = [
  { title: "VERSION", value: ([found]) => found && nameOf(found) },
  { title: "ID", value: ([found]) => found?.versionId.slice(0, 8) },
  { title: "DEVICE", value: ([found]) => found?.device || "-" },
  { title: "LINE", value: ([found]) => found?.line || "-" },
  { title: "STATE", value: ([found]) => found?.state },
  { title: "SAVED", value: ([found]) => found && timeOfSaving({ ...found, clockErrorMs: null }) },
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
  const versions = (count: number): string => counted(count, "version");
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
