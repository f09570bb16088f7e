/** What was measured, as a table and as a chart. */
import type { MachineRate } from "../machineProbe.js";
import type { Run } from "./program.js";

/** One piece of work by every program that did it. */
export interface Measured {
  group: string;
  what: string;
  /** Of one run. */
  tokens: number;
  results: { program: string; runs: Run[] }[];
  /** Seconds that a run takes at least on a machine of this rate; null: not known. */
  boundSeconds: ((machine: MachineRate) => number) | null;
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

/** Three digits, and no fewer before the point. */
const short = (value: number): string =>
  value >= 100 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(3)));

const percent = (share: number): string => `${(100 * share).toFixed(0)} %`;

interface Row {
  program: string;
  rate: number;
  slowest: number;
  fastest: number;
  /** Processor seconds for 1,000 tokens. */
  cpu: number | null;
  /** Of what the machine allowed just then; null: it was not probed. */
  share: number | null;
}

/** Tokens a second that the machine allows. */
const boundRate = ({ boundSeconds, tokens }: Measured, machine: MachineRate): number | null =>
  boundSeconds && tokens / boundSeconds(machine);

function rows(measured: Measured): Row[] {
  const { results, tokens } = measured;
  return results.map(({ program, runs }) => {
    const rates = runs.map(({ seconds }) => tokens / seconds);
    const shares = runs.flatMap(({ seconds, machine }) => {
      const bound = machine && boundRate(measured, machine);
      return bound ? [tokens / seconds / bound] : [];
    });
    const cpu = runs.flatMap(({ cpuSeconds }) => (cpuSeconds === null ? [] : [(1000 * cpuSeconds) / tokens]));
    return {
      program,
      rate: median(rates),
      slowest: Math.min(...rates),
      fastest: Math.max(...rates),
      cpu: cpu.length > 0 ? median(cpu) : null,
      share: shares.length > 0 ? median(shares) : null,
    };
  });
}

/** Rows of anneal's beside its exact floats: `--precision fast`, and `--quantize int16`. */
const VARIANTS = ["fast", "int16"];

/** A table in Markdown: tokens per second, unless the work says otherwise. */
export function table(all: readonly Measured[], machine: MachineRate): string {
  const measured = new Set(all.flatMap(({ results }) => results.map(({ program }) => program)));
  const variants = VARIANTS.filter((variant) => measured.has(`anneal ${variant}`));
  const head = [
    "| | | per second | range | CPU s / 1,000 | anneal is faster by",
    ...variants.map((variant) => `${variant} is faster by`),
    "less CPU by | of the bound then | of the bound at best |",
  ].join(" | ");
  const lines = all.flatMap((one) => {
    const list = rows(one);
    const bound = boundRate(one, machine);
    const ours = list.find(({ program }) => program === "anneal");
    const others = variants.map((variant) => list.find(({ program }) => program === `anneal ${variant}`));
    return list.map((row, i) => {
      const isOurs = row === ours;
      const ratio = (of: Row | undefined) =>
        of && row !== ours && !others.includes(row) ? `${(of.rate / row.rate).toFixed(2)}x` : "";
      const less = ours?.cpu && row.cpu && !isOurs ? `${(row.cpu / ours.cpu).toFixed(2)}x` : "";
      const share = bound === null || !isOurs ? "" : `${percent(row.rate / bound)} of ${short(bound)}`;
      const cells = [
        i === 0 ? `${one.group}: ${one.what}` : "",
        row.program,
        short(row.rate),
        `${short(row.slowest)} - ${short(row.fastest)}`,
        row.cpu === null ? "" : short(row.cpu),
        ratio(ours),
        ...others.map((other) => (other && isOurs ? `${(other.rate / row.rate).toFixed(2)}x` : ratio(other))),
        less,
        row.share === null ? "" : percent(row.share),
        share,
      ];
      return `| ${cells.join(" | ")} |`;
    });
  });
  return [head, `|${"---|".repeat(head.split("|").length - 2)}`, ...lines].join("\n");
}

const COLOURS: Record<string, string> = {
  anneal: "#d1495b",
  "anneal fast": "#f4a29f",
  "anneal int16": "#e8853b",
  "llama.cpp": "#3d5a80",
  torch: "#8d99ae",
  vllm: "#66a182",
  onnxruntime: "#9b5de5",
  trl: "#edae49",
};
const WIDTH = 960;
const LABELS = 420;
const BAR = 13;
const escaped = (text: string): string =>
  text.replace(/[&<>]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[c]!);

/** Bars of rates, each piece of work to its own scale: the fastest fills the width. The line is the bound. */
export function chart(all: readonly Measured[], machine: string, rate: MachineRate): string {
  const parts: string[] = [];
  const names = [...new Set(all.flatMap(({ results }) => results.map(({ program }) => program)))];
  let y = 24;
  const text = (x: number, at: number, content: string, more = "") =>
    parts.push(`<text x="${x}" y="${at}" ${more}>${escaped(content)}</text>`);
  text(
    12,
    y,
    "Rates beside peers (longer is faster; each piece of work has its own scale; the line is what the machine allows)",
  );
  y += 20;
  let x = 12;
  for (const name of names) {
    parts.push(`<rect x="${x}" y="${y - 10}" width="11" height="11" fill="${COLOURS[name] ?? "#555"}"/>`);
    text(x + 16, y, name);
    x += 40 + 8 * name.length;
  }
  y += 14;
  for (const one of all) {
    const list = rows(one);
    const bound = boundRate(one, rate);
    const most = Math.max(bound ?? 0, ...list.map((row) => row.rate));
    const scale = (WIDTH - LABELS - 90) / most;
    y += 10;
    const top = y;
    text(LABELS - 8, y + (list.length * BAR) / 2 + 4, `${one.group}: ${one.what}`, 'text-anchor="end"');
    for (const { program, rate } of list) {
      const width = Math.max(1, rate * scale);
      parts.push(
        `<rect x="${LABELS}" y="${y}" width="${width.toFixed(1)}" height="${BAR - 2}" fill="${COLOURS[program] ?? "#555"}"/>`,
      );
      text(LABELS + width + 5, y + 9, short(rate));
      y += BAR;
    }
    if (bound !== null) {
      const at = (LABELS + bound * scale).toFixed(1);
      parts.push(`<line x1="${at}" x2="${at}" y1="${top - 2}" y2="${y}" stroke="#222" stroke-dasharray="3 2"/>`);
    }
  }
  y += 20;
  text(12, y, machine);
  const style = "text{font:11px system-ui,sans-serif;fill:#222}";
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${y + 12}" viewBox="0 0 ${WIDTH} ${y + 12}"><title>anneal beside its peers</title><style>${style}</style><rect width="100%" height="100%" fill="#fff"/>${parts.join("")}</svg>\n`;
}
