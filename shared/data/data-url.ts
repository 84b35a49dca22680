/** True if data are named by a URL instead of a path. */
export const isUrl = (location: string): boolean => /^[a-z][a-z0-9+.-]*:\/\//i.test(location);
