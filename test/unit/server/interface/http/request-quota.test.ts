/** How often an address may ask for certificates: its share, its return, and that it keeps nobody else out. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { RequestQuota } from "../../../../../server/interface/http/request-quota.js";

test("an address may ask for a minute's worth at once, then in even steps; others are not concerned", () => {
  const quota = new RequestQuota(60);
  for (let i = 0; i < 60; i++) assert.equal(quota.waitMs("a", 0), 0);
  assert.equal(quota.waitMs("a", 0), 1000);
  assert.equal(quota.waitMs("b", 0), 0);
  // Who goes on asking does not have to wait longer.
  assert.equal(quota.waitMs("a", 400), 600);
  assert.equal(quota.waitMs("a", 1001), 0);
  assert.ok(quota.waitMs("a", 1001) > 0);
  for (let i = 0; i < 60; i++) assert.equal(quota.waitMs("a", 3_600_000), 0);
  assert.ok(quota.waitMs("a", 3_600_000) > 0);
});

test("a flood of addresses takes a bounded part of the memory", () => {
  const quota = new RequestQuota(1);
  assert.equal(quota.waitMs("first", 0), 0);
  for (let i = 0; i < 20_000; i++) quota.waitMs(`address ${i}`, 0);
  assert.equal(quota.waitMs("first", 0), 0, "forgotten");
  assert.ok(quota.waitMs("address 19999", 0) > 0);
});
