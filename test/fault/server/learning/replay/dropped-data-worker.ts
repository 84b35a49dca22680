/** Applies the policies of a fleet and collects, in a process that a test kills. Prints each step when it begins. */
import { openFleet } from "./dropped-fleet.js";

const [, , path] = process.argv as [string, string, string];
const fleet = "cars";
const say = (step: string): void => {
  process.stdout.write(`${JSON.stringify({ step })}\n`);
};
const { operations, repository } = await openFleet(path);
for (;;) {
  say("drop");
  await operations.applyDropPolicies({ fleet });
  say("collect");
  await repository.collect(await repository.planCollection());
}
