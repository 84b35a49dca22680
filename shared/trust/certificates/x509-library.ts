/**
 * Loads the library that writes and reads X.509 structures (@peculiar/x509). It takes longer to load than a short
 * command runs, so only what makes a certificate or a request for one loads it; chains are checked without it.
 */
export async function loadX509(): Promise<typeof import("@peculiar/x509")> {
  // The library's decorators need it first.
  await import("reflect-metadata");
  return import("@peculiar/x509");
}
