/**
 * A server of JSON lines on a local socket: one request per line, one response per line, in order. Both
 * sockets of the agent (control, samples) use it. It does not know what the requests mean.
 *
 *     → {"id": 7, "do": "status"}
 *     ← {"id": 7, "ok": true, "result": {…}}
 *     ← {"id": 8, "ok": false, "code": "LINE_UNKNOWN", "message": "…"}
 */
import { rm } from "node:fs/promises";
import { createServer, type Server, type Socket } from "node:net";
import { SerialQueue } from "../../shared/concurrency/serial-queue.js";
import { messageOf } from "../../shared/error-text.js";
import { isStemmaError } from "../../shared/errors.js";
import { listenLocally } from "../../shared/files/listen-locally.js";
import type { Log } from "../../shared/ports.js";
import {
  requestNotJson,
  requestNotObject,
  requestWithoutDo,
  socketNotOpened,
  socketPathTooLong,
} from "./control-errors.js";

export interface Request {
  readonly id: string | number | null;
  readonly do: string;
  readonly [field: string]: unknown;
}
/** Handles one request; the resolved value is the response's `result`. */
export type Handler = (request: Request) => Promise<unknown>;

export interface JsonLineServerOptions {
  readonly path: string;
  /** 0o600: this user only; 0o660: this user's group too. */
  readonly mode: number;
  readonly maxLineBytes: number;
  readonly maxConnections: number;
  readonly log: Log;
}

/** Socket paths must be shorter than this on every system; longer ones are cut off silently. */
export const maxSocketPathBytes = 100;

const newline = "\n".charCodeAt(0);

export class JsonLineServer {
  readonly #sockets = new Set<Socket>();
  private constructor(
    private readonly server: Server,
    readonly path: string,
  ) {}

  /**
   * Listens on a Unix socket. The caller holds the home's lock, so an existing socket file belongs to a
   * process that has ended.
   * @throws PATH_TOO_LONG, FILE_FAILED
   */
  static async listen(options: JsonLineServerOptions, handler: Handler): Promise<JsonLineServer> {
    if (Buffer.byteLength(options.path) >= maxSocketPathBytes)
      throw socketPathTooLong(options.path, maxSocketPathBytes - 1);
    await rm(options.path, { force: true });
    const server = createServer();
    const lineServer = new JsonLineServer(server, options.path);
    server.maxConnections = options.maxConnections;
    server.on("connection", (socket) => {
      lineServer.#serve(socket, options, handler);
    });
    try {
      await listenLocally(server, options.path, options.mode);
    } catch (cause) {
      throw socketNotOpened(options.path, cause);
    }
    return lineServer;
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise<void>((resolve) => {
      this.server.close(() => {
        resolve();
      });
    });
    await rm(this.path, { force: true });
  }

  #serve(socket: Socket, options: JsonLineServerOptions, handler: Handler): void {
    this.#sockets.add(socket);
    socket.on("error", (error) => {
      options.log.debug("socket-error", { text: error.message });
    });
    socket.on("close", () => {
      this.#sockets.delete(socket);
    });
    let unread: Buffer = Buffer.alloc(0);
    // Serially: responses keep their order, and nothing piles up behind a slow request.
    const queue = new SerialQueue();
    socket.on("data", (chunk: Buffer) => {
      unread = unread.length === 0 ? chunk : Buffer.concat([unread, chunk]);
      for (let end = unread.indexOf(newline); end >= 0; end = unread.indexOf(newline)) {
        const line = unread.subarray(0, end);
        unread = unread.subarray(end + 1);
        socket.pause();
        void queue.run(async () => {
          const text = await respond(line, handler);
          if (!socket.destroyed) {
            socket.write(text);
            socket.resume();
          }
        });
      }
      if (unread.length > options.maxLineBytes) {
        socket.end(
          `${JSON.stringify({ id: null, ok: false, code: "USAGE", message: `A line is longer than ${options.maxLineBytes} bytes. Send smaller batches.` })}\n`,
        );
        unread = Buffer.alloc(0);
      }
    });
  }
}

/** The response to one line. Never rejects: every failure becomes a response. */
async function respond(line: Buffer, handler: Handler): Promise<string> {
  let id: Request["id"] = null;
  try {
    const value = parseJson(line);
    if (typeof value !== "object" || value === null || Array.isArray(value)) throw requestNotObject();
    const request = value as Record<string, unknown>;
    id = typeof request["id"] === "string" || typeof request["id"] === "number" ? request["id"] : null;
    if (typeof request["do"] !== "string") throw requestWithoutDo();
    return `${JSON.stringify({ id, ok: true, result: (await handler({ ...request, id, do: request["do"] })) ?? null })}\n`;
  } catch (error) {
    const code = isStemmaError(error) ? error.code : "INTERNAL";
    return `${JSON.stringify({ id, ok: false, code, message: messageOf(error) })}\n`;
  }
}

function parseJson(line: Buffer): unknown {
  try {
    return JSON.parse(line.toString("utf8")) as unknown;
  } catch (cause) {
    throw requestNotJson(cause);
  }
}
