// Uploads over TLS: the enrolment file pins the certificate.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { it } from "node:test";
import { promisify } from "node:util";
import { noiseBytes } from "../../../../helpers/noise-bytes.js";
import { ScriptedDevice } from "../../../../helpers/scripted-device.js";
import { startTestServer } from "../../../../helpers/test-server.js";

const run = promisify(execFile);

it("receives a model over mqtts; a device refuses a server with another certificate", async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "stemma-tls-"));
  const certificate = async (name: string): Promise<{ certFile: string; keyFile: string } | undefined> => {
    const files = { certFile: join(folder, `${name}.pem`), keyFile: join(folder, `${name}.key`) };
    try {
      await run("openssl", [
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-keyout",
        files.keyFile,
        "-out",
        files.certFile,
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
        "-addext",
        "subjectAltName=IP:127.0.0.1,DNS:localhost",
      ]);
    } catch {
      return undefined;
    }
    return files;
  };
  try {
    const [tls, other] = [await certificate("one"), await certificate("other")];
    if (tls === undefined || other === undefined) {
      t.skip("openssl is not on this machine, so no certificate can be made");
      return;
    }
    const server = await startTestServer({ tls });
    try {
      assert.match(server.handle.mqttUrl, /^mqtts:/);
      const enrolment = await server.enroll("secure");
      assert.match(enrolment.ca ?? "", /BEGIN CERTIFICATE/);
      const device = await ScriptedDevice.connect(enrolment, { session: 1 });
      await device.birth();
      const saved = await device.save({ w: noiseBytes(100_000, 1) }, { sequence: 1 });
      await device.announce(saved);
      await device.receipt("released", saved.versionId);
      await device.close();
      const { readFile } = await import("node:fs/promises");
      await assert.rejects(
        ScriptedDevice.connect({ ...enrolment, ca: await readFile(other.certFile, "utf8") }, { session: 2 }),
        (error: { code?: string }) =>
          ["DEPTH_ZERO_SELF_SIGNED_CERT", "SELF_SIGNED_CERT_IN_CHAIN"].includes(error.code ?? ""),
      );
    } finally {
      await server.remove();
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});
