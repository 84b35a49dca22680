// Coded streams that devices share: one coding serves the plan of a rollout and everybody who fetches after it. What
// nobody uses any more goes after a while, when room is needed, or when its version is retired.
import assert from "node:assert/strict";
import { it } from "node:test";
import {
  CodedDownloads,
  type CodedDownload,
} from "../../../../../server/fleet/ingest/downloads/coded-downloads.js";
import { silentLog } from "../../../../../shared/adapters/node-ports.js";
import { StemmaError } from "../../../../../shared/errors.js";
import type { Files, Log } from "../../../../../shared/ports.js";
import {
  codecFormat,
  firstCodecFormat,
  maxEncodedBytes,
} from "../../../../../shared/wire/coding/encodings.js";
import { nextEventLoopTurn } from "../../../../helpers/agent-test-environment.js";
import {
  releaseAndUpdate,
  updateBytes,
  type ReleaseAndUpdate,
} from "../../../../helpers/release-and-update.js";

const folder = "/home/out";
const minuteMs = 60_000;

class Server {
  /** How often a model was coded. */
  codings = 0;
  constructor(
    readonly given: ReleaseAndUpdate,
    readonly coded: CodedDownloads,
  ) {}

  static async start(spoolBytes = 100 * updateBytes): Promise<Server> {
    const given = await releaseAndUpdate();
    const log: Log = {
      ...silentLog(),
      debug: (event) => {
        if (event === "model-coded") server.codings++;
      },
      warn: (event, { message }: { readonly message?: unknown } = {}) =>
        assert.fail(`${event}: ${String(message)}`),
    };
    const limits = { coding: true, leaseMs: 1000, spoolBytes };
    const server = new Server(given, await CodedDownloads.open({ ...given, log, folder, limits }));
    return server;
  }

  async fetch(device: string, codec = firstCodecFormat): Promise<CodedDownload> {
    const { update, release, refs } = this.given;
    const { versionId } = update;
    const transfer = "00".repeat(8);
    const terms = { codec, references: [release.versionId] };
    const fetch = {
      type: "fetch",
      versionId,
      transfer,
      objects: refs,
      blockBytes: 0,
      part: 0,
      parts: 1,
    } as const;
    const coded = await this.coded.acquire(device, update, { ...fetch, ...terms }, refs);
    assert.ok(coded);
    return coded;
  }
  plannedLength(): Promise<number> {
    const { update, release, refs } = this.given;
    const ids = [release.versionId];
    return this.coded.codedLength(update, {
      tensors: refs.map(({ id }) => id),
      against: { bases: ids, references: ids },
      format: firstCodecFormat,
    });
  }
  async files(): Promise<number> {
    return (await this.given.files.list(folder)).length;
  }
  /** Lets time pass, a minute at a time, as the timers need it. */
  async pass(minutes: number): Promise<void> {
    for (let minute = 0; minute < minutes; minute++) {
      this.given.clock.advance(minuteMs);
      for (let turn = 0; turn < 10; turn++) await nextEventLoopTurn();
    }
  }
}

it("codes an update once for the plan and for all devices that fetch it, also one after the other", async () => {
  const server = await Server.start();
  const planned = await server.plannedLength();
  assert.ok(planned < updateBytes / 10);
  const [first, second] = await Promise.all([server.fetch("v1"), server.fetch("v2")]);
  assert.deepEqual([first.byteLength, second.byteLength], [planned, planned]);
  await first.release();
  await second.release();
  const third = await server.fetch("v3");
  const target = new Uint8Array(third.byteLength);
  assert.equal(await third.objects[0]?.readAt?.(0, target), true);
  await third.release();
  assert.equal(server.codings, 1);
  await server.coded.close();
  assert.equal(await server.files(), 0);
});

it("keeps a stream while it is used, and a quarter of an hour longer", async () => {
  const server = await Server.start();
  const download = await server.fetch("v1");
  await server.pass(60);
  assert.equal(await server.files(), 1);
  await download.release();
  await server.pass(10);
  assert.equal(await server.files(), 1);
  await server.pass(10);
  assert.equal(await server.files(), 0);
  await (await server.fetch("v2")).release();
  assert.equal(server.codings, 2);
});

it("removes a stream of a version that was retired when nobody uses it", async () => {
  const server = await Server.start();
  const download = await server.fetch("v1");
  await server.given.repository.retire(server.given.update.versionId, "erased");
  await server.pass(2);
  assert.equal(await server.files(), 1);
  await download.release();
  await server.pass(1);
  assert.equal(await server.files(), 0);
});

it("removes what nobody uses for what is asked for now", async () => {
  const server = await Server.start(maxEncodedBytes(updateBytes));
  await (await server.fetch("v1")).release();
  const download = await server.fetch("v2", codecFormat);
  assert.equal(await server.files(), 1);
  await download.release();
  await (await server.fetch("v3", codecFormat)).release();
  assert.equal(server.codings, 2);
  await (await server.fetch("v1")).release();
  assert.equal(server.codings, 3);
});

it("leaves no file where a download ends after the server began to stop", async () => {
  const server = await Server.start();
  const download = await server.fetch("v1");
  await server.coded.close();
  await download.release();
  assert.equal(await server.files(), 0);
});

it("tells a plan the length where the disk or the limit leaves no room, and leaves nothing behind", async () => {
  const length = await (await Server.start()).plannedLength();
  const without = await Server.start(0);
  assert.equal(await without.plannedLength(), length);
  assert.equal(await without.files(), 0);
  const given = await releaseAndUpdate();
  const warnings: string[] = [];
  const log: Log = {
    ...silentLog(),
    warn: (event, { code }: { readonly code?: unknown } = {}) => {
      warnings.push(`${event} ${String(code)}`);
    },
  };
  const files: Files = {
    ...given.files,
    open: (path, mode) =>
      path.startsWith(folder)
        ? Promise.reject(new StemmaError("DISK_FULL", "The disk is full."))
        : given.files.open(path, mode),
  };
  const limits = { coding: true, leaseMs: 1000, spoolBytes: 100 * updateBytes };
  const full = new Server(given, await CodedDownloads.open({ ...given, files, log, folder, limits }));
  assert.equal(await full.plannedLength(), length);
  assert.equal(await full.files(), 0);
  assert.deepEqual(warnings, ["model-not-coded DISK_FULL"]);
});

it("removes what a killed process left", async () => {
  const given = await releaseAndUpdate();
  await given.files.makeFolder(folder);
  const left = await given.files.open(`${folder}/0a-1.coded`, "create");
  await left.close();
  const limits = { coding: true, leaseMs: 1000, spoolBytes: 0 };
  const server = new Server(given, await CodedDownloads.open({ ...given, log: silentLog(), folder, limits }));
  assert.equal(await server.files(), 0);
});
