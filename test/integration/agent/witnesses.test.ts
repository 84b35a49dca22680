/** Witnesses that a device pins: it installs what the server offers once enough of them have cosigned the journal. */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { it } from "node:test";
import type { Hash } from "../../../shared/tensor/tensor.js";
import {
  importBase,
  isOfVersion,
  startAgentTestEnvironment,
  testLine,
} from "../../helpers/agent-test-environment.js";
import { testWitness } from "../../helpers/test-witness.js";
import { testFleet } from "../../helpers/test-server.js";

it("a device that pins two of three witnesses waits for the second one, and for each later version", async (t) => {
  const { server, startAgent } = await startAgentTestEnvironment(t);
  const { operations } = server.handle;
  const names = ["witness.example/w1", "witness.example/w2", "other.example/w"];
  const witnesses = names.map(testWitness);
  const shown = () => operations.journalCheckpoint({ fleet: testFleet });
  const versionOf = async (model: string): Promise<Hash> =>
    (await operations.model({ fleet: testFleet, model })).versionId;
  const isRefused = (versionId: Hash) => (fields: Readonly<Record<string, unknown>>) =>
    fields["versionId"] === versionId && String(fields["text"]).includes("COSIGNATURES_MISSING");
  const cosign = async (text: string, by: readonly number[]): Promise<void> => {
    const lines = by.map((index) => witnesses[index]?.cosign(text, 1_800_000_000) ?? "");
    await operations.cosignJournal({ fleet: testFleet, checkpoint: text + lines.join("") });
  };
  const [home, base] = [await mkdtemp(join(tmpdir(), "stemma-witnessed-")), await versionOf("base")];
  t.after(() => rm(home, { recursive: true, force: true }));
  const device = { fleet: testFleet, device: "strict", line: testLine };
  const enrolment = await server.enroll("strict", [testLine], { [testLine]: "base" });
  const { origin } = await shown();
  const pinned = { origin, threshold: 2, keys: witnesses.map(({ vkey }) => vkey) };
  const agent = await startAgent({ enrolment, home, witnesses: pinned });

  await agent.log.until("offer-failed", 1, isRefused(base));
  const { text } = await shown();
  await cosign(text, [0, 0]);
  await agent.log.until("offer-failed", 2, isRefused(base));
  assert.equal((await agent.handle.status()).lines[0]?.active, null);
  // The journal has grown since the first one cosigned: the second cosigns the same state.
  await cosign(text, [2]);
  await agent.log.until("activated", 1, isOfVersion(base));

  // What it trained itself needs nobody. The server's next model does.
  const trained = await agent.handle.train(testLine);
  await agent.log.until("released", 1, isOfVersion(trained.versionId));
  await importBase(server, "next", "7", 3);
  const next = await versionOf("next");
  await operations.assign({ ...device, model: "next" });
  await agent.log.until("offer-failed", 1, isRefused(next));
  await cosign((await shown()).text, [1, 2]);
  await agent.log.until("activated", 1, isOfVersion(next));
});
