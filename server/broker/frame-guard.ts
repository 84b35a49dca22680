/**
 * Measures the MQTT frames of a socket before anything reads them: it examines each chunk when the socket
 * pushes it into its read buffer. A frame that is too long therefore closes the connection before any reader
 * can buffer it. Knows no broker.
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
