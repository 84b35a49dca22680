/**
 * The members of a rollout's policy, each once: what may be asked for, what a fact may have stored, the default, and
 * the option of the command line. Facts, API, commands and defaults follow from this table, in its order.
 */
import * as z from "zod";
import { linkKind, maxLiveInputs, maxLiveMinutes } from "./rollout-limits.js";

/** The option of a member on the command line. */
export interface PolicyOption {
  /** The option in camel case: `maxRate` for --max-rate. */
  readonly name: string;
  /** The form of the value, in <…>, and the help. A flag has no form. */
  readonly text: string;
  /** The reading of the text; absent: a number, a flag, or one of `choices`. */
  readonly unit?: "minutes" | "bytes" | "mebibytes" | "words" | "lines";
  /** The only texts; a flag's member is true where its only one is given. */
  readonly choices?: readonly string[];
}

export interface PolicyMember {
  /** The values that a person may ask for. */
  readonly asked: z.ZodType;
  /** The values that a journal may have, where these are more: bounds may have been wider, or will be. */
  readonly stored?: z.ZodType;
  /** The value where none is asked for; without a default the member is absent then. */
  readonly default?: unknown;
  readonly option?: PolicyOption;
}

const shortText = z.string().min(1).max(256);
const text = z.string().max(4096);
const share = z.number().min(0).max(1);
const minutes = z.number().min(0).max(1_000_000);
const count = z.number().int().min(0).max(Number.MAX_SAFE_INTEGER);

/** The device's own software runs the version beside what the line runs before it may switch. */
export const liveTrialMembers = {
  inputs: {
    asked: z.number().int().min(1).max(maxLiveInputs).describe("Live inputs on which both are compared"),
    stored: count.min(1),
    option: {
      name: "live",
      text: "<inputs> have devices run it on so many live inputs first (default: none)",
    },
  },
  minutes: {
    asked: z
      .number()
      .positive()
      .max(maxLiveMinutes)
      .describe("In which the software has to tell of so many, while the agent runs; else it is unknown"),
    stored: minutes,
    default: 12 * 60,
    option: {
      name: "liveWithin",
      text: "<duration> in which they tell of so many (default: 12h)",
      unit: "minutes",
    },
  },
  maxFailed: {
    asked: share.describe("Highest share of the inputs on which the version may fail"),
    default: 0,
    option: {
      name: "liveMaxFailed",
      text: "<share> of live inputs on which it may fail (default: 0)",
    },
  },
} as const satisfies Record<string, PolicyMember>;

