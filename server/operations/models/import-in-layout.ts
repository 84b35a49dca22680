/** An imported file in the layout of its base: one with the names of the file that the base came from. */
import { StemmaError } from "../../../shared/errors.js";
import { decodeArchitecture, weightSlots } from "../../../shared/model/architecture.js";
import { decodeNames } from "../../../shared/model/names.js";
import type { ImportOptions as ReadOptions } from "../../../shared/save/model-source.js";
import type { ByteFile } from "../../../shared/tensor/safetensors-reader.js";
import { layOutAsBase } from "../../../shared/layouts/base-layout.js";
import { layoutName } from "../../../shared/layouts/layout.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import type { ImportOptions } from "../../interface/api/server-operations.js";
import { noLayout } from "./model-errors.js";
import { versionWithLayout } from "../../services/context/inherited-layout.js";

export interface FileInBaseLayout {
  /** The weights, as a safetensors file that exists while it is read. */
  readonly file: ByteFile;
  readonly options: ReadOptions;
  /** The file's own layout, to be kept. */
  readonly attachments: NonNullable<ImportOptions["attachments"]>;
  readonly notes: readonly string[];
}

/**
 * @param file isDescribed: it came with its layers, or its story
 * @returns undefined for a file without a base that has a layout, or with other names than the base's file
 * @throws USAGE, MODEL_PART_MISSING and ARCHITECTURE_MISMATCH where the layout is asked for and cannot be that of the
 * file; MODEL_FILE_MALFORMED
 */
export async function fileInBaseLayout(
  repository: Pick<FleetRepository, "objects" | "get">,
  {
    file,
    where,
    isDescribed,
  }: { readonly file: ByteFile; readonly where: string; readonly isDescribed: boolean },
  base: VersionSummary | undefined,
  { layout: stated, onto, lease, attachments = [] }: ImportOptions,
): Promise<FileInBaseLayout | undefined> {
  const isOther = isDescribed || onto !== undefined || lease !== undefined;
  if (stated !== undefined && (base === undefined || isOther))
    throw new StemmaError(
      "USAGE",
      "The layout original is that of the base. Name one (--base), without --onto, --lease and --arch, and a file that " +
        "does not describe its layers itself.",
    );
  const architectureId = base?.record.objects.architecture;
  const found = base === undefined || isOther ? undefined : versionWithLayout(repository, base);
  if (base === undefined || found === undefined || architectureId === undefined) {
    if (stated !== undefined && base !== undefined) throw noLayout(base);
    return undefined;
  }
  if (attachments.some(({ name }) => name === layoutName)) return undefined;
  const { objects } = repository;
  const architecture = decodeArchitecture(await objects.read("architecture", architectureId));
  const slots = weightSlots(architecture);
  const names = decodeNames(await objects.read("names", base.record.objects.names), slots.length);
  const described = { architecture, names };
  const laidOut = await layOutAsBase(file, where, {
    described,
    layout: await objects.read("attachment", found.layout),
    isStated: stated !== undefined,
  });
  if (laidOut === undefined) return undefined;
  return {
    file: laidOut.part.file,
    options: { architecture: described },
    attachments: [{ name: layoutName, bytes: laidOut.layout }],
    notes: laidOut.notes,
  };
}
