/** The plan of an evaluation, and what came of its candidates, for people. */
import { resolve } from "node:path";
import { formatBytes, type Column } from "../../../shared/cli/output.js";
import { counted } from "../../../shared/printable.js";
import { programSettingsOf, type ProgramFile } from "../../../shared/programs/program-settings.js";
import { StemmaError } from "../../../shared/errors.js";
import type {
  EvaluatedCandidate,
  EvaluatedModels,
  PlannedEvaluation,
} from "../../interface/api/models/enumeration-schemas.js";
import { listed, type Printed } from "../plain-command.js";
import { readTextFile } from "../text-file.js";
import { nameOf } from "../version-text.js";

type Setting = string | number | boolean;

const maxConfigBytes = 65_536;

/** Reads the configuration that a query names. @throws USAGE, FILE_MISSING */
export async function readConfig(path: string): Promise<Readonly<Record<string, Setting>>> {
  const refuse = (why: string): never => {
    throw new StemmaError(
      "USAGE",
      `${path}, which the query names, is not a configuration: ${why}. Write such as ` +
        '{"recipe": "image-classify", "input_data": "digits", "base_lr": 0.01}.',
    );
  };
  const text = await readTextFile(path, maxConfigBytes);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return refuse("it is not JSON");
  }
  if (typeof value !== "object" || value === null || Array.isArray(value))
    return refuse("it is not an object");
  const other = Object.entries(value).find(
    ([, each]) => !["string", "number", "boolean"].includes(typeof each),
  );
  if (other !== undefined)
    return refuse(`${JSON.stringify(other[0].slice(0, 60))} is not a text, a number, true or false`);
  return value as Readonly<Record<string, Setting>>;
}

/** Reads the settings of a program that trains. @throws CONFIG_INVALID, FILE_MISSING */
export async function readProgram(file: string): Promise<ProgramFile> {
  const path = resolve(file);
  const text = await readTextFile(path, maxConfigBytes);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    value = undefined;
  }
  return { path, settings: programSettingsOf(value, file) };
}

/** @param config of the evaluation */
export function planText(
  plan: PlannedEvaluation,
  config: Readonly<Record<string, Setting>>,
): Pick<Printed, "names" | "text" | "notes"> {
  const { models, candidates, settings, rounds, steps, rule } = plan;
  const rows: readonly (readonly [string, string])[] = [
    ["models", models.join(", ")],
    ...settings.map(
      ({ name, count, values }) =>
        [name, values === null ? `${count} drawn` : values.map((value) => String(value)).join(", ")] as const,
    ),
  ];
  const width = Math.max(...rows.map(([name]) => name.length)) + 2;
  return {
    names: models,
    text: [
      ...rows.map(([name, values]) => `${name.padEnd(width)}${values}`),
      `${counted(candidates, "candidate")}; ${rule}`,
      ...rounds.map(
        (round) =>
          `${round.iteration === null ? "when trainings end" : `after step ${round.iteration}`}: ` +
          `at most ${round.keeps} of ${round.candidates} go on`,
      ),
      steps === null
        ? "every candidate is trained to its end"
        : `at most ${counted(steps, "step")} count until then; those that go on are trained to their end`,
    ].join("\n"),
    notes: [
      ...notMadeNotes(plan),
      ...newWeightsNotes(plan),
      ...(config["recipe"] === undefined && settings.every(({ name }) => name !== "recipe")
        ? [
            "stemma: note: the configuration has no recipe: a program of your own trains (--trainer), or those of devices (--on)",
          ]
        : []),
      "stemma: note: nothing is trained; without --explain the evaluation begins, and saves what it keeps",
    ],
  };
}

/** @param isOwn true if a program of the caller's own trained */
export function reportText(report: EvaluatedModels, isOwn: boolean): Printed {
  const kept = report.candidates
    .filter(({ saved }) => saved !== undefined)
    .sort((a, b) => (b.saved?.version ?? 0) - (a.saved?.version ?? 0));
  const others = report.candidates.filter(({ saved }) => saved === undefined);
  const table = listed([...kept, ...others], {
    nameOf: ({ saved }) => (saved === undefined ? "" : nameOf(saved)),
    columns: report.otherDevices === undefined ? columns : [...columns, deviceColumn],
  });
  return {
    ...table,
    data: report,
    names: kept.flatMap(({ saved }) => (saved === undefined ? [] : nameOf(saved))),
    notes: [
      ...notMadeNotes(report),
      ...newWeightsNotes(report),
      ...(report.otherDevices ?? []).map(({ device, why }) => `stemma: note: without ${device}: ${why}`),
      ...atEndNotes(report),
      `stemma: note: ${kept.length === 0 ? "none is kept" : `${counted(kept.length, "candidate")} kept`} by ${report.rule}; ` +
        seedText(report, isOwn),
    ],
    // Nothing could be compared.
    ...(report.candidates.every(({ figure }) => figure === null) ? { status: 1 } : {}),
  };
}

const columns: readonly Column<EvaluatedCandidate>[] = [
  { title: "CANDIDATE", value: ({ candidate }) => candidate, align: "right" },
  { title: "MODEL", value: ({ model }) => model },
  { title: "SETTINGS", value: ({ settings }) => settingsText(settings) },
  { title: "FIGURE", value: ({ figure }) => figure?.toPrecision(4), align: "right" },
  { title: "STEP", value: ({ iteration }) => iteration, align: "right" },
  {
    title: "KEPT AS",
    value: ({ saved, reason }) => (saved === undefined ? `no: ${reason ?? ""}` : nameOf(saved)),
  },
];

const deviceColumn: Column<EvaluatedCandidate> = { title: "DEVICE", value: ({ device }) => device };

function notMadeNotes({ notMade }: Pick<PlannedEvaluation, "notMade">): readonly string[] {
  return notMade.map(
    ({ name, settings, reason }) =>
      `stemma: note: no candidate of ${[name, settingsText(settings)].filter((text) => text !== "").join(", ")}: ${reason}`,
  );
}

function newWeightsNotes({ newWeights }: Pick<PlannedEvaluation, "newWeights">): readonly string[] {
  return newWeights.map(({ model, from, inherited, bytes, drawn }) => {
    const parts = [
      ...(from === null
        ? []
        : [`${counted(inherited, "tensor")} (${formatBytes(bytes)}) as ${nameOf(from)} has them`]),
      ...(drawn === 0 ? [] : [`${counted(drawn, "tensor")} drawn`]),
    ];
    return `stemma: note: new layers of ${model} begin with ${parts.join(", ")}`;
  });
}

const atEndNotes = ({ judgedAtEnd = 0 }: EvaluatedModels): readonly string[] =>
  judgedAtEnd === 0
    ? []
    : [
        `stemma: note: ${counted(judgedAtEnd, "candidate")} had to end before being judged: no line of progress told ` +
          "iteration and loss from that step on",
      ];

/** Models that are stored meanwhile may have new layers too. */
const seedText = ({ seed, newWeights, otherDevices }: EvaluatedModels, isOwn: boolean): string =>
  otherDevices !== undefined
    ? `--seed ${seed} draws the same; each device trains by its line's own seed`
    : isOwn
      ? `--seed ${seed} draws the same; whether the program trains the same is its own affair`
      : newWeights.length === 0
        ? `--seed ${seed} trains the same`
        : `--seed ${seed} draws the same, and inherits from the models stored then`;

function settingsText(settings: Readonly<Record<string, Setting>>): string {
  return Object.entries(settings)
    .map(([name, value]) => `${name}=${String(value)}`)
    .join(" ");
}
