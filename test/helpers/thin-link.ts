/**
 * A TCP proxy on loopback that lets so many bits a second through, each way, and counts them: a thin link
 * that is really waited for.
 */
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";

export interface ThinLink {
  readonly port: number;
  /** Bytes that went towards the target so far. */
  readonly bytesUp: number;
  close(): Promise<void>;
}

/** Bytes that go at once: small against what a second lets through, so that the pace is even. */
const sliceBytes = 2048;

/** @param bitsPerSecond of each direction and connection */
export async function startThinLink(targetPort: number, bitsPerSecond: number): Promise<ThinLink> {
  const sockets = new Set<Socket>();
  let bytesUp = 0;
  const server = createServer((from) => {
    const to = connect(targetPort, "127.0.0.1");
    for (const socket of [from, to]) {
      sockets.add(socket);
      socket.setNoDelay(true);
      socket.on("error", () => {
        from.destroy();
        to.destroy();
      });
      socket.on("close", () => {
        sockets.delete(socket);
        from.destroy();
        to.destroy();
      });
    }
    void pump(from, to, bitsPerSecond, (bytes) => {
      bytesUp += bytes;
    });
    void pump(to, from, bitsPerSecond, () => undefined);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  return {
    port: typeof address === "object" ? (address?.port ?? 0) : 0,
    get bytesUp() {
      return bytesUp;
    },
    async close() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}

/** Passes on what comes, each slice when the link has had the time for it. */
async function pump(
  from: Socket,
  to: Socket,
  bitsPerSecond: number,
  passed: (bytes: number) => void,
): Promise<void> {
  let freeAtMs = performance.now();
  try {
    for await (const chunk of from as AsyncIterable<Buffer>) {
      for (let at = 0; at < chunk.length; at += sliceBytes) {
        const slice = chunk.subarray(at, at + sliceBytes);
        freeAtMs = Math.max(freeAtMs, performance.now()) + (8000 * slice.length) / bitsPerSecond;
        // A timer is late by a millisecond or so: what is owed is made up for, not forgotten.
        const waitMs = freeAtMs - performance.now();
        if (waitMs > 1)
          await new Promise((resolve) => {
            setTimeout(resolve, waitMs);
          });
        passed(slice.length);
        to.write(slice);
      }
    }
    to.end();
  } catch {
    to.destroy();
  }
}
