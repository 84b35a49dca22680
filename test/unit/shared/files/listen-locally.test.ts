/** A local socket's file has its permission from the moment that it is there, whatever the umask. */
import assert from "node:assert/strict";
import { statSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { listenLocally } from "../../../../shared/files/listen-locally.js";

for (const mode of [0o600, 0o660])
  test(`a socket with mode ${mode.toString(8)}`, async (t) => {
    const folder = await mkdtemp(join(tmpdir(), "stemma-socket-"));
    const server = createServer();
    const before = process.umask(0);
    t.after(async () => {
      process.umask(before);
      server.close();
      await rm(folder, { recursive: true, force: true });
    });
    const path = join(folder, "s");
    const listening = listenLocally(server, path, mode);
    assert.equal(statSync(path).mode & 0o777, mode);
    assert.equal(process.umask(), 0);
    await listening;
    assert.equal(statSync(path).mode & 0o777, mode);
    await assert.rejects(listenLocally(createServer(), path, mode), { code: "EADDRINUSE" });
  });
