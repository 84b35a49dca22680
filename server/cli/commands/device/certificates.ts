/** `stemma device sign|renew`: certificates of devices that make their own keys. */
import { resolve } from "node:path";
import { writeDurably } from "../../../../shared/files/durable-write.js";
import { regularFiles } from "../../../../shared/files/regular-files.js";
import { formatTime } from "../../../../shared/cli/output.js";
import { plain } from "../../plain-command.js";

const sign = plain("certify", {
  name: "sign",
  about: "answer a device's request for a certificate that was carried here as a file",
  takes: { request: { text: "<request> the file that `stemma agent enroll --request` wrote", read: String } },
  options: { file: "<path> write the certificate here (default DEVICE.certificate.json)" },
  help: `
For devices that do not reach this server over HTTPS. On the device, at the server, on the device:
  stemma agent enroll car-7.invitation.json --request car-7.request.json
  stemma device sign car-7.request.json --file car-7.certificate.json
  stemma agent enroll car-7.invitation.json --response car-7.certificate.json
`,
  run: async (given, { call }) => {
    const files = regularFiles();
    const { parseJson } = await import("../../../../shared/trust/keys.js");
    const { parseCertificateRequest } =
      await import("../../../../shared/trust/certificates/certificate-exchange.js");
    const request = parseCertificateRequest(parseJson(await files.read(resolve(given.request))));
    const { invitation, renewal, batch } = request;
    const device = (invitation ?? renewal ?? batch)?.device ?? "device";
    const file = resolve(given.file ?? `${device}.certificate.json`);
    const answer = await call("certify", { request });
    await writeDurably(files, file, Buffer.from(`${JSON.stringify(answer, null, 2)}\n`));
    return { device, file };
  },
  print: ({ device, file }) => ({
    names: [device],
    text: `${device} has a certificate; bring ${file} to it and run there the command of its request again, with --response instead of --request`,
  }),
});

const renew = plain("renewDevice", {
  name: "renew",
  about: "ask a connected device to renew its certificate now; it does so itself, in time",
  takes: { device: "" },
  print: ({ notAfterMs }, { device }) => ({
    names: [device],
    text: `${device} renewed its certificate; it is valid until ${formatTime(notAfterMs)}`,
  }),
});

export const commands = [sign, renew];
