/** Models of tables of the other kinds of recipes: the server makes each again, bit for bit. */
import { describe } from "node:test";
import { testTableClaims } from "./table-claims.js";

describe("models of tables that devices report as a recipe", () => {
  testTableClaims(["pairs", "labels", "groups"]);
});
