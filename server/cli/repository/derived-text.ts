/** Derived models of a query as a table: what each has of its source, and what is new in it. */
import { formatBytes, type Column } from "../../../shared/cli/output.js";
import type { DerivedModel, SavedDerivedModels } from "../../interface/api/models/query-definitions.js";
import { listed, type Printed } from "../plain-command.js";
import { nameOf } from "../version-text.js";

/** Names of layers that are shown of one model. */
const maxNames = 6;

const columns: readonly Column<DerivedModel>[] = [
  { title: "MODEL", value: nameOfDerived },
  { title: "FROM", value: ({ source }) => nameOf(source) },
  { title: "LAYERS", value: ({ network }) => network?.layers, align: "right" },
  {
    title: "INHERITED",
    value: ({ network }) => network && formatBytes(network.inherited.bytes),
    align: "right",
  },
  { title: "DRAWN", value: ({ network }) => network && formatBytes(network.drawn.bytes), align: "right" },
  { title: "CHANGES", value: changesOf },
];

function nameOfDerived({ name, saved }: DerivedModel): string {
  return saved === undefined ? name : nameOf({ name, version: saved.version });
}

function changesOf({ network, saved }: DerivedModel): string {
  const { added = [], removed = [], reshaped = [] } = network ?? {};
  const changes = [
    ...added.map((name) => `+${name}`),
    ...removed.map((name) => `-${name}`),
    ...reshaped.map((name) => `~${name}`),
  ];
  const more = changes.length - maxNames;
  const text = changes.slice(0, maxNames).join(" ") + (more > 0 ? ` and ${more} more` : "");
  return saved?.isNew === false ? `${text} (there already)` : text;
}

/** @param seed that the new weights of saved models were drawn by; undefined: nothing was saved */
export function derivedText(derived: readonly DerivedModel[], seed?: SavedDerivedModels["seed"]): Printed {
  const isSaved = seed !== undefined;
  const made = derived.filter(({ network }) => network !== undefined);
  const refused = derived.filter(({ network }) => network === undefined);
  const draws = made.some(({ network }) => (network?.drawn.bytes ?? 0) > 0);
  return {
    ...listed(made, {
      nameOf: nameOfDerived,
      columns,
      empty: derived.length === 0 ? "no version matches" : "no model can be made",
    }),
    notes: [
      ...refused.map(refusalOf),
      ...made.flatMap(extraInputsOf),
      ...(isSaved || made.length === 0
        ? []
        : ["stemma: note: nothing is saved; --save makes these versions"]),
      ...(typeof seed === "string" && draws
        ? [`stemma: note: new weights were drawn by the seed ${seed}; --seed ${seed} draws the same`]
        : []),
    ],
    ...(isSaved && refused.length > 0 ? { status: 1 } : {}),
  };
}

function refusalOf({ name, source, reason = "" }: DerivedModel): string {
  return `stemma: note: ${name} cannot be made of ${nameOf(source)}: ${reason}`;
}

/** The inputs that only a look at the network tells. */
function extraInputsOf({ name, network }: DerivedModel): readonly string[] {
  const extra = (network?.inputs ?? []).filter(({ isExtra }) => isExtra);
  if (extra.length === 0) return [];
  const texts = extra.map(
    (input) => `${input.name} [${input.shape.map((extent) => extent ?? "?").join(", ")}]`,
  );
  return [`stemma: note: ${name} needs inputs besides those that the slice begins with: ${texts.join(", ")}`];
}
