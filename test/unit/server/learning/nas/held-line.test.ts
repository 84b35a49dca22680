/** The lease of a line: one holder at a time, which renews it, loses it by a kill, by its end, or to a faster one. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setImmediate } from "node:timers/promises";
import { HeldLine } from "../../../../../server/learning/nas/held-line.js";
import { lineLeaseMs, LineLeases } from "../../../../../server/services/context/line-leases.js";
import { isStemmaError, StemmaError } from "../../../../../shared/errors.js";
import { memoryFiles } from "../../../../helpers/files/memory-files.js";
import { manualClock, type ManualClock } from "../../../../helpers/manual-clock.js";

const line = "search";

/** A server whose leases can be lost, as by a restart, and which can be away. */
class Server {
  readonly clock = manualClock();
  leases = new LineLeases(this.clock);
  isAway = false;
  readonly files = memoryFiles();
  #drawn = 0;

  /** @param clock of the holder; one that nobody advances is that of a killed one */
  take(holder: string, clock: ManualClock = this.clock, path?: string): Promise<HeldLine> {
    return HeldLine.take({
      ...{ fleet: "f", line, holder, clock },
      random: { bytes: (count) => new Uint8Array(count).fill(++this.#drawn) },
      kept: path === undefined ? undefined : { files: this.files, path },
      operations: {
        leaseLine: async (input) => {
          await Promise.resolve();
          if (this.isAway) throw new StemmaError("SERVER_UNREACHABLE", "It is away.");
          const { id, ...lease } = this.leases.take({
            line,
            key: input.leaseKey,
            holder: input.holder,
            by: "ann",
          });
          return { lease: id, ...lease };
        },
        endLease: async ({ lease }) => {
          await Promise.resolve();
          if (this.isAway) throw new StemmaError("SERVER_UNREACHABLE", "It is away.");
          this.leases.end(lease, "its holder");
          return { lease };
        },
      },
    });
  }

  async pass(ms: number): Promise<void> {
    for (let left = ms; left > 0; left -= 5000) {
      this.clock.advance(Math.min(left, 5000));
      for (let turn = 0; turn < 10; turn++) await setImmediate();
    }
  }
}

describe("the lease of a line", () => {
  it("is given to one of two that ask at once, for as long as it is renewed", async () => {
    const server = new Server();
    const both = await Promise.allSettled([server.take("a"), server.take("b")]);
    assert.deepEqual(
      both.map(({ status }) => status),
      ["fulfilled", "rejected"],
    );
    await server.pass(10 * lineLeaseMs);
    await assert.rejects(server.take("c"), {
      code: "TRAINING_REFUSED",
      message:
        /^The line search is leased since 2023-11-14 .*: a, by ann\. .*stemma storage leases --end [0-9a-f]{32}$/,
    });
    const [held] = both;
    if (held.status !== "fulfilled") assert.fail();
    held.value.require();
    await held.value.end();
    await (await server.take("c")).end();
    assert.deepEqual(server.leases.list(), []);
  });

  it("expires after its holder was killed, or is the holder's again when that goes on", async () => {
    const server = new Server();
    await server.take("a", manualClock(), "/lease");
    await server.pass(lineLeaseMs - 1);
    await assert.rejects(server.take("b"), { code: "TRAINING_REFUSED" });
    const again = await server.take("a", manualClock(), "/lease");
    await server.pass(lineLeaseMs);
    const next = await server.take("b");
    // One that was only asleep gives devices no model under its old lease.
    assert.throws(() => server.leases.require(line, again.key), { code: "TRAINING_REFUSED" });
    assert.throws(() => server.leases.require(line, undefined), { code: "TRAINING_REFUSED" });
    server.leases.require(line, next.key);
    server.leases.require("search-2", undefined);
  });

  it("is not taken again by its holder after somebody ended it: the holder ends, and may begin anew", async () => {
    const server = new Server();
    const held = await server.take("a", server.clock, "/lease");
    assert.ok(server.leases.end(server.leases.list()[0]?.id ?? "", "bob"));
    assert.throws(() => server.leases.require(line, held.key), {
      code: "LEASE_UNKNOWN",
      message: /by bob at/,
    });
    await server.pass(20_000);
    assert.throws(() => held.require(), { code: "LEASE_UNKNOWN" });
    assert.deepEqual(server.leases.list(), []);
    const again = await server.take("a", server.clock, "/lease");
    assert.notEqual(again.key, held.key);
    await again.end();
    assert.equal(await server.files.stat("/lease"), undefined);
  });

  it("is shown by an id under which nobody else works or takes the line", async () => {
    const server = new Server();
    const held = await server.take("a");
    const [{ id: shown } = assert.fail()] = server.leases.list();
    assert.throws(
      () => server.leases.require(line, shown),
      (error) => {
        assert.ok(!JSON.stringify([error, String(error)]).includes(held.key));
        return isStemmaError(error, "TRAINING_REFUSED");
      },
    );
    assert.throws(() => server.leases.take({ line, key: shown, holder: "b", by: "bob" }), {
      code: "TRAINING_REFUSED",
    });
    assert.equal(server.leases.list()[0]?.holder, "a");
  });

  it("is the holder's again where the server was away when the search ended", async () => {
    const server = new Server();
    const held = await server.take("a", server.clock, "/lease");
    server.isAway = true;
    await held.end();
    server.isAway = false;
    await (await server.take("a", server.clock, "/lease")).end();
    assert.equal(await server.files.stat("/lease"), undefined);
  });

  it("is refused in words that a terminal may show, also for a line with control characters", () => {
    const leases = new LineLeases(manualClock());
    leases.take({ line: "search-\u001b[2J", key: "a", holder: "a" });
    assert.throws(() => leases.require("search-\u001b[2J", "b"), {
      message: /^The line search-\\u\{1b\}\[2J is/,
    });
  });

  it("outlasts a restart of the server, unless another is faster", async () => {
    const server = new Server();
    const held = await server.take("a");
    server.isAway = true;
    await server.pass(5 * lineLeaseMs);
    held.require();
    server.isAway = false;
    server.leases = new LineLeases(server.clock);
    await server.pass(20_000);
    server.leases.require(line, held.key);
    server.leases = new LineLeases(server.clock);
    const faster = await server.take("b");
    await server.pass(20_000);
    assert.throws(() => held.require(), { code: "TRAINING_REFUSED", message: /: b, by ann/ });
    faster.require();
  });
});
