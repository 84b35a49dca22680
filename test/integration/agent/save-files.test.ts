/**
 * Models that another program trained, from the file to the server: over the local socket of a running agent, and
 * with a command while none runs.
 */
import assert from "node:assert/strict";
import { readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { callAgent } from "../../../agent/control/json-line-client.js";
import { readRunFile } from "../../../agent/home/agent-home.js";
import { saveWithoutAgent } from "../../../agent/main.js";
import type { SavedFile } from "../../../agent/saving/save-file.js";
import { silentLog } from "../../../shared/adapters/node-ports.js";
import { isStemmaError } from "../../../shared/errors.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import { testProfile } from "../../helpers/agent-fixtures.js";
import {
  isOfVersion,
  ofBase,
  startAgentTestEnvironment,
  testLine,
} from "../../helpers/agent-test-environment.js";
import { testFleet } from "../../helpers/test-server.js";

it("reports and activates a model that a program submits, with the agent running or not", async (t) => {
  const { server, home, startAgent } = await startAgentTestEnvironment(t);
  const first = await startAgent();
  await first.log.until("activated", 1, ofBase);
  const model = new Uint8Array(await readFile(join(home, "current", testLine, "model.safetensors")));
  const write = async (name: string): Promise<string> => {
    model[model.length - 1] = (model.at(-1) ?? 0) ^ 1;
    model[model.length - 5] = name.length;
    const path = join(home, name);
    await writeFile(path, model);
    return path;
  };

  const { models, samples } = first.handle.sockets;
  assert.equal((await stat(models)).mode & 0o777, 0o660);
  assert.equal((await stat(join(home, "run"))).mode & 0o777, 0o700);
  const request = { do: "save", line: testLine, file: await write("one"), metrics: { accuracy: 0.9 } };
  const saved = (await callAgent(models, request)) as SavedFile;
  assert.deepEqual([saved.isNew, saved.sequence, saved.changed], [true, 1, 1]);
  await first.log.until("activated", 1, isOfVersion(saved.versionId));
  assert.deepEqual(await callAgent(models, request), {
    ...saved,
    isNew: false,
    changed: 0,
    newTensorBytes: 0,
  });
  // Between trainings, by the running agent: this file has no outputs.
  const checked = { ...request, again: true, check: { file: request.file } };
  await assert.rejects(callAgent(models, checked), (error) => isStemmaError(error, "DATASET_MALFORMED"));
  for (const [socket, name] of [
    [samples, "save"],
    [models, "samples"],
    [models, "status"],
  ] as const)
    await assert.rejects(callAgent(socket, { ...request, do: name }), (error) =>
      isStemmaError(error, "USAGE"),
    );
  await assert.rejects(callAgent(models, { ...request, line: "other" }), (error) =>
    isStemmaError(error, "LINE_UNKNOWN"),
  );
  assert.equal(typeof (await readRunFile(nodeFiles(), home)).models, "string");
  const options = { home, profile: { ...testProfile() }, config: { format: 1 }, log: silentLog() };
  const two = await write("two!");
  await assert.rejects(saveWithoutAgent(options, testLine, { file: two }), (error) =>
    isStemmaError(error, "HOME_LOCKED"),
  );
  await first.handle.close();

  const offline = await saveWithoutAgent(options, testLine, { file: two });
  assert.deepEqual([offline.isNew, offline.base, offline.sequence], [true, saved.versionId, 2]);
  const second = await startAgent();
  await second.log.until("activated", 1, isOfVersion(offline.versionId));
  const listed = await server.handle.operations.models({ fleet: testFleet, device: "v1" });
  assert.deepEqual(
    listed.map(({ versionId }) => versionId).sort(),
    [saved.versionId, offline.versionId].sort(),
  );
});
