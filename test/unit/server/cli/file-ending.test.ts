/** A file's ending must not claim another form than the one that is written. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { requireEndingOfFile, requireEndingOfForm } from "../../../../server/cli/file-ending.js";
import { isStemmaError } from "../../../../shared/errors.js";

test("an ending that claims another form is refused; one that claims none is not", () => {
  for (const name of ["m.safetensors", "m", "m.out", "/a.json/m", "m.SAFETENSORS", "m.constructor"])
    requireEndingOfForm(name, "safetensors");
  requireEndingOfForm("web/model.json", "tfjs");
  const refusal = (name: string, form: "safetensors" | "tfjs", way: RegExp): void =>
    assert.throws(
      () => requireEndingOfForm(name, form),
      (error) => isStemmaError(error, "USAGE") && way.test(error.message),
    );
  refusal("model.json", "safetensors", /Say --form tfjs/);
  refusal("m.safetensors", "tfjs", /Say --form safetensors.*ends in \.json/);
  refusal("m.PT", "safetensors", /not written.*ends in \.safetensors/);
});

test("an ending that claims another form than that of the saved file is refused", () => {
  for (const name of ["m.tflite", "m.TFLITE", "m", "m.out", "m.constructor"])
    requireEndingOfFile(name, "soh.tflite");
  for (const name of ["m.onnx", "m.safetensors", "m.json"])
    assert.throws(
      () => requireEndingOfFile(name, "soh.tflite"),
      (error) => isStemmaError(error, "USAGE"),
    );
});
