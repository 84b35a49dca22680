/** A private key that is encrypted with a passphrase. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { writeDurably } from "../../../../shared/files/durable-write.js";
import { generateKey } from "../../../../shared/trust/keys.js";
import { openSealedKey, publicKeyOfSealed, saveSealedKey } from "../../../../shared/trust/sealed-key.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { seededRandom } from "../../../helpers/manual-clock.js";
import { drawn } from "../../../helpers/test-depth.js";

const path = "/key.json";
const passphrase = "a long enough passphrase";

it("opens with its passphrase, in whichever form its letters are written, and shows only the public key", async () => {
  const files = memoryFiles();
  const random = seededRandom("sealed");
  const key = generateKey(random);
  const composed = "caf\u00e9 au lait, two cups";
  await saveSealedKey({ files, random }, path, key, composed);
  assert.equal((await openSealedKey(files, path, composed.normalize("NFD"))).seed, key.seed);
  assert.equal(await publicKeyOfSealed(files, path), key.publicKey);
  const text = Buffer.from(await files.read(path)).toString();
  assert.ok(!text.includes(key.seed) && !text.includes("caf"));
  const first = text;
  await saveSealedKey({ files, random }, path, key, composed);
  assert.notEqual(Buffer.from(await files.read(path)).toString(), first, "salt and nonce are new each time");
});

it("is refused with another passphrase, with any part changed, and where it asks for too much memory", async () => {
  const files = memoryFiles();
  const random = seededRandom("sealed");
  await saveSealedKey({ files, random }, path, generateKey(random), passphrase);
  await assert.rejects(openSealedKey(files, path, `${passphrase} `), { code: "KEY_INVALID" });
  const text = Buffer.from(await files.read(path)).toString();
  const other = (digit: string): string => (digit === "0" ? "1" : "0");
  const changed = ["publicKey", "salt", "nonce", "sealed"].map((name) =>
    text.replace(
      new RegExp(`("${name}":"[0-9a-f]*)([0-9a-f])"`),
      (_, head: string, last: string) => `${head}${other(last)}"`,
    ),
  );
  for (const altered of [
    ...drawn(changed, 1),
    text.replace("131072", "1073741824"),
    text.slice(0, -20),
    "",
    "{}",
  ]) {
    assert.notEqual(altered, text);
    await writeDurably(files, "/changed.json", Buffer.from(altered));
    await assert.rejects(openSealedKey(files, "/changed.json", passphrase), { code: "KEY_INVALID" });
  }
});