/** The defaults are those of a rollout without options: one device, a tenth, the rest; whoever is worse stops it. */
export const policyMembers = {
  waves: {
    asked: z
      .array(shortText)
      .min(1)
      .max(64)
      .describe(
        "Devices of each wave: a number, a share of those selected such as 10%, or rest for the last",
      ),
    stored: z.array(text).min(1).max(64),
    default: ["1", "10%", "rest"],
    option: {
      name: "waves",
      text: "<sizes> devices of each wave: numbers, shares, rest (default: 1,10%,rest)",
      unit: "words",
    },
  },
  soakMinutes: {
    asked: minutes.describe("Minutes to wait after a wave"),
    default: 0,
    option: { name: "soak", text: "<duration> wait after each wave (default: 0)", unit: "minutes" },
  },
  timeoutMinutes: {
    asked: minutes.describe("After so many minutes a wave waits for no device any more"),
    default: 24 * 60,
    option: {
      name: "waveTimeout",
      text: "<duration> after this a wave waits for no device (default: 24h)",
      unit: "minutes",
    },
  },
  level: {
    asked: z
      .number()
      .gt(0)
      .lt(1)
      .describe("Highest probability that a version which is nowhere worse is found to be worse"),
    stored: share,
    default: 0.05,
    option: {
      name: "level",
      text: "<share> probability to call an equal version worse (default: 0.05)",
    },
  },
  margin: {
    asked: z
      .number()
      .min(0)
      .describe(
        "Mean difference of the losses up to which the version is not worse; 0.01: one sample in a hundred",
      ),
    default: 0,
    option: { name: "margin", text: "<loss> mean difference of losses that is allowed (default: 0)" },
  },
  maxFailed: {
    asked: share.describe("Highest share of a wave's devices on which it may be worse or fail"),
    default: 0,
    option: { name: "maxFailed", text: "<share> of a wave that may be worse or fail (default: 0)" },
  },
  minAnswered: {
    asked: share.describe("Lowest share of a wave's devices that must answer"),
    default: 0.5,
    option: { name: "minAnswered", text: "<share> of a wave that must answer (default: 0.5)" },
  },
  own: {
    asked: z
      .enum(["replace", "keep"])
      .describe("keep: a device that trained its own model keeps it where that is better on its samples"),
    default: "replace",
    option: {
      name: "own",
      text: "<policy> what happens to models that devices trained (default: replace)",
      choices: ["replace", "keep"],
    },
  },
  unmeasured: {
    asked: z
      .enum(["fail", "switch"])
      .describe("What a device does that has no samples, or nothing that measures its model"),
    default: "fail",
    option: {
      name: "unmeasured",
      text: "<policy> devices that cannot compare (default: fail)",
      choices: ["fail", "switch"],
    },
  },
  onFailure: {
    asked: z.enum(["pause", "undo"]),
    default: "pause",
    option: {
      name: "onFailure",
      text: "<policy> what the rollout does then (default: pause)",
      choices: ["pause", "undo"],
    },
  },
  atOnce: {
    asked: z.number().int().min(1).max(10_000).describe("Devices that fetch and measure at the same time"),
    stored: count.min(1),
    default: 50,
    option: {
      name: "atOnce",
      text: "<devices> that fetch and measure at the same time (default: 50)",
    },
  },
  samples: {
    asked: z.number().int().min(1).describe("Held-out samples that a device measures by; absent: all"),
    option: { name: "samples", text: "<n> held-out samples that a device measures by (default: all)" },
  },
  maxSlowdown: {
    asked: z
      .number()
      .positive()
      .describe("Gate: how many times as long a sample may take as with what the device runs; absent: any"),
    option: {
      name: "maxSlowdown",
      text: "<times> that a sample may take as long as before (default: any)",
    },
  },
  maxMoreMemoryMb: {
    asked: z
      .number()
      .min(0)
      .describe("Gate: MiB of memory that it may need more than what the device runs; absent: any"),
    option: {
      name: "maxMoreMemory",
      text: "<size> that it may need, such as 16MiB (default: any)",
      unit: "mebibytes",
    },
  },
  maxChange: {
    asked: z
      .number()
      .min(0)
      .describe(
        "Gate: share of samples that may get another class, or mean difference of the outputs' numbers; absent: any",
      ),
    option: {
      name: "maxChange",
      text: "<share> of samples with another class, or of numbers (default: any)",
    },
  },
  live: {
    asked: z
      .object(askedOf(liveTrialMembers))
      .describe("A trial on the live inputs of each device, which its own software runs; absent: none"),
    stored: z.looseObject(storedOf(liveTrialMembers)),
  },
  wait: {
    asked: z
      .boolean()
      .describe("A wave that no device can join waits for devices that come later; absent: it ends"),
    option: { name: "wait", text: "for devices that come later, where none can take part now" },
  },
  approval: {
    asked: z.boolean().describe("It starts only after another person than its creator has approved it"),
    option: { name: "approval", text: "start only after another person has approved it" },
  },
  deadlineMinutes: {
    asked: minutes.gt(0).describe("So many minutes after its start it ends; absent: never"),
    stored: minutes,
    option: {
      name: "deadline",
      text: "<duration> after its start, when it ends (default: never)",
      unit: "minutes",
    },
  },
  windows: {
    asked: z
      .array(shortText)
      .max(64)
      .describe(
        'Times of the week in which devices are asked, such as "mon-fri 22:00-05:00", by their label time-zone (Europe/Paris) or utc-offset (+02:00), else UTC',
      ),
    stored: z.array(text).max(64),
    option: {
      name: "window",
      text: '<times> ask devices only then, "mon-fri 22:00-05:00" (repeatable)',
      unit: "lines",
    },
  },
  maxBytesPerSecond: {
    asked: z
      .number()
      .int()
      .min(1024)
      .describe("Bytes a second that all its devices are sent together at most; absent: no limit"),
    stored: count.min(1),
    option: {
      name: "maxRate",
      text: "<size> bytes a second to all its devices together, such as 2MB",
      unit: "bytes",
    },
  },
  priority: {
    asked: z
      .number()
      .int()
      .min(0)
      .max(1000)
      .describe("Where several open rollouts of a line mean a device, the highest goes first; absent: 0"),
    stored: count,
    option: {
      name: "priority",
      text: "<n> of open rollouts of a line the highest goes first (default: 0)",
    },
  },
  onlyOnPower: {
    asked: z
      .boolean()
      .describe("A device fetches and measures only while it states that it has external power"),
    option: { name: "onlyOn", text: "<condition> send nothing to devices otherwise", choices: ["power"] },
  },
  links: {
    asked: z
      .array(linkKind)
      .min(1)
      .max(16)
      .describe("And only while it states one of these kinds of link; absent: on any"),
    stored: z.array(text).max(16),
    option: {
      name: "link",
      text: "<kinds> send nothing over another link: kinds such as wifi,ethernet",
      unit: "words",
    },
  },
} as const satisfies Record<string, PolicyMember>;

