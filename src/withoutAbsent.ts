/** Without fields that are undefined. */
export function withoutUndefined<T extends object>(fields: T): T {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as T;
}

/** Without fields that are undefined or null. */
export function withoutNull<T extends object>(fields: T | null | undefined): { [K in keyof T]?: NonNullable<T[K]> } {
  const entries = Object.entries(fields ?? {}).filter(([, value]) => value != null);
  return Object.fromEntries(entries) as { [K in keyof T]?: NonNullable<T[K]> };
}
