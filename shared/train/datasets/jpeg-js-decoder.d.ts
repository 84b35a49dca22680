/** The decoder of jpeg-js without its encoder. */
declare module "jpeg-js/lib/decoder.js" {
  interface DecodeOptions {
    readonly useTArray: boolean;
    readonly formatAsRGBA: boolean;
    readonly tolerantDecoding: boolean;
    readonly maxResolutionInMP: number;
    readonly maxMemoryUsageInMB: number;
  }
  export default function decode(
    bytes: Uint8Array,
    options: DecodeOptions,
  ): { readonly width: number; readonly height: number; readonly data: Uint8Array };
}
