// What is known of a model's folder, in lines for people.

import type { ModelInspection, TurnInspection } from "../types/inspection.js";
import { gigabytes } from "./devices.js";

export interface Finding {
  check: string;
  ok: boolean;
  /** What was found, or what is wrong and what to do. */
  detail: string;
}

/** @param model what `inspectModel` tells. */
export function inspectionFindings(model: ModelInspection): Finding[] {
  const found = (check: string, detail: string): Finding => ({ check, ok: true, detail });
  return [
    found("what", whatItIs(model)),
    found("needs", whatItNeeds(model)),
    found("template", templateOf(model)),
    ...(model.turns.length > 0 ? [found("turns", turnsOf(model.turns))] : []),
  ];
}

function whatItIs({
  id,
  path,
  architecture,
  model_type,
  parameters,
  dtype,
  quantized,
  format,
  context_length,
  left_out,
}: ModelInspection) {
  const size = parameters === null ? null : `${count(parameters)} parameters`;
  const kind = format === "onnx" ? `ONNX (${dtype})` : [quantized.join(" and "), dtype].filter(Boolean).join(" with ");
  const lines = [
    [id, architecture ?? model_type, size, kind, `context of ${context_length} tokens`].filter(Boolean).join(", "),
    path,
  ];
  if (left_out.length > 0)
    lines.push(`only its text is loaded, not its ${left_out.join(" and ")}: images in a request are refused`);
  return lines.join("\n");
}

function whatItNeeds({ memory: { weights, per_token, contexts, training_per_token } }: ModelInspection): string {
  const lines = [
    `${memorySize(weights)} for weights, and with one sequence of`,
    ...contexts.map(({ tokens, bytes }) => `${String(tokens).padStart(9)} tokens ${memorySize(bytes)}`),
    `${kilobytes(per_token)} of cache per token`,
  ];
  const training =
    training_per_token === null ? "it cannot be trained" : `${kilobytes(training_per_token)} per token in training`;
  return [...lines.slice(0, -1), `${lines.at(-1)}; ${training}`].join("\n");
}

function templateOf({ chat_template, tool_parser, reasoning, thinking_switches, end_tokens }: ModelInspection): string {
  if (chat_template === null) return "none: requests have to bring their own chat_template";
  const thoughts = reasoning === null ? "no thoughts" : `thoughts from ${reasoning.open} to ${reasoning.close}`;
  const switches = thinking_switches.length > 0 ? ` (switched by ${thinking_switches.join(", ")})` : "";
  const tools = tool_parser === null ? "tool calls in no known format" : `tool calls: ${tool_parser}`;
  return [
    `${chat_template.split(/[\\/]/).at(-1)}; ${tools}; ${thoughts}${thoughts === "no thoughts" ? "" : switches}`,
    `a reply ends at ${end_tokens.map((text) => JSON.stringify(text)).join(", ")}`,
  ].join("\n");
}

function turnsOf(turns: readonly TurnInspection[]): string {
  const exact = turns.filter((turn) => turn.exact).map(({ turn }) => turn);
  const rewritten = turns.filter((turn) => !turn.exact);
  const lines = exact.length > 0 ? [`exact after ${exact.join(", ")}`] : [];
  for (const turn of rewritten) {
    if (turn.refused !== null) lines.push(`refused: ${turn.turn} (${turn.refused})`);
    else lines.push(`rewritten: ${turn.turn}`, ...sideBySide(turn));
  }
  if (rewritten.some(({ refused }) => refused === null)) {
    lines.push("Training uses the tokens as they were sampled: a turn that is rewritten begins a row of its own.");
  }
  return lines.join("\n");
}

const COLUMN = 46;
/** Lines before and after the first one that differs. */
const AROUND = 2;

/** The two texts around their first difference, as columns. */
export function sideBySide({ sampled, rendered, differs_at }: TurnInspection): string[] {
  const left = sampled.split("\n");
  const right = rendered.split("\n");
  const at = sampled.slice(0, differs_at ?? 0).split("\n").length - 1;
  const from = Math.max(0, at - AROUND);
  const to = Math.min(Math.max(left.length, right.length), at + AROUND + 2);
  const row = (mark: string, a: string, b: string) => `  ${mark} ${a.padEnd(COLUMN)} | ${b}`.trimEnd();
  const rows = Array.from({ length: to - from }, (_, i) => {
    const line = from + i;
    return row(line === at ? ">" : " ", shown(left[line]), shown(right[line]));
  });
  return [row(" ", "as it was sampled", "in the next prompt"), ...rows];
}

/** A line that fits its column; what stands for nothing, and spaces at its ends, can be seen. */
function shown(line: string | undefined): string {
  if (line === undefined) return "";
  const visible = line.replace(/^ +| +$/g, (spaces) => "·".repeat(spaces.length)) || "¶";
  return visible.length > COLUMN ? `${visible.slice(0, COLUMN - 1)}…` : visible;
}

const memorySize = (bytes: number): string =>
  bytes < 2 ** 30 ? `${(bytes / 2 ** 20).toFixed(0)} MiB` : gigabytes(bytes);

const kilobytes = (bytes: number): string =>
  bytes < 1e6 ? `${(bytes / 1e3).toFixed(1)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;

function count(parameters: number): string {
  if (parameters >= 1e9) return `${(parameters / 1e9).toFixed(1)} billion`;
  return `${(parameters / 1e6).toFixed(parameters < 1e8 ? 1 : 0)} million`;
}
