/**
 * LSTM and MobileNetV2 files written by another tool, imported as a chain: each is recovered as exactly the
 * same file.
 */
import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { safetensorsOfModel } from "../../../../../shared/recover/recovered-file.js";
import { modelSourceOfSafetensors } from "../../../../../shared/save/model-source.js";
import { safetensorsChunks } from "../../../../../shared/tensor/safetensors-writer.js";
import { fileOfBytes } from "../../../../../shared/tensor/safetensors-reader.js";
import { diskHome, openRepository } from "./harness.js";

const folder = join(process.env["STEMMA_DATA"] ?? join(process.cwd(), "../shared/data"), "fine-tunes");
const names = (await readdir(folder).catch(() => [])).filter((name) => name.endsWith(".safetensors"));

test(
  "a chain of imported files is recovered byte for byte",
  { skip: names.length === 0 ? `no files in ${folder}; set STEMMA_DATA` : false },
  async (context) => {
    const { home } = await diskHome(context);
    const repository = await openRepository(home, "local");
    for (const family of ["lstm", "mnv2"]) {
      const base = `${family}-base.safetensors`;
      const chain = [base, ...names.filter((name) => name.startsWith(family) && name !== base)];
      let last: Parameters<typeof repository.recover>[0] | undefined;
      const saved: [string, NonNullable<typeof last>][] = [];
      for (const name of chain) {
        const model = await modelSourceOfSafetensors(fileOfBytes(await readFile(join(folder, name))), name);
        const report = await repository.save(model, {
          name: family,
          ...(last === undefined ? {} : { bases: [last] }),
        });
        last = report.summary.versionId;
        saved.push([name, last]);
        context.diagnostic(
          `${name}: ${report.approach}, ${report.newTensorBytes} of ${report.summary.tensorBytes} bytes new, ${report.overheadBytes} overhead`,
        );
      }
      for (const [name, versionId] of saved) {
        const { tensors, options } = safetensorsOfModel(await repository.recover(versionId));
        const chunks: Uint8Array[] = [];
        for await (const chunk of safetensorsChunks(tensors, options)) chunks.push(chunk.slice());
        assert.equal(Buffer.compare(Buffer.concat(chunks), await readFile(join(folder, name))), 0, name);
      }
    }
    await repository.close();
    await home.close();
  },
);
