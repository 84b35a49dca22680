/** States that are asked of a device: whatever it answers, what is written is bounded and what it means is known. */
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { askForState, type StateAnswer } from "../../../../../server/learning/replay/asked-states.js";
import { isStemmaError, StemmaError } from "../../../../../shared/errors.js";
import { sha256 } from "../../../../../shared/tensor/hash.js";
import { keptStatePartBytes } from "../../../../../shared/wire/kept-states.js";

const state = Buffer.from(Array.from({ length: 3 * keptStatePartBytes + 7 }, (_, at) => at % 251));
const asked = { device: "van", versionId: sha256("version"), step: 4, maxBytes: 10 * keptStatePartBytes };
interface Reply {
  readonly code: string;
  readonly result: unknown;
}
type Device = (at: number) => Reply;
const honest: Device = (at) => ({
  code: "",
  result: { bytes: state.length, data: state.subarray(at, at + keptStatePartBytes).toString("base64") },
});
const answering =
  (change: object): Device =>
  (at) => ({
    code: "",
    result: { ...(honest(at).result as object), ...(at === 0 ? {} : change) },
  });

describe("a state that a device is asked for", () => {
  let folder: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "stemma-states-"));
  });
  after(async () => {
    await rm(folder, { recursive: true, force: true });
  });

  let asks: unknown[] = [];
  async function ask(
    device: Device,
    { isOnline = true, untilMs = Infinity, signal = new AbortController().signal } = {},
  ): Promise<StateAnswer> {
    asks = [];
    const fleet = {
      isOnline: () => isOnline,
      command: (_: string, { body }: { readonly body: unknown }) => {
        asks.push(body);
        return Promise.resolve().then(() => device((body as { readonly at: number }).at));
      },
    };
    const clock = { monotonic: () => 1000 };
    return await askForState(fleet, asked, { path: join(folder, "state"), clock, untilMs, signal });
  }

  it("comes in parts, in whatever order they are answered", async () => {
    assert.deepEqual(await ask(honest), { kind: "came" });
    assert.ok(state.equals(await readFile(join(folder, "state"))));
    assert.equal(asks.length, 4);
  });

  it("is lost where the device has it no more, does not know the command, or answers wrongly", async () => {
    const wrong: readonly Device[] = [
      () => ({ code: "NOT_FOUND", result: { message: "x" } }),
      () => ({ code: "USAGE", result: { message: "x" } }),
      () => ({ code: "", result: null }),
      () => ({ code: "", result: { bytes: 0, data: "" } }),
      () => ({ code: "", result: { bytes: 1e300, data: "" } }),
      () => ({ code: "", result: { bytes: 5, data: "!" } }),
      answering({ data: "" }),
      answering({ data: Buffer.alloc(2 * keptStatePartBytes).toString("base64") }),
      answering({ bytes: state.length + 1 }),
    ];
    for (const device of wrong) assert.equal((await ask(device)).kind, "gone");
  });

  it("is lost where the device's answer is none", async () => {
    const broken: Device = () => {
      throw new StemmaError("ENVELOPE_MALFORMED", "x");
    };
    assert.equal((await ask(broken)).kind, "gone");
  });

  it("of ten gigabytes is not written", async () => {
    const huge: Device = (at) => ({ code: "", result: { ...(honest(at).result as object), bytes: 10e9 } });
    assert.equal((await ask(huge)).kind, "gone");
    assert.equal(asks.length, 1);
    assert.equal((await stat(join(folder, "state"))).size, 0);
  });

  it("is awaited where the device is away, does not answer, or not now", async () => {
    const silent: readonly Device[] = [
      () => ({ code: "HISTORY_UNPROVEN", result: null }),
      () => {
        throw new StemmaError("TIMED_OUT", "x");
      },
      () => {
        throw new StemmaError("SERVER_UNREACHABLE", "x");
      },
    ];
    for (const device of silent) assert.equal((await ask(device)).kind, "silent");
    assert.equal((await ask(honest, { isOnline: false })).kind, "silent");
    assert.equal((await ask(honest, { untilMs: 999 })).kind, "silent");
    assert.equal(asks.length, 1);
  });

  it("is not asked for any more once the check is stopped", async () => {
    await assert.rejects(ask(honest, { signal: AbortSignal.abort() }), (error) =>
      isStemmaError(error, "TRAINING_STOPPED"),
    );
  });
});
