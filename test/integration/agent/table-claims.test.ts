/** Devices fine-tune models of tables and report how: the server makes each again, bit for bit, from their rows. */
import { describe } from "node:test";
import { testTableClaims } from "./table-claims.js";

describe("models of tables that devices report as a recipe", () => {
  testTableClaims(["votes"]);
});
