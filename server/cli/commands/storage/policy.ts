/** `stemma storage policy show|set|unset|apply`: drop the tensors of proved models after a while. */
import { StemmaError } from "../../../../shared/errors.js";
import { formatBytes, formatTime } from "../../../../shared/cli/output.js";
import { counted } from "../../../../shared/printable.js";
import { defaultDropMinutes, dropPolicy } from "../../../interface/api/stores/drop-schemas.js";
import type { CallOutput } from "../../../interface/api/server-operations.js";
import { printScope } from "../../../storage/repository/retention/retention-plan.js";
import { readBy } from "../../input-option.js";
import { listed, plain, type Printed } from "../../plain-command.js";
import { scopeOfChoices, scopeOptions, type ScopeChoices } from "../../scope-choices.js";
import { nameOf } from "../../version-text.js";
import { describeDrop } from "./drop.js";

type Policies = CallOutput<"dropPolicies">;

function describePolicy({ afterDays, maxMinutes, dataAfterDays }: Policies[number]["policy"]): string {
  const data =
    dataAfterDays === undefined ? "" : `; stored data of proved models go after ${dataAfterDays} days`;
  return afterDays === null
    ? `are kept${data}`
    : `of proved models go after ${afterDays} days, where a recovery trains for at most ${maxMinutes} min`;
}

const show = plain("dropPolicies", {
  name: "show",
  about: "the policies that are set",
  print: (rows, _, { fleet }) =>
    listed(rows, {
      nameOf: (row) => printScope(row.scope),
      columns: [
        { title: "OF", value: (row) => printScope(row.scope) },
        { title: "TENSORS", value: ({ policy }) => describePolicy(policy) },
        { title: "SET", value: (row) => formatTime(row.setAtMs) },
        { title: "BY", value: (row) => row.by },
      ],
      empty: `no policy is set in the fleet ${fleet}: tensors go only by stemma storage drop`,
    }),
});

const { shape } = dropPolicy;
const setOptions = {
  ...scopeOptions,
  after: {
    text: "<days> days after they were recorded",
    read: readBy("--after", shape.afterDays.unwrap()),
  },
  keep: "keep all tensors, whatever a wider policy says",
  dataAfter: {
    text: "<days> with --keep: days after which the stored data of proved models go; these cannot be replayed again",
    read: readBy("--data-after", shape.dataAfterDays.unwrap()),
  },
  maxMinutes: {
    text: `<n> ${shape.maxMinutes.description} (${defaultDropMinutes})`,
    read: readBy("--max-minutes", shape.maxMinutes),
  },
} as const;

const set = plain("setDropPolicy", {
  name: "set",
  about: "set a policy; it takes effect when policies are applied next",
  options: { ...setOptions, force: "also for a line that is probably misspelt" },
  input: ({ after, keep, dataAfter, maxMinutes = defaultDropMinutes, force, ...scope }) => {
    if (keep === (after !== undefined))
      throw new StemmaError("USAGE", "Say when tensors go with --after DAYS, or that they stay with --keep.");
    const data = dataAfter === undefined ? {} : { dataAfterDays: dataAfter };
    const afterDays = keep ? null : (after ?? null);
    return { scope: scopeOfChoices(scope), policy: { afterDays, maxMinutes, ...data }, force };
  },
  print: describeChange,
});

const unset = plain("setDropPolicy", {
  name: "unset",
  about: "remove a policy: the next wider one then applies, or none",
  options: scopeOptions,
  input: (choices) => ({ scope: scopeOfChoices(choices), policy: null }),
  print: describeChange,
});

function describeChange(rows: Policies, choices: ScopeChoices): Printed {
  const wanted = printScope(scopeOfChoices(choices));
  const policy = rows.find(({ scope }) => printScope(scope) === wanted)?.policy;
  const described = policy === undefined ? "no policy of its own" : `tensors ${describePolicy(policy)}`;
  return {
    names: rows.map((row) => printScope(row.scope)),
    text: `${wanted}: ${described}; see what goes with: stemma storage policy apply --dry-run`,
  };
}

const apply = plain("applyDropPolicies", {
  name: "apply",
  about: "drop now what the policies say; storage gc then frees the space",
  options: { dryRun: "only show what would be dropped" },
  print: (report, { dryRun }) => ({
    names: report.dropped.map(({ versionId }) => versionId),
    text: [...describeDrop(report, dryRun), ...describeDataDrop(report.data, dryRun)].join("\n"),
  }),
});

function describeDataDrop(data: CallOutput<"applyDropPolicies">["data"], isDry: boolean): readonly string[] {
  if (data === undefined) return [];
  const { dropped, kept, freedBytes } = data;
  const verb = isDry ? "would be dropped" : "dropped";
  return [
    ...dropped.map(
      (row) =>
        `${nameOf(row)}: data of its training ${verb}, ${formatBytes(row.dataBytes)}, of which ` +
        `${formatBytes(row.freedBytes)} nothing else needs; it cannot be replayed again`,
    ),
    ...kept.map((row) => `${nameOf(row)}: its data stay: ${row.because}`),
    `data of ${counted(dropped.length, "model")} ${verb}, ${formatBytes(freedBytes)} to be freed by stemma storage gc`,
  ];
}

export const commands = [
  {
    name: "policy",
    about: "drop the tensors of proved models after a while: for the fleet, a line or a name",
    helpsAll: true,
    help: `
A policy drops the tensors of models that this server proved by a replay, some days after they were
recorded: a recovery trains them again. It never replays anything itself: see what is proved with
stemma replay list, and prove with stemma replay run. A name's policy overrides its line's, a
line's overrides the fleet's. A server applies them with its retention rules, once a day.

A policy that keeps tensors can drop the stored data of proved models instead: what was proved
stays so, but cannot be replayed again. Data that another model, or a registered name, needs stay.

  stemma storage policy set --after 30 --max-minutes 5
  stemma storage policy set --keep --line engine-wear
  stemma storage policy set --keep --data-after 90 --name soh
  stemma storage policy apply --dry-run
  stemma storage gc
`,
    commands: [show, set, unset, apply],
  },
];
