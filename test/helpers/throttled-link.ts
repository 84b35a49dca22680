/** A TCP proxy on loopback that limits the bit rate in each direction in real time, and counts bytes. */
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";

export interface ThrottledLink {
  readonly port: number;
  /** Bytes sent to the target so far. */
  readonly bytesUp: number;
  close(): Promise<void>;
}

/** Bytes of one write: small compared with the rate per second, so that the pace is even. */
const sliceBytes = 2048;

/** @param bitsPerSecond the rate of each direction of each connection */
export async function startThrottledLink(targetPort: number, bitsPerSecond: number): Promise<ThrottledLink> {
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

/** Forwards data slice by slice, each one when the link has had time to carry it. */
async function pump(
  from: Socket,
  to: Socket,
  bitsPerSecond: number,
  onForwarded: (bytes: number) => void,
): Promise<void> {
  let freeAtMs = performance.now();
  try {
    for await (const chunk of from as AsyncIterable<Buffer>) {
      for (let offset = 0; offset < chunk.length; offset += sliceBytes) {
        const slice = chunk.subarray(offset, offset + sliceBytes);
        freeAtMs = Math.max(freeAtMs, performance.now()) + (8000 * slice.length) / bitsPerSecond;
        // Timers fire about a millisecond late; computing from `freeAtMs` makes up for that.
        const waitMs = freeAtMs - performance.now();
        if (waitMs > 1)
          await new Promise((resolve) => {
            setTimeout(resolve, waitMs);
          });
        onForwarded(slice.length);
        to.write(slice);
      }
    }
    to.end();
  } catch {
    to.destroy();
  }
}
