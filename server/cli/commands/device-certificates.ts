/** `stemma device sign|renew`: certificates of devices that make their own keys. */
import { resolve } from "node:path";
import type { Command } from "commander";
import { writeDurably } from "../../../shared/files/durable-write.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import { formatTime } from "../../../shared/cli/output.js";
import { withContext, type CommandContext } from "../context.js";

const signHelp = `
For devices that do not reach this server over HTTPS. On the device, at the server, on the device:
  stemma agent enroll car-7.invitation.json --request car-7.request.json
  stemma device sign car-7.request.json --file car-7.certificate.json
  stemma agent enroll car-7.invitation.json --response car-7.certificate.json
`;

export function addCertificateCommands(device: Command): void {
  device
    .command("sign")
    .argument("<request>", "the file that `stemma agent enroll --request` wrote")
    .option("--file <path>", "write the certificate here (default DEVICE.certificate.json)")
    .description("answer a device's request for a certificate that was carried here as a file")
    .addHelpText("after", signHelp)
    .action(async (request: string, choices: { readonly file?: string }, command: Command) =>
      withContext(command, (context) => signCommand(request, choices.file, context)),
    );
  device
    .command("renew")
    .argument("<device>")
    .description("ask a connected device to renew its certificate now; it does so itself, in time")
    .action(async (name: string, _: unknown, command: Command) =>
      withContext(command, async ({ output, operations, options }) => {
        const renewed = await (await operations()).renewDevice({ fleet: options.fleet, device: name });
        output.print({
          data: renewed,
          names: [name],
          text: `${name} renewed its certificate; it is valid until ${formatTime(renewed.notAfterMs)}`,
        });
      }),
    );
}

async function signCommand(
  file: string,
  to: string | undefined,
  { output, operations }: CommandContext,
): Promise<void> {
  const files = nodeFiles();
  const { parseJson } = await import("../../../shared/trust/keys.js");
  const { parseCertificateRequest } =
    await import("../../../shared/trust/certificates/certificate-exchange.js");
  const request = parseCertificateRequest(parseJson(await files.read(resolve(file))));
  const { invitation, renewal, batch } = request;
  const device = (invitation ?? renewal ?? batch)?.device ?? "device";
  const path = resolve(to ?? `${device}.certificate.json`);
  const answer = await (await operations()).certify({ request });
  await writeDurably(files, path, Buffer.from(`${JSON.stringify(answer, null, 2)}\n`));
  output.print({
    data: { device, file: path },
    names: [device],
    text: `${device} has a certificate; bring ${path} to it and run there the command of its request again, with --response instead of --request`,
  });
}
