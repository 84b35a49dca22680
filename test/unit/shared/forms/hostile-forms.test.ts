/** Damaged files of every form, and those beside a model; hostile-forms.slow.test.ts has more of them. */
import { test } from "node:test";
import { hostileInputs } from "../../../helpers/mutated-inputs.js";
import { hostileForms, readDamaged } from "../../../helpers/mutated-files.js";

for (const form of Object.keys(hostileForms))
  test(`40 damaged models in the form ${form} are refused, or read`, () => readDamaged(form, 40));

for (const [title, damage] of Object.entries(hostileInputs))
  test(`100 damages of ${title} are refused, or read`, () => damage(100));