type Members = Readonly<Record<string, PolicyMember>>;
type AskedShape<Table extends Members> = { readonly [Key in keyof Table]: Table[Key]["asked"] };
type PolicyShape = {
  readonly [Key in keyof typeof policyMembers]: (typeof policyMembers)[Key] extends {
    readonly default: unknown;
  }
    ? (typeof policyMembers)[Key]["asked"]
    : z.ZodExactOptional<(typeof policyMembers)[Key]["asked"]>;
};

/** The values that may be asked for, by member. */
export function askedOf<Table extends Members>(table: Table): AskedShape<Table> {
  return Object.fromEntries(
    Object.entries(table).map(([name, { asked }]) => [name, asked]),
  ) as AskedShape<Table>;
}

/** The values that a fact may have, by member; those that `isOptional` names may be absent. */
function storedOf(
  table: Members,
  isOptional: (member: PolicyMember) => boolean = () => false,
): Readonly<Record<string, z.ZodType>> {
  return Object.fromEntries(
    Object.entries(table).map(([name, member]) => {
      const stored = member.stored ?? member.asked;
      return [name, isOptional(member) ? stored.optional() : stored];
    }),
  );
}

function hasNoDefault(member: PolicyMember): boolean {
  return member.default === undefined;
}

/** A whole policy: members without a default may be absent. */
export const wholePolicy = z.object(
  Object.fromEntries(
    Object.entries(policyMembers).map(([name, member]) => [
      name,
      hasNoDefault(member) ? member.asked.exactOptional() : member.asked,
    ]),
  ) as unknown as PolicyShape,
);

/** The policy by which a rollout goes on, and stops. */
export type RolloutPolicy = Immutable<z.infer<typeof wholePolicy>>;
type Immutable<Value> = {
  readonly [Key in keyof Value]: Value[Key] extends object | undefined ? Immutable<Value[Key]> : Value[Key];
};

export type LiveTrialPolicy = NonNullable<RolloutPolicy["live"]>;

/** A policy as a journal has it. */
export const storedPolicy = z.looseObject(storedOf(policyMembers, hasNoDefault));

/** The policy of a rollout without options. */
export const defaultPolicy = Object.fromEntries(
  Object.entries(policyMembers)
    .filter(([, member]) => !hasNoDefault(member))
    .map(([name, member]) => [name, (member as PolicyMember).default]),
) as unknown as RolloutPolicy;
