/** `stemma rollout plan|create|start|status|watch|report|pause|resume|abort|undo`: a version for many devices. */
import { formatTime } from "../../../../shared/cli/output.js";
import type { RolloutAnswer } from "../../../interface/api/rollouts/rollout-definitions.js";
import type { OperationInput } from "../../../interface/api/server-operations.js";
import { forceText } from "../../force-option.js";
import { listed, plain, type Choices, type PlainContext, type Printed } from "../../plain-command.js";
import { describeMember, headOfRollout } from "../../../fleet/rollout/rollout-text.js";
import { unreachedLines } from "../../../fleet/rollout/unreached.js";
import { describePlan } from "./plan-text.js";
import { optionsOfPolicy, policyOfChoices } from "./policy-options.js";
import { commands as reportCommands } from "./report.js";
import { commands as watchCommands } from "./watch.js";

export const help = `
A rollout gives a version to the devices that a selection means (docs/selections.md), wave
by wave. Each device fetches the version and measures it beside what it runs, on its own
held-out samples. It switches only where the version is not shown to be worse; where it is
worse, the device keeps what it has and the rollout stops. docs/rollouts.md explains it.
`;

const createHelp = `
Examples:
  stemma rollout plan spring soh:4 --line soh --on 'label.region=eu' --waves 2,10%,rest
  stemma rollout create spring soh:4 --line soh --on all --soak 2h --start
`;

const body = {
  name: "name of the rollout: letters, digits, - and _",
  model: "the version: name, name:version, name:tag or id",
};

const options = {
  line: { text: "<line> the line of the devices that gets it", required: true },
  on: {
    text: "<selection> which devices, such as all or 'label.region=eu and seen<7d'",
    required: true,
  },
  supersedes: "<rollout> of the same line, which it ends when it starts",
  ...optionsOfPolicy,
} as const;
type RolloutChoices = Choices<unknown, typeof body, typeof options>;

function bodyOf({
  name,
  model,
  line,
  on,
  supersedes,
  ...policy
}: RolloutChoices): Omit<OperationInput<"planRollout">, "fleet"> {
  return { name, model, line, select: on, supersedes, policy: policyOfChoices(policy) };
}

const planning = plain("planRollout", {
  name: "plan",
  about: "show which devices a rollout would reach, in which waves; change nothing",
  takes: body,
  options,
  help: createHelp,
  run: (choices, { call }) => call("planRollout", bodyOf(choices)),
  print: (plan) => ({ names: plan.waves.flat(), text: describePlan(plan) }),
});

const create = plain("createRollout", {
  name: "create",
  about: "create a rollout",
  takes: body,
  options: { ...options, start: "start it at once", force: forceText },
  help: createHelp,
  run: ({ start, force, ...choices }, { call }) =>
    call("createRollout", { ...bodyOf(choices), start, force }),
  print: (made, { start }, context) => {
    const next =
      made.policy.approval === true
        ? "another person approves it: stemma rollout approve"
        : "start it: stemma rollout start";
    const unreached = unreachedLines(made.excluded).map((each) => `  not: ${each}`);
    return describe(made, context, [...unreached, ...(start ? [] : [`${next} ${made.name}`])]);
  },
});

function describe(rollout: RolloutAnswer, { output }: PlainContext, more: readonly string[] = []): Printed {
  return { names: [rollout.name], text: output.wrap([...headOfRollout(rollout), ...more]) };
}

const status = plain(null, {
  name: "status",
  about: "how far rollouts are, and what came of each device",
  takes: { name: "[name] one rollout, device by device; without it all are listed" },
  options: {
    verdict: "<verdict> only devices with this verdict: passed, kept, worse, failed, left, unknown or none",
  },
  run: async ({ name, verdict }, { call, output }): Promise<Printed> => {
    if (name === undefined) return describeAll(await call("rollouts"));
    const found = await call("rollout", { rollout: name, excluded: true });
    const members = found.members.filter(
      (member) => verdict === undefined || (member.verdict ?? "none") === verdict,
    );
    const unreached =
      verdict === undefined ? unreachedLines(found.excluded ?? []).map((each) => `  not: ${each}`) : [];
    const rows = members.map((member) => `  ${describeMember(member)}`);
    return {
      data: { ...found, members },
      names: members.map(({ device }) => device),
      text: output.wrap([...headOfRollout(found), ...rows, ...unreached]),
    };
  },
});

function describeAll(rollouts: readonly RolloutAnswer[]): Printed {
  return listed(rollouts, {
    nameOf: (row) => row.name,
    columns: [
      { title: "ROLLOUT", value: (row) => row.name },
      { title: "MODEL", value: (row) => row.model },
      { title: "LINE", value: (row) => row.line },
      { title: "PHASE", value: (row) => row.phase },
      { title: "WAVE", value: (row) => `${row.wave}/${row.policy.waves.length}`, align: "right" },
      { title: "SWITCHED", value: (row) => String(row.devices.switched), align: "right" },
      { title: "FAILED", value: (row) => String(row.devices.worse + row.devices.failed), align: "right" },
      { title: "CREATED", value: (row) => formatTime(row.createdAtMs) },
    ],
    empty: "no rollout yet; plan one: stemma rollout plan NAME MODEL --line LINE --on all",
  });
}

const because = "<text> why, kept in the journal";

const approve = plain("approveRollout", {
  name: "approve",
  about: "agree that a rollout which another person created may start",
  takes: { rollout: "<name>" },
  options: { because },
  print: (approved, { rollout }, context) =>
    describe(approved, context, [`start it: stemma rollout start ${rollout}`]),
});

const phases = (
  [
    ["start", "running", "start a rollout that was created"],
    ["pause", "paused", "begin no wave and switch no device until it is resumed"],
    ["resume", "running", "go on with a paused rollout; what stopped it is accepted"],
    ["abort", "aborted", "end a rollout; devices that switched keep the version"],
  ] as const
).map(([name, phase, about]) =>
  plain("setRollout", {
    name,
    about,
    takes: { rollout: "<name>" },
    options: { because },
    input: () => ({ phase }),
    print: (changed, _, context) => describe(changed, context),
  }),
);

const undo = plain("undoRollout", {
  name: "undo",
  about: "end a rollout and return each device that it switched to what it ran before",
  takes: { rollout: "<name>" },
  options: { because, dryRun: "show what would be, change nothing" },
  print: (returns, { dryRun }) => ({
    names: returns.map(({ device }) => device),
    text:
      returns.length === 0
        ? "no device runs what this rollout gave; nothing to return"
        : returns
            .map(({ device, to }) =>
              to === null
                ? `${device} ran nothing before and keeps the version`
                : `${device} ${dryRun ? "would return" : "returns"} to ${to}`,
            )
            .join("\n"),
  }),
});

export const commands = [
  planning,
  create,
  status,
  ...watchCommands,
  ...reportCommands,
  approve,
  ...phases,
  undo,
];
