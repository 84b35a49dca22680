/** Errors of webhooks, as they are added and read. */
import { errorOf, StemmaError } from "../../../shared/errors.js";
import { quoted } from "../../../shared/missing-errors.js";
import { nameRule } from "../../../shared/wire/topics.js";

const wrongUse = errorOf("USAGE");

export const nameNotFree = (name: string): StemmaError =>
  new StemmaError(
    "NAME_INVALID",
    `${quoted(name)} is not a valid name of a webhook, or another has it: ${nameRule}. \`stemma webhook list\` lists them.`,
    { name },
  );
export const urlInvalid = (url: string): StemmaError =>
  wrongUse(
    `${JSON.stringify(url.slice(0, 200))} is not an address that facts can be sent to: name one that begins with http:// or https://.`,
  );
export const typesUnknown = (unknown: readonly string[], factTypes: readonly string[]): StemmaError =>
  wrongUse(
    `${unknown.join(", ").slice(0, 200)}: facts are not of this type. Types are ${factTypes.join(", ")}.`,
  );
export const tooManyWebhooks = (maxWebhooks: number): StemmaError =>
  new StemmaError(
    "QUOTA_EXCEEDED",
    `There are ${maxWebhooks} webhooks already. Remove one first with \`stemma webhook rm\`.`,
  );
export const webhooksDamaged = (path: string, cause: unknown): StemmaError =>
  new StemmaError(
    "CONFIG_INVALID",
    `${path} is damaged, so no webhook is called. Remove it and add the webhooks again with \`stemma webhook add\`.`,
    { cause, path },
  );
