/** An operating system error for file systems that live in memory or fail on purpose. */
export function systemError(code: string, message: string = code): Error {
  return Object.assign(new Error(message), { code });
}
