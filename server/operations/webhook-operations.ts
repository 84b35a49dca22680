/** Operations on the webhooks of a home. Without a server they are only configured and tested. */
import { defined } from "../../shared/defined.js";
import { StemmaError } from "../../shared/errors.js";
import type { CallOutput, ServerOperations } from "../interface/api/server-operations.js";
import type { OperationsContext } from "../services/context/operations-context.js";
import { cursorAt, journalOfFleet, type ReadJournal } from "../services/webhooks/next-delivery.js";
import { postFacts } from "../services/webhooks/post-facts.js";
import { messageId, webhookHeaders } from "../services/webhooks/sign-webhook.js";
import { factsBody } from "../services/webhooks/webhook-runner.js";
import {
  addWebhook,
  moveCursor,
  readCursor,
  readWebhooks,
  removeWebhook,
  requireWebhook,
  type Webhook,
} from "../services/webhooks/webhook-store.js";
import { counted } from "../../shared/printable.js";

type WebhookOperations = Pick<
  ServerOperations,
  "webhooks" | "addWebhook" | "moveWebhook" | "testWebhook" | "removeWebhook"
>;

export function webhookOperations({
  home,
  fleets,
  live,
}: Pick<OperationsContext, "home" | "fleets" | "live">): WebhookOperations {
  const { files, clock } = home.ports;
  const journalOf = async (fleet: string): Promise<ReadJournal> => journalOfFleet(await fleets.get(fleet));
  const shown = async (webhook: Webhook): Promise<CallOutput<"addWebhook">> => {
    const { length } = (await journalOf(webhook.fleet)).head();
    const position = (await readCursor(files, home.path, webhook.name))?.position ?? 0;
    return defined({
      ...webhook,
      position,
      behind: Math.max(0, length - position),
      ...live?.webhooks.stateOf(webhook.name),
    });
  };
  const recordOf =
    (change: "added" | "moved" | "removed", from: number | null) =>
    async ({ fleet, name, url }: Webhook): Promise<unknown> => {
      const atMs = Math.round(clock.now());
      const { host } = new URL(url);
      return (await fleets.get(fleet)).append({ type: "webhook", atMs, name, change, host, from });
    };
  const list = async (): Promise<CallOutput<"webhooks">> =>
    Promise.all((await readWebhooks(files, home.path)).map(shown));
  return {
    webhooks: list,
    addWebhook: async ({ name, fleet, url, types, from }) => {
      const journal = await journalOf(fleet);
      const { length } = journal.head();
      requirePosition(length, from ?? length);
      const webhook = defined({ name, fleet, url, types, madeAtMs: Math.round(clock.now()) });
      const cursor = await cursorAt(journal, from ?? length);
      await addWebhook(files, home.path, webhook, { cursor, record: recordOf("added", cursor.position) });
      return shown(webhook);
    },
    moveWebhook: async ({ name, from }) => {
      const webhook = requireWebhook(await readWebhooks(files, home.path), name);
      const journal = await journalOf(webhook.fleet);
      requirePosition(journal.head().length, from);
      const cursor = await cursorAt(journal, from);
      await recordOf("moved", from)(webhook);
      await moveCursor(files, home.path, name, cursor);
      live?.webhooks.forget(name);
      return shown(webhook);
    },
    testWebhook: async ({ name }, { signal } = {}) => {
      const { fleet, url } = requireWebhook(await readWebhooks(files, home.path), name);
      const { length } = (await journalOf(fleet)).head();
      const body = factsBody(fleet, length, length, []);
      const id = messageId(fleet, length, length);
      const headers = webhookHeaders(home.signer, { id, body, atMs: clock.now() });
      return postFacts(url, headers, body, signal ?? new AbortController().signal);
    },
    removeWebhook: async ({ name }) => {
      await removeWebhook(files, home.path, name, recordOf("removed", null));
      live?.webhooks.forget(name);
      return list();
    },
  };
}

/** @throws NOT_FOUND */
function requirePosition(length: number, from: number): void {
  if (from > length)
    throw new StemmaError(
      "NOT_FOUND",
      `The journal has ${counted(length, "fact")}, so nothing can begin with fact ${from}. Name a position up to ${length}.`,
      { length },
    );
}
