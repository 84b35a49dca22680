/** A device that loses power during a trial on live inputs goes on with all that it acknowledged, or has no trial. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { checkCrashStates } from "../../helpers/crash-states.js";
import { line, of, request, TrialDevice } from "../../unit/agent/trials/trials-under-test.js";

type Mark = { readonly compared: number } | "ends" | "ended";

const losses = { losses: { trial: 1, running: 2 } };

test("what was acknowledged of a trial outlives every crash, and an ended one does not come back", async () => {
  const asked = { ...request, inputs: 100 };
  await checkCrashStates<Mark>({
    name: "live trial",
    async run(files, mark) {
      const device = new TrialDevice();
      const trials = await device.open(files);
      await trials.ask(asked);
      mark({ compared: 0 });
      for (let round = 0; round < 4; round++)
        mark({ compared: (await trials.observe(line, of([losses, losses]))).compared });
      mark("ends");
      await trials.end({ ...asked, end: true });
      mark("ended");
    },
    async check(files, marks) {
      const trials = await new TrialDevice().open(files);
      const { compared, rollout } = trials.status(line) ?? {};
      const acknowledged = marks.flatMap((mark) => (typeof mark === "object" ? [mark.compared] : []));
      // After a second crash the next trial may have begun, or what is left of this one may be gone for it.
      const wasChecked = (await files.stat("/checked")) !== undefined || rollout === "later";
      if (wasChecked) assert.ok(compared === undefined || compared <= Math.max(...acknowledged, 0) + 2);
      else if (marks.includes("ended")) assert.equal(compared, undefined);
      else if (!marks.includes("ends") && acknowledged.length > 0) {
        assert.ok(compared !== undefined && compared >= Math.max(...acknowledged));
        assert.ok(compared <= Math.max(...acknowledged) + 2);
      }
      await files.makeFolder("/checked");
      await files.syncFolder("/");
      // Whatever is left, a trial can begin and be told of.
      const answer = await trials.ask({ ...asked, rollout: "later" });
      assert.ok(answer.inputs === 0 || rollout === "later");
      assert.equal((await trials.observe(line, of([losses]))).compared, answer.inputs + 1);
      await trials.stop();
    },
  });
});
