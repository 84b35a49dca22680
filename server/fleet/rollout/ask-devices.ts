/** Asks devices whether their power and their link are such as a rollout wants, and which gates they can answer. */
import { mapConcurrent } from "../../../shared/concurrency/map-concurrent.js";
import { defined, type Defined } from "../../../shared/defined.js";
import { messageOf } from "../../../shared/error-text.js";
import { isStemmaError } from "../../../shared/errors.js";
import type { RolloutPolicy } from "../../../shared/journal/facts/rollout-policy.js";
import { conditionAnswer, type ConditionNeeds } from "../../../shared/wire/device-conditions.js";
import { gateAnswers, type GateAnswers } from "../../../shared/wire/gate-answers.js";
import type { LiveFleet } from "../../services/context/operations-context.js";

/** Devices that a plan asks, and how many at a time. */
const plannedAsks = { most: 200, atOnce: 16 };
const answerMs = 5_000;

/** Returns the conditions that the rollout asks for; undefined: none. */
export function needsOf({
  onlyOnPower = false,
  links = [],
}: Pick<RolloutPolicy, "onlyOnPower" | "links">): ConditionNeeds | undefined {
  return onlyOnPower || links.length > 0 ? { power: onlyOnPower, links: [...links] } : undefined;
}

/**
 * Returns why a connected device has to wait, in its own words; undefined if it need not. What it does not
 * tell counts as no.
 */
export async function whyDeferred(
  live: Pick<LiveFleet, "command">,
  device: string,
  needs: ConditionNeeds | undefined,
): Promise<string | undefined> {
  if (needs === undefined) return undefined;
  try {
    const { code, result } = await live.command(device, { name: "conditions", body: needs }, answerMs);
    const answer = conditionAnswer.safeParse(result);
    if (code !== "" || !answer.success) return "its agent does not tell of its power and link";
    return answer.data.allowed ? undefined : answer.data.because.slice(0, 500);
  } catch (error) {
    if (!isStemmaError(error)) throw error;
    return messageOf(error);
  }
}

/** Returns which of these devices would wait now, and why; of many only the first are asked. */
export async function deferredNow(
  live: Pick<LiveFleet, "command" | "isOnline">,
  devices: readonly string[],
  needs: ConditionNeeds | undefined,
): Promise<readonly { readonly device: string; readonly because: string }[]> {
  if (needs === undefined) return [];
  const answers = await askEach(live, devices, (device) => whyDeferred(live, device, needs));
  return answers.flatMap(({ device, answer }) => (answer === undefined ? [] : [{ device, because: answer }]));
}

/** Returns the gates that these devices can answer for a line; of many only the first are asked. */
export async function gatesNow(
  live: Pick<LiveFleet, "command" | "isOnline">,
  devices: readonly string[],
  line: string,
): Promise<readonly ({ readonly device: string } & Defined<GateAnswers>)[]> {
  const answers = await askEach(live, devices, async (device): Promise<GateAnswers> => {
    const untold = "its agent does not tell";
    try {
      const { code, result } = await live.command(device, { name: "gates", body: { line } }, answerMs);
      const told = gateAnswers.safeParse(result);
      return code === "" && told.success ? told.data : { losses: untold, outputs: untold, live: untold };
    } catch (error) {
      if (!isStemmaError(error)) throw error;
      const because = messageOf(error);
      return { losses: because, outputs: because, live: because };
    }
  });
  return answers.map(({ device, answer: { measuredBy, ...answer } }) => ({
    device,
    ...answer,
    ...defined({ measuredBy }),
  }));
}

async function askEach<Answer>(
  live: Pick<LiveFleet, "isOnline">,
  devices: readonly string[],
  ask: (device: string) => Promise<Answer>,
): Promise<readonly { readonly device: string; readonly answer: Answer }[]> {
  const asked = devices.filter((device) => live.isOnline(device)).slice(0, plannedAsks.most);
  return mapConcurrent(asked, plannedAsks.atOnce, async (device) => ({ device, answer: await ask(device) }));
}
