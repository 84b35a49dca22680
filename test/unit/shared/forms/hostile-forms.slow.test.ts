/**
 * Damaged files of every form, and those beside a model, 2,000 a form: typed errors or the right tensors, in bounded
 * time and memory.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { hostileInputs } from "../../../helpers/mutated-inputs.js";
import { hostileForms, readDamaged } from "../../../helpers/mutated-files.js";

const maxGrowthBytes = 400 * 1024 * 1024;

for (const form of Object.keys(hostileForms))
  test(`2,000 damaged models in the form ${form} are refused, or read`, async () => {
    const before = process.memoryUsage().rss;
    await readDamaged(form, 2000);
    assert.ok(process.memoryUsage().rss - before < maxGrowthBytes);
  });

for (const [title, damage] of Object.entries(hostileInputs))
  test(`2,000 damages of ${title} are refused, or read`, async () => {
    const before = process.memoryUsage().rss;
    await damage(2000);
    assert.ok(process.memoryUsage().rss - before < maxGrowthBytes);
  });
