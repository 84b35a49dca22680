import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { keyOfSeed } from "../../../../../shared/trust/keys.js";
import { messageId, webhookHeaders } from "../../../../../server/services/webhooks/sign-webhook.js";
import { isWebhookGenuine, toleranceSeconds } from "../../../../helpers/genuine-webhook.js";

const key = keyOfSeed("07".repeat(32));
const atMs = 1_800_000_000_000;
const body = '{"facts":[]}';
const id = messageId("cars", 3, 5);
const headers = webhookHeaders(key, { id, body, atMs });

describe("signatures of webhooks", () => {
  it("are those of the server's key over id, time and body", () => {
    assert.equal(headers["webhook-id"], "stemma-webhook-1:cars:3-5");
    assert.equal(headers["webhook-timestamp"], "1800000000");
    assert.match(headers["webhook-signature"] ?? "", /^v1a,[A-Za-z0-9+/]{86}==$/);
    assert.ok(isWebhookGenuine(key.publicKey, headers, body, atMs + 1000));
  });

  it("are accepted beside others in the same header", () => {
    const several = {
      ...headers,
      "webhook-signature": `v1,abc v1a,AAAA ${headers["webhook-signature"] ?? ""}`,
    };
    assert.ok(isWebhookGenuine(key.publicKey, several, body, atMs));
  });

  it("are not accepted with another body, id, time or key", () => {
    const other = keyOfSeed("08".repeat(32));
    assert.ok(!isWebhookGenuine(key.publicKey, headers, `${body} `, atMs));
    assert.ok(!isWebhookGenuine(other.publicKey, headers, body, atMs));
    for (const changed of [
      { "webhook-id": messageId("cars", 3, 6) },
      { "webhook-timestamp": "1800000001" },
      { "webhook-timestamp": "" },
      { "webhook-signature": "" },
      { "webhook-signature": "v1a," },
    ])
      assert.ok(
        !isWebhookGenuine(key.publicKey, { ...headers, ...changed }, body, atMs),
        JSON.stringify(changed),
      );
  });

  it("are not accepted when they are old, or come from the future", () => {
    const beyond = (toleranceSeconds + 1) * 1000;
    assert.ok(!isWebhookGenuine(key.publicKey, headers, body, atMs + beyond));
    assert.ok(!isWebhookGenuine(key.publicKey, headers, body, atMs - beyond));
  });

  it("are not accepted for something that the key signed for another purpose", () => {
    const id = "stemma-offer-1";
    const stolen = webhookHeaders(key, { id, body, atMs });
    assert.ok(!isWebhookGenuine(key.publicKey, stolen, body, atMs));
  });
});
