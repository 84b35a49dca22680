/** Finds what keeps a running server from doing all of its work, for /healthz and metrics. */
import { hasDiskSpace } from "./services/context/room-for-models.js";
import type { ServerProblem } from "./interface/http/routes/service.js";
import type { MemoryWatch } from "./operations/configuration/memory-watch.js";
import type { Home } from "./storage/repository/home.js";
import type { Parts } from "./parts.js";

/** The time that /healthz waits for a tier. */
const maxTierAnswerMs = 2000;

/** Finds the problems that keep the server from doing all of its work. */
export async function problemsOf(
  home: Home,
  { clockGuard, memory }: Pick<Parts, "clockGuard" | "memory">,
): Promise<readonly ServerProblem[]> {
  return [...clockGuard.problems, ...problemsOfMemory(memory), ...(await problemsOfStorage(home))];
}

/** The problem without figures: it is answered without a token. */
function problemsOfMemory({ problem }: MemoryWatch): readonly ServerProblem[] {
  if (problem === undefined) return [];
  const { code } = problem;
  const message =
    code === "MEMORY_FULL"
      ? "The server's memory is full: models are refused, and devices try again. Its log says what to do."
      : "The server's memory will be full soon, and models are refused then. Its log says when, and what to do.";
  return [{ code, message }];
}

async function problemsOfStorage(home: Home): Promise<readonly ServerProblem[]> {
  const tiers = (await home.tiers.unreachable(maxTierAnswerMs)).map(({ tier }) => ({
    // Answered without a token: neither the folder nor the cause.
    code: "TIER_UNREACHABLE",
    message: `The storage tier ${tier} cannot be reached: complete recoveries of old versions fail, and nothing is lost. \`stemma storage tier list\` states why.`,
  }));
  if (await hasDiskSpace(home)) return tiers;
  const message =
    "The server's disk is full: models are refused, and devices try again. Free some space, for example with `stemma storage gc`.";
  return [{ code: "DISK_FULL", message }, ...tiers];
}
