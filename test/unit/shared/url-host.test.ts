/** Hosts as they are written in URLs. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { urlHost } from "../../../shared/url-host.js";

test("an IPv6 address gets brackets in a URL, a name and an IPv4 address do not", () => {
  assert.equal(urlHost("::1"), "[::1]");
  assert.equal(urlHost("127.0.0.1"), "127.0.0.1");
  assert.equal(urlHost("fleet.example"), "fleet.example");
});
