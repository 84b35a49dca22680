/** A certificate for 127.0.0.1, made with openssl. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Makes a key and its certificate, PEM; undefined where openssl is not on this machine. */
export function makeCertificate(): { readonly key: string; readonly cert: string } | undefined {
  const folder = mkdtempSync(join(tmpdir(), "stemma-tls-"));
  const key = join(folder, "key.pem");
  const cert = join(folder, "cert.pem");
  try {
    const curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
    const subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"];
    execFileSync(
      "openssl",
      ["req", "-x509", ...curve, "-keyout", key, "-out", cert, "-days", "2", ...subject],
      {
        stdio: "ignore",
      },
    );
    return { key: readFileSync(key, "utf8"), cert: readFileSync(cert, "utf8") };
  } catch {
    return undefined;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
