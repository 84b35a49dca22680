/** Opens a home, and saves one model for each line of its input. Prints what was acknowledged, or refused. */
import { createInterface } from "node:readline";
import { isStemmaError } from "../../../../../shared/errors.js";
import { openNodeHome } from "../../../../../server/storage/repository/node-home.js";
import { openRepository } from "../../../../../server/storage/repository/open-repository.js";
import { modelOfSeed } from "./kill-models.js";
import { unhashedModelOf } from "../../../../integration/server/storage/repository/harness.js";

const [, , path] = process.argv as [string, string, string];
const say = (fact: object): void => {
  process.stdout.write(`${JSON.stringify(fact)}\n`);
};
function refusalOf(error: unknown): object {
  if (!isStemmaError(error)) throw error;
  const cause = isStemmaError(error.cause) ? error.cause.code : null;
  return { refused: error.code, cause, message: error.message };
}

try {
  const home = await openNodeHome(path);
  const repository = await openRepository(home, "fleet-a");
  say({ open: true });
  for await (const seed of createInterface({ input: process.stdin })) {
    try {
      const { summary } = await repository.save(unhashedModelOf(modelOfSeed(seed)), { name: seed });
      say({ saved: summary.name });
    } catch (error) {
      say(refusalOf(error));
    }
  }
  await repository.close();
  await home.close();
} catch (error) {
  say(refusalOf(error));
}
