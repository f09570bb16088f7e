import util from "node:util";

type Style = Parameters<typeof util.styleText>[0];

/** Whether a stream shows colours. FORCE_COLOR wins over NO_COLOR, as in Node; an empty NO_COLOR says nothing. */
export function hasColor(
  stream: Pick<NodeJS.WriteStream, "isTTY" | "hasColors">,
  environment: Readonly<Record<string, string | undefined>> = process.env,
): boolean {
  const { FORCE_COLOR, NO_COLOR } = environment;
  if (FORCE_COLOR !== undefined) return !["0", "false"].includes(FORCE_COLOR);
  return !NO_COLOR && Boolean(stream.isTTY) && stream.hasColors({ ...environment, NO_COLOR: undefined });
}

/** Styles text for a stream. */
const styled =
  (style: Style) =>
  (text: string, stream: NodeJS.WriteStream = process.stdout): string =>
    hasColor(stream) ? util.styleText(style, text, { validateStream: false }) : text;

export const bold = styled("bold");
export const dim = styled("dim");
export const red = styled("red");
export const green = styled("green");
export const cyan = styled("cyan");
