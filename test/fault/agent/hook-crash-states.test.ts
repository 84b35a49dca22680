/** Crashes at any moment while a line switches with hooks: it runs a whole model, and none that a hook refuses. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { CurrentStore } from "../../../agent/current/current-store.js";
import { Activator } from "../../../agent/lines/activator.js";
import { Outbox } from "../../../agent/outbox/outbox.js";
import { activeVersion } from "../../../agent/outbox/outbox-state.js";
import { silentLog } from "../../../shared/adapters/node-ports.js";
import { StemmaError } from "../../../shared/errors.js";
import type { Files } from "../../../shared/ports.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { saveBase, testProfile, tinySource } from "../../helpers/agent-fixtures.js";
import { anyRelease } from "../../helpers/any-release.js";
import { checkCrashStates } from "../../helpers/crash-states.js";
import { freeDisk } from "../../helpers/free-disk.js";
import { manualClock, seededRandom } from "../../helpers/manual-clock.js";

const home = "/home/agent";
const clock = manualClock();
let openings = 0;

/** @param refused the hook after a switch refuses these, by the order in which they were saved */
async function openAll(files: Files, refused: readonly number[]) {
  const random = seededRandom(`hooks ${openings++}`);
  const outbox = await Outbox.open({ files, folder: `${home}/outbox`, clock, random, log: silentLog() });
  const current = await CurrentStore.open(files, home, clock);
  const versions = (): readonly Hash[] => outbox.state.lines.get("cam")?.versions ?? [];
  const activator = new Activator({
    releases: anyRelease,
    hooks: {
      run: (moment, { to, isReturn }) =>
        moment === "afterSwitch" && !isReturn && refused.includes(versions().indexOf(to.versionId))
          ? Promise.reject(new StemmaError("HOOK_FAILED", "refused"))
          : Promise.resolve(),
    },
    files,
    outbox,
    current,
    profile: testProfile({ activation: "after-outbox" }),
    clock,
    log: silentLog(),
    clockErrorMs: () => null,
    session: () => 1,
    diskUse: () => Promise.resolve(freeDisk),
  });
  await activator.reconcile(["cam"]);
  return { outbox, current, activator, versions };
}

type Mark = { readonly runs: number };

for (const refused of [[], [1], [0, 2]])
  it(`a line whose hook refuses ${refused.join(" and ") || "none"} of three models`, async () => {
    await checkCrashStates<Mark>({
      name: `hooks ${refused.join()}`,
      run: async (files, mark) => {
        const { outbox, activator } = await openAll(files, refused);
        for (const number of [0, 1, 2]) {
          const versionId = await saveBase(outbox, tinySource(String(number)), "cam");
          const switching = activator.activate("cam", versionId);
          if (refused.includes(number)) await assert.rejects(switching, { code: "HOOK_FAILED" });
          else {
            await switching;
            mark({ runs: number });
          }
        }
        await outbox.close();
      },
      check: async (files, marks) => {
        const { outbox, current, versions } = await openAll(files, refused);
        const active = await current.active("cam");
        assert.equal(active, activeVersion(outbox.state, "cam"), "the link and the journal agree");
        const number = active === undefined ? -1 : versions().indexOf(active);
        if (active !== undefined) assert.equal(await current.isSound(active), true);
        assert.ok(!refused.includes(number), `it runs ${number}, which the hook refuses`);
        assert.ok(number >= (marks.at(-1)?.runs ?? -1), "a switch that was done is not undone");
        await outbox.close();
      },
    });
  });
