/** A fleet whose device trains by programs of its owner's own, for tests of what a server does with them. */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { TestContext } from "node:test";
import type { ReplayReport } from "../../server/interface/api/models/evaluation-schemas.js";
import { startAgentTestEnvironment, testLine, type RunningAgent } from "./agent-test-environment.js";
import { runStemmaHere } from "./run-stemma-here.js";
import { testFleet } from "./test-server.js";

export async function startRecordedFleet(t: TestContext, lines: readonly string[] = [testLine]) {
  const environment = await startAgentTestEnvironment(t, { names: lines });
  const { server, home } = environment;
  for (const line of lines.slice(1))
    await server.handle.operations.assign({ fleet: testFleet, device: "v1", line, model: "base" });
  const folder = join(home, "trainers");
  await mkdir(join(folder, "lib"), { recursive: true });
  return {
    ...environment,
    folder,
    stemma: (...args: string[]) => runStemmaHere([...args, "--fleet", testFleet], { home: server.home }),
    replay: (model: string): Promise<ReplayReport> =>
      server.handle.operations.replay({ fleet: testFleet, model }),
  };
}

/** Trains once on the base, and returns the version's id when the server has it. */
export async function trainLine({ handle, log }: RunningAgent, line = testLine): Promise<string> {
  const found = (await handle.status()).lines.find((each) => each.line === line);
  if (found?.active == null) await log.until("activated", 1, { line });
  await handle.train(line);
  const { fields } = await log.until("recorded", 1, { line });
  return String(fields["versionId"]);
}
