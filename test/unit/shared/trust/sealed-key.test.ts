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
/** As short as it may be. */
const passphrase = "sixteen letters!";

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

it("opens as its format says, whatever wrote it", async () => {
  const files = memoryFiles();
  const file = {
    ...{ kind: "stemma-sealed-key", format: 1, algorithm: "ed25519" },
    publicKey: "0d7550754e0800a5d237eef5826035766b9b3e5a15868a940ab289958788e3b0",
    kdf: { name: "scrypt", n: 32_768, r: 8, p: 1, salt: "07".repeat(16) },
    ...{ cipher: "aes-256-gcm", nonce: "09".repeat(12) },
    sealed:
      "69148bef5b0ec7bdc88e49fbb2b593d85387b473ca7832b5e30977693d4088b1f610a4d6c0124cbde7b0b8baecbb0f52",
  };
  await writeDurably(files, path, Buffer.from(JSON.stringify(file)));
  assert.equal((await openSealedKey(files, path, passphrase)).seed, "5a".repeat(32));
});

it("is refused with another passphrase, with any part changed, and where it asks for too much memory", async () => {
  const files = memoryFiles();
  const random = seededRandom("sealed");
  const key = generateKey(random);
  await assert.rejects(saveSealedKey({ files, random }, path, key, passphrase.slice(1)), { code: "USAGE" });
  assert.equal(await files.stat(path), undefined);
  await saveSealedKey({ files, random }, path, key, passphrase);
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
