/** A server's address, with or without "/v1", as what its paths begin with: it ends in "/". null: it is no address. */
export function serverUrl(url: string): URL | null {
  const base = URL.canParse(url) ? new URL(url) : null;
  if (!base?.protocol.startsWith("http")) return null;
  base.pathname = base.pathname.replace(/\/(v1\/?)?$/, "/");
  return base;
}
