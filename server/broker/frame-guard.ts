/**
 * Puts a FrameMeter between a socket's kernel side and everything that reads it, by looking at each
 * chunk as the socket pushes it into its read buffer. Whatever reads the socket, and however it
 * buffers, a frame that is too long has closed the connection by then. Knows no broker.
 */
import type { Socket } from "node:net";
import { FrameMeter, type FrameLimits, type FrameViolation } from "./frame-meter.js";

export interface GuardPorts {
  readonly monotonic: () => number;
  readonly onViolation: (violation: FrameViolation) => void;
}

/** Guards a socket; call before anything reads from it. */
export function guardFrames(socket: Socket, limits: FrameLimits, ports: GuardPorts): FrameMeter {
  const meter = new FrameMeter(limits);
  const push = socket.push.bind(socket);
  let isClosed = false;
  socket.push = (chunk: unknown, encoding?: BufferEncoding): boolean => {
    if (isClosed && chunk !== null) return false;
    if (chunk instanceof Uint8Array) {
      const violation = meter.feed(chunk, ports.monotonic());
      if (violation !== undefined) {
        isClosed = true;
        ports.onViolation(violation);
        socket.destroy();
        return false;
      }
    }
    return push(chunk, encoding);
  };
  return meter;
}
