/** Damaged files of every form; hostile-forms.slow.test.ts has more of them. */
import { test } from "node:test";
import { hostileForms, readDamaged } from "../../../helpers/mutated-files.js";

for (const form of Object.keys(hostileForms))
  test(`40 damaged models in the form ${form} are refused, or read`, () => readDamaged(form, 40));
