/**
 * Asks a device for states of a training that it committed to, part by part. Whatever comes is bounded before it is
 * written; whether it is the state that was asked for, the engine finds out.
 */
import { open } from "node:fs/promises";
import * as z from "zod";
import type { Clock } from "../../../shared/ports.js";
import { isStemmaError } from "../../../shared/errors.js";
import { messageOf } from "../../../shared/error-text.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { keptStateCommand, keptStatePartBytes } from "../../../shared/wire/kept-states.js";
import type { LiveFleet } from "../../services/context/operations-context.js";
import { spotCheckStopped } from "./replay-errors.js";

/** Parts that are asked for at a time, and milliseconds until an answer is given up. */
const window = 16;
const answerMs = 30_000;

export interface AskedState {
  readonly device: string;
  readonly versionId: Hash;
  /** Steps that are done in it. */
  readonly step: number;
  /** Bytes of a state of this model, at most. */
  readonly maxBytes: number;
}

/** `gone`: the device says that it has it no more, or answers wrongly; `silent`: it does not answer now. */
export type StateAnswer =
  { readonly kind: "came" } | { readonly kind: "gone" | "silent"; readonly because: string };

const answer = z.object({
  bytes: z.number().int().min(1).max(Number.MAX_SAFE_INTEGER),
  data: z.base64().max(2 * keptStatePartBytes),
});

class WrongAnswer extends Error {}
/** An answer that may come later. */
class Silence extends Error {}
/** Codes by which a device says that it cannot answer now. */
const laterCodes: ReadonlySet<string> = new Set(["TIMED_OUT", "HISTORY_UNPROVEN"]);

export interface StatePlace {
  /** The file that is written. */
  readonly path: string;
  readonly clock: Pick<Clock, "monotonic">;
  /** The time by the monotonic clock until which all of it has to come. */
  readonly untilMs: number;
  readonly signal: AbortSignal;
}

/** @throws TRAINING_STOPPED when aborted */
export async function askForState(
  fleet: Pick<LiveFleet, "command" | "isOnline">,
  asked: AskedState,
  { path, clock, untilMs, signal }: StatePlace,
): Promise<StateAnswer> {
  const { device, maxBytes } = asked;
  if (!fleet.isOnline(device)) return { kind: "silent", because: `${device} is not connected` };
  const file = await open(path, "w");
  try {
    const { bytes, data } = await part(fleet, asked, 0);
    if (bytes > maxBytes)
      throw new WrongAnswer(`its state has ${bytes} bytes, and one has ${maxBytes} at most`);
    const write = async (at: number, content: Buffer): Promise<void> => {
      if (content.length !== Math.min(keptStatePartBytes, bytes - at))
        throw new WrongAnswer("a part is cut short");
      await file.write(content, 0, content.length, at);
    };
    await write(0, data);
    for (let at = keptStatePartBytes; at < bytes; at += window * keptStatePartBytes) {
      if (signal.aborted) throw spotCheckStopped();
      if (clock.monotonic() > untilMs) throw new Silence(`${device} sends too slowly`);
      const places = Array.from({ length: window }, (_, index) => at + index * keptStatePartBytes);
      await Promise.all(
        places
          .filter((place) => place < bytes)
          .map(async (place) => {
            const next = await part(fleet, asked, place);
            if (next.bytes !== bytes) throw new WrongAnswer("it has another length in another answer");
            await write(place, next.data);
          }),
      );
    }
    return { kind: "came" };
  } catch (error) {
    if (error instanceof WrongAnswer) return { kind: "gone", because: error.message };
    if (error instanceof Silence) return { kind: "silent", because: error.message };
    if (isStemmaError(error, "TIMED_OUT") || isStemmaError(error, "SERVER_UNREACHABLE"))
      return { kind: "silent", because: messageOf(error) };
    // An answer that nobody can read is none, or a device could end every check with an error.
    if (isStemmaError(error, "ENVELOPE_MALFORMED")) return { kind: "gone", because: messageOf(error) };
    throw error;
  } finally {
    await file.close();
  }
}

async function part(
  fleet: Pick<LiveFleet, "command">,
  { device, versionId, step }: AskedState,
  at: number,
): Promise<{ readonly bytes: number; readonly data: Buffer }> {
  const { code, result } = await fleet.command(
    device,
    { name: keptStateCommand, body: { versionId, step, at } },
    answerMs,
  );
  if (code === "USAGE") throw new WrongAnswer("its agent does not know spot checks: update it");
  if (laterCodes.has(code)) throw new Silence(`${device} answers ${code}`);
  if (code === "NOT_FOUND") throw new WrongAnswer(`${device} does not have it any more`);
  if (code !== "") throw new WrongAnswer(`it answers ${code.slice(0, 40)}`);
  const parsed = answer.safeParse(result);
  if (!parsed.success) throw new WrongAnswer("its answer is malformed");
  return { bytes: parsed.data.bytes, data: Buffer.from(parsed.data.data, "base64") };
}
