import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, beforeEach, describe, it } from "node:test";
import { silentLog } from "../../../../../shared/adapters/node-ports.js";
import { nodeFiles } from "../../../../../shared/files/node-files.js";
import { keyOfSeed } from "../../../../../shared/trust/keys.js";
import type { Post } from "../../../../../server/services/webhooks/post-facts.js";
import { isWebhookGenuine } from "../../../../helpers/genuine-webhook.js";
import { WebhookRunner } from "../../../../../server/services/webhooks/webhook-runner.js";
import {
  addWebhook,
  readCursor,
  removeWebhook,
} from "../../../../../server/services/webhooks/webhook-store.js";
import { manualClock, seededRandom, type ManualClock } from "../../../../helpers/manual-clock.js";

const signer = keyOfSeed("09".repeat(32));
const fleet = "cars";
const files = nodeFiles();

describe("sending facts to webhooks", () => {
  let folder: string;
  let home: string;
  let facts: { readonly type: string }[];
  let clock: ManualClock;
  let answers: (string | undefined)[];
  let got: number[][];
  let asked: () => void;
  before(async () => (folder = await mkdtemp(join(tmpdir(), "stemma-webhooks-"))));
  after(() => rm(folder, { recursive: true, force: true }));
  beforeEach(async () => {
    home = await mkdtemp(join(folder, "home-"));
    facts = [{ type: "stored" }, { type: "other" }, { type: "stored" }];
    clock = manualClock();
    answers = [];
    got = [];
    asked = () => undefined;
  });

  /** Takes the facts, or refuses them where `answers` has a reason. */
  const post: Post = (url, headers, body) => {
    const genuine = isWebhookGenuine(signer.publicKey, headers, body, clock.now());
    const because = genuine ? answers.shift() : "the signature is wrong";
    const sent = JSON.parse(body) as { readonly facts: readonly { readonly position: number }[] };
    got.push(sent.facts.map(({ position }) => position));
    asked();
    return Promise.resolve(
      because === undefined ? { isDelivered: true } : { isDelivered: false, because: `${url}: ${because}` },
    );
  };
  const runner = (): WebhookRunner =>
    new WebhookRunner({
      files,
      home,
      clock,
      random: seededRandom(1),
      signer,
      log: silentLog(),
      post,
      journalOf: () =>
        Promise.resolve({
          head: () => ({ length: facts.length }),
          readEntry: (position) => Promise.resolve(Buffer.from(JSON.stringify(facts[position]))),
          decode: (entry) => JSON.parse(Buffer.from(entry).toString("utf8")) as { readonly type: string },
        }),
    });
  /** Advances the clock, a second at a time, until the receiver was asked so often. */
  async function untilAsked(times: number): Promise<number> {
    const startMs = clock.now();
    while (got.length < times) {
      clock.advance(1000);
      await new Promise((resolve) => setImmediate(resolve));
    }
    return clock.now() - startMs;
  }
  const record = (): Promise<void> => Promise.resolve();
  const add = (name: string, more: { readonly types?: readonly string[] } = {}): Promise<void> =>
    addWebhook(
      files,
      home,
      { name, fleet, url: "http://receiver/", madeAtMs: 0, ...more },
      { cursor: { position: 0 }, record },
    );

  it("sends what is there, then what comes, and goes on where it was after a restart", async () => {
    await add("ops");
    const first = runner();
    first.start();
    await untilAsked(1);
    facts.push({ type: "c" });
    await untilAsked(2);
    await first.close();
    assert.deepEqual(got, [[0, 1, 2], [3]]);
    facts.push({ type: "d" });
    const second = runner();
    second.start();
    await untilAsked(3);
    await second.close();
    assert.deepEqual(got[2], [4]);
    assert.equal((await readCursor(files, home, "ops"))?.position, 5);
  });

  it("sends the same facts until they are taken, less and less often, for days", async () => {
    await add("ops");
    answers = Array.from({ length: 20 }, () => "it answered 503");
    const running = runner();
    running.start();
    const pausesMs: number[] = [];
    for (let failures = 1; failures <= 20; failures++) {
      await untilAsked(failures);
      while (running.stateOf("ops").failures !== failures)
        await new Promise((resolve) => setImmediate(resolve));
      pausesMs.push((running.stateOf("ops").againAtMs ?? 0) - clock.now());
    }
    // Between half of the pause and all of it; what passes before the answer is looked at here shortens it.
    assert.ok((pausesMs[0] ?? Infinity) <= 1000, `${pausesMs[0]}`);
    const last = pausesMs.at(-1) ?? 0;
    assert.ok(last > 250_000 && last <= 600_000, `${last}`);
    assert.equal(running.stateOf("ops").failures, 20);
    assert.match(running.stateOf("ops").because ?? "", /503/);
    facts.push({ type: "c" });
    await untilAsked(21);
    await running.close();
    assert.deepEqual(got[20], [0, 1, 2, 3]);
    assert.deepEqual(Object.keys(running.stateOf("ops")), ["deliveredAtMs"]);
  });

  it("lets no webhook wait for another", async () => {
    await add("broken");
    await add("well", { types: ["stored"] });
    answers = ["refused"];
    const running = runner();
    running.start();
    await untilAsked(2);
    await running.close();
    assert.deepEqual(got.toSorted((a, b) => a.length - b.length)[0], [0, 2]);
  });

  it("passes many facts that it does not take once, and not again with each look", async () => {
    facts = Array.from({ length: 150 }, () => ({ type: "other" }));
    await add("ops", { types: ["stored"] });
    const running = runner();
    running.start();
    while ((await readCursor(files, home, "ops"))?.position !== 150) {
      clock.advance(1000);
      await new Promise((resolve) => setImmediate(resolve));
    }
    await running.close();
    assert.deepEqual(got, []);
  });

  it("sends nothing to one that was removed", async () => {
    await add("ops");
    answers = ["refused"];
    const running = runner();
    running.start();
    await untilAsked(1);
    await removeWebhook(files, home, "ops", record);
    // Another one is asked while the removed one would be asked again.
    await add("later", { types: ["stored"] });
    await untilAsked(2);
    facts.push({ type: "stored" });
    await untilAsked(3);
    await running.close();
    assert.deepEqual(got.slice(1), [[0, 2], [3]]);
    assert.equal(await readCursor(files, home, "ops"), undefined);
  });

  it("sends everything again where its cursor was damaged, and nothing where the webhooks were", async () => {
    await add("ops");
    await writeFile(join(home, "webhook-cursors.json"), "{ not JSON");
    const running = runner();
    running.start();
    await untilAsked(1);
    await running.close();
    assert.deepEqual(got, [[0, 1, 2]]);
    await writeFile(join(home, "webhooks.json"), "{}");
    await assert.rejects(add("more"), { code: "CONFIG_INVALID" });
  });
});
