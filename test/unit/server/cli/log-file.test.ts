/** Lines of a log from a file: those about one thing, whatever else is in it. */
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { readLogFile } from "../../../../server/cli/log-file.js";
import { storyOf } from "../../../../server/cli/trace-story.js";

const versionId = "ab".repeat(32);
const line = (fields: object): string =>
  JSON.stringify({ level: 30, time: "2026-11-20T03:00:00.000Z", event: "recorded", ...fields });

describe("a log file", () => {
  let folder: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "stemma-log-"));
  });
  after(() => rm(folder, { recursive: true, force: true }));

  it("gives the lines about one version in one fleet, and counts what is no log line", async () => {
    const file = join(folder, "server.log");
    const lines = [
      line({ versionId, device: "v1", fleet: "cars" }),
      line({ versionId, device: "v2", fleet: "cars" }),
      line({ versionId, device: "v1", fleet: "trucks" }),
      line({ versionId: "cd".repeat(32), text: versionId }),
      "Started Stemma.",
      `{"level":30,"time":"soon","event":"x","versionId":"${versionId}"}`,
      `{"versionId":"${versionId}"`,
      `${"x".repeat(100_000)}${versionId}`,
      "",
      line({ versionId, device: "v1", event: "last" }),
    ];
    await writeFile(file, lines.join("\n"));
    const subject = { kind: "version", id: versionId } as const;
    const { events, skipped } = await readLogFile(file, { subject, fleet: "cars", device: "v1", limit: 9 });
    assert.deepEqual(
      events.map(({ event, level, atMs }) => [event, level, atMs]),
      [
        ["recorded", "info", Date.parse("2026-11-20T03:00:00Z")],
        ["last", "info", Date.parse("2026-11-20T03:00:00Z")],
      ],
    );
    assert.equal(skipped, 4);
    const all = await readLogFile(file, { subject, fleet: "cars", device: undefined, limit: 1 });
    assert.deepEqual(
      all.events.map(({ event }) => event),
      ["last"],
    );
    const missing = readLogFile(join(folder, "none"), {
      subject,
      fleet: "cars",
      device: undefined,
      limit: 1,
    });
    await assert.rejects(missing, { code: "FILE_MISSING" });
  });

  it("is told with the facts in the order of time, without repeating what it is about", () => {
    const event = {
      number: 1,
      level: "info",
      fields: { versionId, base: "cd".repeat(32), request: "r-1", text: "so" },
    } as const;
    const story = storyOf(
      { id: versionId, facts: [{ position: 7, type: "recorded", atMs: 20, versionId }] },
      [
        {
          where: "v1",
          events: [
            { ...event, atMs: 10, event: "trained" },
            { ...event, atMs: 20, event: "recorded" },
          ],
        },
      ],
    );
    assert.deepEqual(
      story.map(({ where, what, details }) => [where, what, details]),
      [
        ["v1", "trained", "so request=r-1"],
        ["journal", "recorded", ""],
        ["v1", "recorded", "so request=r-1"],
      ],
    );
  });
});
