/** `stemma model descendants|common|owners|successor`: how the models of a fleet descend from each other. */
import { type Column, formatBytes, formatTime } from "../../../../shared/cli/output.js";
import { counted } from "../../../../shared/printable.js";
import type { Successors, TensorOwner } from "../../../interface/api/models/lineage-definitions.js";
import { listed, plain, type Printed } from "../../plain-command.js";
import { describeBy, makerText, nameOf, savedOf, stateOf, timeOfSaving } from "../../version-text.js";

/** Returns a line that says how to see more, where a page is not the last one. */
function moreOf({
  shown,
  offset = 0,
  total,
}: {
  readonly shown: number;
  readonly offset: number | undefined;
  readonly total: number;
}): Pick<Printed, "notes"> {
  const next = offset + shown;
  return shown > 0 && next < total
    ? { notes: [`stemma: note: ${shown} of ${total} are shown; more follow with --offset ${next}`] }
    : {};
}

const descendants = plain("descendants", {
  name: "descendants",
  about: "the models that were trained from this one, directly or through others",
  takes: { model: "" },
  options: { limit: "<n> at most n (100)", offset: "<n> skip the first n" },
  print: (answer, { offset }) => ({
    ...listed(answer.descendants, {
      nameOf: ({ version }) => nameOf(version),
      columns: [
        { title: "MODEL", value: ({ version }) => nameOf(version) },
        { title: "ID", value: ({ version }) => version.versionId.slice(0, 12) },
        { title: "GENERATION", value: ({ generation }) => generation, align: "right" },
        { title: "DEVICE", value: ({ version }) => makerText(version) },
        { title: "STATE", value: ({ version }) => stateOf(version) },
        { title: "SAVED", value: ({ version }) => savedOf(version) },
      ],
      empty: answer.total === 0 ? "nothing was trained from it" : "none is left after --offset",
    }),
    data: answer,
    ...moreOf({ shown: answer.descendants.length, offset, total: answer.total }),
  }),
});

const common = plain("commonAncestor", {
  name: "common",
  about: "the newest model from which two models both descend",
  takes: { a: "", b: "" },
  print: (answer, { a, b }, { fleet }) => ({
    names: answer === null ? [] : [nameOf(answer.version)],
    text:
      answer === null
        ? `${a} and ${b} have no common ancestor in the fleet ${fleet}`
        : `${nameOf(answer.version)} (${answer.version.versionId.slice(0, 12)}), ` +
          `${trainings(answer.generations.a)} before ${a} and ${trainings(answer.generations.b)} before ${b}`,
  }),
});

function trainings(count: number): string {
  return counted(count, "training");
}

const ownerColumns: readonly Column<TensorOwner>[] = [
  { title: "OWNER", value: (row) => nameOf(row) },
  { title: "GENERATIONS AGO", value: (row) => row.generation, align: "right" },
  { title: "TENSORS", value: (row) => row.tensors.length, align: "right" },
  { title: "BYTES", value: (row) => formatBytes(row.bytes), align: "right" },
  { title: "STATE", value: (row) => row.state },
  { title: "SAVED", value: savedOfOwner },
];

function savedOfOwner({ savedAtMs, clockErrorMs, recordedAtMs }: TensorOwner): string {
  if (savedAtMs === null || recordedAtMs === null) return "-";
  return timeOfSaving({ savedAtMs, clockErrorMs, recordedAtMs });
}

const owners = plain("owners", {
  name: "owners",
  about: "which of its ancestors last changed which tensors of a model",
  takes: { model: "" },
  options: {
    all: "also ancestors of which no tensor is left",
    limit: "<n> at most n (100)",
    offset: "<n> skip the newest n",
  },
  print: (answer, { all, offset }) => ({
    ...listed(answer.owners, { nameOf, columns: ownerColumns, empty: "none is left after --offset" }),
    data: answer,
    ...(all || answer.withoutTensors === 0
      ? {}
      : {
          text: `${counted(answer.withoutTensors, "ancestor has", "ancestors have")} no tensor left in it (listed by --all)`,
        }),
    ...moreOf({ shown: answer.owners.length, offset, total: answer.total }),
  }),
});

function describeRelations(answer: Successors): Printed {
  const rows = [
    ...answer.before.map((relation) => ({ ...relation, when: "before" })),
    ...answer.after.map((relation) => ({ ...relation, when: "after" })),
  ];
  return {
    ...listed(rows, {
      nameOf,
      columns: [
        { title: "COMES", value: (row) => row.when },
        { title: "MODEL", value: (row) => nameOf(row) },
        { title: "STATE", value: (row) => row.state },
        { title: "DECLARED", value: describeDeclared },
      ],
      empty: "nothing is declared to come before or after it",
    }),
    data: answer,
  };
}

function describeDeclared({ declared }: Successors["after"][number]): string {
  if (declared === undefined) return "with the save";
  const { atMs, because, by } = declared;
  return `${formatTime(atMs)}${describeBy(by)}${because === "" ? "" : `: ${because}`}`;
}

const declaring = (
  [
    ["set", false, "declare that <successor> comes after <model>"],
    ["rm", true, "take that back"],
  ] as const
).map(([name, removes, about]) =>
  plain("setSuccessor", {
    name,
    about,
    takes: { model: "", successor: "" },
    options: { because: { text: "<text> why; it is kept with the fact", default: "" } },
    input: () => ({ remove: removes }),
    print: describeRelations,
  }),
);

const list = plain("successors", {
  name: "list",
  about: "what was declared to come before and after a model",
  takes: { model: "" },
  print: describeRelations,
});

export const commands = [
  descendants,
  common,
  owners,
  {
    name: "successor",
    about: "declare which model comes after another one, whatever it was trained from",
    commands: [...declaring, list],
  },
];
