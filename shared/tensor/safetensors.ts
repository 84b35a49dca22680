/** The interface of the safetensors modules: header, reader, writer. */
export {
  maxHeaderBytes,
  parseSafetensorsHeader,
  safetensorsHeaderText,
  type SafetensorsEntry,
  type SafetensorsHeader,
} from "./safetensors-header.js";
export { fileOfBytes, readSafetensors, type ByteFile, type SafetensorsFile } from "./safetensors-reader.js";
export {
  safetensorsByteLength,
  safetensorsChunks,
  writeSafetensors,
  type NamedSource,
  type SafetensorsOptions,
} from "./safetensors-writer.js";
