// npm run package -- --target linux-x64 [--target linux-arm64] [--out FOLDER] [--key FILE] [--deb] [--release VERSION]
// [agent|server …]: makes the agent and the server as single executables, their lists of parts and licences, checksums,
// and with --deb Debian packages. Without an option it makes the .tgz of each, in a folder that may follow.
import { mkdir, rm } from "node:fs/promises";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { makePackages, packages } from "../launcher/package.mjs";
import { targets } from "./base-node.mjs";
import { writeChecksums } from "./checksums.mjs";
import { makeDebianPackage } from "./debian.mjs";
import { makeExecutable } from "./executable.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));

class UsageError extends Error {}

function readArguments(args) {
  let parsed;
  try {
    parsed = parseArgs({
      args,
      allowPositionals: true,
      options: {
        target: { type: "string", multiple: true },
        out: { type: "string", default: join(root, "out") },
        key: { type: "string" },
        release: { type: "string" },
        deb: { type: "boolean", default: false },
      },
    });
  } catch (error) {
    throw new UsageError(error.message);
  }
  const { values, positionals } = parsed;
  const names = positionals.length > 0 ? positionals : Object.keys(packages);
  const require = (isRight, text) => {
    if (!isRight) throw new UsageError(text);
  };
  require(values.target !== undefined, `Name the machine with --target: ${targets.join(" or ")}.`);
  for (const target of values.target)
    require(targets.includes(target), `There is no target "${target}"; there are ${targets.join(" and ")}.`);
  for (const name of names)
    require(name in
      packages, `There is no program "${name}"; there are ${Object.keys(packages).join(" and ")}.`);
  require(values.release === undefined ||
    /^\d+\.\d+\.\d+(-[0-9a-z.]+)?$/.test(
      values.release,
    ), `"${values.release}" is not a version; --release takes one such as 0.2.0 or 0.2.0-rc.1.`);
  return { ...values, names };
}

const say = (path, bytes, text = "") =>
  console.log(`${relative(process.cwd(), path)}  ${(bytes / 1e6).toFixed(1)} MB${text}`);

async function makeAll({ target, names, out, key, release, deb }) {
  const folder = resolve(out);
  await mkdir(folder, { recursive: true });
  const files = [];
  for (const each of new Set(target))
    for (const name of names) {
      const made = await makeExecutable({ name, target: each, out: folder, release });
      say(made.path, made.bytes, `, of which ${(made.unpackedBytes / 1e6).toFixed(1)} are unpacked once`);
      files.push(made.path, made.partsPath);
      if (!deb) continue;
      const { path, bytes } = await makeDebianPackage({ name, target: each, out: folder, executable: made });
      say(path, bytes);
      files.push(path);
    }
  const { path, signed } = await writeChecksums(folder, files, key);
  console.log(
    `${relative(process.cwd(), path)}  ${signed ? "signed" : "not signed: name the release key with --key FILE"}`,
  );
  await rm(join(folder, ".parts"), { recursive: true, force: true });
}

const args = process.argv.slice(2);
try {
  await (args.some((each) => each.startsWith("-"))
    ? makeAll(readArguments(args))
    : makePackages(args[0] && resolve(args[0])));
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  console.error(error.message);
  process.exitCode = 2;
}
