/** What the tests of data sets share: refusals, files that must not be read, and the real data if it is there. */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { isStemmaError, type ErrorCode } from "../../../../../shared/errors.js";
import type { DatasetFiles } from "../../../../../shared/train/datasets/dataset.js";

/** A check for `assert.rejects` and `assert.throws`. */
export const refusal =
  (code: ErrorCode) =>
  (error: unknown): boolean => {
    assert.ok(isStemmaError(error, code), String(error));
    return true;
  };

/** For data sets that are computed. */
export const noFiles: DatasetFiles = {
  read: () => Promise.reject(new Error("no file should be read")),
  list: () => Promise.resolve([]),
  stat: () => Promise.resolve(undefined),
};

export const dataFolder = resolve(process.env["STEMMA_DATA"] ?? "../shared/data");

/** The reason to skip a test of real data; false if the data is there. */
export const skipWithout = (name: string): string | false =>
  existsSync(join(dataFolder, name)) ? false : `no ${name} below ${dataFolder}; set STEMMA_DATA`;
