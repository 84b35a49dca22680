// Makes the Debian package of an executable: user, folders, service, settings that stay at an upgrade, clean removal.
// dpkg-deb writes it; owners, modes, order and times are fixed, so the same executable gives the same bytes.
import { execFile } from "node:child_process";
import { chmod, copyFile, link, mkdir, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { packages } from "../launcher/package.mjs";

const run = promisify(execFile);
const ownFolder = dirname(fileURLToPath(import.meta.url));
const root = dirname(ownFolder);
const architectures = { "linux-x64": "amd64", "linux-arm64": "arm64" };
/** The libraries that the base Node is linked with, and what the package's scripts and own recipes use. */
const depends = ["libc6 (>= 2.28)", "libgcc-s1", "libstdc++6 (>= 9)", "passwd", "util-linux"];
const scripts = ["postinst", "prerm", "postrm"];

/** Debian orders a "~" before everything, so that 0.2.0-rc.1 is older than 0.2.0. */
const debianVersion = (version) => version.replace("-", "~");

async function controlText({ command, description, version, architecture, bytes }) {
  const { license, author = "Stemma" } = JSON.parse(await readFile(join(root, "package.json"), "utf8"));
  return `Package: ${command}
Version: ${version}
Architecture: ${architecture}
Maintainer: ${author} <root@localhost>
Installed-Size: ${Math.ceil(bytes / 1024)}
Depends: ${depends.join(", ")}
Recommends: init-system-helpers, systemd
Section: misc
Priority: optional
Description: ${description}
 One program with Node inside, licensed under ${license}.
`;
}

/** Files of the package by their path; modes are those of the file system that it is installed in. */
function contentsOf({ name, command, executable }) {
  const own = join(ownFolder, "debian", name);
  const docs = `usr/share/doc/${command}`;
  const unpacked = (file) => join(executable.folder, file);
  return [
    { to: `usr/lib/${command}/${command}`, from: executable.path, mode: 0o755 },
    { to: `usr/bin/${command}`, from: join(own, "command"), mode: 0o755 },
    { to: `usr/lib/systemd/system/${command}.service`, from: join(own, "unit.service") },
    { to: `etc/default/${command}`, from: join(own, "default") },
    { to: `${docs}/copyright`, from: unpacked("LICENSE") },
    { to: `${docs}/LICENSES.txt`, from: unpacked("LICENSES.txt") },
    { to: `${docs}/LICENSE.node.txt`, from: unpacked("LICENSE.node.txt") },
    { to: `${docs}/${command}.cdx.json`, from: executable.partsPath },
    { to: `${docs}/installing.md`, from: join(root, "docs/installing.md") },
  ];
}

/** Modes of folders do not follow the umask of whoever builds. */
async function fixFolders(folder) {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const folders = entries.filter((entry) => entry.isDirectory());
  for (const entry of folders) await chmod(join(entry.parentPath ?? entry.path, entry.name), 0o755);
  await chmod(folder, 0o755);
}

/** @throws where dpkg-deb is missing, which only the machine that packages needs */
export async function makeDebianPackage({ name, target, out, executable }) {
  const { command, description } = packages[name];
  const version = debianVersion(executable.manifest.version);
  const architecture = architectures[target];
  const tree = join(out, `.parts/deb-${name}-${target}`);
  await rm(tree, { recursive: true, force: true });
  const files = contentsOf({ name, command, executable });
  for (const { to, from, mode = 0o644 } of files) {
    await mkdir(dirname(join(tree, to)), { recursive: true });
    // The executable is large, and only read.
    await (mode === 0o755 && from === executable.path ? link : copyFile)(from, join(tree, to));
    await chmod(join(tree, to), mode);
  }
  const bytes = (await Promise.all(files.map(({ to }) => stat(join(tree, to))))).reduce(
    (sum, { size }) => sum + size,
    0,
  );
  const control = join(tree, "DEBIAN");
  await mkdir(control);
  const text = await controlText({ command, description, version, architecture, bytes });
  await writeFile(join(control, "control"), text);
  await writeFile(join(control, "conffiles"), `/etc/default/${command}\n`);
  for (const script of scripts) {
    const values = {
      command,
      user: command,
      home: `/var/lib/${command}`,
      cache: `/var/cache/${command}`,
      unit: `${command}.service`,
    };
    const template = await readFile(join(ownFolder, "debian", script), "utf8");
    await writeFile(
      join(control, script),
      template.replaceAll(/@(\w+)@/g, (_, key) => values[key]),
    );
    await chmod(join(control, script), 0o755);
  }
  await chmod(join(control, "control"), 0o644);
  await chmod(join(control, "conffiles"), 0o644);
  await fixFolders(tree);
  const path = join(out, `${command}_${version}_${architecture}.deb`);
  const seconds = Math.floor(Date.parse(executable.manifest.date) / 1000);
  await run("dpkg-deb", ["--root-owner-group", "-Zxz", "-z6", "--threads-max=1", "--build", tree, path], {
    env: { ...process.env, SOURCE_DATE_EPOCH: String(seconds) },
  }).catch((error) => {
    throw error.code === "ENOENT"
      ? new Error("dpkg-deb is needed for --deb. Install the package dpkg.")
      : error;
  });
  return { path, bytes: (await stat(path)).size };
}
