/**
 * Measures MQTT frames as bytes come in (MQTT 3.1.1, section 2.2) and finds those that are too
 * long or out of order before they are buffered: a broker's parser would buffer as much as a header
 * declares, up to 256 MiB. Pure: bytes in, verdict out; connections.ts applies it to a socket.
 */

export interface FrameLimits {
  readonly maxFrameBytes: number;
  readonly maxConnectBytes: number;
}
export interface FrameViolation {
  readonly reason: string;
  readonly bytes: number;
}

/** Types of control packets that a client may send, with variable length. */
const packetTypes = { connect: 1, publish: 3, subscribe: 8, unsubscribe: 10 } as const;
/**
 * Types of control packets that a client may send, with fixed length, and that length: PUBACK, PUBREC, PUBREL,
 * PUBCOMP, PINGREQ, DISCONNECT.
 */
const fixedLengths: Readonly<Record<number, number>> = { 4: 2, 5: 2, 6: 2, 7: 2, 12: 0, 14: 0 };
const maxSubscribeBytes = 4096;

export class FrameMeter {
  readonly #limits: FrameLimits;
  #type = 0;
  /** Bytes of the length field read so far; −1 while the first byte of a frame is due. */
  #lengthBytes = -1;
  #length = 0;
  #bodyLeft = 0;
  #sawConnect = false;
  #isKnown = false;
  #unknownBytes = 0;
  #frameSinceMs: number | undefined;

  constructor(limits: FrameLimits) {
    this.#limits = limits;
  }

  /** The connection's CONNECT was accepted: frames of full length may come. */
  accept(): void {
    this.#isKnown = true;
  }
  get isKnown(): boolean {
    return this.#isKnown;
  }
  /** True if the CONNECT has arrived completely. */
  get hasConnect(): boolean {
    return this.#sawConnect && this.#bodyLeft === 0;
  }
  /** The time when the incomplete frame began; undefined between frames. */
  get frameSinceMs(): number | undefined {
    return this.#frameSinceMs;
  }

  /** Takes the next bytes. A violation is final: close the connection and feed nothing more. */
  feed(chunk: Uint8Array, nowMs: number): FrameViolation | undefined {
    if (!this.#isKnown) {
      this.#unknownBytes += chunk.length;
      if (this.#unknownBytes > this.#limits.maxConnectBytes)
        return { reason: "too many bytes before the connection was accepted", bytes: this.#unknownBytes };
    }
    for (let at = 0; at < chunk.length;) {
      if (this.#bodyLeft > 0) {
        const step = Math.min(this.#bodyLeft, chunk.length - at);
        this.#bodyLeft -= step;
        at += step;
        if (this.#bodyLeft === 0) this.#frameSinceMs = undefined;
        continue;
      }
      const violation = this.#header(chunk[at++] as number, nowMs);
      if (violation !== undefined) return violation;
    }
    return undefined;
  }

  #header(byte: number, nowMs: number): FrameViolation | undefined {
    if (this.#lengthBytes < 0) {
      this.#type = byte >> 4;
      this.#lengthBytes = 0;
      this.#length = 0;
      this.#frameSinceMs = nowMs;
      return undefined;
    }
    this.#length += (byte & 0x7f) * 128 ** this.#lengthBytes++;
    if (byte >= 0x80)
      return this.#lengthBytes < 4
        ? undefined
        : { reason: "a length of more than four bytes", bytes: this.#length };
    this.#lengthBytes = -1;
    this.#bodyLeft = this.#length;
    if (this.#length === 0) this.#frameSinceMs = undefined;
    return this.#judge();
  }

  #judge(): FrameViolation | undefined {
    const isConnect = this.#type === packetTypes.connect;
    if (isConnect === this.#sawConnect)
      return {
        reason: isConnect ? "a second CONNECT" : "something else before CONNECT",
        bytes: this.#length,
      };
    this.#sawConnect = true;
    const maxBytes = this.#maxBytes();
    if (maxBytes === undefined)
      return { reason: `a packet of type ${this.#type}, which no client sends`, bytes: this.#length };
    return this.#length > maxBytes
      ? { reason: `a frame of ${this.#length} bytes where ${maxBytes} are allowed`, bytes: this.#length }
      : undefined;
  }
  #maxBytes(): number | undefined {
    switch (this.#type) {
      case packetTypes.connect:
        return this.#limits.maxConnectBytes;
      case packetTypes.publish:
        return this.#isKnown ? this.#limits.maxFrameBytes : this.#limits.maxConnectBytes;
      case packetTypes.subscribe:
      case packetTypes.unsubscribe:
        return maxSubscribeBytes;
      default:
        return fixedLengths[this.#type];
    }
  }
}
