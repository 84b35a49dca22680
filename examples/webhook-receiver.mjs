/**
 * A receiver of webhooks: checks each request and prints its facts. It needs only Node.
 *
 *     node webhook-receiver.mjs PUBLIC_KEY [--address-file FILE] [--port PORT]
 *
 * PUBLIC_KEY is the server's, as `stemma journal head` shows it. docs/webhooks.md describes what it checks.
 */
import { createPublicKey, verify } from "node:crypto";
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { parseArgs } from "node:util";

const { values, positionals } = parseArgs({
  options: { "address-file": { type: "string" }, port: { type: "string", default: "0" } },
  allowPositionals: true,
});
// The 32 bytes of an Ed25519 key, after the header that every such key has (RFC 8410).
const header = Buffer.from("302a300506032b6570032100", "hex");
const key = createPublicKey({
  key: Buffer.concat([header, Buffer.from(positionals[0] ?? "", "hex")]),
  format: "der",
  type: "spki",
});
const maxBytes = 1024 * 1024;
const maxSecondsApart = 300;
/** Position of the next fact of each fleet. A real receiver keeps this where it keeps what it made of the facts. */
const next = new Map();

/** Whether the server that has the key sent this, a short time ago. */
function isGenuine(headers, body) {
  const { "webhook-id": id, "webhook-timestamp": seconds, "webhook-signature": signatures = "" } = headers;
  if (!id?.startsWith("stemma-webhook-1:")) return false;
  if (!(Math.abs(Date.now() / 1000 - Number(seconds)) <= maxSecondsApart)) return false;
  return signatures.split(" ").some((each) => {
    const [version, signature = ""] = each.split(",");
    const message = Buffer.from(`${id}.${seconds}.${body}`);
    return version === "v1a" && verify(null, message, key, Buffer.from(signature, "base64"));
  });
}

const server = createServer(async (request, response) => {
  let body = "";
  for await (const chunk of request.setEncoding("utf8")) {
    body += chunk;
    if (body.length > maxBytes) return void response.writeHead(413).end();
  }
  if (!isGenuine(request.headers, body)) return void response.writeHead(401).end();
  const { fleet, facts, next: position } = JSON.parse(body);
  for (const fact of facts) {
    // Facts may come twice: what is known already is passed over, unless the server was put back.
    if (fact.position < (next.get(fleet) ?? 0) && fact.type !== "restored") continue;
    console.log(`${fleet} ${fact.position} ${fact.type} ${fact.device ?? ""}`.trim());
  }
  next.set(fleet, position);
  response.writeHead(204).end();
});
server.listen(Number(values.port), "127.0.0.1", () => {
  const address = `http://127.0.0.1:${server.address().port}/`;
  if (values["address-file"] !== undefined) writeFileSync(values["address-file"], address);
  console.log(`listening at ${address}`);
});
