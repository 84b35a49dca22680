/** Ids of requests: what may be one, and how commands carry it. */
import assert from "node:assert/strict";
import { it } from "node:test";
import {
  correlationOf,
  isRequestId,
  maxRequestIdLength,
  requestOfCorrelation,
} from "../../../shared/request-id.js";

it("takes short plain ids alone", () => {
  for (const id of ["a", "night-run.7", "f".repeat(maxRequestIdLength)]) assert.ok(isRequestId(id), id);
  for (const id of [
    "",
    "f".repeat(maxRequestIdLength + 1),
    "a b",
    'a"',
    "a\n",
    "a\u001b[2J",
    "ä",
    7,
    undefined,
  ])
    assert.ok(!isRequestId(id), JSON.stringify(id));
});

it("gives a correlation that fits into an envelope and tells two requests of one id apart", () => {
  const id = "f".repeat(maxRequestIdLength);
  const [first, second] = ["0".repeat(16), "1".repeat(16)].map((unique) => correlationOf(id, unique));
  assert.ok(first !== second && String(first).length <= 64);
  assert.equal(requestOfCorrelation(String(first)), id);
  assert.equal(requestOfCorrelation(correlationOf("a.b", "00")), "a.b");
  assert.equal(requestOfCorrelation(correlationOf(undefined, "00")), undefined);
  for (const forged of ["", ".", ".00", "a b.00", `${"f".repeat(60)}.00`])
    assert.equal(requestOfCorrelation(forged), undefined, forged);
});
