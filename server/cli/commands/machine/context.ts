/** `stemma context add|use|list|rm`: servers by name, for work from another machine. */
import { dirname } from "node:path";
import type { Command } from "commander";
import { defined } from "../../../../shared/defined.js";
import { StemmaError } from "../../../../shared/errors.js";
import { readTextFile } from "../../text-file.js";
import { writeDurably } from "../../../../shared/files/durable-write.js";
import { nodeFiles } from "../../../../shared/files/node-files.js";
import { isName, nameRule } from "../../../../shared/wire/topics.js";
import { readAuthority } from "../../context.js";
import {
  contextNamed,
  readContexts,
  requireContextsPath,
  type Contexts,
  type NamedServer,
} from "../../contexts.js";
import { listed, plain } from "../../plain-command.js";

const help = `
Without a context, --server or --home, commands work on the home of this machine.

Examples:
  stemma context add prod --at https://stemma.example:8083 --ca authority.pem --for cars --token-file token
  stemma context use prod
  stemma model list                      (on prod)
  stemma model list --context test       (on another one, this time)
  stemma context use --none              (on this machine again)
`;

/** Readable for its owner alone. */
async function writeContexts(contexts: Contexts): Promise<void> {
  const files = nodeFiles();
  const path = requireContextsPath();
  await files.makeFolder(dirname(path));
  await writeDurably(files, path, Buffer.from(`${JSON.stringify(contexts, null, 2)}\n`));
}

const add = plain(null, {
  name: "add",
  about: "remember a server, with its token, or change what is remembered",
  takes: { name: "letters, digits, - and _" },
  options: {
    at: { text: "<url> the server: http:// or https://", required: true },
    for: "<fleet> the fleet that commands mean which name none",
    tokenFile: "<file> the token, alone in a file; - for standard input; without it STEMMA_TOKEN",
    ca: "<file> the authority of its certificate: authority.pem of its home; without it STEMMA_CA, else the system's",
  },
  run: async ({ name, at, for: fleet, tokenFile, ca }, { output }) => {
    if (!isName(name))
      throw new StemmaError(
        "NAME_INVALID",
        `${JSON.stringify(name)} is not a valid name of a context: ${nameRule}.`,
      );
    const url = serverUrl(at);
    const token = tokenFile === undefined ? process.env["STEMMA_TOKEN"] : await readToken(tokenFile);
    const isPlain = url.protocol === "http:" && !["127.0.0.1", "[::1]", "localhost"].includes(url.hostname);
    if (token !== undefined && isPlain)
      output.info(
        `stemma: warning: ${at} is not encrypted: who can read the network reads the token. Give an https:// address.`,
      );
    const authority = readAuthority(ca ?? process.env["STEMMA_CA"]);
    const known = readContexts();
    const server: NamedServer = {
      server: at,
      ...defined({ authority, token, fleet }),
    };
    const isFirst = Object.keys(known.contexts).length === 0;
    const current = known.current ?? (isFirst ? name : undefined);
    await writeContexts({
      format: 1,
      ...defined({ current }),
      contexts: { ...known.contexts, [name]: server },
    });
    return {
      data: { name, server: at, fleet: fleet ?? null, isCurrent: current === name },
      names: [name],
      text:
        `${name} is ${at}${token === undefined ? ", without a token" : ""}; kept in ${requireContextsPath()}\n` +
        (current === name
          ? "commands that name no server use it"
          : `use it with: stemma context use ${name}`),
    };
  },
});

function serverUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !["http:", "https:"].includes(url.protocol))
    throw new StemmaError(
      "USAGE",
      `--at ${text} is not an address: give one such as https://stemma.example.`,
    );
  return url;
}

async function readToken(file: string): Promise<string> {
  const text = await readTextFile(file, 64 * 1024);
  const token = text.trim();
  if (/^[\x21-\x7e]{8,4096}$/.test(token)) return token;
  throw new StemmaError(
    "USAGE",
    `${file} does not contain one token. \`stemma token add\` makes one on the server.`,
  );
}

const use = plain(null, {
  name: "use",
  about: "let commands that name no server use this one from now on",
  takes: { name: "[name]" },
  options: { none: { text: "use none: work on the home of this machine", default: undefined } },
  run: async ({ name, none = false }: { readonly name: string | undefined; readonly none?: boolean }) => {
    if ((name === undefined) !== none)
      throw new StemmaError("USAGE", "Name a context, or --none for the home of this machine.");
    const known = readContexts();
    if (name !== undefined) contextNamed(known, name);
    const current = name === undefined ? {} : { current: name };
    await writeContexts({ format: 1, ...current, contexts: known.contexts });
    return {
      data: { current: name ?? null },
      names: name === undefined ? [] : [name],
      text:
        name === undefined
          ? "commands that name no server work on the home of this machine"
          : `commands that name no server use ${name} (${contextNamed(known, name).server})`,
    };
  },
});

const list = plain(null, {
  name: "list",
  about: "the servers that are remembered; tokens are not shown",
  run: () => {
    const { current, contexts } = readContexts();
    const rows = Object.entries(contexts).map(([name, { server, fleet, token }]) => ({
      name,
      server,
      fleet: fleet ?? null,
      hasToken: token !== undefined,
      isCurrent: name === current,
    }));
    return Promise.resolve(rows);
  },
  print: (rows) =>
    listed(rows, {
      nameOf: ({ name }) => name,
      columns: [
        { title: "", value: ({ isCurrent }) => (isCurrent ? "*" : "") },
        { title: "NAME", value: ({ name }) => name },
        { title: "SERVER", value: ({ server }) => server },
        { title: "FLEET", value: ({ fleet }) => fleet ?? "-" },
        { title: "TOKEN", value: ({ hasToken }) => (hasToken ? "yes" : "no") },
      ],
      empty: "no servers are remembered; add one with: stemma context add NAME --at URL",
    }),
});

const remove = plain(null, {
  name: "rm",
  about: "forget a server and its token",
  takes: { name: "" },
  run: async ({ name }) => {
    const { current, contexts } = readContexts();
    contextNamed({ format: 1, contexts }, name);
    const { [name]: _, ...others } = contexts;
    const kept = current === undefined || current === name ? {} : { current };
    await writeContexts({ format: 1, ...kept, contexts: others });
    return { data: { name }, names: [name], text: `${name} is forgotten` };
  },
});

/** The help of the group alone: its commands have none of it. */
function addHelp(context: Command): void {
  context.addHelpText("after", help);
}

export const commands = [addHelp, add, use, list, remove];
