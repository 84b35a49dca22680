/** What a device states of its power and link, and what a rollout may do by it. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { judgeConditions, readConditions } from "../../../../agent/resources/conditions.js";

const now = 1_700_000_000_000;
const settings = { file: "/run/conditions.json", validSeconds: 60 };

function read(content: string | undefined, ageMs = 0) {
  return readConditions(
    {
      stat: () =>
        Promise.resolve(
          content === undefined
            ? undefined
            : { kind: "file" as const, size: content.length, modifiedMs: now - ageMs },
        ),
      read: () => Promise.resolve(new TextEncoder().encode(content)),
    },
    { now: () => now },
    settings,
  );
}

describe("the conditions of a device", () => {
  it("are those of its file, as long as that is new", async () => {
    const stated = { power: "battery", link: "wifi" };
    assert.deepEqual(await read(JSON.stringify({ ...stated, more: 1 })), stated);
    assert.deepEqual(await read(JSON.stringify(stated), 60_000), stated);
    assert.deepEqual(await read("{}"), {});
    for (const [content, age] of [
      [undefined, 0],
      [JSON.stringify(stated), 61_000],
      [JSON.stringify(stated), -3_600_000],
      ["{", 0],
      ['{"power":"some"}', 0],
      ['{"link":"../x"}', 0],
      [JSON.stringify({ link: "wifi", more: "x".repeat(5000) }), 0],
    ] as const)
      assert.equal(typeof (await read(content, age)), "string", String(content));
    assert.equal(
      typeof (await readConditions({ stat: assert.fail, read: assert.fail }, { now: () => now }, undefined)),
      "string",
    );
  });

  it("are met only where they are stated", () => {
    const power = { power: true, links: [] as string[] };
    const links = { power: false, links: ["wifi", "ethernet"] };
    const because = (needs: typeof power, stated: Parameters<typeof judgeConditions>[1]): string =>
      judgeConditions(needs, stated).because;
    assert.equal(because(power, { power: "external" }), "");
    assert.equal(because(links, { link: "ethernet" }), "");
    assert.equal(because({ power: false, links: [] }, "nothing is known"), "");
    assert.match(because(power, { power: "battery" }), /runs on battery/);
    assert.match(because(power, {}), /power is not known/);
    assert.match(because(links, { link: "lte" }), /wifi or ethernet: it has lte/);
    assert.match(because(links, "the file is missing"), /not known \(the file is missing\)/);
    assert.match(
      because({ power: true, links: ["wifi"] }, { power: "battery", link: "lte" }),
      /battery, and for/,
    );
  });
});
