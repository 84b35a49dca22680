/**
 * Keeps the time that this device believes in its home (`time.json`). An enrolment that a person brings begins it
 * again, and so does `stemma agent trust --replace`; a renewal does not. The clock of the device is not asked.
 */
import { join } from "node:path";
import * as z from "zod";
import { writeDurably } from "../../shared/files/durable-write.js";
import type { Clock, Files, Log } from "../../shared/ports.js";
import { certificatesBeginMs } from "../../shared/trust/certificates/verify-chain.js";
import type { Enrolment } from "../../shared/trust/enrolment.js";
import { parseJson } from "../../shared/trust/keys.js";
import {
  beginTime,
  connectionMs,
  ownerStated,
  permanentMs,
  presentMs,
  serverLeft,
  serverStated,
  type LearnedTime,
  type OwnerTime,
} from "./learned-time.js";

const fileSchema = z.strictObject({
  format: z.literal(1),
  /** The enrolment that this time began with. */
  generation: z.number().int().min(0),
  /** The time that was learned for good, in milliseconds since 1970. */
  timeMs: z.number().min(0),
  /** The number of the owner's newest statement; 0: none came. */
  number: z.number().int().min(0),
});
type TimeFile = z.infer<typeof fileSchema>;

export interface DeviceTimeParts {
  readonly enrolment: Pick<Enrolment, "generation" | "identity" | "ownerCertificate">;
  readonly clock: Pick<Clock, "monotonic">;
}
export interface KeptTimeParts extends DeviceTimeParts {
  readonly files: Files;
  readonly home: string;
  readonly log: Pick<Log, "warn">;
}

/** Time by which what is stored may be behind. */
const storeStepMs = 3_600_000;

const pathIn = (home: string): string => join(home, "time.json");
/** Written by a command, which must not write what a running agent writes. */
const forgetPathIn = (home: string): string => join(home, "time.forget");

export class DeviceTime {
  #learned: LearnedTime;
  #stored: TimeFile | undefined;
  #storing: Promise<void> = Promise.resolve();

  private constructor(
    private readonly parts: DeviceTimeParts,
    begin: OwnerTime,
    private readonly kept?: KeptTimeParts,
  ) {
    this.#learned = beginTime(begin, parts.clock.monotonic());
  }

  /** The time of an enrolment, which is kept nowhere. */
  static ofEnrolment(parts: DeviceTimeParts): DeviceTime {
    return new DeviceTime(parts, { timeMs: enrolledMs(parts.enrolment), number: 0 });
  }

  /** @param earlierMs what an agent had learned that kept no such file yet */
  static async open(
    parts: KeptTimeParts,
    earlierMs: () => Promise<number> = () => Promise.resolve(0),
  ): Promise<DeviceTime> {
    const { files, home, enrolment } = parts;
    const isForgotten = (await files.stat(forgetPathIn(home))) !== undefined;
    const stored = isForgotten ? forgotten(enrolment) : await readTime(parts);
    const isOfEnrolment = stored?.generation === enrolment.generation;
    const timeMs = isOfEnrolment
      ? stored.timeMs
      : Math.max(enrolledMs(enrolment), stored === undefined ? await earlierMs() : 0);
    const time = new DeviceTime(parts, { timeMs, number: stored?.number ?? 0 }, parts);
    if (isOfEnrolment && !isForgotten) time.#stored = stored;
    else await time.store();
    if (isForgotten) await files.remove(forgetPathIn(home));
    return time;
  }

  /** The earliest that it can be now, whatever any server says. */
  get permanentMs(): number {
    return permanentMs(this.#learned, this.#atMs);
  }

  /** The time by which the device works. */
  get presentMs(): number {
    return presentMs(this.#learned, this.#atMs);
  }

  /** The time by which a server's certificate is judged. */
  get connectionMs(): number {
    return connectionMs(this.#learned, this.#atMs);
  }

  /** The connected server has signed that it is this time there. */
  serverStated(serverMs: number): void {
    this.#learned = serverStated(this.#learned, serverMs, this.#atMs);
  }

  /** The connection ended. */
  serverLeft(): void {
    this.#learned = serverLeft(this.#learned);
  }

  /** Takes what the owner signed; its signatures were verified. Returns whether it is new here, and then durable. */
  async ownerStated(statement: OwnerTime): Promise<boolean> {
    const before = this.#learned;
    this.#learned = ownerStated(before, statement, this.#atMs);
    if (this.#learned === before) return false;
    await this.store();
    return true;
  }

  /** Stores what was learned for good, where it is later by that much than what is stored. */
  async storeIfLater(stepMs = storeStepMs): Promise<void> {
    if (this.permanentMs - (this.#stored?.timeMs ?? 0) >= stepMs) await this.store();
  }

  async store(): Promise<void> {
    const { kept } = this;
    if (kept === undefined) return;
    const write = async (): Promise<void> => {
      const { files, home, enrolment } = kept;
      const file: TimeFile = {
        format: 1,
        generation: enrolment.generation,
        timeMs: Math.floor(this.permanentMs),
        number: this.#learned.number,
      };
      await writeDurably(files, pathIn(home), new TextEncoder().encode(`${JSON.stringify(file)}\n`));
      this.#stored = file;
    };
    this.#storing = this.#storing.catch(() => undefined).then(write);
    return this.#storing;
  }

  get #atMs(): number {
    return this.parts.clock.monotonic();
  }
}

async function readTime({
  files,
  home,
  log,
}: Pick<KeptTimeParts, "files" | "home" | "log">): Promise<TimeFile | undefined> {
  const path = pathIn(home);
  if ((await files.stat(path)) === undefined) return undefined;
  const { data } = fileSchema.safeParse(parseJson(await files.read(path)));
  if (data === undefined)
    log.warn("time-damaged", {
      text: `${path}, the time that this device had learned, is damaged; it begins again at its enrolment`,
    });
  return data;
}

/** The time that a server stated when a person brought its enrolment; a renewal changes it only in the file. */
function enrolledMs({ identity, ownerCertificate }: DeviceTimeParts["enrolment"]): number {
  return Math.max((identity ?? ownerCertificate)?.issuedAtMs ?? 0, certificatesBeginMs);
}

function forgotten({ generation }: DeviceTimeParts["enrolment"]): TimeFile {
  return { format: 1, generation, timeMs: certificatesBeginMs, number: 0 };
}

/**
 * Lets the agent forget at its next start what time it learned, and what its owner stated about that: the word of the
 * next server is believed while it is connected.
 */
export async function forgetTime(files: Files, home: string): Promise<void> {
  await writeDurably(files, forgetPathIn(home), new Uint8Array());
}
