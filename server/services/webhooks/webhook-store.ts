/**
 * The webhooks of a home and how far each has come, in two files: `webhooks.json`, which people change, and
 * `webhook-cursors.json`, which deliveries change. A cursor that is lost or old only makes a receiver get facts again.
 */
import { join } from "node:path";
import * as z from "zod";
import { SerialQueue } from "../../../shared/concurrency/serial-queue.js";
import { writeDurably } from "../../../shared/files/durable-write.js";
import { notThere, quoted } from "../../../shared/missing-errors.js";
import type { Files } from "../../../shared/ports.js";
import { isName } from "../../../shared/wire/topics.js";
import { factTypes } from "../../storage/repository/state/fact-codec.js";
import { nameNotFree, tooManyWebhooks, typesUnknown, urlInvalid, webhooksDamaged } from "./webhook-errors.js";

const hashText = z.string().regex(/^[0-9a-f]{64}$/);

const webhookSchema = z.strictObject({
  name: z.string().refine(isName),
  fleet: z.string().refine(isName),
  url: z.url({ protocol: /^https?$/ }).max(2048),
  /** Types of facts that are sent; absent: all. */
  types: z.array(z.string().min(1).max(64)).min(1).max(64).optional(),
  madeAtMs: z.number(),
});
export type Webhook = Readonly<Omit<z.infer<typeof webhookSchema>, "types">> & {
  readonly types?: readonly string[] | undefined;
};

/** A place in a journal and the Merkle leaf of the fact there, by which another history is told from this one. */
const knownFact = z.strictObject({ position: z.number().int().min(0), leaf: hashText });
export type KnownFact = z.infer<typeof knownFact>;

const cursorSchema = z.strictObject({
  /** The position of the next fact to send. */
  position: z.number().int().min(0),
  /** The leaf hash of the fact before it; absent at position 0. */
  leaf: hashText.optional(),
  /** The last fact before it that a restore from a backup appended. */
  restored: knownFact.optional(),
});
export type Cursor = z.infer<typeof cursorSchema>;

const maxWebhooks = 64;
const webhooksFile = z.strictObject({
  kind: z.literal("stemma-webhooks"),
  format: z.literal(1),
  webhooks: z.array(webhookSchema).max(maxWebhooks),
});
const cursorsFile = z.strictObject({
  kind: z.literal("stemma-webhook-cursors"),
  format: z.literal(1),
  cursors: z.record(z.string(), cursorSchema),
});

/** States a change in the journal, before it is made: none goes unrecorded, and one that was cut off is made again. */
type RecordChange = (webhook: Webhook) => Promise<unknown>;

type ReadFiles = Pick<Files, "stat" | "read">;
const webhooksPath = (home: string): string => join(home, "webhooks.json");
const cursorsPath = (home: string): string => join(home, "webhook-cursors.json");

/** Changes of both files, one after the other: whoever holds the home's lock is the only one that makes them. */
const changes = new SerialQueue();

/** @throws CONFIG_INVALID */
export async function readWebhooks(files: ReadFiles, home: string): Promise<readonly Webhook[]> {
  const path = webhooksPath(home);
  if ((await files.stat(path)) === undefined) return [];
  try {
    return webhooksFile.parse(JSON.parse(Buffer.from(await files.read(path)).toString("utf8"))).webhooks;
  } catch (cause) {
    throw webhooksDamaged(path, cause);
  }
}

/**
 * Adds a webhook that begins with the fact at this cursor.
 * @throws NAME_INVALID, QUOTA_EXCEEDED, USAGE, CONFIG_INVALID
 */
export function addWebhook(
  files: Files,
  home: string,
  webhook: Webhook,
  { cursor, record }: { readonly cursor: Cursor; readonly record: RecordChange },
): Promise<void> {
  return changes.run(async () => {
    const present = await readWebhooks(files, home);
    checkTarget(webhook);
    if (!isName(webhook.name) || present.some(({ name }) => name === webhook.name))
      throw nameNotFree(webhook.name);
    if (present.length >= maxWebhooks) throw tooManyWebhooks(maxWebhooks);
    await record(webhook);
    // First, so that a server killed in between does not send a new webhook the history of an old one.
    await writeCursor(files, home, webhook.name, cursor);
    await write(files, webhooksPath(home), {
      kind: "stemma-webhooks",
      format: 1,
      webhooks: [...present, webhook],
    });
  });
}

/** @throws USAGE */
function checkTarget({ url, types = [] }: Webhook): void {
  if (!webhookSchema.shape.url.safeParse(url).success) throw urlInvalid(url);
  const unknown = types.filter((type) => !factTypes.includes(type));
  if (unknown.length > 0) throw typesUnknown(unknown, factTypes);
}

/** @throws NOT_FOUND, CONFIG_INVALID */
export function removeWebhook(files: Files, home: string, name: string, record: RecordChange): Promise<void> {
  return changes.run(async () => {
    const present = await readWebhooks(files, home);
    await record(requireWebhook(present, name));
    await write(files, webhooksPath(home), {
      kind: "stemma-webhooks",
      format: 1,
      webhooks: present.filter((each) => each.name !== name),
    });
    await writeCursor(files, home, name, undefined);
  });
}

/** @throws NOT_FOUND */
export function requireWebhook(webhooks: readonly Webhook[], name: string): Webhook {
  const found = webhooks.find((each) => each.name === name);
  if (found === undefined)
    throw notThere("NOT_FOUND", `This server has no webhook ${quoted(name)}`, "webhook list", { name });
  return found;
}

/** Reads a webhook's position; undefined where that was lost. */
export async function readCursor(files: ReadFiles, home: string, name: string): Promise<Cursor | undefined> {
  const cursors = await readCursors(files, home);
  return Object.hasOwn(cursors, name) ? cursors[name] : undefined;
}

/** Moves a webhook. Where it was removed meanwhile, nothing happens. */
export function moveCursor(files: Files, home: string, name: string, cursor: Cursor): Promise<void> {
  return changes.run(async () => {
    if ((await readWebhooks(files, home)).some((each) => each.name === name))
      await writeCursor(files, home, name, cursor);
  });
}

async function readCursors(files: ReadFiles, home: string): Promise<Readonly<Record<string, Cursor>>> {
  const path = cursorsPath(home);
  if ((await files.stat(path)) === undefined) return {};
  try {
    return cursorsFile.parse(JSON.parse(Buffer.from(await files.read(path)).toString("utf8"))).cursors;
  } catch {
    // Facts are sent again, which receivers have to expect anyway.
    return {};
  }
}

async function writeCursor(
  files: Files,
  home: string,
  name: string,
  cursor: Cursor | undefined,
): Promise<void> {
  const cursors = new Map(Object.entries(await readCursors(files, home)));
  if (cursor === undefined) cursors.delete(name);
  else cursors.set(name, cursor);
  await write(files, cursorsPath(home), {
    kind: "stemma-webhook-cursors",
    format: 1,
    cursors: Object.fromEntries(cursors),
  });
}

async function write(files: Files, path: string, content: object): Promise<void> {
  await writeDurably(files, path, Buffer.from(`${JSON.stringify(content, null, 2)}\n`));
}
