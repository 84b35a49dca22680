/** Each member of a rollout's policy has an option, whose text becomes a value that may be asked for and stored. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import {
  optionsOfPolicy,
  policyOfChoices,
} from "../../../../../../server/cli/commands/rollout/policy-options.js";
import { policyOf } from "../../../../../../server/fleet/rollout/policy.js";
import {
  defaultPolicy,
  policyMembers,
  storedPolicy,
  wholePolicy,
} from "../../../../../../shared/journal/facts/rollout-policy.js";

/** A text of each option, and the member that it makes. */
const examples: Readonly<Record<string, readonly [text: string | true, member: object]>> = {
  waves: ["2, 10%,rest", { waves: ["2", "10%", "rest"] }],
  soak: ["2h", { soakMinutes: 120 }],
  waveTimeout: ["30m", { timeoutMinutes: 30 }],
  level: ["0.1", { level: 0.1 }],
  margin: ["0.01", { margin: 0.01 }],
  maxFailed: ["0.2", { maxFailed: 0.2 }],
  minAnswered: ["1", { minAnswered: 1 }],
  own: ["keep", { own: "keep" }],
  unmeasured: ["switch", { unmeasured: "switch" }],
  onFailure: ["undo", { onFailure: "undo" }],
  atOnce: ["8", { atOnce: 8 }],
  samples: ["500", { samples: 500 }],
  maxSlowdown: ["1.5", { maxSlowdown: 1.5 }],
  maxMoreMemory: ["16MiB", { maxMoreMemoryMb: 16 }],
  maxChange: ["0.05", { maxChange: 0.05 }],
  live: ["100", { live: { inputs: 100, minutes: 720, maxFailed: 0 } }],
  wait: [true, { wait: true }],
  approval: [true, { approval: true }],
  deadline: ["48h", { deadlineMinutes: 2880 }],
  window: ["mon-fri 22:00-05:00", { windows: ["mon-fri 22:00-05:00"] }],
  maxRate: ["2MB", { maxBytesPerSecond: 2_000_000 }],
  priority: ["3", { priority: 3 }],
  onlyOn: ["power", { onlyOnPower: true }],
  link: ["wifi,ethernet", { links: ["wifi", "ethernet"] }],
};

/** The value of an option as the command line makes it. */
function valueOf(name: string, text: string | true): unknown {
  const { read } = (optionsOfPolicy[name] ?? {}) as { readonly read?: (text: string) => unknown };
  return text === true || read === undefined ? text : read(text);
}

void describe("options of a rollout's policy", () => {
  for (const [name, [text, member]] of Object.entries(examples))
    void test(`--${name} ${text} makes ${JSON.stringify(member)}`, () => {
      const asked = policyOfChoices({ [name]: valueOf(name, text) });
      assert.deepEqual(asked, member);
      const policy = policyOf(asked);
      assert.deepEqual(policy, { ...defaultPolicy, ...member });
      assert.deepEqual(wholePolicy.parse(policy), policy);
      assert.deepEqual(storedPolicy.parse(policy), policy);
    });

  void test("every member is reached by an option", () => {
    const reached = Object.values(examples).flatMap(([, member]) => Object.keys(member));
    assert.deepEqual(reached.toSorted(), Object.keys(policyMembers).toSorted());
    assert.deepEqual(
      Object.keys(optionsOfPolicy).toSorted(),
      [...Object.keys(examples), "liveWithin", "liveMaxFailed"].toSorted(),
    );
  });

  void test("the bounds of a trial on live inputs want such a trial", () => {
    assert.deepEqual(policyOfChoices({ live: 5, liveWithin: 60, liveMaxFailed: 0.1 }), {
      live: { inputs: 5, minutes: 60, maxFailed: 0.1 },
    });
    assert.throws(() => policyOfChoices({ liveWithin: 60 }), { code: "USAGE" });
  });
});
