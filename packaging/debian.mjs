export async function makeDebianPackage() {
  throw new Error("not yet");
}
